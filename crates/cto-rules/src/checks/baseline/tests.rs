use super::*;
use crate::checks::{Observed, judge_command};
use cto_contract::verification::{CheckRoom, TestCounts};
use proptest::prelude::*;

/// What is said of one command on the baseline; `fine` if it can tell something.
fn said(command: &str, exit: i32, tests: Option<TestCounts>, output: &str) -> String {
    let text = format!(
        "schema: cto.contract/v1\ntask_id: t\ntitle: t\ninstruction: t\nverification_commands: [{command}]\n"
    );
    let contract = TaskContract::read("t", text.as_bytes()).unwrap();
    let check = all_checks(&contract).next().unwrap();
    let mut result = judge_command(
        &check,
        Observed {
            exit_code: Some(exit),
            signal: None,
            timed_out: false,
            output_capped: false,
            seconds: 0.1,
            tests,
            room: CheckRoom::Shared,
            start_failure: None,
            tool_missing: is_tool_missing(&check, Some(exit), output),
        },
    );
    result.first_error = first_error(output);
    let found = judge_baseline(&contract, &[result]);
    found
        .first()
        .map_or_else(|| "fine".to_owned(), |b| b.message.clone())
}

fn tests(passed: &[&str], failed: &[&str], unnamed: u64) -> Option<TestCounts> {
    let names = |n: &[&str]| n.iter().map(|s| (*s).to_owned()).collect();
    Some(TestCounts {
        ran: (passed.len() + failed.len()) as u64 + unnamed,
        passed: passed.len() as u64,
        failed: failed.len() as u64 + unnamed,
        passed_names: names(passed),
        failed_names: names(failed),
        unnamed_failures: unnamed,
        ..TestCounts::default()
    })
}

#[test]
fn a_check_that_fails_before_is_broken_unless_something_explains_it() {
    let must = |run: &str| format!("{{run: {run}, must_fail_before: true}}");
    assert_eq!(said("make test", 0, None, ""), "fine");
    assert_eq!(
        said(
            "make test",
            2,
            None,
            "make: *** No rule to make target 'test'.  Stop.\n"
        ),
        "your check `make test` does not pass on the untouched tree: exit code 2, expected 0; first error: make: *** No rule to make target 'test'.  Stop."
    );
    assert_eq!(said(&must("make test"), 2, None, ""), "fine");
    // Names tell what failed already.
    assert_eq!(said("pytest", 1, tests(&["a"], &["b"], 0), ""), "fine");
    assert_eq!(said("pytest", 1, tests(&[], &["b"], 0), ""), "fine");
    for broken in [tests(&["a"], &["b"], 1), tests(&["a"], &[], 1), None] {
        assert_ne!(said("pytest", 1, broken, ""), "fine");
    }
}

#[test]
fn a_missing_runner_is_explained_by_nothing() {
    let missing = "sh: 1: pytest: not found\n";
    assert_eq!(
        said("pytest", 127, None, missing),
        "your check `pytest` does not pass on the untouched tree: exit code 127, expected 0; its program is not there; first error: sh: 1: pytest: not found"
    );
    let must = |run: &str| format!("{{run: {run}, must_fail_before: true}}");
    assert_ne!(said(&must("pytest"), 127, None, missing), "fine");
    let module = "/usr/bin/python3: No module named pytest\n";
    assert_ne!(said(&must("python3 -m pytest"), 1, None, module), "fine");
    // What the change has to write may be missing.
    assert_eq!(
        said(&must("./check.sh"), 127, None, "sh: ./check.sh: not found"),
        "fine"
    );
    let other = "E   ModuleNotFoundError: No module named 'pytest'\n1 error in 0.1s\n";
    assert_eq!(
        said(&must("python3 -m pytest"), 2, tests(&[], &[], 1), other),
        "fine"
    );
}

#[test]
fn the_first_line_that_speaks_of_an_error_is_told() {
    let first = |text: &str| first_error(text).unwrap_or_default();
    assert_eq!(
        first("collecting\nE  ImportError: x\nFAILED\n"),
        "E  ImportError: x"
    );
    assert_eq!(first("one\ntwo\n----\n\n"), "two");
    assert_eq!(first(""), "");
    assert!(!first("\u{1b}[31merror\u{1b}[0m\n").contains('\u{1b}'));
}

proptest! {
    #[test]
    fn the_first_error_is_one_short_line(text in any::<String>()) {
        let line = first_error(&text).unwrap_or_default();
        prop_assert!(line.chars().count() <= ERROR_CHARS + 1 && !line.contains('\n'));
    }
}
