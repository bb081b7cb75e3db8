use proptest::prelude::*;

use super::*;
use crate::project::ProjectTree;

const ACTIONS: &str = "[push, merge, deploy, close, pr_open, issue_close, public_publication, credential_change, vendor_source_mutation, cortex_core_mutation]";

/// A contract about which there is nothing to say, with these lines in place of its own.
fn contract(lines: &str) -> TaskContract {
    let mut text = "schema: cto.contract/v1\ntask_id: t\ntitle: t\ninstruction: do it\n".to_owned();
    for (key, value) in [
        ("allowed_paths", "[src/]"),
        ("frozen_paths", "[tests/]"),
        ("forbidden_actions", ACTIONS),
        ("mutation_mode", "copied-fixture"),
        (
            "verification_commands",
            "[{run: python3 -m unittest, must_fail_before: true}]",
        ),
        ("limits", "{wall_seconds: 60}"),
    ] {
        if !lines.lines().any(|l| l.starts_with(key)) {
            text.push_str(&format!("{key}: {value}\n"));
        }
    }
    text.push_str(lines);
    TaskContract::read("t", text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn tree(paths: &[&str]) -> ProjectTree {
    let always = ["src/a.py", "tests/test_a.py", "README.md"];
    ProjectTree {
        paths: always
            .iter()
            .chain(paths)
            .map(|p| (*p).to_owned())
            .collect(),
        complete: true,
        ..ProjectTree::default()
    }
}

/// Codes alone.
fn codes(lines: &str, paths: &[&str]) -> String {
    let found = contract_warnings(&contract(lines), &tree(paths));
    found
        .iter()
        .map(|w| w.code.as_str())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Code, message and hint.
fn said(lines: &str, paths: &[&str]) -> String {
    let found = contract_warnings(&contract(lines), &tree(paths));
    let shown = found
        .iter()
        .map(|w| format!("{}: {} ({})", w.code, w.message, w.hint));
    shown.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_good_contract_gets_no_advice() {
    assert_eq!(codes("", &[]), "");
    assert_eq!(
        codes("forbidden_paths: [nothing/here/]", &[]),
        "",
        "a forbidden pattern may match nothing"
    );
}

#[test]
fn a_script_of_the_checks_that_may_change_is_named() {
    insta::assert_snapshot!(
        said("verification_commands: [{run: sh src/check.sh, must_fail_before: true, expect: {junit: out.xml}}]", &["src/check.sh"]),
        @"script_not_frozen: `src/check.sh` is started by `sh src/check.sh` and may change: the change could rewrite its own check (add it to `frozen_paths`)"
    );
    let of = |command: &str, file: &str| {
        codes(
            &format!(
                "allowed_paths: [src/, {file}]\nverification_commands: [{{run: '{command}', must_fail_before: true, expect: {{junit: out.xml}}}}]"
            ),
            &[file],
        )
    };
    for (command, file) in [
        ("./src/run", "src/run"),
        ("python3 src/check.py --all", "src/check.py"),
        ("python3 -m src.check", "src/check.py"),
        ("python3 -m src.tool", "src/tool/__main__.py"),
        ("cd src && sh check.sh", "src/check.sh"),
        ("CI=1 bash -c \"sh src/check.sh\"", "src/check.sh"),
        ("jest --config=src/jest.js", "src/jest.js"),
        ("make test", "Makefile"),
        ("make -C src test", "src/Makefile"),
        ("npm test", "package.json"),
        ("true; pnpm run check", "package.json"),
        ("just check", "justfile"),
    ] {
        // A manifest that is allowed by name is told of as well.
        let found = of(command, file);
        let mut found = found.split(' ');
        assert_eq!(found.next(), Some("script_not_frozen"), "{command}");
        assert!(found.all(|code| code == "runner_file_allowed"), "{command}");
    }
    assert_eq!(of("sh ../src/check.sh", "src/check.sh"), "");
    assert_eq!(of("sh /src/check.sh", "src/check.sh"), "");
    let frozen = "frozen_paths: [tests/, src/check.sh]\nverification_commands: [{run: sh src/check.sh, must_fail_before: true, expect: {junit: out.xml}}]";
    assert_eq!(codes(frozen, &["src/check.sh"]), "");
    assert_eq!(
        codes("setup_commands: [sh src/gen.sh]", &["src/gen.sh"]),
        "script_not_frozen"
    );
}

#[test]
fn scripts_of_a_package_are_followed_each_once() {
    let mut tree = tree(&["package.json", "src/run.js", "src/pre.js"]);
    let scripts = r#"{"scripts": {"test": "npm run a && npm run b", "a": "npm test; node src/run.js", "preb": "node src/pre.js", "b": "npm run a"}}"#;
    tree.texts
        .insert("package.json".to_owned(), scripts.to_owned());
    let contract = contract(
        "verification_commands: [{run: npm test, must_fail_before: true, expect: {junit: out.xml}}]",
    );
    let found = contract_warnings(&contract, &tree);
    let named: Vec<&str> = found
        .iter()
        .map(|w| w.message.split('`').nth(1).unwrap())
        .collect();
    assert_eq!(named, ["src/pre.js", "src/run.js"]);
}

#[test]
fn tests_that_may_change_are_named_with_a_bound() {
    let many: Vec<String> = (0..9).map(|n| format!("src/test_{n}.py")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    insta::assert_snapshot!(said("", &many), @"tests_not_frozen: tests may change along with what they test: `src/test_0.py`, `src/test_1.py`, `src/test_2.py`, `src/test_3.py`, `src/test_4.py` and 4 more (add them to `frozen_paths` unless writing tests is the task)");
    for test in [
        "src/a_test.go",
        "src/x.test.ts",
        "src/__tests__/x.js",
        "src/y/tests/data.bin",
        "src/a.spec.mjs",
    ] {
        assert_eq!(codes("", &[test]), "tests_not_frozen", "{test}");
    }
    for other in ["src/contest.py", "src/latest.js", "src/testing.rs"] {
        assert_eq!(codes("", &[other]), "", "{other}");
    }
}

#[test]
fn an_allowed_path_that_can_not_be_meant_is_named() {
    insta::assert_snapshot!(said("allowed_paths: [src]", &[]), @"allowed_path_is_directory: `src` is a directory; as it stands it allows no file in it (write `src/` for everything below)");
    insta::assert_snapshot!(said("allowed_paths: [src/b.py]", &[]), @"allowed_path_missing: `src/b.py` is not in the tree (right if the task is to create it; else look for a slip of the pen)");
    insta::assert_snapshot!(said("allowed_paths: ['scr/*.py']", &[]), @"allowed_path_missing: `scr/*.py` matches no file, and there is no directory `scr` (right if the task is to create it; else look for a slip of the pen)");
    assert_eq!(
        codes("allowed_paths: ['src/*.rs']", &[]),
        "",
        "new files of a directory that is there"
    );
    assert_eq!(codes("allowed_paths: ['*.toml']", &[]), "");
    assert_eq!(codes("allowed_paths: []", &[]), "nothing_allowed");
    let mut tree = tree(&[]);
    tree.complete = false;
    assert_eq!(
        contract_warnings(&contract("allowed_paths: [src/b.py]"), &tree),
        [],
        "nothing follows from half a tree"
    );
}

#[test]
fn an_allowed_path_that_is_taken_back_whole_is_named() {
    for (allowed, against) in [
        ("src/", "src/"),
        ("src/a.py", "src/"),
        ("src/a.py", "**/*.py"),
        ("src/*.py", "src/**"),
        ("src/", "**"),
        ("new/", "new/**"),
    ] {
        let lines = format!("allowed_paths: ['{allowed}']\nforbidden_paths: ['{against}']");
        assert_eq!(
            codes(&lines, &[]),
            "allowed_path_covered",
            "{allowed} {against}"
        );
    }
    for (allowed, against) in [("src/", "src/a.py"), ("src/", "src/*"), ("src/", "lib/")] {
        let lines = format!("allowed_paths: ['{allowed}']\nforbidden_paths: ['{against}']");
        assert_eq!(codes(&lines, &[]), "", "{allowed} {against}");
    }
}

#[test]
fn everything_and_what_is_sensitive_in_it() {
    let all = codes("allowed_paths: ['**']", &[]);
    assert_eq!(all, "everything_allowed sensitive_path_reachable");
    assert_eq!(codes("allowed_paths: ['**/*']", &[]), all);
    assert!(
        said("allowed_paths: ['**']", &[])
            .contains("`**/.env`, `**/.env.*`, `**/secrets/`, `**/credentials/`, `deploy/` and")
    );
    assert_eq!(
        codes("", &["src/.env"]),
        "sensitive_path_reachable",
        "at any depth when it is there"
    );
    assert_eq!(codes("forbidden_paths: ['**/.env']", &["src/.env"]), "");
    assert_eq!(codes("", &[".env"]), "", "out of reach");
}

#[test]
fn files_that_steer_or_configure_are_named_when_allowed_by_name() {
    assert_eq!(
        codes("allowed_paths: [src/, AGENTS.md]", &["AGENTS.md"]),
        "steering_file_allowed"
    );
    assert_eq!(
        codes(
            "allowed_paths: [src/, .claude/settings.json]",
            &[".claude/settings.json"]
        ),
        "steering_file_allowed"
    );
    assert_eq!(
        codes("allowed_paths: [src/, conftest.py]", &["conftest.py"]),
        "runner_file_allowed"
    );
    assert_eq!(
        codes("allowed_paths: [src/, '*.md']", &["AGENTS.md"]),
        "",
        "a glob does not allow it"
    );
}

#[test]
fn checks_that_show_little() {
    assert_eq!(codes("verification_commands: []", &[]), "no_verification");
    assert_eq!(
        codes(
            "verification_commands: []\nno_test_rationale: words only",
            &[]
        ),
        ""
    );
    assert_eq!(
        codes("verification_commands: [python3 -m unittest]", &[]),
        "nothing_fails_before"
    );
    assert_eq!(
        codes("verification_commands: ['true']", &[]),
        "no_tests_counted nothing_fails_before"
    );
    // Each command counts for itself, and a chain of runners is counted part by part.
    assert_eq!(
        codes(
            "verification_commands: [python3 -m unittest, make test]",
            &[]
        ),
        "no_tests_counted nothing_fails_before"
    );
    assert_eq!(
        codes(
            "verification_commands: ['python3 -m unittest && pytest']",
            &[]
        ),
        "nothing_fails_before"
    );
    assert_eq!(
        codes(
            "verification_commands: ['python3 -m unittest && make test']",
            &[]
        ),
        "no_tests_counted nothing_fails_before"
    );
    assert_eq!(
        codes(
            "verification_commands: ['python3 -I \"$CTO_ORACLE/check.py\"']",
            &[]
        ),
        "nothing_fails_before"
    );
    assert_eq!(
        codes(
            "verification_commands: [{run: 'true', must_fail_before: true, expect: {junit: out.xml}}]",
            &[]
        ),
        ""
    );
    assert_eq!(
        codes(
            "verification_commands: [{run: 'python3 \"$CTO_ORACLE/c.py\"', must_fail_before: true}]",
            &[]
        ),
        ""
    );
}

#[test]
fn the_rest() {
    assert_eq!(codes("limits: {}", &[]), "no_wall_limit");
    assert_eq!(codes("forbidden_actions: [push]", &[]), "action_unlisted");
    assert_eq!(codes("mutation_mode: null", &[]), "mutation_mode_missing");
    assert_eq!(codes("risk_class: production", &[]), "risk_class_refused");
    let mut unfilled = contract("");
    unfilled.instruction = UNFILLED_INSTRUCTION.to_owned();
    assert_eq!(
        contract_warnings(&unfilled, &tree(&[]))[0].code,
        WarningCode::InstructionUnfilled
    );
}

#[test]
fn inputs_that_bring_too_much() {
    let of = |from: &str| {
        codes(
            &format!("inputs: [{{from: '{from}', mode: read-only}}]"),
            &[],
        )
    };
    for bad in [
        "/etc",
        "/home/user/x",
        "~/.ssh",
        "~/.ssh/id",
        "~/.cargo",
        "~/.config/gh",
        "~/.config",
        ".env",
        "config/secrets/",
        "/var/run/docker.sock",
        "x.sock",
    ] {
        assert_eq!(of(bad), "input_unsafe", "{bad}");
    }
    for good in [
        ".venv/",
        "node_modules/",
        "~/.cargo/registry",
        "~/go/pkg/mod",
        "vendor/",
        "/opt/toolchain",
        "/usr/share/x",
    ] {
        assert_eq!(of(good), "", "{good}");
    }
}

#[test]
fn warning_names_are_frozen() {
    let names: Vec<&str> = WarningCode::ALL.iter().map(|c| c.as_str()).collect();
    insta::assert_snapshot!(names.join(" "), @"script_not_frozen tests_not_frozen runner_file_allowed steering_file_allowed nothing_allowed everything_allowed allowed_path_missing allowed_path_is_directory allowed_path_covered sensitive_path_reachable no_verification no_tests_counted nothing_fails_before no_wall_limit input_unsafe instruction_unfilled action_unlisted mutation_mode_missing risk_class_refused");
}

proptest! {
    #[test]
    fn no_text_makes_it_panic_or_write_more_than_a_line(
        command in any::<String>(),
        from in any::<String>(),
        script in any::<String>(),
        path in "[a-z*?./\\[\\]\\\\]{1,20}",
    ) {
        let mut contract = contract("");
        contract.verification_commands[0].run = command;
        if let Ok(from) = cto_contract::input::InputPath::try_from(from) {
            contract.inputs.push(cto_contract::input::Input { from, mode: cto_contract::input::InputMode::Copy });
        }
        contract.allowed_paths.extend(path.parse());
        let mut tree = tree(&[&path]);
        tree.texts.insert("package.json".to_owned(), serde_json::json!({"scripts": {"test": script}}).to_string());
        for warning in contract_warnings(&contract, &tree) {
            prop_assert!(!warning.message.contains('\n'));
        }
    }
}
