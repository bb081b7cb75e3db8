//! The checks on the untouched baseline, beside everything else.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use cto_sandbox::StopToken;

use crate::checks::Execution;

/// How often a stop is looked for while they are waited for.
const STOP_LOOK: Duration = Duration::from_millis(5);

type Checks = JoinHandle<io::Result<Vec<Execution>>>;

/// Checks in a thread of their own. A run that ends before it looked at them ends them.
pub(crate) struct BaselineChecks {
    /// None once they were waited for.
    thread: Option<Checks>,
    /// Theirs alone: the run's own is shared with the runs beside it.
    stop: StopToken,
}

impl BaselineChecks {
    pub(crate) fn start(
        stop: StopToken,
        check: impl FnOnce() -> io::Result<Vec<Execution>> + Send + 'static,
    ) -> Self {
        Self {
            thread: Some(std::thread::spawn(check)),
            stop,
        }
    }

    /// Waits for them, and ends them when a stop is asked for meanwhile.
    pub(crate) fn join(mut self, asked: &StopToken) -> io::Result<Vec<Execution>> {
        match self.thread.take() {
            None => Ok(Vec::new()),
            Some(thread) => {
                while !thread.is_finished() {
                    if asked.is_asked() {
                        self.stop.kill();
                    }
                    std::thread::park_timeout(STOP_LOOK);
                }
                joined(thread)
            }
        }
    }
}

impl Drop for BaselineChecks {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.stop.kill();
            // What they showed is not used.
            drop(joined(thread));
        }
    }
}

fn joined(thread: Checks) -> io::Result<Vec<Execution>> {
    thread
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("the baseline's thread died")))
}
