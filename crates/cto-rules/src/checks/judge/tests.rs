use super::*;
use proptest::prelude::*;

fn contract(commands: &str) -> TaskContract {
    let text = format!(
        "schema: cto.contract/v1\ntask_id: t\ntitle: t\ninstruction: t\nverification_commands: {commands}\n"
    );
    TaskContract::read("t", text.as_bytes()).unwrap()
}

fn seen(exit: i32, tests: Option<TestCounts>) -> Observed {
    Observed {
        exit_code: Some(exit),
        signal: None,
        timed_out: false,
        output_capped: false,
        seconds: 0.1,
        tests,
        room: CheckRoom::Shared,
        start_failure: None,
        tool_missing: false,
    }
}

fn counts(ran: u64, passed: u64) -> Option<TestCounts> {
    Some(TestCounts {
        ran,
        passed,
        failed: ran - passed,
        unnamed_failures: ran - passed,
        ..TestCounts::default()
    })
}

/// Tests by name: `a` passed, `!a` failed, `?a` skipped, `!` failed without a name.
fn tests(names: &str) -> Option<TestCounts> {
    let mut out = TestCounts::default();
    for word in names.split_whitespace() {
        out.ran += 1;
        match word.split_at(usize::from(word.starts_with(['!', '?']))) {
            ("!", "") => {
                out.failed += 1;
                out.unnamed_failures += 1;
            }
            ("!", name) => {
                out.failed += 1;
                out.failed_names.push(name.to_owned());
            }
            ("?", name) => {
                out.skipped += 1;
                out.skipped_names.push(name.to_owned());
            }
            (_, name) => {
                out.passed += 1;
                out.passed_names.push(name.to_owned());
            }
        }
    }
    Some(out)
}

/// One execution of the first command; it ends well if no test failed.
fn ran(contract: &TaskContract, names: &str) -> CommandResult {
    let check = all_checks(contract).next().unwrap();
    let exit = i32::from(names.contains('!'));
    judge_command(&check, seen(exit, tests(names)))
}

fn caught(status: CanaryStatus) -> Option<Canary> {
    Some(Canary {
        status,
        runner: "pytest".to_owned(),
        detail: "so it was".to_owned(),
    })
}

/// The verdict on one command of a runner: `pass`, or what is held against the change.
fn verdict(command: &str, before: &str, after: &str) -> String {
    let contract = contract(&format!("[{command}]"));
    let (before, mut after) = (ran(&contract, before), ran(&contract, after));
    after.canary = caught(CanaryStatus::Caught);
    let judgement = judge(&contract, vec![before], vec![after]);
    let again = judge_again(&contract, &judgement.verification);
    assert_eq!(
        again,
        (judgement.verification.passed, judgement.verification.level)
    );
    let messages: Vec<&str> = judgement
        .blockers
        .iter()
        .map(|b| b.message.as_str())
        .collect();
    match messages.is_empty() {
        true => "pass".to_owned(),
        false => messages.join(" | "),
    }
}

#[test]
fn exit_zero_alone_is_not_a_pass_for_a_test_runner() {
    let contract = contract("[{run: python3 -m unittest, expect: {min_tests: 2}}]");
    let check = all_checks(&contract).next().unwrap();
    let why = |o: Observed| {
        judge_command(&check, o)
            .reason
            .unwrap_or_else(|| "passed".into())
    };
    assert_eq!(why(seen(0, counts(2, 2))), "passed");
    assert_eq!(
        why(seen(0, None)),
        "no test result could be read from its output"
    );
    assert_eq!(
        why(seen(0, counts(0, 0))),
        "no test passed (0 ran, 0 skipped)"
    );
    assert_eq!(
        why(seen(0, counts(2, 1))),
        "1 tests passed, expected at least 2"
    );
    assert_eq!(why(seen(1, counts(2, 2))), "exit code 1, expected 0");
    assert_eq!(
        why(Observed {
            timed_out: true,
            ..seen(0, counts(2, 2))
        }),
        "it was over its wall clock after 0.1 s"
    );
}

#[test]
fn a_named_test_must_be_seen_to_pass() {
    let contract = contract("[{run: x, expect: {tests: [a.b]}}]");
    let check = all_checks(&contract).next().unwrap();
    assert!(
        judge_command(&check, seen(0, counts(1, 1)))
            .reason
            .is_some()
    );
    assert!(judge_command(&check, seen(0, tests("a.b"))).passed);
}

#[test]
fn a_test_that_passed_before_must_pass_by_name() {
    let plain = "pytest";
    for (before, after, expected) in [
        ("a b", "a b", "pass"),
        ("a b", "a b c", "pass"),
        ("a b", "a", "passed before and no longer: b"),
        ("a b", "a ?b", "passed before and no longer: b"),
        ("a b", "a c", "passed before and no longer: b"),
        (
            "a b",
            "a !b",
            "`pytest`: exit code 1, expected 0 | fails and did not before: b",
        ),
        ("a ?b", "a ?b", "pass"),
        ("a ?b", "a b", "pass"),
        ("a ?b", "a", "was there before and is gone: b"),
        ("a", "a ?b", "pass"),
    ] {
        assert_eq!(
            verdict(plain, before, after),
            expected,
            "{before} -> {after}"
        );
    }
}

#[test]
fn what_failed_before_and_fails_the_same_is_not_held_against_the_change() {
    let plain = "pytest";
    for (before, after, expected) in [
        ("a !b", "a !b", "pass"),
        ("a !b", "a b", "pass"),
        ("a !b !c", "a !b c", "pass"),
        ("a !b", "a", "was there before and is gone: b"),
        ("a !b", "a ?b", "failed before and is skipped now: b"),
        (
            "a !b",
            "a !c",
            "`pytest`: exit code 1, expected 0 | fails and did not before: c | was there before and is gone: b",
        ),
        (
            "a !b",
            "a !b !c",
            "`pytest`: exit code 1, expected 0 | fails and did not before: c",
        ),
        // An error that is no test can hide anything.
        ("a !b", "a !b !", "`pytest`: exit code 1, expected 0"),
        ("a !b !", "a !b !", "`pytest`: exit code 1, expected 0"),
        ("!b", "!b", "`pytest`: no test passed (1 ran, 0 skipped)"),
    ] {
        assert_eq!(
            verdict(plain, before, after),
            expected,
            "{before} -> {after}"
        );
    }
}

#[test]
fn lines_that_name_more_than_the_sum_counts_are_not_the_runners_own() {
    let contract = contract("[{run: pytest}]");
    let judged = |before: Option<TestCounts>, after: Option<TestCounts>| {
        let check = all_checks(&contract).next().unwrap();
        let [before, after] = [before, after].map(|t| judge_command(&check, seen(0, t)));
        let judgement = judge(&contract, vec![before], vec![after]);
        let blockers = judgement.blockers.iter();
        blockers.map(|b| b.message.clone()).collect::<Vec<_>>()
    };
    let padded = |names: &str, passed: u64| tests(names).map(|t| TestCounts { passed, ..t });
    assert!(judged(tests("a b"), tests("a b c")).is_empty());
    let told = judged(tests("a b"), padded("a b", 1));
    assert!(told[0].contains("its lines name 2 tests"), "{told:?}");
    let told = judged(None, padded("a b", 1));
    assert!(told[0].contains("its own sum counts 1"), "{told:?}");
    // A project whose tests run tests has such lines before as well; no change may add to them.
    assert!(judged(padded("a b", 1), padded("a b", 1)).is_empty());
    assert!(!judged(padded("a b", 1), padded("a b c", 1)).is_empty());
}

#[test]
fn what_had_to_fail_before_must_pass_by_name() {
    let must = "{run: pytest, must_fail_before: true}";
    for (before, after, expected) in [
        ("a !b", "a b", "pass"),
        ("a !b", "a b c", "pass"),
        ("a !b", "a ?b", "failed before and does not pass now: b"),
        ("a !b", "a", "failed before and does not pass now: b"),
        ("a !b", "a c", "failed before and does not pass now: b"),
        (
            "a !b",
            "a !b",
            "`pytest`: exit code 1, expected 0 | failed before and does not pass now: b",
        ),
        ("a", "a", "`pytest` must fail before the change, but passed"),
        // Errors of loading, collecting or compiling are no tests.
        ("!", "a", "pass"),
        ("a !", "a b", "pass"),
    ] {
        assert_eq!(
            verdict(must, before, after),
            expected,
            "{before} -> {after}"
        );
    }
}

#[test]
fn a_test_may_go_that_the_contract_names() {
    let may = "{run: pytest, expect: {removed_tests: [b]}}";
    for (before, after, expected) in [
        ("a b", "a", "pass"),
        ("a b", "a ?b", "pass"),
        ("a !b", "a", "pass"),
        ("a b c", "a", "passed before and no longer: c"),
        (
            "a b",
            "a !b",
            "`pytest`: exit code 1, expected 0 | fails and did not before: b",
        ),
    ] {
        assert_eq!(verdict(may, before, after), expected, "{before} -> {after}");
    }
}

#[test]
fn where_tests_have_no_names_their_number_must_not_fall() {
    let contract = contract("[{run: pytest, expect: {removed_tests: [x]}}]");
    let check = all_checks(&contract).next().unwrap();
    let passes = |before: u64, after: u64| {
        let result = |n: u64| judge_command(&check, seen(0, counts(n, n)));
        let judgement = judge(&contract, vec![result(before)], vec![result(after)]);
        let basis = judgement.verification.commands[0].basis;
        assert_eq!(basis, CheckBasis::Counts);
        judgement.blockers.first().map(|b| b.message.clone())
    };
    assert_eq!(passes(5, 5), None);
    assert_eq!(passes(5, 4), None, "one may go");
    assert_eq!(
        passes(5, 3).as_deref(),
        Some("`pytest` passes 3 tests, 5 before, and no names tell which")
    );
}

#[test]
fn the_level_is_an_oracles_or_else_the_weakest_commands() {
    use ClaimLevel::{Inferred, SelfReported, Verified};
    let contract = contract("[pytest, make test, $CTO_ORACLE/check]");
    let level = |counted: bool, canary: Option<CanaryStatus>, oracle: bool| {
        let checks: Vec<Check<'_>> = all_checks(&contract).collect();
        let mut after = vec![
            judge_command(&checks[0], seen(0, tests("a"))),
            judge_command(&checks[1], seen(0, counted.then(|| tests("b")).flatten())),
            judge_command(
                &checks[2],
                Observed {
                    room: match oracle {
                        true => CheckRoom::Own,
                        false => CheckRoom::Shared,
                    },
                    ..seen(0, tests("c"))
                },
            ),
        ];
        after[1].canary = canary.and_then(caught);
        judge(&contract, Vec::new(), after).verification.level
    };
    use CanaryStatus::{Caught, NotApplicable};
    assert_eq!(level(false, None, false), SelfReported);
    assert_eq!(level(false, Some(NotApplicable), false), SelfReported);
    assert_eq!(level(false, Some(Caught), false), Inferred);
    assert_eq!(level(true, None, false), Inferred);
    assert_eq!(level(false, None, true), Verified);
}

#[test]
fn each_command_has_a_canary_of_its_own() {
    let contract = contract("[pytest, go test]");
    let blockers = |first: CanaryStatus, second: CanaryStatus, second_exit: i32| {
        let checks: Vec<Check<'_>> = all_checks(&contract).collect();
        let mut after: Vec<CommandResult> = checks
            .iter()
            .zip([0, second_exit])
            .map(|(check, exit)| judge_command(check, seen(exit, tests("a"))))
            .collect();
        after[0].canary = caught(first);
        after[1].canary = caught(second);
        let found = judge(&contract, Vec::new(), after).blockers;
        let codes = found.iter().map(|b| b.code.as_str());
        codes.collect::<Vec<_>>().join(" ")
    };
    use CanaryStatus::{Caught, NotApplicable, Swallowed};
    assert_eq!(blockers(Caught, Caught, 0), "");
    assert_eq!(blockers(Caught, NotApplicable, 0), "");
    assert_eq!(blockers(Caught, Swallowed, 0), "verification_tampered");
    assert_eq!(blockers(Swallowed, Caught, 0), "verification_tampered");
    // A command that fails by itself shows nothing of its canary.
    assert_eq!(blockers(Caught, Swallowed, 1), "verification_failed");
}

#[test]
fn a_chain_is_judged_part_by_part_and_as_one_where_it_must_be() {
    let judged = |terms: &str, before: [&str; 2], after: [&str; 2]| {
        let contract = contract(&format!("[{{run: pytest && go test, {terms}}}]"));
        let checks: Vec<Check<'_>> = all_checks(&contract).collect();
        let results = |names: [&str; 2]| -> Vec<CommandResult> {
            let pairs = checks.iter().zip(names);
            pairs
                .map(|(check, names)| {
                    judge_command(check, seen(i32::from(names.contains('!')), tests(names)))
                })
                .collect()
        };
        let judgement = judge(&contract, results(before), results(after));
        let found = judgement.blockers.iter().map(|b| b.message.as_str());
        found.collect::<Vec<_>>().join(" | ")
    };
    let must = "must_fail_before: true";
    assert_eq!(judged(must, ["a", "!b"], ["a", "b"]), "");
    assert_eq!(
        judged(must, ["a", "b"], ["a", "b"]),
        "`pytest && go test` must fail before the change, but passed"
    );
    assert_eq!(
        judged(must, ["a", "!b c"], ["a", "c"]),
        "failed before and does not pass now: b"
    );
    let some = "expect: {min_tests: 3, tests: [a, c]}";
    assert_eq!(judged(some, ["a", "b"], ["a", "b c"]), "");
    assert_eq!(
        judged(some, ["a", "b"], ["a", "b"]),
        "`pytest && go test` 2 tests passed, expected at least 3"
    );
    assert_eq!(
        judged(some, ["a", "b"], ["a", "b d"]),
        "`pytest && go test` not passed by name: c"
    );
}

#[test]
fn a_record_that_says_more_than_its_facts_is_seen() {
    let contract = contract("[pytest]");
    let mut after = ran(&contract, "a !b");
    after.canary = caught(CanaryStatus::Caught);
    let before = ran(&contract, "a !b");
    let honest = judge(&contract, vec![before], vec![after]).verification;
    let good = (Some(true), ClaimLevel::Inferred);
    assert_eq!(judge_again(&contract, &honest), good);
    let edits: [fn(&mut Verification); 14] = [
        |v| v.commands[0].passed = false,
        |v| v.commands[0].exit_code = Some(2),
        |v| v.commands[0].timed_out = true,
        |v| v.commands[0].command = "y".to_owned(),
        |v| v.commands[0].part = Some("pytest".to_owned()),
        |v| v.commands[0].level = ClaimLevel::SelfReported,
        |v| v.commands[0].basis = CheckBasis::Counts,
        |v| v.commands[0].start_failure = Some("x".to_owned()),
        |v| v.commands[0].canary = caught(CanaryStatus::Swallowed),
        |v| v.commands[0].tests = None,
        |v| v.commands.clear(),
        |v| v.baseline.clear(),
        |v| v.changed_tests.clear(),
        |v| v.baseline_failed = Some(false),
    ];
    for (n, edit) in edits.iter().enumerate() {
        let mut lie = honest.clone();
        edit(&mut lie);
        assert_ne!(judge_again(&contract, &lie), good, "edit {n}");
    }
}

/// What each of three tests is: absent, passed, failed, skipped.
fn three() -> impl Strategy<Value = String> {
    let one = prop::sample::select(vec!["", "", "!", "?"]);
    prop::collection::vec((one, any::<bool>()), 3).prop_map(|all| {
        let shown = all.iter().zip(["b", "c", "d"]);
        let shown = shown.filter(|((_, is_there), _)| *is_there);
        let mut out: Vec<String> = shown.map(|((mark, _), n)| format!("{mark}{n}")).collect();
        out.push("a".to_owned());
        out.join(" ")
    })
}

proptest! {
    /// Whatever a change does to tests, it passes only if each that passed before passes now, none fails anew, and with
    /// `must_fail_before` each that failed passes.
    #[test]
    fn no_test_is_lost_by_any_change(before in three(), after in three(), must in any::<bool>()) {
        let command = format!("{{run: pytest, must_fail_before: {must}}}");
        let (then, now) = (tests(&before).unwrap(), tests(&after).unwrap());
        let passes = |name: &String| now.passed_names.contains(name);
        let fails = |name: &String| now.failed_names.contains(name);
        let was_there = |names: &[String]| names.iter().all(|n| passes(n) || fails(n));
        let kept = then.passed_names.iter().all(passes)
            && then.skipped_names.iter().all(|n| passes(n) || now.skipped_names.contains(n))
            && match must {
                true => !then.failed_names.is_empty() && then.failed_names.iter().all(passes),
                false => was_there(&then.failed_names),
            };
        let none_new = now.failed_names.iter().all(|n| !must && then.failed_names.contains(n));
        prop_assert_eq!(verdict(&command, &before, &after) == "pass", kept && none_new);
    }

    #[test]
    fn judging_twice_gives_the_same(before in three(), after in three(), must in any::<bool>()) {
        let contract = contract(&format!("[{{run: pytest, must_fail_before: {must}}}]"));
        let once = judge(&contract, vec![ran(&contract, &before)], vec![ran(&contract, &after)]);
        let v = once.verification.clone();
        let twice = judge(&contract, v.baseline, v.commands);
        prop_assert_eq!(once.verification, twice.verification);
        prop_assert_eq!(once.blockers, twice.blockers);
    }
}
