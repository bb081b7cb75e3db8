//! What a row is: what of the site differs, and what the pack must show. All of it is data.

use cto_contract::blocker::{BlockerCode as Code, Moment};
use cto_contract::model_script::{FaultScope, ModelFault};
use cto_contract::words::{FaultClass, RunStatus};

use super::script::{Review, Script, Work};
use crate::doubles::case::Quirk;

/// The pair that the rows use unless they say otherwise.
pub(crate) const PROVIDER: &str = "qwen-local";
pub(crate) const MODEL: &str = "qwen3.6-35b-a3b";

/// One run and what must come of it.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub name: &'static str,
    /// What happens, for people.
    pub situation: &'static str,
    pub(crate) program: Program,
    pub(crate) script: Script,
    /// What is wrong with the model's answers.
    pub(crate) fault: ModelFault,
    /// Whether the question before the start meets it too.
    pub(crate) scope: FaultScope,
    pub(crate) endpoint: Endpoint,
    pub(crate) admission: Admission,
    /// The pair that the environment asks for.
    pub(crate) asked: (&'static str, &'static str),
    pub(crate) way: Way,
    pub(crate) login: Login,
    pub(crate) gates: Gates,
    pub(crate) timeout_seconds: u64,
    /// What refuses the run; none for one that must pass.
    pub blocker: Option<Code>,
    /// What the same situation brings with it.
    pub(crate) companions: &'static [Code],
    /// What may stand beside it, by who was faster.
    pub(crate) perhaps: &'static [Code],
    pub fault_class: FaultClass,
    pub started: Started,
    /// Files of the pack and a text that must stand in each.
    pub(crate) shows: &'static [(&'static str, &'static str)],
}

/// Whether the program of the lane was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    Yes,
    No,
}

impl Row {
    /// The status that the run must have, by whether its program was started.
    pub fn status(&self, moment: Moment) -> RunStatus {
        let refused = self.blocker.map(|code| code.status_at(moment));
        refused.unwrap_or(RunStatus::Pass)
    }
}

/// What stands in the place of `ca`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Program {
    Double(&'static [Quirk]),
    Absent,
    /// Its file may not be executed.
    NotExecutable,
    /// The caller's shell has a function of that name, and there is no program.
    ShellFunction,
    /// Another file takes its place after its digest was taken.
    Replaced,
}

/// Where the model is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Scripted,
    /// Nobody says.
    Unset,
    /// Nobody listens.
    Dead,
}

/// What the record of the model says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    Admitted,
    Absent,
    /// It admits another model.
    OfAnother,
    /// It can't be read as one.
    Invalid,
    /// It admits the pair that is asked for, whichever.
    OfAsked,
    /// It admits the model, and nobody decided for its provider.
    Undecided,
}

/// Where the key of the model comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Login {
    /// A variable.
    Variable,
    /// A program gives out tokens that are over within seconds, and the bridge is switched on.
    Expiring,
    /// The same without an end, and the first token is refused.
    RefusedOnce,
}

/// What the environment opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gates {
    Open,
    /// The lane is not allowed.
    Closed,
    /// It is allowed by another word than `1`.
    ByAnotherWord,
    /// No stage is permitted.
    WithoutStage,
    /// Another stage is permitted.
    AtAnotherStage,
}

/// How the run is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Run,
    QwenLoop,
}

pub(super) const PASS: Row = Row {
    name: "",
    situation: "",
    program: Program::Double(&[]),
    script: Script {
        work: Work::Mends,
        review: Review::Accepts,
    },
    fault: ModelFault::Ok,
    scope: FaultScope::Every,
    endpoint: Endpoint::Scripted,
    admission: Admission::Admitted,
    asked: (PROVIDER, MODEL),
    way: Way::Run,
    login: Login::Variable,
    gates: Gates::Open,
    timeout_seconds: 90,
    blocker: None,
    companions: &[],
    perhaps: &[],
    fault_class: FaultClass::None,
    started: Started::Yes,
    shows: &[],
};

pub(super) const BLOCKED: Row = Row {
    fault_class: FaultClass::Environment,
    started: Started::No,
    ..PASS
};

/// A role of the agent's own refuses or breaks the protocol.
pub(super) const REJECTED: Row = Row {
    blocker: Some(Code::ReviewerRejected),
    fault_class: FaultClass::Agent,
    ..PASS
};

/// The keys of a login, by the bridge.
pub(super) const BRIDGED: Row = Row {
    asked: ("openai-codex", "gpt-5.5"),
    admission: Admission::OfAsked,
    ..PASS
};

/// A decision is for an admitted pair.
pub(super) const UNDECIDED: &[Code] = &[Code::ProviderDecisionMissing];
