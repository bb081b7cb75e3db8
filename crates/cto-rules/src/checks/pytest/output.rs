//! What pytest prints: its last line counts, its short summary names.

use std::collections::BTreeSet;

use cto_contract::verification::TestCounts;

use super::super::names::Names;

/// Counts by the last summary line, and by name where the call asked for it.
///
/// A strict `xfail` that passes is a failure of pytest's own; one that is not strict counts as neither.
pub fn count_pytest(output: &str) -> Option<TestCounts> {
    let lines: Vec<&str> = output.lines().collect();
    let at = lines.iter().rposition(|l| summary(l).is_some())?;
    let mut counts = summary(lines[at])?;
    counts.passed_names = passed_names(&lines[..at]);
    Some(counts)
}

/// Reads `==== 4 failed, 7 passed, 1 skipped in 0.04s ====`, with or without its frame.
fn summary(line: &str) -> Option<TestCounts> {
    let line = line.trim_matches(['=', ' ']);
    let (items, time) = line.rsplit_once(" in ")?;
    let seconds = time.split(' ').next()?.strip_suffix('s')?;
    seconds.parse::<f64>().ok()?;
    let mut counts = TestCounts::default();
    if items == "no tests ran" {
        return Some(counts);
    }
    for item in items.split(", ") {
        let (number, what) = item.split_once(' ')?;
        let number: u64 = number.parse().ok()?;
        let mut other = 0;
        let kind = match what {
            "passed" => &mut counts.passed,
            "failed" | "error" | "errors" => &mut counts.failed,
            "skipped" => &mut counts.skipped,
            "xfailed" | "xpassed" => &mut other,
            "deselected" | "warning" | "warnings" | "rerun" | "subtests passed"
            | "subtests failed" | "subtests skipped" => continue,
            // Something like `14 tests collected`: nothing ran.
            _ => return None,
        };
        *kind = kind.checked_add(number)?;
        counts.ran = counts.ran.checked_add(number)?;
    }
    Some(counts)
}

fn passed_names(lines: &[&str]) -> Vec<String> {
    let header =
        |l: &&str| l.starts_with('=') && l.trim_matches(['=', ' ']) == "short test summary info";
    let told = match lines.iter().rposition(header) {
        Some(at) => &lines[at + 1..],
        None => lines,
    };
    // A test can pass and then fail while it is taken down.
    let errors: BTreeSet<&str> = told.iter().filter_map(|l| with(l, "ERROR")).collect();
    let is_error = |name: &str| {
        let behind = format!("{name} - ");
        errors.contains(name)
            || errors
                .range(behind.as_str()..)
                .next()
                .is_some_and(|e| e.starts_with(&behind))
    };
    let mut names = Names::default();
    for name in told.iter().filter_map(|l| with(l, "PASSED")) {
        if !is_error(name) {
            names.add(name.to_owned());
        }
    }
    names.into_sorted()
}

/// The name of a test with this outcome in `PASSED a.py::t`, `a.py::t PASSED  [ 50%]` or `[gw0] [ 50%] PASSED a.py::t`.
fn with<'a>(line: &'a str, outcome: &str) -> Option<&'a str> {
    let line = line.trim_end();
    let line = match line.rsplit_once('[') {
        Some((rest, percent)) if percent.ends_with("%]") => rest.trim_end(),
        _ => line,
    };
    let before = |text: &'a str| text.strip_prefix(outcome)?.strip_prefix(' ');
    let name = if line.starts_with("[gw") {
        before(line.split_once("%] ")?.1)?
    } else {
        before(line).or_else(|| line.strip_suffix(outcome)?.strip_suffix(' '))?
    };
    name.contains("::").then_some(name)
}
