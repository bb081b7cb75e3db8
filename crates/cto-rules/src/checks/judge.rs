//! Whether the checks hold: a pure function of what was observed before and after.
//!
//! What is recorded of an execution are facts and what they come to. The second is made from the first here, and made
//! again from the record by whoever verifies it.

use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::task::{TaskContract, VerificationCommand};
use cto_contract::text::shorten;
use cto_contract::verification::{
    Canary, CanaryStatus, ChangedTest, CheckBasis, CheckRoom, CommandResult, TestChange,
    TestCounts, Verification,
};
use cto_contract::words::ClaimLevel;

use super::by_name::{compare, has_only_old_failures, listed};
use super::chain::Check;
use super::oracle;
use crate::views::checks::sentence;

/// Most characters of a command in a message.
const COMMAND_CHARS: usize = 120;
/// Most characters of a list of tests in a message.
const TESTS_CHARS: usize = 300;

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
    /// Where it ran. A room of its own is made for an oracle that is there, and for nothing else.
    pub room: CheckRoom,
    /// Set when it could not be started.
    pub start_failure: Option<String>,
    pub tool_missing: bool,
}

/// Judges one execution against what its contract expects.
pub fn judge_command(check: &Check<'_>, seen: Observed) -> CommandResult {
    let facts = CommandResult {
        part: check.part.clone(),
        exit_code: seen.exit_code,
        signal: seen.signal,
        seconds: seen.seconds,
        tests: seen.tests,
        timed_out: seen.timed_out,
        output_capped: seen.output_capped,
        start_failure: seen.start_failure,
        tool_missing: seen.tool_missing,
        room: seen.room,
        ..CommandResult::unknown(&check.command.run)
    };
    judged(check, facts, None)
}

/// What the facts of one execution come to. `before` is the same check on the baseline: failures that it had already
/// do not fail the change.
pub fn judged(
    check: &Check<'_>,
    facts: CommandResult,
    before: Option<&CommandResult>,
) -> CommandResult {
    let reason = refusal(check, &facts, before);
    let basis = match &facts.tests {
        None => CheckBasis::ExitCode,
        Some(tests) if tests.passed_names.len() as u64 >= tests.passed => CheckBasis::Names,
        Some(_) => CheckBasis::Counts,
    };
    let is_caught = |c: &Canary| c.status == CanaryStatus::Caught;
    let is_planted = facts.canary.as_ref().is_some_and(is_caught);
    let level = match (oracle::is_outside(check.text(), facts.room), basis) {
        (true, _) => ClaimLevel::Verified,
        (false, CheckBasis::Names | CheckBasis::Counts) => ClaimLevel::Inferred,
        (false, CheckBasis::ExitCode) if is_planted => ClaimLevel::Inferred,
        (false, CheckBasis::ExitCode) => ClaimLevel::SelfReported,
    };
    CommandResult {
        passed: reason.is_none(),
        basis,
        level,
        reason,
        ..facts
    }
}

fn refusal(
    check: &Check<'_>,
    seen: &CommandResult,
    before: Option<&CommandResult>,
) -> Option<String> {
    let expect = &check.command.expect;
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
    if seen.exit_code != Some(expect.exit) && !is_known_failure(check.command, seen, before) {
        let code = seen
            .exit_code
            .map_or_else(|| "unknown".to_owned(), |c| c.to_string());
        return Some(format!("exit code {code}, expected {}", expect.exit));
    }
    let is_whole = check.part.is_none();
    let expects_tests = expect.min_tests.is_some() || !expect.tests.is_empty();
    let is_due = check.counts_tests() || (is_whole && expects_tests);
    if !is_due {
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
    contradiction(tests, before).or_else(|| is_whole.then(|| too_few(check.command, &[tests]))?)
}

/// Lines that name more tests as passed than the runner's own sum counts: somebody else printed them. What was so before
/// (a test that runs tests itself) is the project's own.
fn contradiction(tests: &TestCounts, before: Option<&CommandResult>) -> Option<String> {
    let surplus = |t: &TestCounts| (t.passed_names.len() as u64).saturating_sub(t.passed);
    let known = before?.tests.as_ref().map_or(0, surplus);
    (tests.failed == 0 && surplus(tests) > known).then(|| {
        format!(
            "its lines name {} tests as passed, and its own sum counts {}: what it runs prints lines of its own",
            tests.passed_names.len(),
            tests.passed
        )
    })
}

/// Whether a command failed only as it did before: the same exit code, and only tests that failed then.
fn is_known_failure(
    command: &VerificationCommand,
    seen: &CommandResult,
    before: Option<&CommandResult>,
) -> bool {
    let tests = before.and_then(|b| b.tests.as_ref().zip(seen.tests.as_ref()));
    let is_same = before.is_some_and(|b| b.exit_code == seen.exit_code && b.exit_code.is_some());
    !command.must_fail_before
        && is_same
        && tests.is_some_and(|(then, now)| has_only_old_failures(then, now))
}

/// Why the tests of a command, or of all its parts together, are not those that it must show.
fn too_few(command: &VerificationCommand, tests: &[&TestCounts]) -> Option<String> {
    let expect = &command.expect;
    let passed = tests
        .iter()
        .fold(0_u64, |sum, t| sum.saturating_add(t.passed));
    if let Some(min) = expect.min_tests
        && passed < min
    {
        return Some(format!("{passed} tests passed, expected at least {min}"));
    }
    // A count without names can't show that a named test passed: missing evidence means blocked.
    let is_missing = |name: &&String| !tests.iter().any(|t| t.passed_names.contains(name));
    let missing: Vec<&str> = expect
        .tests
        .iter()
        .filter(is_missing)
        .map(String::as_str)
        .collect();
    (!missing.is_empty()).then(|| {
        format!(
            "not passed by name: {}",
            shorten(&missing.join(", "), TESTS_CHARS)
        )
    })
}

/// The verdict on a whole verification.
#[derive(Debug, Clone)]
pub struct Judgement {
    pub verification: Verification,
    pub blockers: Vec<Blocker>,
}

/// Judges the checks: `after` must pass, `must_fail_before` commands must have failed before, no test may be lost, what
/// failed before must pass by name where it must, and every canary must have been caught.
pub fn judge(
    contract: &TaskContract,
    baseline: Vec<CommandResult>,
    after: Vec<CommandResult>,
) -> Judgement {
    let checks: Vec<Check<'_>> = all_checks(contract).collect();
    let baseline: Vec<CommandResult> = baseline
        .into_iter()
        .map(|facts| judged_by(&checks, facts, &[]))
        .collect();
    let commands: Vec<CommandResult> = after
        .into_iter()
        .map(|facts| judged_by(&checks, facts, &baseline))
        .collect();
    let compared = commands.iter().flat_map(|now| {
        let command = command_of(&checks, now);
        let before = baseline.iter().find(|b| b.is_same_check(now));
        let pair = command.zip(before);
        pair.map_or_else(Vec::new, |(command, before)| compare(command, before, now))
    });
    let mut verification = Verification {
        passed: None,
        baseline_failed: (!baseline.is_empty()).then(|| baseline.iter().any(|r| !r.passed)),
        changed_tests: listed(compared.collect()),
        commands,
        baseline,
        level: ClaimLevel::Absent,
        not_run: None,
    };
    let blockers = flaws(contract, &checks, &verification);
    let passed = blockers.is_empty() && !verification.commands.is_empty();
    verification.passed = Some(passed);
    verification.level = level_of(passed, &verification.commands);
    Judgement {
        verification,
        blockers,
    }
}

/// What the recorded facts give when they are judged again: whether they passed, and how well that is supported. A
/// record that differs from its own facts in anything supports nothing.
pub fn judge_again(contract: &TaskContract, recorded: &Verification) -> (Option<bool>, ClaimLevel) {
    if recorded.not_run.is_some() {
        return (None, ClaimLevel::Absent);
    }
    let (baseline, commands) = (recorded.baseline.clone(), recorded.commands.clone());
    let again = judge(contract, baseline, commands).verification;
    match again == *recorded {
        true => (again.passed, again.level),
        false => (Some(false), ClaimLevel::Absent),
    }
}

/// Everything that is started for a contract's commands.
pub fn all_checks(contract: &TaskContract) -> impl Iterator<Item = Check<'_>> {
    contract
        .verification_commands
        .iter()
        .flat_map(Check::all_of)
}

/// The same execution, judged afresh by its own check; one that belongs to no check has failed.
fn judged_by(
    checks: &[Check<'_>],
    facts: CommandResult,
    baseline: &[CommandResult],
) -> CommandResult {
    let own = checks
        .iter()
        .find(|c| c.command.run == facts.command && c.part == facts.part);
    let before = baseline.iter().find(|b| b.is_same_check(&facts));
    match own {
        Some(check) => judged(check, facts, before),
        None => CommandResult {
            passed: false,
            level: ClaimLevel::Absent,
            reason: Some("it is none of the contract's commands".to_owned()),
            ..facts
        },
    }
}

fn command_of<'c>(checks: &[Check<'c>], result: &CommandResult) -> Option<&'c VerificationCommand> {
    let mut checks = checks.iter();
    let check = checks.find(|c| c.command.run == result.command)?;
    Some(check.command)
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
fn flaws(contract: &TaskContract, checks: &[Check<'_>], seen: &Verification) -> Vec<Blocker> {
    let after = &seen.commands;
    let failed = |subject: &str, message: String| {
        Blocker::new(BlockerCode::VerificationFailed, subject, message)
    };
    let mut blockers: Vec<Blocker> = after
        .iter()
        .filter(|r| !r.passed)
        .map(|result| {
            let code = match result.timed_out {
                true => BlockerCode::Timeout,
                false => BlockerCode::VerificationFailed,
            };
            let why = result.reason.as_deref().unwrap_or_default();
            Blocker::new(
                code,
                result.line(),
                format!("`{}`: {why}", shorten(result.line(), COMMAND_CHARS)),
            )
        })
        .collect();
    let expected: usize = checks.iter().map(|c| c.command.repeat as usize).sum();
    if after.iter().all(|r| r.passed) && after.len() != expected {
        let message = format!("{} of {expected} executions took place", after.len());
        blockers.push(failed("", message));
    }
    let commands = contract.verification_commands.iter();
    blockers.extend(commands.filter_map(|command| {
        let why = not_as_before(command, seen).or_else(|| parts_show_too_little(command, after))?;
        let shown = shorten(&command.run, COMMAND_CHARS);
        Some(failed(&command.run, format!("`{shown}` {why}")))
    }));
    blockers.extend(TestChange::ALL.iter().filter_map(|change| {
        let (first, message) = told(*change, &seen.changed_tests)?;
        Some(failed(&first, message))
    }));
    blockers.extend(swallowed(seen));
    blockers
}

/// What a command had to be on the baseline, or to keep of it, and did not.
fn not_as_before(command: &VerificationCommand, seen: &Verification) -> Option<String> {
    let of = |results: &'_ [CommandResult]| -> Vec<CommandResult> {
        let own = results.iter().filter(|r| r.command == command.run);
        own.cloned().collect()
    };
    let before = of(&seen.baseline);
    if command.must_fail_before {
        if before.is_empty() {
            return Some("was not run before the change".to_owned());
        }
        if before.iter().all(|r| r.passed) {
            return Some("must fail before the change, but passed".to_owned());
        }
    }
    // Where tests have no names, their number must not fall.
    let may_go = command.expect.removed_tests.len() as u64;
    of(&seen.commands).iter().find_map(|now| {
        let then = before.iter().find(|b| b.is_same_check(now))?;
        let (then, now) = (then.tests.as_ref()?, now.tests.as_ref()?);
        let is_unnamed = (then.passed_names.len() as u64) < then.passed;
        (is_unnamed && now.passed.saturating_add(may_go) < then.passed).then(|| {
            format!(
                "passes {} tests, {} before, and no names tell which",
                now.passed, then.passed
            )
        })
    })
}

/// What all parts of a chain together had to show; a command that is no chain was judged by itself.
fn parts_show_too_little(command: &VerificationCommand, after: &[CommandResult]) -> Option<String> {
    let parts = after
        .iter()
        .filter(|r| r.command == command.run && r.part.is_some());
    let parts: Vec<&CommandResult> = parts.collect();
    if parts.is_empty() || parts.iter().any(|r| !r.passed) {
        return None;
    }
    let tests: Vec<&TestCounts> = parts.iter().filter_map(|r| r.tests.as_ref()).collect();
    // Each round has to show them.
    let rounds = (command.repeat as usize).max(1);
    let one_round = tests.len().div_ceil(rounds).max(1);
    tests
        .chunks(one_round)
        .find_map(|round| too_few(command, round))
}

/// The tests of one kind that are held against the change: the first, and a sentence of all.
fn told(change: TestChange, tests: &[ChangedTest]) -> Option<(String, String)> {
    if !change.is_held_against() {
        return None;
    }
    let said = sentence(change);
    let own = tests.iter().filter(|t| t.change == change);
    let names: Vec<&str> = own.map(|t| t.test.as_str()).collect();
    let first = names.first()?;
    let all = shorten(&names.join(", "), TESTS_CHARS);
    Some(((*first).to_owned(), format!("{said}: {all}")))
}

/// Canaries that were not seen to fail. A runner that failed by itself shows nothing of its canary; one that ended as if all
/// was well, and told of no planted test, is not in control of itself, whatever else speaks against it.
fn swallowed(seen: &Verification) -> Option<Blocker> {
    let all = seen.canaries();
    let is_swallowed = |(result, canary): &&(&CommandResult, &Canary)| {
        let ended_well = result.passed || (result.exit_code == Some(0) && !result.timed_out);
        ended_well && canary.status == CanaryStatus::Swallowed
    };
    let (result, canary) = all.iter().find(is_swallowed)?;
    let message = format!(
        "`{}`: a test that had to fail did not: {}",
        shorten(result.line(), COMMAND_CHARS),
        canary.detail
    );
    Some(Blocker::new(
        BlockerCode::VerificationTampered,
        canary.runner.as_str(),
        message,
    ))
}

#[cfg(test)]
mod tests;
