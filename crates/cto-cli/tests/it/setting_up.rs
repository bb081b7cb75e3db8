//! From a project to a contract: `cto init`, `cto contract check`, `cto why`.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::place::{Place, sh, write};

fn project(files: &[(&str, &str)]) -> Place {
    let place = Place::new();
    for (path, text) in files {
        write(&place.path("project").join(path), text);
    }
    place
}

fn python() -> Place {
    let place = project(&[
        ("app/__init__.py", ""),
        ("app/words.py", "def slug(text):\n    return text\n"),
        ("tests/test_words.py", "import unittest\n"),
        ("README.md", "# Words\n"),
    ]);
    sh(&place.path("project"), "git init -q");
    place
}

fn strings(list: &Value) -> Vec<&str> {
    let list = list.as_array().unwrap();
    list.iter().map(|v| v.as_str().unwrap()).collect()
}

fn codes(document: &Value) -> Vec<&str> {
    let list = document["warnings"].as_array().unwrap();
    list.iter().map(|w| w["code"].as_str().unwrap()).collect()
}

#[test]
fn a_project_gets_a_contract_that_is_read_and_leaves_two_things_to_say() {
    let place = python();
    fs::create_dir_all(place.path("project/.venv/bin")).unwrap();
    let ran = place.cto(&["init", "project"]).expect(0);
    for told in [
        "languages python",
        "source    app/",
        "tests     .venv/bin/python -m unittest discover -s tests",
        "needs     .venv",
        "written   cto-task.yaml",
        "CTO_HARNESS_ALLOW_COMMAND=1 CTO_HARNESS_COMMAND_STAGE=3 cto run --repo . --contract cto-task.yaml --engine command --stage 3 -- <agent…>",
        "cto export latest --patch",
    ] {
        assert!(ran.out.contains(told), "{told}\n{}", ran.out);
    }
    let checked = place
        .cto(&["contract", "check", "project/cto-task.yaml", "--json"])
        .expect(0)
        .json();
    assert_eq!(
        codes(&checked),
        ["nothing_fails_before", "instruction_unfilled"]
    );
    assert_eq!(checked["repository"], "project");
    assert!(
        !place.home().exists(),
        "nothing is opened that is not needed"
    );
}

#[test]
fn doing_it_twice_changes_nothing_unless_forced() {
    let place = python();
    write(&place.path("project/.gitignore"), "*.pyc\n.env");
    place.cto(&["init", "project", "--workspace"]).expect(0);
    let read = |name: &str| fs::read_to_string(place.path("project").join(name)).unwrap();
    let ignore = "*.pyc\n.env\ncto.db\ncto.db-*\n.cto-sandbox/\n.sandcastle/\n";
    assert_eq!(read(".gitignore"), ignore);
    let first = read("cto-task.yaml");
    write(&place.path("project/cto-task.yaml"), "mine\n");
    write(&place.path("project/.env.example"), "mine\n");
    let again = place.cto(&["init", "project", "--json"]);
    assert_eq!(again.error(), "2 contract_exists");
    assert_eq!(read("cto-task.yaml"), "mine\n");
    let forced = place
        .cto(&["init", "project", "--force", "--workspace", "--json"])
        .expect(0)
        .json();
    assert_eq!(read("cto-task.yaml"), first);
    assert_eq!(read(".gitignore"), ignore);
    assert_eq!(read(".env.example"), "mine\n");
    let states: Vec<&str> = forced["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["replaced", "kept", "kept"]);
}

#[test]
fn a_project_stays_as_it_was_but_for_its_contract() {
    let place = python();
    write(&place.path("project/.gitignore"), ".env\n");
    sh(
        &place.path("project"),
        "git add -A && git -c user.name=o -c user.email=o@example.org commit -qm first",
    );
    let made = place.cto(&["init", "project", "--json"]).expect(0).json();
    assert_eq!(
        strings(&made["proposed_ignores"]),
        ["cto.db", "cto.db-*", ".cto-sandbox/", ".sandcastle/"]
    );
    sh(
        &place.path("project"),
        "test \"$(git status --porcelain)\" = '?? cto-task.yaml'",
    );
}

#[test]
fn the_example_of_settings_opens_nothing_as_it_stands() {
    let place = python();
    place.cto(&["init", "project", "--workspace"]).expect(0);
    let text = fs::read_to_string(place.path("project/.env.example")).unwrap();
    assert!(text.contains("CTO_HARNESS_ALLOW_COMMAND=1"));
    // Every setting that it offers is one that the file may hold.
    let offered: String = text
        .lines()
        .filter_map(|line| line.strip_prefix('#')?.split_once('='))
        .filter(|(name, _)| !name.contains(' ') && *name != "CTO_HOME")
        .map(|(name, value)| format!("{name}={value}\n"))
        .collect();
    assert_eq!(offered.lines().count(), 4, "{offered}");
    write(&place.path("config/cto/.env"), &offered);
    place.cto(&["config", "show"]).expect(0);
    assert!(
        text.lines().all(|l| l.is_empty() || l.starts_with('#')),
        "{text}"
    );
}

#[test]
fn three_languages_at_once() {
    let place = project(&[
        ("package.json", r#"{"scripts":{"test":"node --test"}}"#),
        ("lib/a.js", ""),
        ("test/a.test.js", ""),
        ("node_modules/x/index.js", ""),
        ("Cargo.toml", "[package]\nname = 'x'\n"),
        ("Cargo.lock", ""),
        ("src/lib.rs", ""),
        ("go.mod", "module x\n"),
        ("main.go", ""),
    ]);
    fs::create_dir_all(place.path(".cargo/registry")).unwrap();
    let made = place.cto(&["init", "project", "--json"]).expect(0).json();
    assert_eq!(strings(&made["languages"]), ["node", "rust", "go"]);
    let contract = &made["contract"];
    let runs: Vec<&str> = contract["verification_commands"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["run"].as_str().unwrap())
        .collect();
    assert_eq!(
        runs,
        [
            "node --test",
            "cargo test --offline --locked",
            "go test ./..."
        ]
    );
    let inputs: Vec<&str> = contract["inputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["from"].as_str().unwrap())
        .collect();
    assert_eq!(inputs, ["node_modules", "~/.cargo/registry"]);
    assert_eq!(
        strings(&contract["allowed_paths"]),
        ["lib/", "src/", "main.go"]
    );
    assert!(
        strings(&made["notes"])
            .iter()
            .any(|n| n.contains("no git repository")),
        "{made}"
    );
}

#[test]
fn a_hostile_project_is_only_looked_at() {
    let place = python();
    let project = place.path("project");
    // A link is not followed: neither its text nor what lies behind it is seen.
    write(&place.path("outside/secret.js"), "");
    write(
        &place.path("outside/package.json"),
        r#"{"scripts":{"test":"node --test stolen"}}"#,
    );
    symlink("../outside", project.join("linked")).unwrap();
    symlink("../outside/package.json", project.join("package.json")).unwrap();
    sh(
        &project,
        "mkfifo Makefile && mkdir -p 'a [b]*\u{1b}[31m' && touch 'a [b]*\u{1b}[31m/x.py' 'q\"\\#: {}.py'",
    );
    sh(
        &project,
        "mkdir closed && touch closed/x.py && chmod 000 closed",
    );
    let ran = place.cto(&["init", "project"]).expect(0);
    sh(&project, "chmod 700 closed");
    assert!(
        !ran.out.contains("stolen") && !ran.out.contains('\u{1b}'),
        "{}",
        ran.out
    );
    place
        .cto(&["contract", "check", "project/cto-task.yaml"])
        .expect(0);
    let why = place
        .cto(&[
            "why",
            "q\"\\#: {}.py",
            "--contract",
            "project/cto-task.yaml",
            "--json",
        ])
        .expect(0)
        .json();
    assert_eq!(why["verdict"], "allowed", "{why}");
}

#[test]
fn what_cannot_be_set_up_is_left_as_it_is() {
    let place = python();
    write(&place.path("elsewhere"), "mine\n");
    symlink("../elsewhere", place.path("project/.gitignore")).unwrap();
    let ran = place.cto(&["init", "project", "--workspace", "--json"]);
    assert_eq!(ran.error(), "2 ignore_file_unusable");
    assert!(!place.path("project/cto-task.yaml").exists());
    assert_eq!(
        fs::read_to_string(place.path("elsewhere")).unwrap(),
        "mine\n"
    );
    for missing in ["nowhere", "elsewhere"] {
        assert_eq!(
            place.cto(&["init", missing, "--json"]).error(),
            "2 directory_unreadable"
        );
    }
}

const HEAD: &str = "schema: cto.contract/v1\ntask_id: t\ntitle: t\ninstruction: Make slug() collapse dashes.\nmutation_mode: copied-fixture\n\
forbidden_actions: [push, merge, deploy, close, pr_open, issue_close, public_publication, credential_change, vendor_source_mutation, cortex_core_mutation]\n";

#[test]
fn a_verification_script_that_may_change_is_warned_about() {
    let place = python();
    write(&place.path("project/app/check.sh"), "true\n");
    let rest =
        "allowed_paths: [app/, conftest.py, scr/]\nverification_commands: ['sh app/check.sh']\n";
    write(&place.path("task.yaml"), &format!("{HEAD}{rest}"));
    let check = |more: &[&str]| {
        let args = [&["contract", "check", "task.yaml", "--json"], more].concat();
        place.cto(&args).expect(0).json()
    };
    assert_eq!(
        codes(&check(&["--repo", "project"])),
        [
            "script_not_frozen",
            "runner_file_allowed",
            "allowed_path_missing",
            "allowed_path_missing",
            "no_tests_counted",
            "nothing_fails_before",
            "no_wall_limit",
        ]
    );
    let without = check(&[]);
    assert_eq!(without["repository"], Value::Null);
    assert!(!codes(&without).contains(&"allowed_path_missing"));
    let shown = place
        .cto(&["contract", "check", "task.yaml", "--repo", "project"])
        .expect(0)
        .out;
    assert!(shown.starts_with("7 warnings  task.yaml\n"), "{shown}");
    assert!(
        shown.contains(
            "  script_not_frozen: `app/check.sh` is started by `sh app/check.sh` and may change"
        ),
        "{shown}"
    );
}

#[test]
fn a_contract_that_is_none_is_refused_with_its_place() {
    let place = Place::new();
    let error = |text: &str| {
        write(&place.path("task.yaml"), text);
        let ran = place.cto(&["contract", "check", "task.yaml", "--json"]);
        let cause = ran.json()["error"]["cause"]
            .as_str()
            .unwrap_or("")
            .to_owned();
        format!("{} {cause}", ran.error())
    };
    assert!(
        error(&format!("{HEAD}allowed_path: [a]\n"))
            .starts_with("2 contract_invalid task.yaml:7:1: unknown field `allowed_path`"),
    );
    assert!(
        error(&format!("{HEAD}allowed_paths: [../a]\n"))
            .starts_with("2 contract_invalid task.yaml:7:")
    );
    assert!(error("").starts_with("2 contract_invalid task.yaml:1:1:"));
    let token = concat!("ghp_", "q7ZkT2vLx9RmW4bNc8YdH3sJf6GpA1eUo5Ki");
    let secret = format!("{HEAD}setup_commands: [\"export X={token}\"]\n");
    let told = place_of_a_secret(&place, &secret);
    assert!(told.ends_with("(github-token, line 7)"), "{told}");
    assert_eq!(error(&secret).trim(), "2 contract_secret");
    let unreadable = |file: &str| place.cto(&["contract", "check", file, "--json"]).error();
    assert_eq!(unreadable("nothing.yaml"), "2 contract_unreadable");
    assert_eq!(unreadable("."), "2 contract_unreadable");
}

#[test]
fn why_names_the_layer_that_decides() {
    let place = Place::new();
    write(
        &place.path("task.yaml"),
        &format!(
            "{HEAD}allowed_paths: [app/]\nfrozen_paths: [app/tests/]\nforbidden_paths: ['**/*.key']\n"
        ),
    );
    let why = |subject: &str| {
        let answer = place
            .cto(&["why", subject, "--contract", "task.yaml", "--json"])
            .expect(0)
            .json();
        format!(
            "{} {} {}",
            answer["kind"].as_str().unwrap(),
            answer["verdict"].as_str().unwrap(),
            answer["decided_by"].as_str().unwrap()
        )
    };
    assert_eq!(why("app/a.py"), "path allowed app/");
    assert_eq!(why("./app/a.py"), "path allowed app/");
    assert_eq!(why("app/tests/a.py"), "path frozen app/tests/");
    assert_eq!(why("app/a.key"), "path forbidden **/*.key");
    assert_eq!(
        why("README.md"),
        "path not_allowed rule: no allowed pattern matches"
    );
    assert_eq!(
        why("app/AGENTS.md"),
        "path steering_file rule: steering file `agents.md`"
    );
    assert!(why("app/.git/config").starts_with("path never_allowable "));
    assert_eq!(why("push"), "action forbidden forbidden_actions");
    assert_eq!(
        why("./push"),
        "path not_allowed rule: no allowed pattern matches"
    );
    let shown = place
        .cto(&["why", "app/tests/a.py", "--contract", "task.yaml"])
        .expect(0)
        .out;
    assert!(
        shown.starts_with("frozen  `app/tests/a.py` may not change: `app/tests/` under `frozen_paths` freezes it, although `app/` allows it\n  next: "),
        "{shown}"
    );
    for bad in ["/etc/passwd", "app/", "."] {
        assert_eq!(
            place
                .cto(&["why", bad, "--contract", "task.yaml", "--json"])
                .error(),
            "2 path_not_a_file",
            "{bad}"
        );
    }
    assert_eq!(place.cto(&["why", "a", "--json"]).error(), "2 usage");
}

#[test]
fn why_asks_the_contract_of_a_run() {
    let place = Place::new().with_key();
    place.passed();
    let why = place
        .cto(&["why", "strings.py", "--run", "latest", "--json"])
        .expect(0)
        .json();
    assert_eq!(why["verdict"], "allowed");
    assert_eq!(why["task_id"], "r1-string-slugify");
}

fn place_of_a_secret(place: &Place, text: &str) -> String {
    write(&place.path("task.yaml"), text);
    let ran = place.cto(&["contract", "check", "task.yaml", "--json"]);
    ran.json()["error"]["message"].as_str().unwrap().to_owned()
}
