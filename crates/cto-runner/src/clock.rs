//! The only place that reads a clock.

use std::cell::Cell;
use std::rc::Rc;

use cto_contract::time::Utc;
use rustix::time::{ClockId, clock_gettime};

/// Now, by the wall clock.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the clock that everybody else gets as a value"
)]
pub fn now() -> Utc {
    Utc::new(jiff::Timestamp::now())
}

/// The clock that runs on through sleep; elsewhere the nearest there is.
#[cfg(target_os = "linux")]
const BOOT_CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const BOOT_CLOCK: ClockId = ClockId::Monotonic;

/// Nanoseconds since boot; it never goes backwards.
pub(crate) fn boot_ns() -> u64 {
    let now = clock_gettime(BOOT_CLOCK);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// Stands for the id of a boot that the kernel does not tell.
pub(crate) const BOOT_UNKNOWN: &str = "unknown";

/// The kernel's id of this boot.
pub(crate) fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_or_else(|_| BOOT_UNKNOWN.to_owned(), |s| s.trim().to_owned())
}

/// Fills random bytes from the kernel.
pub fn random<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// The wall clock of one run: what it gives never goes backwards, and it remembers when the real one did.
///
/// Clones share one memory, so that the log and the times of artifacts agree.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunClock(Rc<Cell<Seen>>);

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    last: Option<Utc>,
    went_back: bool,
}

/// Steps back by less than this are the ordinary slewing of a clock that is kept in time.
const BACKWARD_MILLIS_MAX: i64 = 50;

impl RunClock {
    /// Goes on after the last time that a log holds.
    pub(crate) fn after(last: Utc) -> Self {
        Self(Rc::new(Cell::new(Seen {
            last: Some(last),
            went_back: false,
        })))
    }

    pub(crate) fn now(&self) -> Utc {
        self.tick(now())
    }

    fn tick(&self, real: Utc) -> Utc {
        let mut seen = self.0.get();
        let shown = match seen.last {
            Some(last) if real < last => {
                seen.went_back |= last.millis() - real.millis() > BACKWARD_MILLIS_MAX;
                last
            }
            Some(_) | None => real,
        };
        seen.last = Some(shown);
        self.0.set(seen);
        shown
    }

    /// Whether the order of events can't be told from their times.
    pub(crate) fn went_back(&self) -> bool {
        self.0.get().went_back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_a_log_never_goes_backwards_and_a_real_step_back_is_remembered() {
        let at = |t: &str| t.parse::<Utc>().unwrap();
        let clock = RunClock::default();
        assert_eq!(
            clock.tick(at("2026-01-01T00:00:10Z")),
            at("2026-01-01T00:00:10Z")
        );
        assert_eq!(
            clock.tick(at("2026-01-01T00:00:09.98Z")),
            at("2026-01-01T00:00:10Z")
        );
        assert!(!clock.went_back());
        assert_eq!(
            clock.tick(at("2026-01-01T00:00:05Z")),
            at("2026-01-01T00:00:10Z")
        );
        assert!(clock.went_back());
        assert_eq!(
            clock.tick(at("2026-01-01T00:00:11Z")),
            at("2026-01-01T00:00:11Z")
        );
    }
}
