//! Who kills, when, and how hard: a small clockwork without clock or process of its own.

use std::time::{Duration, Instant};

use crate::outcome::StopCause;
use crate::stop::Wanted;

/// How long the supervisor inside may need to kill and reap the tree. Thousands of processes take a fraction of a second.
const KILL_PATIENCE: Duration = Duration::from_secs(5);
/// How long the kernel may need once the init itself is killed.
const FORCE_PATIENCE: Duration = Duration::from_secs(10);

/// What to do now, from mild to harsh. Each comes at most once, and never a milder one after a harsher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    /// Let init send TERM to the command's process group.
    Terminate,
    /// Let init kill the tree, so that it can still report.
    Kill,
    /// Let the launcher kill init.
    Force,
    /// Something hangs in the kernel: stop waiting, and say so.
    Abandon,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Running,
    Until(Instant, Action),
    Over,
}

/// The stop of one launch.
#[derive(Debug)]
pub(crate) struct Escalation {
    wall: Option<Instant>,
    grace: Duration,
    phase: Phase,
    cause: Option<StopCause>,
}

impl Escalation {
    /// A wall clock beyond what the system's clock can hold is none.
    pub(crate) fn new(start: Instant, wall: Duration, grace: Duration) -> Self {
        Self {
            wall: start.checked_add(wall),
            grace,
            phase: Phase::Running,
            cause: None,
        }
    }

    /// Returns why the launch was stopped, as of the first reason.
    pub(crate) fn cause(&self) -> Option<StopCause> {
        self.cause
    }

    /// Returns when to look again at the latest.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Running => self.wall,
            Phase::Until(deadline, _) => Some(deadline),
            Phase::Over => None,
        }
    }

    /// Returns what is due. `listener` is why the listener wants an end, if it does.
    pub(crate) fn tick(
        &mut self,
        now: Instant,
        wanted: Wanted,
        listener: Option<StopCause>,
    ) -> Option<Action> {
        let due = |deadline: Instant| now >= deadline;
        let action = match self.phase {
            Phase::Running => {
                let over_wall = self.wall.is_some_and(due);
                self.cause = match wanted {
                    Wanted::Stop | Wanted::Kill => Some(StopCause::Asked),
                    // It said so before the clock was looked at.
                    Wanted::Nothing => Some(listener.or(over_wall.then_some(StopCause::Wall))?),
                };
                match wanted {
                    Wanted::Kill => Action::Kill,
                    Wanted::Stop | Wanted::Nothing => Action::Terminate,
                }
            }
            Phase::Until(_, Action::Kill) if wanted == Wanted::Kill => Action::Kill,
            Phase::Until(deadline, action) if due(deadline) => action,
            Phase::Until(..) | Phase::Over => return None,
        };
        self.phase = match action {
            Action::Terminate => next(now, self.grace, Action::Kill),
            Action::Kill => next(now, KILL_PATIENCE, Action::Force),
            Action::Force => next(now, FORCE_PATIENCE, Action::Abandon),
            Action::Abandon => Phase::Over,
        };
        Some(action)
    }
}

/// A time that the clock cannot hold never comes, as with the wall clock.
fn next(now: Instant, after: Duration, action: Action) -> Phase {
    now.checked_add(after)
        .map_or(Phase::Over, |deadline| Phase::Until(deadline, action))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WALL: u64 = 100;
    const GRACE: u64 = 20;

    /// Plays `time:wanted` steps (seconds; n, s, k, or f for a listener that has finished) and returns the actions with the time they came.
    fn play(steps: &str) -> String {
        let start = Instant::now();
        let seconds = Duration::from_secs;
        let mut escalation = Escalation::new(start, seconds(WALL), seconds(GRACE));
        let mut log = Vec::new();
        for step in steps.split_whitespace() {
            let (time, wanted) = step.split_once(':').unwrap();
            let (wanted, listener) = match wanted {
                "n" => (Wanted::Nothing, None),
                "f" => (Wanted::Nothing, Some(StopCause::Finished)),
                "s" => (Wanted::Stop, None),
                _ => (Wanted::Kill, None),
            };
            let now = start + seconds(time.parse().unwrap());
            if let Some(action) = escalation.tick(now, wanted, listener) {
                log.push(format!("{time}:{action:?}"));
            }
        }
        let cause = escalation
            .cause()
            .map_or("none".to_owned(), |cause| format!("{cause:?}"));
        format!("{} by {cause}", log.join(" "))
    }

    #[test]
    fn nothing_happens_within_the_wall_clock() {
        assert_eq!(play("0:n 50:n 99:n"), " by none");
    }

    #[test]
    fn over_the_wall_clock_term_comes_before_kill() {
        assert_eq!(play("100:n 119:n 120:n"), "100:Terminate 120:Kill by Wall");
    }

    #[test]
    fn a_stop_is_the_same_and_the_first_reason_stays() {
        assert_eq!(play("5:s 24:s 25:s"), "5:Terminate 25:Kill by Asked");
        assert_eq!(play("95:s 101:s 115:s"), "95:Terminate 115:Kill by Asked");
        assert_eq!(play("100:n 105:s 120:s"), "100:Terminate 120:Kill by Wall");
    }

    #[test]
    fn a_listener_that_has_finished_ends_the_tree_like_a_stop() {
        assert_eq!(play("5:f 24:f 25:f"), "5:Terminate 25:Kill by Finished");
        assert_eq!(play("5:f 6:s 7:k"), "5:Terminate 7:Kill by Finished");
        assert_eq!(play("5:s 6:f 25:f"), "5:Terminate 25:Kill by Asked");
    }

    #[test]
    fn asking_twice_skips_the_grace() {
        assert_eq!(play("5:s 6:k 7:k"), "5:Terminate 6:Kill by Asked");
        assert_eq!(play("5:k 6:k"), "5:Kill by Asked");
    }

    #[test]
    fn a_kill_that_does_not_work_is_forced_and_then_given_up() {
        assert_eq!(
            play("5:k 9:k 10:k 19:k 20:k 99:k"),
            "5:Kill 10:Force 20:Abandon by Asked"
        );
    }

    proptest! {
        #[test]
        fn actions_only_get_harsher(steps in proptest::collection::vec((0_u64..60, 0_u8..3, any::<bool>()), 0..20)) {
            let start = Instant::now();
            let mut escalation = Escalation::new(start, Duration::from_secs(WALL), Duration::from_secs(GRACE));
            let (mut now, mut level, mut last) = (start, 0, None);
            for (wait, asked, finished) in steps {
                now += Duration::from_secs(wait);
                level = level.max(asked);
                let wanted = [Wanted::Nothing, Wanted::Stop, Wanted::Kill][usize::from(level)];
                let listener = finished.then_some(StopCause::Finished);
                if let Some(action) = escalation.tick(now, wanted, listener) {
                    prop_assert!(last.is_none_or(|last| last < action));
                    last = Some(action);
                    prop_assert!(escalation.cause().is_some());
                }
            }
        }
    }
}
