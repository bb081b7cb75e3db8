//! The checks of the adapter.

use cto_contract::blocker::BlockerCode as Code;
use cto_contract::model_script::ModelFault;
use cto_contract::words::FaultClass;

use super::rows::*;
use super::script::{Script, Work};
use crate::doubles::case::Quirk;

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
