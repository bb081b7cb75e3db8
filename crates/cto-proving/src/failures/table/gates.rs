//! What is refused before a backend may start.

use cto_contract::blocker::BlockerCode;
use cto_contract::words::SandboxChoice;
use cto_runner::SandboxAsk;

use super::super::fixture::{Fixture, Launch, Work};
use super::{COMMIT, PLAIN, PLAIN_CASE};

pub(super) const NO_PATCH: (&str, &str) = ("patch.diff", "");
pub(super) const NOTHING_RAN: (&str, &str) = ("test.log", "blocked before anything was started");

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        blocker: BlockerCode::UnownedRepository,
        trigger: "the contract names the risk class `unowned`",
        terms: &[("risk_class", "unowned")],
        shows: &[NO_PATCH, NOTHING_RAN],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::CriticalRepository,
        trigger: "the contract names the risk class `production`",
        terms: &[("risk_class", "production")],
        shows: &[NO_PATCH, NOTHING_RAN],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::GateMissing,
        trigger: "the environment does not open the lane",
        gate: None,
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            ("eligibility.json", "CTO_HARNESS_ALLOW_COMMAND"),
        ],
        ..PLAIN_CASE
    },
    Fixture {
        blocker: BlockerCode::GateMissing,
        variant: "wrong-value",
        trigger: "the environment says `true` where only `1` opens the lane",
        gate: Some("true"),
        shows: &[NO_PATCH, NOTHING_RAN],
        ..PLAIN_CASE
    },
    Fixture {
        blocker: BlockerCode::StageGateMissing,
        trigger: "the environment opens no stage",
        stage_gate: None,
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            ("eligibility.json", "CTO_HARNESS_COMMAND_STAGE"),
        ],
        ..PLAIN_CASE
    },
    Fixture {
        blocker: BlockerCode::StageGateMissing,
        variant: "other-stage",
        trigger: "the environment opens stage 2 and stage 3 is asked for",
        stage_gate: Some("2"),
        shows: &[NO_PATCH, NOTHING_RAN],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::StageGateMissing,
        variant: "no-mode",
        trigger: "the contract chooses no mutation mode",
        terms: &[("mutation_mode", "null")],
        shows: &[NO_PATCH, NOTHING_RAN],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::StageGateMissing,
        variant: "first-stage",
        trigger: "the environment opens stage 1, which starts no process",
        stage_gate: Some("1"),
        stage: 1,
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            ("report.json", "\"mutation_mode\": \"none\""),
            ("report.json", "\"allowed_mutation_scope\": \"none\""),
        ],
        ..PLAIN_CASE
    },
    Fixture {
        blocker: BlockerCode::StageNotProven,
        trigger: "the contract wants a repository changed at stage 3, where only a copy may change",
        terms: &[("mutation_mode", "sandbox-repo")],
        // That mode needs somebody's approval too.
        companions: &[BlockerCode::ApprovalMissing],
        shows: &[NO_PATCH, NOTHING_RAN],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::SourceNotAdmitted,
        trigger: "stage 4 is asked for and the program has no source admission",
        stage_gate: Some("4"),
        stage: 4,
        // Without full confinement that stage is closed for this reason too.
        companions: &[
            BlockerCode::ApprovalMissing,
            BlockerCode::BinaryNotAdmitted,
            BlockerCode::SandboxUnavailable,
        ],
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            (
                "report.json",
                "\"source_admission_status\": \"not_admitted\"",
            ),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::BinaryNotAdmitted,
        trigger: "stage 4 is asked for and no record admits the program",
        stage_gate: Some("4"),
        stage: 4,
        companions: &[
            BlockerCode::ApprovalMissing,
            BlockerCode::SourceNotAdmitted,
            BlockerCode::SandboxUnavailable,
        ],
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            ("report.json", "no record admits the binary of command"),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::ProviderDecisionMissing,
        trigger: "stage 4 is asked for with a model, and nobody decided its provider",
        terms: &[("network", "model")],
        stage_gate: Some("4"),
        stage: 4,
        env: MODEL,
        // The record of the model is unsigned, which that stage does not take either.
        companions: &[
            BlockerCode::ApprovalMissing,
            BlockerCode::SourceNotAdmitted,
            BlockerCode::BinaryNotAdmitted,
            BlockerCode::ModelNotAdmitted,
            BlockerCode::SandboxUnavailable,
        ],
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            ("report.json", "nobody decided the provider of command"),
            ("report.json", "it is unsigned"),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::ModelNotAdmitted,
        trigger: "the contract asks for a model and no record admits one",
        terms: &[("network", "model")],
        records: &[],
        env: MODEL,
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            (
                "report.json",
                "\"model_admission_status\": \"missing_admission\"",
            ),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::ModelNotAdmitted,
        variant: "template",
        trigger: "the record of the model is a template, which admits nothing",
        terms: &[("network", "model")],
        records: &[(
            "model.json",
            r#"{"status":"not_admitted","provider":"local","model":"m","credential_source_class":"","allowed_network_class":"","approval_source":"","admission_timestamp":"","review_trigger":""}"#,
        )],
        env: ASKED,
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            (
                "report.json",
                "\"model_admission_status\": \"not_admitted\"",
            ),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::ModelAdmissionMismatch,
        trigger: "the environment asks for another pair than the record that it names admits",
        terms: &[("network", "model")],
        env: MISMATCH,
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            (
                "report.json",
                "other/m is asked for, and the record is about local/m",
            ),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::ModelAdmissionInvalid,
        trigger: "the record of the model has a field that no record has",
        terms: &[("network", "model")],
        records: &[(
            "any.yaml",
            "status: admitted\nprovider: local\nmodel: m\nmood: good\n",
        )],
        env: MODEL,
        shows: &[NO_PATCH, NOTHING_RAN, ("report.json", "any.yaml:4:1: ")],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::SourceNotOwned,
        trigger: "the repository belongs to another user",
        work: Work::ForeignRepository,
        shows: &[NO_PATCH, NOTHING_RAN],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::ApprovalMissing,
        trigger: "the contract requires an approval and there is none",
        terms: &[("approval_required", "true")],
        shows: &[NO_PATCH, NOTHING_RAN],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::AllowedPathsMissing,
        trigger: "the contract allows no path to change",
        terms: &[("allowed_paths", "[]")],
        shows: &[NO_PATCH, NOTHING_RAN],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::ForbiddenActionsMissing,
        trigger: "the contract forbids one action of the ten and permits none",
        terms: &[("forbidden_actions", "[push]")],
        shows: &[NO_PATCH, NOTHING_RAN, ("report.json", "merge, deploy")],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::BaselineBroken,
        trigger: "a check fails on the untouched tree and nothing says that it has to",
        terms: &[(
            "verification_commands",
            "['echo first; echo error: no such library; echo more; exit 3']",
        )],
        shows: &[
            NO_PATCH,
            ("test.log", "=== before the change"),
            ("test.log", "So no agent was started"),
            ("report.json", "first error: error: no such library"),
            ("report.json", "\"baseline_failed\": true"),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::BaselineBroken,
        variant: "no-tool",
        trigger: "the runner that a check calls is not there, though it has to fail before",
        terms: &[(
            "verification_commands",
            "[{run: /no/such/pytest, must_fail_before: true}]",
        )],
        shows: &[
            NO_PATCH,
            ("report.json", "its program is not there"),
            ("events.normalized.jsonl", "\"tool_missing\":true"),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::RepositoryUnsupported,
        trigger: "the repository has no commit",
        owner: "true",
        shows: &[NO_PATCH, NOTHING_RAN, ("report.json", "no_commits")],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::RepositoryUnsupported,
        variant: "history",
        trigger: "the contract asks for a history that would show what it forbids to see",
        terms: &[("history", "ancestors"), ("forbidden_paths", "[other.txt]")],
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            ("report.json", "history_shows_withheld"),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::RepositoryUnsupported,
        variant: "submodule",
        trigger: "the tree holds a submodule",
        owner: "git init -q sub && git -C sub commit -q --allow-empty -m sub && git -c advice.addEmbeddedRepo=false add -A && git commit -qm first",
        shows: &[NO_PATCH, NOTHING_RAN, ("report.json", "submodules")],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::DirtyStartingTree,
        trigger: "the source has an uncommitted change where the task may write",
        owner: "git add -A -f && git commit -qm first && echo more >> src/a.txt",
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            ("trace.jsonl", "dirty_starting_tree"),
            ("report.json", "src/a.txt"),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::DirtyStartingTree,
        variant: "untracked",
        trigger: "the source has a new file that is not ignored, where the task may not write",
        owner: "git add -A -f && git commit -qm first && echo x > notes.txt",
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            ("trace.jsonl", "dirty_starting_tree"),
            ("report.json", "notes.txt"),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::DirtyStartingTree,
        variant: "setup",
        trigger: "the setup changes a file of the baseline",
        terms: &[("setup_commands", "['echo more >> other.txt']")],
        shows: &[
            NO_PATCH,
            ("trace.jsonl", "dirty_starting_tree"),
            ("report.json", "other.txt"),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::SandboxUnavailable,
        trigger: "no namespaces are to be had, and nothing less was asked for",
        launch: Launch::WithoutNamespaces,
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            ("report.json", "--sandbox podman; or --weak"),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::SandboxUnavailable,
        variant: "protected-roots",
        trigger: "a protected root can't be looked at before the agent starts",
        config: "protected_roots: ['$PLACE/beside/keep.txt/below-a-file']",
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            ("report.json", "\"protected_roots\""),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::SandboxUnavailable,
        variant: "weak",
        trigger: "stage 3 is asked for in the weak mode, which is capped at stage 2",
        launch: Launch::WithoutNamespaces,
        sandbox: SandboxAsk {
            provider: None,
            weak: true,
        },
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            ("report.json", "is weak, which is capped at stage 2"),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::SandboxUnavailable,
        variant: "none",
        trigger: "stage 3 is asked for without a sandbox, which is capped at stage 2",
        sandbox: SandboxAsk {
            provider: Some(SandboxChoice::None),
            weak: false,
        },
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            ("report.json", "is none, which is capped at stage 2"),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::SandboxUnavailable,
        variant: "provider",
        trigger: "the provider that was asked for builds nothing",
        sandbox: SandboxAsk {
            provider: Some(SandboxChoice::Bwrap),
            weak: false,
        },
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            (
                "report.json",
                "could not build the sandbox: bwrap: no, not here",
            ),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::SandboxUnavailable,
        variant: "mounts",
        trigger: "a case's setup needs mounts, which the weak mode has not",
        terms: &[("setup_commands", "['true']")],
        sandbox: SandboxAsk {
            provider: None,
            weak: true,
        },
        owner: COMMIT,
        shows: &[NO_PATCH],
        ..PLAIN_CASE
    },
    Fixture {
        blocker: BlockerCode::ArtifactWriteFailure,
        variant: "disk-floor",
        trigger: "less space is free than the floor that `harness.yaml` sets",
        config: "disk_floor_mb: 1000000000000",
        shows: &[NO_PATCH, NOTHING_RAN, ("trace.jsonl", "floor")],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::BudgetUnmeterable,
        trigger: "the contract caps the cost of a model whose prices nobody knows",
        terms: &[
            ("network", "model"),
            ("limits", "{wall_seconds: 60, cost: 1.5}"),
        ],
        env: MODEL,
        shows: &[NO_PATCH, NOTHING_RAN, ("eligibility.json", "cost")],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::LocalProviderConfigMissing,
        trigger: "the contract asks for a model and the environment names no endpoint",
        terms: &[("network", "model")],
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            ("eligibility.json", "CTO_HARNESS_COMMAND_LOCAL_BASE_URL"),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::ProviderAuthUnavailable,
        trigger: "the command that prints the model's key fails",
        terms: &[("network", "model")],
        config: "providers: {local: {credential_command: ['false']}}",
        env: MODEL,
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            ("eligibility.json", "credential command ended with code 1"),
        ],
        ..PLAIN
    },
];

/// An endpoint that is never asked.
const MODEL: &[(&str, &str)] = &[(
    "CTO_HARNESS_COMMAND_LOCAL_BASE_URL",
    "http://127.0.0.1:9/v1",
)];
const ASKED: &[(&str, &str)] = &[
    MODEL[0],
    ("CTO_HARNESS_COMMAND_MODEL_PROVIDER", "local"),
    ("CTO_HARNESS_COMMAND_MODEL", "m"),
];
const MISMATCH: &[(&str, &str)] = &[
    MODEL[0],
    ("CTO_HARNESS_COMMAND_MODEL_PROVIDER", "other"),
    ("CTO_HARNESS_COMMAND_MODEL", "m"),
    (
        "CTO_HARNESS_COMMAND_MODEL_ADMISSION_FILE",
        "$PLACE/config/model.yaml",
    ),
];
