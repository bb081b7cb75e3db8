//! All fixtures, the site that they share, and the blockers that have none.

mod authority;
mod gates;
mod runs;
mod targets;

use cto_contract::blocker::BlockerCode;
use cto_runner::SandboxAsk;

use super::fixture::{Fixture, Launch, Meddling, Program, Work};

/// What every repository and every case holds.
pub(super) const FILES: &[(&str, &str)] = &[
    ("src/a.txt", "old\n"),
    ("src/code.sh", "answer=42\n"),
    ("other.txt", "not to be touched\n"),
    (
        "test_code.py",
        "class T:\n    def test_answer(self):\n        pass\n",
    ),
    (".gitignore", "build/\n"),
];

/// The contract of a fixture that changes nothing of it: the control passes under it.
pub(super) const CONTRACT_TERMS: &[(&str, &str)] = &[
    ("instruction", "Write new into src/a.txt."),
    ("risk_class", "copied"),
    ("mutation_mode", "copied-fixture"),
    ("allowed_paths", "[src/]"),
    ("forbidden_actions", ALL_ACTIONS),
    (
        "verification_commands",
        "['python3 -m unittest', {run: 'grep -q new src/a.txt', must_fail_before: true}]",
    ),
    ("limits", "{wall_seconds: 60}"),
];

/// The same for a case, which says less.
pub(super) const CASE_TERMS: &[(&str, &str)] = &[
    ("instruction", "Write new into src/a.txt."),
    ("allowed_paths", "[src/]"),
    ("forbidden_actions", ALL_ACTIONS),
    (
        "verification_commands",
        "[{run: 'grep -q new src/a.txt', must_fail_before: true}]",
    ),
    ("limits", "{wall_seconds: 60}"),
];

const ALL_ACTIONS: &str = "[push, merge, deploy, close, pr_open, issue_close, public_publication, credential_change, vendor_source_mutation, cortex_core_mutation]";

/// Stands in for bwrap, and refuses.
pub(super) const BROKEN_PROVIDER: &str = "#!/bin/sh\necho 'bwrap: no, not here' >&2\nexit 1\n";

/// Stands in for Python's runner, so that no Python is needed: like it, it loads the code under test into its own
/// process, and so can be taken over by it.
pub(super) const TOY_RUNNER: &str = r#"#!/bin/sh
. ./src/code.sh
ran=0
failed=0
for file in test*.py; do
    ran=$((ran + 1))
    name=$(sed -n 's/^ *def \(test[a-z0-9_]*\).*/\1/p' "$file")
    full="$name (${file%.py}.T.$name)"
    if grep -q 'self.fail(' "$file"; then
        failed=$((failed + 1))
        echo "$full ... FAIL"
        echo "FAIL: $full"
    else
        echo "$full ... ok"
    fi
done
echo "Ran $ran tests in 0.001s"
[ "$failed" -eq 0 ] || { echo "FAILED (failures=$failed)"; exit 1; }
echo OK
"#;

/// An honest agent under the usual contract.
const PLAIN: Fixture = Fixture {
    blocker: BlockerCode::NoDiff,
    variant: "",
    trigger: "",
    work: Work::Repository,
    terms: &[],
    owner: COMMIT,
    config: "",
    records: &[("model.yaml", MODEL_RECORD)],
    planted: &[],
    program: Program::Script("echo new > src/a.txt"),
    gate: Some("1"),
    stage_gate: Some("3"),
    stage: 3,
    env: &[],
    launch: Launch::AsThisMachineCan,
    sandbox: SandboxAsk {
        provider: None,
        weak: false,
    },
    meddling: Meddling::None,
    companions: &[],
    shows: &[],
    changes_outside: &[],
};

/// Admits the pair that agents here ask for.
pub(crate) const MODEL_RECORD: &str = "status: admitted\nprovider: local\nmodel: m\ncredential_source_class: none\nallowed_network_class: loopback\napproval_source: the owner of this place\nadmission_timestamp: 2026-01-01\nreview_trigger: before another model\n";

const COMMIT: &str = "git add -A -f && git commit -qm first";

/// The same for a case at its stage.
const PLAIN_CASE: Fixture = Fixture {
    work: Work::Case,
    stage_gate: Some("2"),
    stage: 2,
    ..PLAIN
};

/// The honest run that must pass.
pub fn control() -> &'static Fixture {
    const CONTROL: &Fixture = &PLAIN;
    CONTROL
}

/// Every fixture, in the order of the table of blockers as far as they have one.
pub fn fixtures() -> impl Iterator<Item = &'static Fixture> {
    runs::FIXTURES
        .iter()
        .chain(gates::FIXTURES)
        .chain(authority::FIXTURES)
        .chain(targets::FIXTURES)
}

const APPROVALS: &str = "it takes the signature of an operator, and no fixture has one yet";
const STEERING: &str = "no admission of a target pins steering files yet";
const MODELS: &str = "no lane of this version asks its model before the start";

/// Blockers without a fixture, and why. An entry goes when its blocker can be reached.
pub const NOT_COVERED: &[(BlockerCode, &str)] = &[
    (
        BlockerCode::SourceRepositoryMutated,
        "a backend sees no repository but its copy; only where its root can't be built from nothing could it write there",
    ),
    (BlockerCode::ApprovalDenied, APPROVALS),
    (
        BlockerCode::MissingOperatorOutcome,
        "it blocks a proof and not a run, and there are no proofs yet",
    ),
    (BlockerCode::ApprovalConsumed, APPROVALS),
    (BlockerCode::ApprovalExpired, APPROVALS),
    (BlockerCode::ApprovalScopeMismatch, APPROVALS),
    (BlockerCode::ApprovalSignatureInvalid, APPROVALS),
    (BlockerCode::ApprovalPresenceTooLow, APPROVALS),
    (
        BlockerCode::RollbackNotExact,
        "it stops a command and not a run, and nothing lands yet that could be taken back",
    ),
    (BlockerCode::SteeringNotAdmitted, STEERING),
    (BlockerCode::ProviderReasoningOnly, MODELS),
    (
        BlockerCode::AgentProtocolFailed,
        "no lane of this version has a result envelope that could be missing",
    ),
    (
        BlockerCode::VerifiedTreeMismatch,
        "the tree that is checked is made from the patch and compared at once: only a fault of the harness itself gives another",
    ),
    (
        BlockerCode::ClockUndecidable,
        "it needs a wall clock that goes backwards or stands before the key, which no process may do to its machine",
    ),
];
