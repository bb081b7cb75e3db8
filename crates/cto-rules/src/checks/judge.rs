//! Whether the checks hold: a pure function of what was observed before and after.

use std::collections::BTreeSet;

use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::task::{TaskContract, VerificationCommand};
use cto_contract::text::shorten;
use cto_contract::verification::{Canary, CanaryStatus, CommandResult, TestCounts, Verification};
use cto_contract::words::ClaimLevel;

/// What one execution of one command showed, before it is judged.
#[derive(Debug, Clone)]
pub struct Observed {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub timed_out: bool,
    pub output_capped: bool,
    pub seconds: f64,
    /// Counts of the runner or of the JUnit file; none when neither was there.
    pub tests: Option<TestCounts>,
    /// A runner was recognised or a JUnit file was named, so a count is due.
    pub count_due: bool,
    /// The command runs a frozen oracle outside the process of the code under test.
    pub is_oracle: bool,
    /// Set when it could not be started.
    pub start_failure: Option<String>,
}

/// Judges one execution against what its contract expects.
pub fn judge_command(command: &VerificationCommand, seen: &Observed) -> CommandResult {
    let reason = refusal(command, seen);
    CommandResult {
        command: command.run.clone(),
        exit_code: seen.exit_code,
        signal: seen.signal,
        passed: reason.is_none(),
        seconds: seen.seconds,
        tests: seen.tests.clone(),
        timed_out: seen.timed_out,
        output_capped: seen.output_capped,
        level: if seen.is_oracle {
            ClaimLevel::Verified
        } else {
            ClaimLevel::Inferred
        },
        reason,
    }
}

fn refusal(command: &VerificationCommand, seen: &Observed) -> Option<String> {
    let expect = &command.expect;
    if let Some(why) = &seen.start_failure {
        return Some(format!("it could not be started: {why}"));
    }
    if seen.timed_out {
        return Some(format!(
            "it was over its wall clock after {:.1} s",
            seen.seconds
        ));
    }
    if let Some(signal) = seen.signal {
        return Some(format!("it was ended by signal {signal}"));
    }
    if seen.exit_code != Some(expect.exit) {
        let code = seen
            .exit_code
            .map_or_else(|| "unknown".to_owned(), |c| c.to_string());
        return Some(format!("exit code {code}, expected {}", expect.exit));
    }
    let needs_count = seen.count_due || expect.min_tests.is_some() || !expect.tests.is_empty();
    if !needs_count {
        return None;
    }
    let Some(tests) = &seen.tests else {
        return Some("no test result could be read from its output".to_owned());
    };
    if tests.passed == 0 {
        return Some(format!(
            "no test passed ({} ran, {} skipped)",
            tests.ran, tests.skipped
        ));
    }
    if let Some(min) = expect.min_tests
        && tests.passed < min
    {
        return Some(format!(
            "{} tests passed, expected at least {min}",
            tests.passed
        ));
    }
    // A count without names can't show that a named test passed: missing evidence means blocked.
    let missing: Vec<&str> = expect
        .tests
        .iter()
        .filter(|t| !tests.passed_names.contains(t))
        .map(String::as_str)
        .collect();
    (!missing.is_empty())
        .then(|| format!("not passed by name: {}", shorten(&missing.join(", "), 300)))
}

/// The verdict on a whole verification.
#[derive(Debug, Clone)]
pub struct Judgement {
    pub verification: Verification,
    pub blockers: Vec<Blocker>,
}

/// Judges the checks: `after` must pass, `must_fail_before` commands must have failed before, no test may be lost,
/// and the canary must have been caught.
pub fn judge(
    contract: &TaskContract,
    baseline: Vec<CommandResult>,
    after: Vec<CommandResult>,
    names_after: Option<Vec<String>>,
    canary: Canary,
) -> Judgement {
    let mut verification = Verification {
        passed: None,
        baseline_failed: (!baseline.is_empty()).then(|| baseline.iter().any(|r| !r.passed)),
        lost_tests: lost(&baseline, &after, names_after),
        commands: after,
        baseline,
        canary: Some(canary),
        level: ClaimLevel::Absent,
        not_run: None,
    };
    let blockers = flaws(contract, &verification);
    let passed = blockers.is_empty() && !verification.commands.is_empty();
    verification.passed = Some(passed);
    verification.level = level_of(passed, &verification.commands);
    Judgement {
        verification,
        blockers,
    }
}

/// What the recorded results give when they are judged again: whether they passed, and how well that is supported.
pub fn judge_again(contract: &TaskContract, recorded: &Verification) -> (Option<bool>, ClaimLevel) {
    if recorded.not_run.is_some() {
        return (None, ClaimLevel::Absent);
    }
    let could_pass = |r: &CommandResult| {
        let is_wanted =
            |c: &VerificationCommand| c.run == r.command && r.exit_code == Some(c.expect.exit);
        let as_wanted = contract.verification_commands.iter().any(is_wanted);
        as_wanted && r.signal.is_none() && !r.timed_out
    };
    let passed = flaws(contract, recorded).is_empty()
        && !recorded.commands.is_empty()
        && recorded.commands.iter().all(could_pass);
    (Some(passed), level_of(passed, &recorded.commands))
}

/// `verified` by an oracle that passed, else what the weakest command gives.
fn level_of(passed: bool, commands: &[CommandResult]) -> ClaimLevel {
    let levels = || commands.iter().map(|r| r.level);
    match passed {
        false => ClaimLevel::Absent,
        true if levels().any(|level| level == ClaimLevel::Verified) => ClaimLevel::Verified,
        true => levels().min().unwrap_or(ClaimLevel::Absent),
    }
}

/// Everything that speaks against the checks.
fn flaws(contract: &TaskContract, seen: &Verification) -> Vec<Blocker> {
    let (baseline, after) = (&seen.baseline, &seen.commands);
    let mut blockers = Vec::new();
    let mut add =
        |code, subject: &str, message: String| blockers.push(Blocker::new(code, subject, message));
    for result in after.iter().filter(|r| !r.passed) {
        let why = result.reason.clone().unwrap_or_default();
        let code = if result.timed_out {
            BlockerCode::Timeout
        } else {
            BlockerCode::VerificationFailed
        };
        add(
            code,
            &result.command,
            format!("`{}`: {why}", shorten(&result.command, 120)),
        );
    }
    let expected: usize = contract
        .verification_commands
        .iter()
        .map(|c| c.repeat as usize)
        .sum();
    if after.iter().all(|r| r.passed) && after.len() != expected {
        add(
            BlockerCode::VerificationFailed,
            "",
            format!("{} of {expected} executions took place", after.len()),
        );
    }
    for command in contract
        .verification_commands
        .iter()
        .filter(|c| c.must_fail_before)
    {
        match baseline.iter().find(|r| r.command == command.run) {
            Some(before) if before.passed => {
                add(
                    BlockerCode::VerificationFailed,
                    &command.run,
                    format!(
                        "`{}` must fail before the change, but passed",
                        shorten(&command.run, 120)
                    ),
                );
            }
            Some(_) => {}
            None => add(
                BlockerCode::VerificationFailed,
                &command.run,
                format!(
                    "`{}` was not run before the change",
                    shorten(&command.run, 120)
                ),
            ),
        }
    }
    if let Some(first) = seen.lost_tests.first() {
        add(
            BlockerCode::VerificationFailed,
            first,
            format!(
                "passed before and no longer: {}",
                shorten(&seen.lost_tests.join(", "), 300)
            ),
        );
    }
    if let Some(canary) = &seen.canary
        && canary.status == CanaryStatus::Swallowed
    {
        add(
            BlockerCode::VerificationTampered,
            canary.runner.as_deref().unwrap_or(""),
            format!("a test that had to fail did not: {}", canary.detail),
        );
    }
    blockers
}

/// What came of one planted test.
#[derive(Debug, Clone)]
pub struct PlantedTest {
    pub runner: &'static str,
    pub status: CanaryStatus,
    pub detail: String,
}

/// Makes one result of all: one that was swallowed decides, and one that was caught speaks only for its own runner.
pub fn whole_canary(tried: &[PlantedTest]) -> Canary {
    let Some(first) = tried.first() else {
        return Canary {
            status: CanaryStatus::NotApplicable,
            runner: None,
            detail: "no command starts a test runner that the harness knows".to_owned(),
        };
    };
    let any = |status| tried.iter().any(|t| t.status == status);
    let status = match () {
        () if any(CanaryStatus::Swallowed) => CanaryStatus::Swallowed,
        () if any(CanaryStatus::Caught) => CanaryStatus::Caught,
        () => CanaryStatus::NotApplicable,
    };
    let mut runners: Vec<&str> = tried.iter().map(|t| t.runner).collect();
    runners.dedup();
    let detail = if tried.iter().all(|t| t.detail == first.detail) {
        first.detail.clone()
    } else {
        let all = tried.iter().map(|t| format!("{}: {}", t.runner, t.detail));
        all.collect::<Vec<_>>().join("; ")
    };
    Canary {
        status,
        runner: Some(runners.join(", ")),
        detail,
    }
}

/// Tests that passed on the baseline and are not among those that pass now.
fn lost(
    baseline: &[CommandResult],
    after: &[CommandResult],
    names_after: Option<Vec<String>>,
) -> Vec<String> {
    let names = |results: &[CommandResult]| -> BTreeSet<String> {
        results
            .iter()
            .filter_map(|r| r.tests.as_ref())
            .flat_map(|t| t.passed_names.iter().cloned())
            .collect()
    };
    let before = names(baseline);
    let mut now = names(after);
    // Where no run told names, nothing can be said about them.
    if now.is_empty() && names_after.is_none() {
        return Vec::new();
    }
    now.extend(names_after.into_iter().flatten());
    before.difference(&now).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> VerificationCommand {
        cto_contract::document::read("t", line.as_bytes()).unwrap()
    }

    fn seen(exit: i32, tests: Option<(u64, u64)>) -> Observed {
        Observed {
            exit_code: Some(exit),
            signal: None,
            timed_out: false,
            output_capped: false,
            seconds: 0.1,
            tests: tests.map(|(ran, passed)| TestCounts {
                ran,
                passed,
                ..TestCounts::default()
            }),
            count_due: true,
            is_oracle: false,
            start_failure: None,
        }
    }

    #[test]
    fn one_swallowed_canary_decides_and_each_runner_is_named() {
        use CanaryStatus::{Caught, NotApplicable, Swallowed};
        let whole = |tried: &[(&'static str, CanaryStatus)]| {
            let tried: Vec<PlantedTest> = tried
                .iter()
                .map(|&(runner, status)| PlantedTest {
                    runner,
                    status,
                    detail: format!("it was {status}"),
                })
                .collect();
            let canary = whole_canary(&tried);
            let runner = canary.runner.unwrap_or_default();
            format!("{} [{runner}] {}", canary.status, canary.detail)
        };
        assert_eq!(
            whole(&[]),
            "not_applicable [] no command starts a test runner that the harness knows"
        );
        assert_eq!(
            whole(&[("pytest", Caught), ("pytest", Caught)]),
            "caught [pytest] it was caught"
        );
        assert_eq!(
            whole(&[("pytest", Caught), ("go", Swallowed)]),
            "swallowed [pytest, go] pytest: it was caught; go: it was swallowed"
        );
        assert_eq!(
            whole(&[("pytest", Caught), ("go", NotApplicable)]),
            "caught [pytest, go] pytest: it was caught; go: it was not_applicable"
        );
    }

    #[test]
    fn exit_zero_alone_is_not_a_pass_for_a_test_runner() {
        let c = command("run: python3 -m unittest\nexpect: {min_tests: 2}\n");
        let why = |o: Observed| {
            judge_command(&c, &o)
                .reason
                .unwrap_or_else(|| "passed".into())
        };
        assert_eq!(why(seen(0, Some((2, 2)))), "passed");
        assert_eq!(
            why(seen(0, None)),
            "no test result could be read from its output"
        );
        assert_eq!(
            why(seen(0, Some((0, 0)))),
            "no test passed (0 ran, 0 skipped)"
        );
        assert_eq!(
            why(seen(0, Some((2, 1)))),
            "1 tests passed, expected at least 2"
        );
        assert_eq!(why(seen(1, Some((2, 2)))), "exit code 1, expected 0");
        assert_eq!(
            why(Observed {
                timed_out: true,
                ..seen(0, Some((2, 2)))
            }),
            "it was over its wall clock after 0.1 s"
        );
    }

    #[test]
    fn a_named_test_must_be_seen_to_pass() {
        let c = command("run: x\nexpect: {tests: [a.b]}\n");
        let mut o = seen(0, Some((1, 1)));
        assert!(judge_command(&c, &o).reason.is_some());
        o.tests = Some(TestCounts {
            ran: 1,
            passed: 1,
            passed_names: vec!["a.b".into()],
            ..TestCounts::default()
        });
        assert!(judge_command(&c, &o).passed);
    }

    /// All combinations of the five things that matter: only one of them passes.
    #[test]
    fn the_whole_table_of_a_verification() {
        let canary = |status| Canary {
            status,
            runner: None,
            detail: String::new(),
        };
        for bits in 0..64u32 {
            let [after_ok, before_failed, must_fail, canary_ok, kept, oracle] =
                [0, 1, 2, 3, 4, 5].map(|b| bits >> b & 1 == 1);
            let text = format!(
                "schema: cto.contract/v1\ntask_id: t\ntitle: t\ninstruction: t\nverification_commands: [{{run: x, must_fail_before: {must_fail}}}]\n"
            );
            let contract = TaskContract::read("t", text.as_bytes()).unwrap();
            let c = &contract.verification_commands[0];
            let names = |n: &[&str]| {
                Some(TestCounts {
                    ran: 9,
                    passed: 9,
                    passed_names: n.iter().map(|s| (*s).to_owned()).collect(),
                    ..TestCounts::default()
                })
            };
            let before = judge_command(
                c,
                &Observed {
                    tests: names(&["a"]),
                    ..seen(i32::from(before_failed), None)
                },
            );
            let after = judge_command(
                c,
                &Observed {
                    tests: names(if kept { &["a", "b"] } else { &["b"] }),
                    is_oracle: oracle,
                    ..seen(i32::from(!after_ok), None)
                },
            );
            let status = if canary_ok {
                CanaryStatus::Caught
            } else {
                CanaryStatus::Swallowed
            };
            let j = judge(&contract, vec![before], vec![after], None, canary(status));
            let want = after_ok && (before_failed || !must_fail) && canary_ok && kept;
            assert_eq!(j.verification.passed, Some(want), "{bits:06b}");
            assert_eq!(j.blockers.is_empty(), want, "{bits:06b}");
            let level = if !want {
                ClaimLevel::Absent
            } else if oracle {
                ClaimLevel::Verified
            } else {
                ClaimLevel::Inferred
            };
            assert_eq!(j.verification.level, level, "{bits:06b}");
            let again = judge_again(&contract, &j.verification);
            assert_eq!(again, (Some(want), level), "{bits:06b}");
        }
    }
    #[test]
    fn a_record_that_says_more_than_its_results_is_seen() {
        let text = "schema: cto.contract/v1\ntask_id: t\ntitle: t\ninstruction: t\nverification_commands: [x]\n";
        let contract = TaskContract::read("t", text.as_bytes()).unwrap();
        let after = judge_command(&contract.verification_commands[0], &seen(0, Some((1, 1))));
        let canary = whole_canary(&[]);
        let honest = judge(&contract, Vec::new(), vec![after], None, canary).verification;
        let good = (Some(true), ClaimLevel::Inferred);
        assert_eq!(judge_again(&contract, &honest), good);
        let edits: [fn(&mut Verification); 6] = [
            |v| v.commands[0].passed = false,
            |v| v.commands[0].exit_code = Some(1),
            |v| v.commands[0].timed_out = true,
            |v| v.commands[0].command = "y".to_owned(),
            |v| v.commands.clear(),
            |v| v.lost_tests.push("a".to_owned()),
        ];
        for (n, edit) in edits.iter().enumerate() {
            let mut lie = honest.clone();
            edit(&mut lie);
            assert_ne!(judge_again(&contract, &lie), good, "edit {n}");
        }
    }
}
