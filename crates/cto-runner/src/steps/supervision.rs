//! A backend while it works: whether it lingers, whether a budget is used up, and what it asked of its model so far.

use std::time::{Duration, Instant};

use cto_checkout::agent_head;
use cto_contract::event::{BackendStop, EventKind, ModelUsage};
use cto_contract::words::Lane;
use cto_rules::lingering::{Lingering, ProcessLook, SETTLE_DEFAULT, TreeLook, Wanted};
use cto_rules::residue::LeftBy;
use cto_sandbox::{Activity, Replies};

use crate::open_run::OpenRun;
use crate::residue;
use crate::steps::egress::Egress;
use crate::steps::prepare::Prepared;

/// The sums of the model are told so often, and so many times at most.
const USAGE_PAUSE: Duration = Duration::from_secs(2);
const USAGE_EVENTS_MAX: u64 = 500;

/// One backend, watched.
pub(super) struct Supervision<'p> {
    since: Instant,
    lingering: Lingering,
    tree: AgentTree<'p>,
    usage: ModelUsage,
    usage_told_at: Duration,
    usage_events: u64,
    /// Why the harness ended it, where it did.
    pub(super) ended_for: Option<BackendStop>,
}

/// What the agent works in, as it is looked at while the agent lives.
struct AgentTree<'p> {
    prepared: &'p Prepared,
    contract: cto_contract::task::TaskContract,
    lane: Lane,
    baseline: Option<String>,
}

impl<'p> Supervision<'p> {
    /// Begins before the start: what is checked out now is what was there.
    pub(super) fn begin(run: &OpenRun<'_>, prepared: &'p Prepared) -> Self {
        let settle = run.harness.config.harness.settle_seconds;
        let settle = settle.map_or(SETTLE_DEFAULT, Duration::from_secs);
        let baseline = agent_head(&prepared.room.layers()).map(|head| head.commit.to_string());
        Self {
            since: Instant::now(),
            lingering: Lingering::new(settle, baseline.clone()),
            tree: AgentTree {
                prepared,
                contract: run.contract.clone(),
                lane: run.request.lane,
                baseline,
            },
            usage: ModelUsage {
                requests: 0,
                tokens_at_most: 0,
            },
            usage_told_at: Duration::ZERO,
            usage_events: 0,
            ended_for: None,
        }
    }

    /// The backend gave a sign of life, or may not be ended yet.
    pub(super) fn stirs(&mut self) {
        self.lingering.stirs(self.since.elapsed());
    }

    /// Looks around now and then; gives what is new of the model.
    pub(super) fn tick(
        &mut self,
        egress: Option<&Egress>,
        replies: &mut Replies,
    ) -> Option<EventKind> {
        let now = self.since.elapsed();
        if self.lingering.tick(now) == Wanted::LookAtProcesses {
            replies.look();
        }
        let standing = egress?.standing();
        if standing.is_spent {
            self.end(BackendStop::Budget, replies);
        }
        let usage = ModelUsage {
            requests: standing.requests,
            tokens_at_most: standing.tokens_at_most,
        };
        let is_due = now.saturating_sub(self.usage_told_at) >= USAGE_PAUSE;
        if usage == self.usage || !is_due || self.usage_events == USAGE_EVENTS_MAX {
            return None;
        }
        self.usage = usage;
        self.usage_told_at = now;
        self.usage_events += 1;
        Some(EventKind::ModelUsage(usage))
    }

    /// Takes what the processes do.
    pub(super) fn see(
        &mut self,
        activity: Activity,
        egress: Option<&Egress>,
        replies: &mut Replies,
    ) {
        let look = ProcessLook {
            others: activity.others,
            cpu: activity.cpu,
            is_asking_model: egress.is_some_and(|egress| egress.standing().in_flight > 0),
        };
        let now = self.since.elapsed();
        if self.lingering.see_processes(now, &look) != Wanted::LookAtTree {
            return;
        }
        let tree = self.tree.look();
        // Looking takes time of its own, which is no quiet of the backend.
        if self.lingering.see_tree(now, tree) == Wanted::End {
            self.end(BackendStop::Lingering, replies);
        }
    }

    fn end(&mut self, why: BackendStop, replies: &mut Replies) {
        self.ended_for.get_or_insert(why);
        replies.finish();
    }
}

impl AgentTree<'_> {
    /// What is checked out, and what lies there; the latter only where a commit was made.
    fn look(&self) -> TreeLook {
        let head = agent_head(&self.prepared.room.layers());
        let commit = head.map(|head| head.commit.to_string());
        let is_new = commit.is_some() && commit != self.baseline;
        TreeLook {
            tree: is_new.then(|| self.tree_id()).flatten(),
            head_tree: head.and_then(|head| head.tree).map(|tree| tree.to_string()),
            head: commit,
        }
    }

    fn tree_id(&self) -> Option<String> {
        let trees = &self.prepared.trees;
        let manifest = &trees.baseline.manifest;
        let found = self.prepared.workspace.changes().ok()?;
        let left_by = LeftBy::Agent(self.lane);
        let sorted = residue::sort(&self.contract, left_by, trees, manifest, &found).ok()?;
        let after = manifest.with_changes(&sorted.changes).ok()?;
        Some(after.tree_id().to_string())
    }
}
