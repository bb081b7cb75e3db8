//! What a tree of processes does, as the one who answers for it sees it in `/proc`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a tree does at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Processes besides the command itself.
    pub others: u64,
    /// User and system time of all that are there and of the children that they have seen end. It never tells the whole, but
    /// it grows while anything works.
    pub cpu: Duration,
}

/// A clock tick of the kernel's, as `/proc` counts.
const TICK: Duration = Duration::from_millis(10);

/// Adds up the processes of a tree.
#[cfg(target_os = "linux")]
pub(crate) fn of(command: i32, processes: impl Iterator<Item = i32>) -> Activity {
    let mut activity = Activity::default();
    for pid in processes {
        activity.others += u64::from(pid != command);
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok();
        let ticks = stat.and_then(|stat| ticks(&stat)).unwrap_or(0);
        activity.cpu = activity.cpu.saturating_add(TICK.saturating_mul(ticks));
    }
    activity
}

/// Returns the ticks in a `stat` line: its own, and those of the children it has waited for.
fn ticks(stat: &[u8]) -> Option<u32> {
    let end_of_name = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end_of_name + 1..)?).ok()?;
    let fields: Vec<_> = rest.split_ascii_whitespace().collect();
    let mut sum = 0_u32;
    for field in fields.get(11..15)? {
        let ticks: i64 = field.parse().ok()?;
        sum = sum.saturating_add(u32::try_from(ticks).unwrap_or(0));
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_stat_line_gives_its_ticks_whatever_the_name_is() {
        let line = b"7 (a) 9 (b) S 1 7 7 0 -1 4194304 1 0 0 0 3 4 20 -1 20 0 5 0 100 4096 33";
        assert_eq!(ticks(line), Some(27));
        assert_eq!(ticks(b"7 (a) S 1"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            ticks(&bytes);
        }
    }
}
