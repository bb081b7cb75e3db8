//! The real programs, installed from their registry at pinned versions, against the scripted model: cases, a real project, and
//! what goes wrong at a provider. They reach no other address: inside there is none.

use std::path::{Path, PathBuf};

use cto_contract::model_script::{FaultScope, ModelFault};
use cto_contract::words::Lane;
use cto_proving::doubles::streams::recording;
use cto_proving::lane_faults::{Provider, ROWS, Script, expected};
use serde_json::Value;

use crate::lanes::{LanePlace, kinds, scripted, told};
use crate::place::{GOOD_REST, head, sh, write};
use crate::source::{ACTIONS, GIT};

/// What a test needs of the machine; in CI it must be there.
fn setting(name: &str, part: &str) -> Option<PathBuf> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the test command says where its tools are"
    )]
    let found = std::env::var_os(name).map(PathBuf::from);
    cto_testkit::has(part, found.is_some())
        .then_some(found)
        .flatten()
}

fn program(lane: Lane) -> Option<PathBuf> {
    let name = format!("CTO_TEST_{}", lane.as_str().to_ascii_uppercase());
    setting(
        &name,
        &format!("real {lane}: `cargo xtask test` installs it"),
    )
}

/// A script that lays the case's own change over the tree.
fn steps_of(case: &str) -> String {
    let patch = std::fs::read_to_string(cases().join(case).join("fake.patch")).unwrap();
    let command =
        format!("git apply --whitespace=nowarn - <<'END_OF_PATCH'\n{patch}END_OF_PATCH\n");
    format!(
        "  - {{say: I look first}}\n  - {{run: ls}}\n  - {{run: {}}}\n  - {{finish: \"Done, all tests pass\"}}\n",
        serde_json::to_string(&command).unwrap()
    )
}

fn cases() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../cases")
}

/// Holds what every run of a real program must show, however it ended.
fn check_pack(at: &LanePlace, report: &Value) {
    at.verify(report).expect(0);
    let pack = at.pack(report);
    let said = std::fs::read_to_string(pack.join("backend/stdout.log")).unwrap();
    let known = kinds(recording(at.lane));
    let odd: Vec<String> = kinds(&said).difference(&known).cloned().collect();
    assert_eq!(
        odd,
        Vec::<String>::new(),
        "{}: the recording lacks these",
        at.lane
    );
    let denied = std::fs::read_to_string(pack.join("events.normalized.jsonl")).unwrap();
    let connects = denied
        .lines()
        .filter(|line| line.contains("\"sandbox.denied\"") && line.contains("connect"));
    assert_eq!(
        connects.collect::<Vec<_>>(),
        Vec::<&str>::new(),
        "{}",
        at.lane
    );
}

fn passes_the_cases(lane: Lane) {
    let Some(program) = program(lane) else { return };
    for case in [
        "r1-string-slugify",
        "r1-src-string-slugify",
        "r1-slugify-punctuation",
    ] {
        let model = scripted(&steps_of(case));
        let at = LanePlace::new(lane, &program);
        let (_, report) = at.run(2, &model.base_url(ModelFault::Ok), &[case]);
        assert_eq!(
            told(&report),
            "pass none none",
            "{lane} {case} {:#}",
            report["blockers"]
        );
        assert!(report["resources"]["tokens"].as_u64().unwrap() > 0);
        check_pack(&at, &report);
    }
}

/// A repository of the project's sources, with a test of the change that is asked for.
fn slugify_repository(at: &LanePlace, sdist: &Path) -> PathBuf {
    let repo = at.place.path("slugify");
    std::fs::create_dir_all(&repo).unwrap();
    write(&repo.join("test_change.py"), SLUGIFY_TEST);
    let unpack = format!(
        "tar -xzf '{}' --strip-components=1 --exclude='*.egg-info'",
        sdist.display()
    );
    sh(
        &repo,
        &format!("{GIT}{unpack} && git init -q -b main . && git add -A -f && git commit -qm first"),
    );
    let contract = format!("{SLUGIFY_CONTRACT}forbidden_actions: {ACTIONS}\n");
    write(&at.place.path("contract.yaml"), &contract);
    repo
}

const SLUGIFY_TEST: &str = "import unittest
from slugify import slugify

class Change(unittest.TestCase):
    def test_nothing_gives_nothing(self):
        self.assertEqual(slugify(None), '')

    def test_the_rest_stays(self):
        self.assertEqual(slugify('This is a test ---'), 'this-is-a-test')
";

const SLUGIFY_CONTRACT: &str = "schema: cto.contract/v1
task_id: slugify-none
title: Let slugify take None
instruction: slugify(None) fails today. It must give the empty string.
risk_class: copied
mutation_mode: copied-fixture
allowed_paths: [slugify/slugify.py]
frozen_paths: [test_change.py]
network: model
verification_commands: [{run: python -m unittest -q, expect: {min_tests: 2}, must_fail_before: true}]
limits: {wall_seconds: 60}
";

const SLUGIFY_STEPS: &str = "  - {run: grep -n unicode slugify/slugify.py}
  - edit:
      path: slugify/slugify.py
      find: \"    # user-specific replacements\\n\"
      replace: \"    if text is None:\\n        return ''\\n\\n    # user-specific replacements\\n\"
  - {run: python -m unittest -q}
  - {finish: Done}
";

fn changes_a_real_project(lane: Lane) {
    let needs = (
        program(lane),
        setting("CTO_TEST_SLUGIFY", "sources of python-slugify"),
        setting("CTO_TEST_SLUGIFY_PYTHON", "Python for python-slugify"),
    );
    let (Some(program), Some(sdist), Some(python)) = needs else {
        return;
    };
    let model = scripted(SLUGIFY_STEPS);
    let at = LanePlace::new(lane, &program).with_path(python.parent().unwrap());
    let repo = slugify_repository(&at, &sdist);
    at.cto(&["engines", "allow", lane.as_str(), "--write"])
        .expect(0);
    let contract = at.place.path("contract.yaml");
    let args = [
        "--repo",
        repo.to_str().unwrap(),
        "--contract",
        contract.to_str().unwrap(),
    ];
    let (_, report) = at.run(3, &model.base_url(ModelFault::Ok), &args);
    assert_eq!(told(&report), "pass none none", "{lane} {report:#}");
    assert_eq!(
        report["changed_files"],
        serde_json::json!(["slugify/slugify.py"])
    );
    check_pack(&at, &report);
    at.cto(&["apply", "latest", "--repo", repo.to_str().unwrap()])
        .expect(0);
    let changed = std::fs::read_to_string(repo.join("slugify/slugify.py")).unwrap();
    assert!(changed.contains("if text is None:"), "{lane}");
}

/// The rows of the fault table that the real programs are tried with.
fn fails_by_name(lane: Lane) {
    let Some(program) = program(lane) else { return };
    for row in ROWS.iter().filter(|row| row.is_real && row.name != "ok") {
        let Provider::Scripted(fault, scope) = row.provider else {
            continue;
        };
        let model = scripted(match row.script {
            Script::Works => {
                "  - {edit: {path: a.txt, content: \"after\\n\"}}\n  - {finish: Done}\n"
            }
            Script::OnlyTalks => "  - {finish: \"Done, all tests pass\"}\n",
            Script::EditsOutside => {
                "  - {edit: {path: a.txt, content: \"after\\n\"}}\n  - {edit: {path: b.txt, content: \"mine\\n\"}}\n  - {finish: Done}\n"
            }
        });
        let at = LanePlace::new(lane, &program);
        let dir = at.place.path("cases/tried");
        write(&dir.join("workspace/a.txt"), "before\n");
        write(&dir.join("fake/a.txt"), "after\n");
        let limits = format!(
            "limits: {{wall_seconds: {}}}\n",
            row.wall_seconds.clamp(6, 60)
        );
        write(
            &dir.join("case.yaml"),
            &format!("{}{GOOD_REST}{limits}", head("tried")),
        );
        let cases = at.place.path("cases");
        let (_, report) = at.run(
            2,
            &match scope {
                FaultScope::Every => model.base_url(fault),
                FaultScope::AtWork => model.base_url_at_work(fault),
            },
            &["tried", "--cases", cases.to_str().unwrap()],
        );
        let wanted = expected(lane, row).unwrap();
        let code = wanted
            .blocker
            .map_or_else(|| "none".to_owned(), |code| code.to_string());
        let wanted = format!("{} {code} {}", wanted.status, wanted.fault);
        assert_eq!(
            told(&report),
            wanted,
            "{lane} {} {:#}",
            row.name,
            report["blockers"]
        );
        check_pack(&at, &report);
    }
}

macro_rules! of_every_lane {
    ($($name:ident: $test:ident($lane:expr);)+) => {
        $(#[test] fn $name() { $test($lane); })+
    };
}

of_every_lane! {
    a_real_codex_passes_the_cases: passes_the_cases(Lane::Codex);
    a_real_pi_passes_the_cases: passes_the_cases(Lane::Pi);
    a_real_claude_passes_the_cases: passes_the_cases(Lane::Claude);
    a_real_codex_changes_a_real_project: changes_a_real_project(Lane::Codex);
    a_real_pi_changes_a_real_project: changes_a_real_project(Lane::Pi);
    a_real_claude_changes_a_real_project: changes_a_real_project(Lane::Claude);
    what_goes_wrong_around_a_real_codex_has_its_name: fails_by_name(Lane::Codex);
    what_goes_wrong_around_a_real_pi_has_its_name: fails_by_name(Lane::Pi);
    what_goes_wrong_around_a_real_claude_has_its_name: fails_by_name(Lane::Claude);
}
