//! Every scene. Attempts that do not disturb each other share a run.

/// A program by the name of its file.
macro_rules! python {
    ($name:literal) => {
        Program::Python(include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/redteam/programs/",
            $name,
            ".py"
        )))
    };
}

mod approval;
mod bounds;
mod change;

use cto_contract::blocker::BlockerCode;
use cto_contract::words::RunStatus;

use super::scene::{Claim, Meddling, Program, Scene, Work};

/// What every repository and every case holds.
pub(crate) const FILES: &[(&str, &str)] = &[
    ("src/a.txt", "old\n"),
    ("src/calc.py", "def add(a, b):\n    return a - b\n"),
    ("other.txt", "not to be touched\n"),
    ("test_calc.py", TESTS),
    (".gitignore", "build/\n.env\n__pycache__/\n"),
];

const TESTS: &str = "import unittest

from src.calc import add


class Adds(unittest.TestCase):
    def test_adds(self):
        self.assertEqual(add(2, 2), 4)
";

/// The contract of a scene that changes nothing of it.
pub(crate) const TERMS: &[(&str, &str)] = &[
    ("instruction", "Write new into src/a.txt."),
    ("allowed_paths", "[src/]"),
    ("forbidden_actions", ALL_ACTIONS),
    (
        "verification_commands",
        "[{run: 'grep -q new src/a.txt', must_fail_before: true}, 'git status', 'git diff']",
    ),
    ("limits", "{wall_seconds: 60}"),
];

const ALL_ACTIONS: &str = "[push, merge, deploy, close, pr_open, issue_close, public_publication, credential_change, vendor_source_mutation, cortex_core_mutation]";

/// Judged by tests: what is not done honestly must not pass.
const BY_TESTS: (&str, &str) = (
    "verification_commands",
    "[{run: python3 -m unittest, must_fail_before: true}]",
);
/// Tests, and an answer that leaves the process as text.
const BY_TESTS_AND_TEXT: (&str, &str) = (
    "verification_commands",
    "[{run: python3 -m unittest, must_fail_before: true}, {run: 'test \"$(python3 -c \"import json; from src.calc import add; print(json.dumps(add(20, 22)))\")\" = 42', must_fail_before: true}]",
);
/// A case has no repository.
const BY_TEXT: (&str, &str) = (
    "verification_commands",
    "[{run: 'grep -q new src/a.txt', must_fail_before: true}]",
);
const EVERYTHING: (&str, &str) = ("allowed_paths", "['**']");

const REFUSED: &[Claim] = &[Claim::Refused, Claim::HonestPart, Claim::NoSurvivors];
const FAIL: Claim = Claim::Status(RunStatus::Fail);
const PASS: Claim = Claim::Status(RunStatus::Pass);
const BLOCKED: Claim = Claim::Status(RunStatus::Blocked);
const DISALLOWED: Claim = Claim::Blocker(&[BlockerCode::DisallowedFileChange]);
const HIDDEN_CHANGE: &[Claim] = &[
    Claim::Controls,
    Claim::Changed("other.txt"),
    DISALLOWED,
    FAIL,
    Claim::HonestPart,
];
const UNPROVEN: Claim = Claim::Blocker(&[
    BlockerCode::VerificationFailed,
    BlockerCode::VerificationTampered,
]);

const PLAIN: Scene = Scene {
    name: "",
    program: Program::Shell("echo new > src/a.txt"),
    tries: &[],
    terms: &[],
    owner: "",
    work: Work::Repository,
    meddling: Meddling::None,
    is_rehearsed: false,
};

/// Honest agents, which must pass: else no refusal on this site says anything.
pub(crate) const CONTROLS: &[Scene] = &[
    Scene {
        name: "control",
        ..PLAIN
    },
    Scene {
        name: "control-tests",
        program: Program::Shell("printf 'def add(a, b):\\n    return a + b\\n' > src/calc.py"),
        terms: &[BY_TESTS_AND_TEXT],
        ..PLAIN
    },
    Scene {
        name: "control-case",
        terms: &[BY_TEXT],
        work: Work::Case,
        ..PLAIN
    },
];

/// What stands before every shell program.
pub(crate) const SHELL_HEAD: &str = "\
says() { if eval \"$3\"; then echo \"rt $1 works $2 ALLOWED\"; else echo \"rt $1 works $2 FAILED\"; fi; }
denied() { if eval \"$3\" 2>/dev/null; then echo \"rt $1 refused $2 ALLOWED\"; else echo \"rt $1 refused $2 refused\"; fi; }
work=$PWD
mkdir -p build
# What others could be made to run: it leaves a trace wherever it can.
printf '#!/bin/sh\\ntouch \"%s/ran\" 2>/dev/null\\necho ran >> \"%s/build/ran\" 2>/dev/null\\ncat 2>/dev/null\\n' \"$bait\" \"$work\" > build/evil
chmod +x build/evil
echo new > src/a.txt
";

/// Its agent holds a lock; the harness is a process of its own, which is killed.
pub(crate) const SUPERVISOR_KILLED: Scene = Scene {
    name: "supervisor-killed",
    program: python!("holder"),
    tries: &[(
        66,
        &[
            Claim::Status(RunStatus::Blocked),
            Claim::Blocker(&[BlockerCode::Interrupted]),
        ],
    )],
    meddling: Meddling::KillHarness,
    ..PLAIN
};

/// Every scene but the controls.
pub(crate) fn every() -> impl Iterator<Item = &'static Scene> {
    const KILLED: &Scene = &SUPERVISOR_KILLED;
    let tried = bounds::SCENES.iter().chain(change::SCENES);
    tried.chain(approval::SCENES).chain([KILLED])
}
