//! Ctrl-C, SIGTERM and SIGHUP while a run goes on: the first asks, the second kills, the third leaves.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use cto_sandbox::StopToken;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// A stop token that signals pull, and which signal came first.
pub(crate) struct Interrupt {
    pub(crate) stop: StopToken,
    first: Arc<AtomicI32>,
}

impl Interrupt {
    /// Begins to listen. Call it right before work that can be stopped: until then a signal simply ends the process.
    pub(crate) fn listen() -> io::Result<Self> {
        let stop = StopToken::new()?;
        let first = Arc::new(AtomicI32::new(0));
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        // Whoever started us under `nohup` wants the run to go on without a terminal.
        if !is_ignored(SIGHUP) {
            signals.add_signal(SIGHUP)?;
        }
        let (token, seen) = (stop.clone(), Arc::clone(&first));
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for (count, signal) in signals.forever().enumerate() {
                    match count {
                        0 => {
                            seen.store(signal, Ordering::SeqCst);
                            token.ask();
                        }
                        1 => token.kill(),
                        // The pack stays unsealed; the next command recovers it. Nothing survives us: the tree holds a life-line.
                        _ => drop(signal_hook::low_level::emulate_default_handler(signal)),
                    }
                }
            })?;
        Ok(Self { stop, first })
    }

    /// The signal that asked first, if one did.
    pub(crate) fn signal(&self) -> Option<i32> {
        Some(self.first.load(Ordering::SeqCst)).filter(|s| *s != 0)
    }
}

/// Whether this process was started with a signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_mask(&status).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

fn ignored_mask(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::ignored_mask;

    #[test]
    fn the_ignored_signals_are_read_from_the_status() {
        let status = "Name:\tcto\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert_eq!(ignored_mask(status), Some(0x1001));
        assert_eq!(ignored_mask("Name:\tcto\n"), None);
    }
}
