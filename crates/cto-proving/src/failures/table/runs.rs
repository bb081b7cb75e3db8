//! What fails or is refused once a run is on its way.

use cto_contract::blocker::BlockerCode;
use cto_contract::event::Step;

use super::super::fixture::{Fixture, Meddling, Program};
use super::{PLAIN, PLAIN_CASE};

const NO_PATCH: (&str, &str) = ("patch.diff", "");
const NEW: (&str, &str) = ("patch.diff", "+new");

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        blocker: BlockerCode::NoDiff,
        trigger: "the agent claims success and changes nothing",
        program: Program::Script(
            r#"echo '{"schema":"cto.agent/v1","type":"done","summary":"all done"}'"#,
        ),
        shows: &[
            NO_PATCH,
            ("report.json", "\"changed_files\": []"),
            ("backend/stdout.log", "all done"),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::NoDiff,
        variant: "ignored-only",
        trigger: "the agent writes ignored files only",
        program: Program::Script("mkdir build && echo x > build/x"),
        shows: &[NO_PATCH, ("report.json", "build/x")],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::DisallowedFileChange,
        trigger: "a path outside `allowed_paths` changes",
        program: Program::Script("echo new > src/a.txt; echo x >> other.txt"),
        shows: &[
            NEW,
            ("patch.diff", "other.txt"),
            ("report.json", "\"allowed_writes_passed\": false"),
            ("report.json", "\"path\": \"other.txt\""),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::DisallowedFileChange,
        variant: "frozen",
        trigger: "an allowed path changes that is frozen",
        terms: &[("frozen_paths", "[src/code.sh]")],
        program: Program::Script("echo new > src/a.txt; echo answer=43 > src/code.sh"),
        shows: &[
            ("patch.diff", "src/code.sh"),
            ("report.json", "\"scope\": \"frozen\""),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::DisallowedFileChange,
        variant: "case",
        trigger: "a path outside `allowed_paths` of a case is deleted",
        program: Program::Script("echo new > src/a.txt; rm other.txt"),
        shows: &[
            ("report.json", "\"allowed_writes_passed\": false"),
            ("patch.diff", "deleted file mode"),
        ],
        ..PLAIN_CASE
    },
    Fixture {
        blocker: BlockerCode::ForbiddenActionAttempted,
        trigger: "the agent pushes",
        program: Program::Script("echo new > src/a.txt; git push origin HEAD || true"),
        shows: &[
            NEW,
            (
                "report.json",
                "\"forbidden_actions_attempted\": [\n    \"push\"",
            ),
            ("events.normalized.jsonl", "git push origin HEAD"),
            ("report.md", "| exec | `git push origin HEAD` |"),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::ForbiddenActionAttempted,
        variant: "checks",
        trigger: "what the agent wrote pushes when it is checked",
        terms: &[(
            "verification_commands",
            "[{run: 'test ! -e src/run || sh src/run; grep -q new src/a.txt', must_fail_before: true}]",
        )],
        program: Program::Script("echo new > src/a.txt; echo git push somewhere > src/run"),
        shows: &[
            NEW,
            ("report.json", "\"step\": \"verification\""),
            ("report.md", "| exec | `git push somewhere` |"),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::VerificationFailed,
        trigger: "a verification command ends with another code than 0",
        terms: &[(
            "verification_commands",
            "['! grep -q new src/a.txt || { echo this was expected; exit 7; }']",
        )],
        shows: &[
            NEW,
            ("test.log", "this was expected"),
            ("test.log", "exit code 7"),
            ("report.json", "\"exit_code\": 7"),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::VerificationFailed,
        variant: "fewer-tests",
        trigger: "fewer tests pass than the contract expects",
        terms: &[(
            "verification_commands",
            r#"[{run: 'mkdir -p build && echo "<testsuite><testcase classname=\"t\" name=\"a\"/></testsuite>" > build/junit.xml', expect: {junit: build/junit.xml, min_tests: 2}, must_fail_before: true}]"#,
        )],
        shows: &[NEW, ("report.json", "expected at least 2")],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::VerificationFailed,
        variant: "no-tests",
        trigger: "the runner ends well and skipped all of its tests",
        terms: &[(
            "verification_commands",
            r#"[{run: 'mkdir -p build && echo "<testsuite><testcase name=\"a\"><skipped/></testcase></testsuite>" > build/junit.xml', expect: {junit: build/junit.xml}, must_fail_before: true}]"#,
        )],
        shows: &[NEW, ("report.json", "no test passed")],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::VerificationFailed,
        variant: "no-count",
        trigger: "the runner ends well and its report holds no test",
        terms: &[(
            "verification_commands",
            r#"[{run: 'mkdir -p build && echo "<testsuite/>" > build/junit.xml', expect: {junit: build/junit.xml}, must_fail_before: true}]"#,
        )],
        shows: &[NEW, ("report.json", "no test result could be read")],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::VerificationFailed,
        variant: "not-mended",
        trigger: "a test that failed before is skipped now",
        terms: &[(
            "verification_commands",
            r#"[{run: 'mkdir -p build; grep -q new src/a.txt && now=skipped || now=failure; echo "<s><testcase name=\"a\"/><testcase name=\"b\"><$now/></testcase></s>" > build/x.xml; test $now = skipped', expect: {junit: build/x.xml}, must_fail_before: true}]"#,
        )],
        shows: &[
            NEW,
            ("report.json", "\"change\": \"not_mended\""),
            ("report.md", "failed before and does not pass now: b"),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::MissingTestCommand,
        trigger: "the contract names no verification command and no reason why",
        terms: &[("verification_commands", "[]")],
        shows: &[NEW, ("test.log", "no verification command was available")],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::MissingRequiredEvent,
        trigger: "an event that the contract requires is not in the log",
        terms: &[(
            "evidence_expectations",
            "{required_events: [sandbox.denied]}",
        )],
        shows: &[
            NEW,
            (
                "report.json",
                "`sandbox.denied`, which the contract requires, is missing",
            ),
            ("report.json", "\"required_events_passed\": false"),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::ReviewerRejected,
        trigger: "the agent's own reviewer rejects the change",
        program: Program::Script(
            r#"echo new > src/a.txt; echo '{"schema":"cto.agent/v1","type":"review","verdict":"reject","note":"not good enough"}'"#,
        ),
        shows: &[NEW, ("backend/stdout.log", "not good enough")],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::Timeout,
        trigger: "the agent changes nothing and does not end",
        terms: &[
            ("limits", "{wall_seconds: 1}"),
            ("verification_commands", "['true']"),
            ("diff_required", "false"),
        ],
        program: Program::Script("exec sleep 600"),
        shows: &[NO_PATCH, ("trace.jsonl", "over its wall clock")],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::Timeout,
        variant: "verification",
        trigger: "a verification command does not end",
        terms: &[
            ("limits", "{wall_seconds: 1}"),
            (
                "verification_commands",
                "['! grep -q new src/a.txt || exec sleep 600']",
            ),
        ],
        shows: &[
            NEW,
            ("trace.jsonl", "check:command"),
            ("test.log", "over its wall clock"),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::LifecycleTimeoutAfterValidPatch,
        trigger: "the agent makes its change and does not end",
        terms: &[("limits", "{wall_seconds: 1}")],
        program: Program::Script("echo new > src/a.txt; exec sleep 600"),
        shows: &[NEW],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::DirtyEndingTree,
        trigger: "the verification leaves a new file and changes a tracked one",
        terms: &[(
            "verification_commands",
            "['echo x > left.txt; echo x >> other.txt']",
        )],
        shows: &[NEW, ("report.json", "left.txt, other.txt")],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::ArtifactWriteFailure,
        trigger: "a file stands where the patch is to be written",
        meddling: Meddling::Occupy {
            step: Step::Change,
            file: "patch.diff",
        },
        shows: &[NO_PATCH, ("trace.jsonl", "patch.diff")],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::ArtifactWriteFailure,
        variant: "test-log",
        trigger: "a file stands where the log of the checks is to be written",
        meddling: Meddling::Occupy {
            step: Step::Verification,
            file: "test.log",
        },
        shows: &[NEW, ("trace.jsonl", "test.log")],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::ArtifactWriteFailure,
        variant: "output",
        trigger: "a file stands where the agent's output is to be written",
        meddling: Meddling::Occupy {
            step: Step::Backend,
            file: "backend",
        },
        shows: &[NO_PATCH, ("trace.jsonl", "backend/stdout.log")],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::ProviderUnavailable,
        trigger: "the program is not there",
        program: Program::Absent("no-such-program-anywhere"),
        shows: &[
            NO_PATCH,
            (
                "backend/provider-unavailable.txt",
                "no-such-program-anywhere",
            ),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::ProviderUnavailable,
        variant: "not-executable",
        trigger: "the program is there and can't be executed",
        program: Program::Broken,
        shows: &[NO_PATCH],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::ProviderUnavailable,
        variant: "setup",
        trigger: "a setup command fails",
        terms: &[("setup_commands", "['echo no network; exit 7']")],
        shows: &[NO_PATCH, ("backend/setup.log", "no network")],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::ProviderUnavailable,
        variant: "switched-off",
        trigger: "`harness.yaml` switches the lane off",
        config: "engines: {command: {disabled: true}}",
        shows: &[
            NO_PATCH,
            ("backend/provider-unavailable.txt", "switched off"),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::BackendFailed,
        trigger: "the agent makes its change and ends with another code than 0",
        program: Program::Script("echo new > src/a.txt; echo it broke >&2; exit 7"),
        shows: &[
            NEW,
            ("backend/stderr.log", "it broke"),
            ("report.json", "command engine failed with exit code 7"),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::BackendFailed,
        variant: "signal",
        trigger: "the agent makes its change and is killed by a signal",
        program: Program::Script("echo new > src/a.txt; kill -KILL $$"),
        shows: &[NEW, ("report.json", "\"backend_signal\": 9")],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::SecretExposed,
        trigger: "the agent writes a secret of the operator's environment into the change",
        program: Program::Script("echo $SECRET > src/a.txt; echo new >> src/a.txt"),
        shows: &[("patch.diff", "quarantined by cto")],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::SourceChangedDuringRun,
        trigger: "somebody changes the source when the agent has ended",
        meddling: Meddling::ChangeSource,
        shows: &[
            NEW,
            ("report.json", "\"source_repository_mutated\": false"),
            ("report.json", "other.txt"),
        ],
        changes_outside: &["repo/other.txt"],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::ProtectedRootMutated,
        trigger: "a file of a protected root changes while the agent works",
        config: "protected_roots: ['$PLACE/beside']",
        meddling: Meddling::ChangeProtected,
        shows: &[NEW, ("report.json", "keep.txt")],
        changes_outside: &["beside/keep.txt"],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::VerificationTampered,
        trigger: "the code under test answers for the test runner",
        terms: &[("verification_commands", "['python3 -m unittest']")],
        program: Program::Script(
            r#"cat > src/code.sh <<'END'
echo "test_answer (test_code.T.test_answer) ... ok"
echo "Ran 1 test in 0.001s"
echo OK
exit 0
END"#,
        ),
        shows: &[
            ("report.json", "\"status\": \"swallowed\""),
            ("patch.diff", "+exit 0"),
        ],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::PatchNotReproducible,
        trigger: "the agent leaves a pipe, which no patch can hold",
        program: Program::Script("echo new > src/a.txt; mkfifo src/pipe"),
        shows: &[("report.json", "src/pipe")],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::PatchNotReproducible,
        variant: "nested-repository",
        trigger: "the agent leaves a repository inside the tree",
        program: Program::Script(
            "echo new > src/a.txt; git init -q src/nested; echo x > src/nested/x",
        ),
        shows: &[("report.json", "src/nested")],
        // What is in it is still judged, and a path with `.git` in it is never allowed.
        companions: &[BlockerCode::DisallowedFileChange],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::Interrupted,
        trigger: "a stop is asked for while the agent works",
        program: Program::Script(
            r#"echo '{"schema":"cto.agent/v1","type":"plan","steps":["wait"]}'; exec sleep 600"#,
        ),
        meddling: Meddling::Stop,
        shows: &[NO_PATCH, ("trace.jsonl", "a stop was asked for")],
        ..PLAIN
    },
    Fixture {
        blocker: BlockerCode::LimitExceeded,
        trigger: "the agent leaves directories deeper than any tree may have",
        program: Program::Script(
            "echo new > src/a.txt; deep=src; n=0; while [ $n -lt 300 ]; do deep=$deep/d; n=$((n + 1)); done; mkdir -p $deep; echo x > $deep/x",
        ),
        shows: &[
            ("trace.jsonl", "tree in change"),
            ("report.json", "deeper than 256 directories"),
        ],
        ..PLAIN
    },
];
