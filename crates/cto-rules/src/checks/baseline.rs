//! The checks on the untouched baseline: whether they can tell anything about a change at all.

use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::task::TaskContract;
use cto_contract::text::{one_line, shorten};
use cto_contract::verification::CommandResult;

use super::Runner;
use super::by_name::has_only_old_failures;
use super::chain::Check;
use super::judge::all_checks;

/// The shell's code for a program that it does not find.
const NOT_FOUND: i32 = 127;
/// Most characters of the first error.
const ERROR_CHARS: usize = 300;
/// How many lines are searched for it.
const LINES_MAX: usize = 100_000;

/// Names every check that can't tell a good change from a bad one, before an agent costs anything.
pub fn judge_baseline(contract: &TaskContract, baseline: &[CommandResult]) -> Vec<Blocker> {
    let checks = all_checks(contract);
    let broken = checks.filter_map(|check| {
        let own = |r: &&CommandResult| r.command == check.command.run && r.part == check.part;
        let result = baseline.iter().find(own)?;
        is_broken(&check, result).then(|| blocker(result))
    });
    broken.collect()
}

/// Whether a check failed, and neither `must_fail_before` nor the names of its tests make that tell anything.
fn is_broken(check: &Check<'_>, result: &CommandResult) -> bool {
    if result.passed {
        return false;
    }
    // A script may be what the change has to write. No change brings a runner along.
    if check.command.must_fail_before {
        return result.tool_missing && check.runner.is_some();
    }
    let by_name = |tests| has_only_old_failures(tests, tests);
    let ended = result.exit_code.is_some() && !result.timed_out;
    !(ended && result.tests.as_ref().is_some_and(by_name))
}

fn blocker(result: &CommandResult) -> Blocker {
    let why = result.reason.as_deref().unwrap_or("it failed");
    let missing = match result.tool_missing {
        true => "; its program is not there",
        false => "",
    };
    // A command that ended well has no error, whatever words are in its output.
    let failed = result.exit_code != Some(0);
    let error = result.first_error.as_deref().filter(|_| failed);
    let error = error.map_or_else(String::new, |e| format!("; first error: {e}"));
    Blocker::new(
        BlockerCode::BaselineBroken,
        result.line(),
        format!(
            "your check `{}` does not pass on the untouched tree: {}{missing}{error}",
            shorten(&one_line(result.line()), 120),
            shorten(&one_line(why), 200),
        ),
    )
}

/// Whether a check failed because what it calls is not there.
pub fn is_tool_missing(check: &Check<'_>, exit_code: Option<i32>, output: &str) -> bool {
    let module = match &check.runner {
        Some(Runner::Pytest(_)) => Some("pytest"),
        Some(Runner::Unittest(_) | Runner::Cargo(_) | Runner::Node(_) | Runner::Go(_)) | None => {
            None
        }
    };
    match exit_code {
        Some(NOT_FOUND) => true,
        Some(0) | None => false,
        Some(_) => module.is_some_and(|module| {
            let line = format!(": No module named {module}");
            let mut lines = output.lines().rev().filter(|l| !l.trim().is_empty());
            lines.next().is_some_and(|l| l.trim_end().ends_with(&line))
        }),
    }
}

/// The line of an output that most likely says what is wrong: the first that speaks of an error, else the last.
pub fn first_error(output: &str) -> Option<String> {
    const WORDS: [&str; 8] = [
        "error",
        "not found",
        "no such",
        "no module",
        "cannot",
        "can't",
        "panicked",
        "fail",
    ];
    let speaks = |line: &&str| {
        let line = line.to_lowercase();
        WORDS.iter().any(|word| line.contains(word))
    };
    let lines = || {
        let all = output.lines().take(LINES_MAX);
        all.filter(|l| l.chars().any(char::is_alphanumeric))
    };
    let line = lines().find(speaks).or_else(|| lines().last())?;
    Some(shorten(&one_line(line.trim()), ERROR_CHARS))
}

#[cfg(test)]
mod tests;
