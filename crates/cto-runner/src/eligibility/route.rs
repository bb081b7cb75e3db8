//! A decision without a run: who may do a task, and what stands against the others.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use cto_contract::eligibility::EligibilityDecision;
use cto_contract::event::Step;
use cto_contract::task::TaskContract;
use cto_contract::words::{Lane, Stage};
use cto_evidence::canonical::digest_of;
use cto_rules::verdicts;
use cto_sandbox::StopToken;

use super::{Question, Reach, Target, find_out};
use crate::error_chain;
use crate::harness::{Harness, RunError, scratch_name};
use crate::limits::Effective;
use crate::open_run::StepError;
use crate::sandbox::SandboxAsk;
use crate::sealing::clear;

/// A task that somebody is to be found for.
#[derive(Debug, Clone)]
pub struct RouteRequest {
    pub contract: TaskContract,
    /// The file that it was read from.
    pub contract_file: Option<PathBuf>,
    /// The lane that is asked for.
    pub lane: Lane,
    pub stage: Option<Stage>,
    /// A directory in the repository; without one its gates stay unknown.
    pub repository: Option<PathBuf>,
}

impl Harness {
    /// Decides as a run does, from the same facts. It starts no program and leaves nothing behind.
    pub fn route(
        &self,
        request: &RouteRequest,
        stop: &StopToken,
    ) -> Result<EligibilityDecision, RunError> {
        let failed = |e: &dyn std::error::Error| RunError::Create(io::Error::other(error_chain(e)));
        let contract = &request.contract;
        let contract_digest = digest_of(contract).map_err(|e| failed(&e))?;
        let limits = Effective::new(&contract.limits, &self.config.harness.limits, None, None);
        let scratch = self.home.work().join(scratch_name("look")?);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&scratch)
            .map_err(RunError::Create)?;
        let question = Question {
            approval: cto_rules::eligibility::ApprovalState::None,
            harness: self,
            contract,
            contract_digest: &contract_digest,
            lane: request.lane,
            stage: request.stage,
            limits: &limits.limits,
            sandbox: SandboxAsk::default(),
            target: match &request.repository {
                Some(path) => Target::Repository {
                    path,
                    contract_file: request.contract_file.as_deref(),
                    rev: None,
                },
                None => Target::UnnamedRepository,
            },
            argv: &[],
            scratch: &scratch,
            stop,
            reach: Reach::Look,
        };
        let decided = find_out(&question).map(|decided| decided.decision.record);
        clear(&scratch);
        decided.map_err(|error| match error {
            StepError::Log(error) => failed(&error),
            StepError::Fault(fault) => {
                let blocker = verdicts::fault(Step::Eligibility, &fault);
                RunError::Create(io::Error::other(blocker.message))
            }
        })
    }
}
