//! All rows: what of the site differs, and what the pack must show. All of it is data.

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

/// How the run is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Run,
    QwenLoop,
}

const PASS: Row = Row {
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
    timeout_seconds: 90,
    blocker: None,
    companions: &[],
    perhaps: &[],
    fault_class: FaultClass::None,
    started: Started::Yes,
    shows: &[],
};

const BLOCKED: Row = Row {
    fault_class: FaultClass::Environment,
    started: Started::No,
    ..PASS
};

/// A role of the agent's own refuses or breaks the protocol.
const REJECTED: Row = Row {
    blocker: Some(Code::ReviewerRejected),
    fault_class: FaultClass::Agent,
    ..PASS
};

/// The keys of a login, by the bridge.
const BRIDGED: Row = Row {
    asked: ("openai-codex", "gpt-5.5"),
    admission: Admission::OfAsked,
    ..PASS
};

/// A decision is for an admitted pair.
const UNDECIDED: &[Code] = &[Code::ProviderDecisionMissing];

const BOTH_PROVIDERS: &[(&str, &str)] = &[
    ("report.json", "\"case_model_provider\": \"qwen-local\""),
    ("report.json", "\"case_runtime_model_provider\": \"openai\""),
    (
        "report.json",
        "\"case_model_admission_status\": \"admitted\"",
    ),
    (
        "trace.jsonl",
        "provider qwen-local, model qwen3.6-35b-a3b, runtime provider openai",
    ),
    (
        "backend/case-runtime-provider.txt",
        "admitted provider: qwen-local\nadmitted model: qwen3.6-35b-a3b\nruntime provider: openai\n",
    ),
    ("backend/case-data/config.json", "\"qwen-local\""),
];

const SHAPE: &[(&str, &str)] = &[
    ("report.json", "\"run\""),
    ("report.json", ".task.json\""),
    ("report.json", "\"unattended\""),
    ("task-contract.json", "r1-string-slugify"),
    ("backend/case-data/pi-agent/auth.json", "{}"),
    ("backend/case-data/pi-agent/models.json", "<removed>"),
];

/// The checks of the adapter.
pub const ADAPTER_CHECKS: &[Row] = &[
    Row {
        name: "command_shape_and_task_contract",
        situation: "a good run, started in the one shape with a task of its own",
        shows: SHAPE,
        ..PASS
    },
    Row {
        name: "missing_provider_blocks",
        situation: "the program is not there",
        program: Program::Absent,
        blocker: Some(Code::ProviderUnavailable),
        ..BLOCKED
    },
    Row {
        name: "provider_timeout_fail_closed",
        situation: "a command of the agent never ends",
        script: Script {
            work: Work::SleepsFirst,
            ..PASS.script
        },
        timeout_seconds: 6,
        blocker: Some(Code::Timeout),
        fault_class: FaultClass::Environment,
        ..PASS
    },
    Row {
        name: "model_provider_gate_blocks",
        situation: "no record admits a model",
        admission: Admission::Absent,
        blocker: Some(Code::ModelNotAdmitted),
        companions: UNDECIDED,
        fault_class: FaultClass::Operator,
        ..BLOCKED
    },
    Row {
        name: "model_admission_mismatch_blocks",
        situation: "the record admits another model",
        admission: Admission::OfAnother,
        blocker: Some(Code::ModelAdmissionMismatch),
        companions: UNDECIDED,
        fault_class: FaultClass::Operator,
        ..BLOCKED
    },
    Row {
        name: "model_admission_invalid_blocks",
        situation: "the record can't be read",
        admission: Admission::Invalid,
        blocker: Some(Code::ModelAdmissionInvalid),
        companions: UNDECIDED,
        fault_class: FaultClass::Operator,
        ..BLOCKED
    },
    Row {
        name: "openai_codex_auth_gap_blocks",
        situation: "openai-codex is asked for and its bridge is not switched on",
        asked: ("openai-codex", "gpt-5.5"),
        admission: Admission::OfAsked,
        blocker: Some(Code::ProviderAuthUnavailable),
        ..BLOCKED
    },
    Row {
        name: "local_provider_config_missing_blocks",
        situation: "nobody says where the model is",
        endpoint: Endpoint::Unset,
        blocker: Some(Code::LocalProviderConfigMissing),
        ..BLOCKED
    },
    Row {
        name: "local_provider_reasoning_only_blocks",
        situation: "the model only thinks",
        fault: ModelFault::ReasoningOnly,
        blocker: Some(Code::ProviderReasoningOnly),
        ..BLOCKED
    },
    Row {
        name: "local_provider_delayed_content_allows_case",
        situation: "the answers come a few bytes at a time",
        fault: ModelFault::Drip,
        ..PASS
    },
    Row {
        name: "qwen_local_openai_compat_allows_case",
        situation: "qwen-local is admitted, and Case knows it as openai",
        shows: BOTH_PROVIDERS,
        ..PASS
    },
    Row {
        name: "agent_protocol_failure_classified",
        situation: "a role ends without its envelope, from a build that ends with 1 then",
        program: Program::Double(&[Quirk::ExitOne]),
        script: Script {
            work: Work::NoEnvelope,
            ..PASS.script
        },
        blocker: Some(Code::AgentProtocolFailed),
        fault_class: FaultClass::Agent,
        ..PASS
    },
    Row {
        name: "lifecycle_supervision_accepts_committed_diff",
        situation: "everything is done and committed, and the program stays",
        program: Program::Double(&[Quirk::Lingers]),
        shows: &[
            ("report.json", "\"backend_completion\": \"harness\""),
            ("backend/provider-lifecycle-harness-completed.txt", ""),
        ],
        ..PASS
    },
    Row {
        name: "lifecycle_timeout_after_valid_patch_fails",
        situation: "the change is committed, and then time runs out",
        script: Script {
            work: Work::SleepsAfterCommit,
            ..PASS.script
        },
        timeout_seconds: 8,
        blocker: Some(Code::LifecycleTimeoutAfterValidPatch),
        fault_class: FaultClass::Agent,
        ..PASS
    },
    Row {
        name: "qwen_loop_hides_endpoint",
        situation: "the loop of Qwen, whose pack never tells where the model is",
        way: Way::QwenLoop,
        shows: BOTH_PROVIDERS,
        ..PASS
    },
    Row {
        name: "no_secret_in_artifacts",
        situation: "an agent that prints its whole environment and its config",
        script: Script {
            work: Work::TellsEverything,
            ..PASS.script
        },
        ..PASS
    },
];

/// The model answers the question before the start, and fails Case at work.
const fn model(name: &'static str, situation: &'static str, fault: ModelFault, code: Code) -> Row {
    Row {
        name,
        situation,
        fault,
        scope: FaultScope::AtWork,
        // A provider is silent after a quarter of it.
        timeout_seconds: 20,
        blocker: Some(code),
        started: Started::Yes,
        ..BLOCKED
    }
}

/// What Case, its roles and its model do wrong, and what comes of it.
pub const FAULTS: &[Row] = &[
    Row {
        name: "missing-envelope",
        situation: "the implementer says no result",
        script: Script {
            work: Work::NoEnvelope,
            ..PASS.script
        },
        blocker: Some(Code::AgentProtocolFailed),
        fault_class: FaultClass::Agent,
        ..PASS
    },
    Row {
        name: "rejects-softly",
        situation: "the reviewer fails a soft category to the end; Case says `completed`",
        script: Script {
            review: Review::FailsSoftCategory,
            ..PASS.script
        },
        ..REJECTED
    },
    Row {
        name: "rejects-hard",
        situation: "the reviewer fails a hard category",
        script: Script {
            review: Review::FailsHardCategory,
            ..PASS.script
        },
        ..REJECTED
    },
    Row {
        name: "rejects-by-finding",
        situation: "the reviewer finds something critical, in a build that ends with 1 then",
        program: Program::Double(&[Quirk::ExitOne]),
        script: Script {
            review: Review::FindsCritical,
            ..PASS.script
        },
        ..REJECTED
    },
    Row {
        name: "rejects-by-status",
        situation: "the reviewer's status is `failed`",
        script: Script {
            review: Review::Fails,
            ..PASS.script
        },
        ..REJECTED
    },
    Row {
        name: "no-identity",
        situation: "git knows no author, so nothing is committed: the files count",
        script: Script {
            work: Work::WithoutIdentity,
            ..PASS.script
        },
        ..PASS
    },
    Row {
        name: "forged-review",
        situation: "the agent writes a good review into the event file, and the reviewer rejects",
        script: Script {
            work: Work::ForgesEvents,
            review: Review::FindsCritical,
        },
        ..REJECTED
    },
    Row {
        name: "event-file-deleted",
        situation: "the agent deletes the event file",
        script: Script {
            work: Work::DeletesEvents,
            ..PASS.script
        },
        blocker: Some(Code::BackendFailed),
        fault_class: FaultClass::Agent,
        ..PASS
    },
    Row {
        name: "event-file-cut",
        situation: "the agent cuts the event file",
        script: Script {
            work: Work::CutsEvents,
            ..PASS.script
        },
        blocker: Some(Code::BackendFailed),
        fault_class: FaultClass::Agent,
        ..PASS
    },
    Row {
        name: "event-file-huge",
        situation: "the agent writes more into the event file than is read",
        script: Script {
            work: Work::FloodsEvents,
            ..PASS.script
        },
        blocker: Some(Code::BackendFailed),
        fault_class: FaultClass::Agent,
        ..PASS
    },
    Row {
        name: "hidden-review",
        situation: "a process that the reviewer left writes its rejection out of the event file: the forwarder heard it",
        program: Program::Double(&[Quirk::Lingers]),
        script: Script {
            review: Review::HidesCritical,
            ..PASS.script
        },
        blocker: Some(Code::BackendFailed),
        perhaps: &[Code::ReviewerRejected],
        fault_class: FaultClass::Agent,
        ..PASS
    },
    Row {
        name: "config-edited",
        situation: "the agent gives the reviewer another model in `config.json`, or tries to",
        script: Script {
            work: Work::EditsConfig,
            ..PASS.script
        },
        ..PASS
    },
    Row {
        name: "traps-in-its-state",
        situation: "the agent leaves links, a pipe and a large log in `.case/`, and a process in a session of its own",
        script: Script {
            work: Work::LeavesTraps,
            ..PASS.script
        },
        ..PASS
    },
    Row {
        name: "task-file-edited",
        situation: "the agent writes another id, repository and status into the task file",
        script: Script {
            work: Work::EditsTask,
            ..PASS.script
        },
        ..PASS
    },
    Row {
        name: "no-event-file",
        situation: "Case writes nothing about its phases",
        program: Program::Double(&[Quirk::NoEvents]),
        blocker: Some(Code::BackendFailed),
        fault_class: FaultClass::Agent,
        ..PASS
    },
    Row {
        name: "two-event-files",
        situation: "there are two files about its phases",
        program: Program::Double(&[Quirk::TwoEventFiles]),
        blocker: Some(Code::BackendFailed),
        fault_class: FaultClass::Agent,
        ..PASS
    },
    Row {
        name: "another-program",
        situation: "the program of the same name from a registry",
        program: Program::Double(&[Quirk::NotCase]),
        blocker: Some(Code::ProviderUnavailable),
        ..BLOCKED
    },
    Row {
        name: "not-executable",
        situation: "the program may not be executed",
        program: Program::NotExecutable,
        blocker: Some(Code::ProviderUnavailable),
        ..BLOCKED
    },
    Row {
        name: "shell-function",
        situation: "`ca` is a function of the caller's shell, and no program",
        program: Program::ShellFunction,
        blocker: Some(Code::ProviderUnavailable),
        ..BLOCKED
    },
    Row {
        name: "replaced",
        situation: "another program takes its place after its digest was taken",
        program: Program::Replaced,
        blocker: Some(Code::ProviderUnavailable),
        ..BLOCKED
    },
    Row {
        name: "token-expires",
        situation: "the tokens of a login are over within seconds, and are renewed",
        login: Login::Expiring,
        ..BRIDGED
    },
    Row {
        name: "token-refused",
        situation: "the first token of a login is refused, and renewed",
        login: Login::RefusedOnce,
        shows: &[("backend/egress.jsonl", "\"key_renewed\":true")],
        ..BRIDGED
    },
    Row {
        name: "older-build",
        situation: "the build without `--version`",
        program: Program::Double(&[Quirk::OlderBuild]),
        ..PASS
    },
    model(
        "hang",
        "the model takes the request and never answers",
        ModelFault::Hang,
        Code::Timeout,
    ),
    model(
        "stall",
        "the model sends the head of an answer and then nothing",
        ModelFault::Stall,
        Code::Timeout,
    ),
    Row {
        name: "drip",
        situation: "the answers come a few bytes at a time",
        fault: ModelFault::Drip,
        ..PASS
    },
    model(
        "401",
        "the key is refused",
        ModelFault::Unauthorized,
        Code::ProviderAuthUnavailable,
    ),
    model(
        "500",
        "the endpoint is broken",
        ModelFault::ServerError,
        Code::ProviderUnavailable,
    ),
    Row {
        name: "refused",
        situation: "nobody listens at the endpoint",
        endpoint: Endpoint::Dead,
        blocker: Some(Code::ProviderUnavailable),
        ..BLOCKED
    },
    model(
        "reasoning-only",
        "the model only thinks",
        ModelFault::ReasoningOnly,
        Code::ProviderReasoningOnly,
    ),
    Row {
        fault_class: FaultClass::Operator,
        ..model(
            "another-model",
            "another model answers",
            ModelFault::AnotherModel,
            Code::ModelAdmissionMismatch,
        )
    },
];
