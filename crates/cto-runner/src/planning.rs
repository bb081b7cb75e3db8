//! A plan without a run: the same steps as a run's, up to its plan, in a room that is thrown away.
//!
//! Nothing of it enters the ledger, the index or the packs. Only baselines are shared with real runs: they are a cache.

use std::path::PathBuf;

use cto_contract::blocker::{Blocker, Moment, status_of};
use cto_contract::event::RunEvent;
use cto_contract::outputs::{PlanOutput, PlanTag};
use cto_rules::lifecycle::RunState;
use cto_sandbox::StopToken;
use cto_store::{LedgerInit, Store};

use crate::clock;
use crate::harness::{Harness, RunError, RunRequest, scratch_name};
use crate::keyring;
use crate::open_run::OpenRun;
use crate::reconcile::Reconciled;
use crate::sealing::clear;
use crate::walk::walk_to_plan;

/// A directory below `work/` that goes when this does.
struct Room(PathBuf);

impl Drop for Room {
    fn drop(&mut self) {
        // What can't be removed now is removed by the next recovery.
        clear(&self.0);
    }
}

impl Harness {
    /// Does what a run does before its backend, and leaves nothing behind.
    pub fn plan(&self, request: &RunRequest, stop: &StopToken) -> Result<PlanOutput, RunError> {
        let request = &*self.bounded(request);
        let inputs = self.admit(request)?;
        let room = Room(self.home.work().join(scratch_name("plan")?));
        let aside = self.aside(&room)?;
        let mut unseen = |_: &RunEvent| {};
        let mut run = OpenRun::create(&aside, request, inputs, stop.clone(), &mut unseen)?;
        run.is_only_planned = true;
        walk_to_plan(&mut run)?;
        Ok(planned(run.state()))
    }

    /// This harness with its runs and its ledger in another place.
    fn aside(&self, room: &Room) -> Result<Self, RunError> {
        let other = |e: &dyn std::error::Error| {
            RunError::Create(std::io::Error::other(crate::error_chain(e)))
        };
        let home = self.home.aside(&room.0).map_err(|e| other(&e))?;
        let (key, key_created) =
            keyring::load_or_create(&self.home, &self.config.trust_dir()).map_err(|e| other(&e))?;
        let init = LedgerInit {
            random: clock::random()?,
            at: clock::now(),
        };
        Ok(Self {
            home,
            config: self.config.clone(),
            env: self.env.clone(),
            launcher: self.launcher.clone(),
            key,
            key_created,
            reconciled: Reconciled::default(),
            store: Store::open(&room.0.join("cto.db"), init)?,
            decisions: Some(Store::open(&self.home.database(), init)?),
        })
    }
}

fn planned(state: &RunState) -> PlanOutput {
    let gates = state.gate_blocked.iter().flat_map(|g| &g.blockers);
    let mut blockers: Vec<Blocker> = Vec::new();
    for blocker in gates
        .chain(&state.step_blockers)
        .chain(&state.limit_blockers)
    {
        if !blockers.contains(blocker) {
            blockers.push(blocker.clone());
        }
    }
    let (plan, identity) = state
        .plan
        .clone()
        .map(|updated| (updated.plan, updated.identity))
        .unzip();
    PlanOutput {
        schema_version: PlanTag,
        status: status_of(&blockers, Moment::BeforeStart),
        decision: state.eligibility.as_ref().map(|e| e.decision.clone()),
        plan,
        identity,
        blockers,
    }
}
