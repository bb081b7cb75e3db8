//! The checks on the untouched baseline: what they showed, or will have shown once it is asked for.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use cto_sandbox::StopToken;

use crate::checks::Execution;

/// How often a stop is looked for while they are waited for.
const STOP_LOOK: Duration = Duration::from_millis(5);

type Checks = JoinHandle<io::Result<Vec<Execution>>>;

/// What the checks showed on the untouched baseline.
#[derive(Default)]
pub(crate) struct Baseline {
    /// While they run beside the backend.
    beside: Option<BaselineChecks>,
    /// Empty where the contract names no command.
    done: Vec<Execution>,
}

impl Baseline {
    pub(crate) fn done(executions: Vec<Execution>) -> Self {
        Self {
            beside: None,
            done: executions,
        }
    }

    pub(crate) fn beside(checks: BaselineChecks) -> Self {
        Self {
            beside: Some(checks),
            done: Vec::new(),
        }
    }

    /// Waits for them, if they still run.
    pub(crate) fn wait(&mut self, asked: &StopToken) -> io::Result<&[Execution]> {
        if let Some(checks) = self.beside.take() {
            self.done = checks.join(asked)?;
        }
        Ok(&self.done)
    }

    pub(crate) fn into_executions(mut self, asked: &StopToken) -> io::Result<Vec<Execution>> {
        self.wait(asked)?;
        Ok(self.done)
    }
}

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
