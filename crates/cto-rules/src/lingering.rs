//! Whether a backend lingers: it does nothing any more, and its work is committed.
//!
//! A small clockwork without a clock: it is told what is heard and seen, and says what is to be looked at next. All of it
//! must hold for a whole settle time: no output, no question to the model, no process but the command, no work of the
//! processor, a commit that was not there at the start, and a tree that is that commit's and stays so.

use std::time::Duration;

/// How long everything must be quiet.
pub const SETTLE_DEFAULT: Duration = Duration::from_secs(30);
/// Programs that wait have timers: they may use one part in so many of the time.
const IDLE_SHARE: u32 = 100;
/// Looks at the processes in one settle time.
const LOOKS: u32 = 10;

/// What the processes of a backend did by some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLook {
    /// Processes besides the command itself.
    pub others: u64,
    pub cpu: Duration,
    /// Something was asked of the model and is not answered yet.
    pub is_asking_model: bool,
}

/// What the tree of a backend was at some moment, each by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeLook {
    /// The commit that is checked out; none where there is none or it can't be told.
    pub head: Option<String>,
    /// The tree of that commit.
    pub head_tree: Option<String>,
    /// The tree that lies there; none where it can't be told, and where it needs not be: no new commit.
    pub tree: Option<String>,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    Nothing,
    LookAtProcesses,
    LookAtTree,
    /// It lingers: whatever is left of it may be ended.
    End,
}

/// One backend, watched.
#[derive(Debug)]
pub struct Lingering {
    settle: Duration,
    /// The commit that was checked out at the start; without one nothing ever lingers.
    baseline: Option<String>,
    quiet_since: Duration,
    looked_at: Duration,
    window: Option<Window>,
}

/// A time in which nothing happened so far.
#[derive(Debug)]
struct Window {
    since: Duration,
    cpu: Duration,
    first: Option<TreeLook>,
    /// The tree was asked for and is not told yet.
    waits_for_tree: bool,
}

impl Lingering {
    pub fn new(settle: Duration, baseline: Option<String>) -> Self {
        Self {
            settle,
            baseline,
            quiet_since: Duration::ZERO,
            looked_at: Duration::ZERO,
            window: None,
        }
    }

    /// The backend printed something, wrote of its phases, or may not be ended yet.
    pub fn stirs(&mut self, now: Duration) {
        self.quiet_since = now;
        self.window = None;
    }

    /// So much time has passed since the start.
    pub fn tick(&mut self, now: Duration) -> Wanted {
        let pause = self.settle / LOOKS;
        let is_quiet = now.saturating_sub(self.quiet_since) >= pause;
        let is_due = now.saturating_sub(self.looked_at) >= pause;
        if self.baseline.is_none() || !is_quiet || !is_due {
            return Wanted::Nothing;
        }
        self.looked_at = now;
        Wanted::LookAtProcesses
    }

    /// Takes what the processes do.
    pub fn see_processes(&mut self, now: Duration, look: &ProcessLook) -> Wanted {
        if look.others > 0 || look.is_asking_model {
            self.stirs(now);
            return Wanted::Nothing;
        }
        let Some(window) = &mut self.window else {
            self.window = Some(Window {
                since: now,
                cpu: look.cpu,
                first: None,
                waits_for_tree: true,
            });
            return Wanted::LookAtTree;
        };
        if look.cpu.saturating_sub(window.cpu) > self.settle / IDLE_SHARE {
            self.stirs(now);
            return Wanted::Nothing;
        }
        if now.saturating_sub(window.since) < self.settle {
            return Wanted::Nothing;
        }
        window.waits_for_tree = true;
        Wanted::LookAtTree
    }

    /// Takes what lies in the tree.
    pub fn see_tree(&mut self, now: Duration, look: TreeLook) -> Wanted {
        let Some(window) = self.window.as_mut().filter(|w| w.waits_for_tree) else {
            return Wanted::Nothing;
        };
        window.waits_for_tree = false;
        if !is_committed(&look, self.baseline.as_deref()) {
            self.stirs(now);
            return Wanted::Nothing;
        }
        match &window.first {
            None => window.first = Some(look),
            Some(first) if *first == look && now.saturating_sub(window.since) >= self.settle => {
                return Wanted::End;
            }
            Some(_) => self.stirs(now),
        }
        Wanted::Nothing
    }
}

/// Whether a commit was made and the tree is that commit's.
fn is_committed(look: &TreeLook, baseline: Option<&str>) -> bool {
    let is_new = match (look.head.as_deref(), baseline) {
        (Some(head), Some(baseline)) => head != baseline,
        (None, _) | (_, None) => false,
    };
    let is_clean = look.tree.is_some() && look.tree == look.head_tree;
    is_new && is_clean
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SETTLE: Duration = Duration::from_secs(30);

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn idle(cpu_millis: u64) -> ProcessLook {
        ProcessLook {
            others: 0,
            cpu: Duration::from_millis(cpu_millis),
            is_asking_model: false,
        }
    }

    fn committed() -> TreeLook {
        TreeLook {
            head: Some("new".to_owned()),
            head_tree: Some("t".to_owned()),
            tree: Some("t".to_owned()),
        }
    }

    /// Watches for so many seconds; what is seen is given by the second.
    fn ends_at(
        until: u64,
        prints: impl Fn(u64) -> bool,
        processes: impl Fn(u64) -> ProcessLook,
        tree: impl Fn(u64) -> TreeLook,
    ) -> Option<u64> {
        let mut watch = Lingering::new(SETTLE, Some("base".to_owned()));
        for second in 1..=until {
            let now = seconds(second);
            if prints(second) {
                watch.stirs(now);
            }
            let mut wanted = watch.tick(now);
            if wanted == Wanted::LookAtProcesses {
                wanted = watch.see_processes(now, &processes(second));
            }
            if wanted == Wanted::LookAtTree {
                wanted = watch.see_tree(now, tree(second));
            }
            if wanted == Wanted::End {
                return Some(second);
            }
        }
        None
    }

    #[test]
    fn what_is_quiet_and_committed_for_a_settle_time_lingers() {
        let end = ends_at(120, |_| false, |_| idle(500), |_| committed());
        assert!(end.is_some_and(|end| (30..=40).contains(&end)), "{end:?}");
        // The clock begins again with every sign of life.
        let end = ends_at(120, |s| s == 25, |_| idle(500), |_| committed());
        assert!(end.is_some_and(|end| (55..=65).contains(&end)), "{end:?}");
        // Timers of a program that waits are no work.
        let end = ends_at(120, |_| false, |s| idle(s * 5), |_| committed());
        assert!(end.is_some(), "a few milliseconds a second");
    }

    /// Every condition alone is enough to let it live.
    #[test]
    fn without_any_one_of_the_conditions_nothing_lingers() {
        let never = |what: &str, end: Option<u64>| assert_eq!(end, None, "{what}");
        let good = |_| committed();
        never("output", ends_at(300, |s| s % 20 == 0, |_| idle(0), good));
        let child = |_| ProcessLook {
            others: 1,
            ..idle(0)
        };
        never("a child", ends_at(300, |_| false, child, good));
        let asking = |_| ProcessLook {
            is_asking_model: true,
            ..idle(0)
        };
        never(
            "a question to its model",
            ends_at(300, |_| false, asking, good),
        );
        never("work", ends_at(300, |_| false, |s| idle(s * 1_000), good));
        for (what, look) in [
            (
                "the commit of the start, however old its history",
                TreeLook {
                    head: Some("base".to_owned()),
                    ..committed()
                },
            ),
            (
                "no commit",
                TreeLook {
                    head: None,
                    ..committed()
                },
            ),
            (
                "a dirty tree",
                TreeLook {
                    tree: Some("other".to_owned()),
                    ..committed()
                },
            ),
            (
                "a tree that can't be told",
                TreeLook {
                    tree: None,
                    ..committed()
                },
            ),
            (
                "a tree and a commit that can't be told",
                TreeLook {
                    tree: None,
                    head_tree: None,
                    ..committed()
                },
            ),
        ] {
            never(what, ends_at(300, |_| false, |_| idle(0), |_| look.clone()));
        }
        let changing = |second: u64| TreeLook {
            head: Some(format!("commit {second}")),
            ..committed()
        };
        never(
            "a commit each time",
            ends_at(300, |_| false, |_| idle(0), changing),
        );
        let mut blind = Lingering::new(SETTLE, None);
        assert_eq!(
            blind.tick(seconds(1_000)),
            Wanted::Nothing,
            "no commit at the start"
        );
    }

    proptest! {
        #[test]
        fn nothing_is_ended_sooner_than_a_settle_time_after_a_sign_of_life(
            signs in proptest::collection::vec(any::<bool>(), 1..200),
            others in proptest::collection::vec(0_u64..2, 1..200),
        ) {
            let at = |list: &[u64], second: u64| list[usize::try_from(second).unwrap() % list.len()];
            let sign = |second: u64| signs[usize::try_from(second).unwrap() % signs.len()];
            let end = ends_at(
                200,
                sign,
                |s| ProcessLook { others: at(&others, s), ..idle(0) },
                |_| committed(),
            );
            if let Some(end) = end {
                prop_assert!((end.saturating_sub(29)..=end).all(|s| !sign(s)));
            }
        }
    }
}
