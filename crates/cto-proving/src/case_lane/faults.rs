//! What Case, its roles, its program and its model do wrong, and what comes of it.

use cto_contract::blocker::BlockerCode as Code;
use cto_contract::model_script::{FaultScope, ModelFault};
use cto_contract::words::FaultClass;

use super::rows::*;
use super::script::{Review, Script, Work};
use crate::doubles::case::Quirk;

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
        name: "gate-closed",
        situation: "nobody allowed the lane",
        gates: Gates::Closed,
        blocker: Some(Code::GateMissing),
        fault_class: FaultClass::Operator,
        ..BLOCKED
    },
    Row {
        name: "gate-by-another-word",
        situation: "the lane is allowed by `true`, and only `1` counts",
        gates: Gates::ByAnotherWord,
        blocker: Some(Code::GateMissing),
        fault_class: FaultClass::Operator,
        ..BLOCKED
    },
    Row {
        name: "stage-not-permitted",
        situation: "no stage is permitted",
        gates: Gates::WithoutStage,
        blocker: Some(Code::StageGateMissing),
        fault_class: FaultClass::Operator,
        ..BLOCKED
    },
    Row {
        name: "another-stage-permitted",
        situation: "stage 3 is permitted, and 2 is asked for",
        gates: Gates::AtAnotherStage,
        blocker: Some(Code::StageGateMissing),
        fault_class: FaultClass::Operator,
        ..BLOCKED
    },
    Row {
        name: "undecided",
        situation: "nobody decided for the provider",
        admission: Admission::Undecided,
        blocker: Some(Code::ProviderDecisionMissing),
        fault_class: FaultClass::Operator,
        ..BLOCKED
    },
    Row {
        name: "fallback-not-admitted",
        situation: "the pair that Case falls back to is asked for, and no record admits it",
        asked: ("anthropic", "claude-sonnet-4-6"),
        blocker: Some(Code::ModelAdmissionMismatch),
        companions: UNDECIDED,
        fault_class: FaultClass::Operator,
        ..BLOCKED
    },
    Row {
        name: "bridge-is-no-admission",
        situation: "`openai`, as Case knows every provider, is asked for, and only `qwen-local` is admitted",
        asked: ("openai", MODEL),
        blocker: Some(Code::ModelAdmissionMismatch),
        companions: UNDECIDED,
        fault_class: FaultClass::Operator,
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
        scope: FaultScope::AtWork,
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
