//! Ctrl-C and SIGTERM while a run goes on: the first asks, the second kills, the third leaves.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use cto_sandbox::StopToken;
use signal_hook::consts::{SIGINT, SIGTERM};
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
