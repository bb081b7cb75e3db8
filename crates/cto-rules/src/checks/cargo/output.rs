//! What `cargo test` prints: one block a test program, each with a head, verdicts and a sum.

use std::collections::BTreeMap;

use cto_contract::verification::TestCounts;

use super::super::names::{Names, Outcome};

/// Counts over all test programs. Names carry the program, because two programs may hold the same name.
///
/// A sum that does not fit the number of tests which its program announced was printed by a test, and counts nothing.
pub fn count_cargo(output: &str) -> Option<TestCounts> {
    let mut counts: Option<TestCounts> = None;
    let mut names = Names::default();
    let mut labels: BTreeMap<String, u32> = BTreeMap::new();
    let mut label = String::new();
    let mut announced: Option<u64> = None;
    let mut any_announced = false;
    // What failed tests printed is shown behind the verdicts.
    let mut is_shown = false;
    let mut died = 0;
    for line in output.lines() {
        if let Some(new) = program(line) {
            let times = labels.entry(new.clone()).or_default();
            *times += 1;
            label = if *times == 1 {
                new
            } else {
                format!("{new} #{times}")
            };
            died += u64::from(announced.take().is_some());
            is_shown = false;
        } else if let Some(number) = head(line) {
            died += u64::from(announced.replace(number).is_some());
            any_announced = true;
            is_shown = false;
        } else if line == "failures:" {
            is_shown = true;
        } else if let Some(sum) = sum(line) {
            let fits = match announced {
                Some(number) => number == sum.ran,
                None => !any_announced,
            };
            if fits {
                announced = None;
                let total = counts.get_or_insert_default();
                total.ran = total.ran.checked_add(sum.ran)?;
                total.passed = total.passed.checked_add(sum.passed)?;
                total.failed = total.failed.checked_add(sum.failed)?;
                total.skipped = total.skipped.checked_add(sum.skipped)?;
            }
        } else if let Some((name, outcome)) = verdict(line).filter(|_| !is_shown) {
            let name = match label.as_str() {
                "" => name,
                label => format!("{label}::{name}"),
            };
            names.add(name, outcome);
        }
    }
    let mut counts = counts?;
    names.tell(&mut counts);
    // A program that announced tests and told no sum died.
    died += u64::from(announced.is_some());
    let named = counts.failed_names.len() as u64;
    counts.unnamed_failures = counts.failed.saturating_sub(named).saturating_add(died);
    Some(counts)
}

/// Reads `Running unittests src/lib.rs (target/debug/deps/name-0123)` and `Doc-tests name` as `name src/lib.rs` and
/// `name doc`.
fn program(line: &str) -> Option<String> {
    let line = line.trim();
    if let Some(name) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{name} doc"));
    }
    let rest = line.strip_prefix("Running ")?;
    let (source, path) = rest.strip_suffix(')')?.rsplit_once(" (")?;
    let source = source.strip_prefix("unittests ").unwrap_or(source);
    let file = path.rsplit('/').next().unwrap_or(path);
    let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
    Some(format!("{name} {source}"))
}

/// Reads `running 4 tests`.
fn head(line: &str) -> Option<u64> {
    let number = line.strip_prefix("running ")?;
    let number = number
        .strip_suffix(" tests")
        .or_else(|| number.strip_suffix(" test"))?;
    number.parse().ok()
}

/// Reads `test result: ok. 2 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.09s`.
fn sum(line: &str) -> Option<TestCounts> {
    let (_, items) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut out = TestCounts::default();
    for item in items.split("; ") {
        let Some((number, what)) = item.split_once(' ') else {
            continue;
        };
        let Ok(number) = number.parse::<u64>() else {
            continue;
        };
        match what {
            "passed" => out.passed = number,
            "failed" => out.failed = number,
            "ignored" => out.skipped = number,
            "measured" => {}
            _ => continue,
        }
        out.ran = out.ran.checked_add(number)?;
    }
    Some(out)
}

/// Reads `test a::b ... ok`. What can change without the test being another one is left out of its name: that it expects
/// a panic, and the line where an example begins.
fn verdict(line: &str) -> Option<(String, Outcome)> {
    let (name, verdict) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    // With `--report-time` the time stands behind it.
    let verdict = match verdict.split_once(" <") {
        Some((verdict, time)) if time.ends_with('>') => verdict,
        _ => verdict,
    };
    let outcome = match verdict {
        "ok" => Outcome::Passed,
        "FAILED" => Outcome::Failed,
        "ignored" => Outcome::Skipped,
        why if why.starts_with("ignored, ") => Outcome::Skipped,
        _ => return None,
    };
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    if let Some((before, rest)) = name.split_once(" (line ")
        && let Some((number, after)) = rest.split_once(')')
        && number.bytes().all(|b| b.is_ascii_digit())
    {
        return Some((format!("{before}{after}"), outcome));
    }
    Some((name.to_owned(), outcome))
}
