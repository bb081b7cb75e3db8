//! What pytest prints: its last line counts, the line of each test names.

use std::collections::BTreeMap;

use cto_contract::verification::TestCounts;

use super::super::names::{Names, Outcome};

/// Heads of the sections behind the lines of the tests. In them pytest shows again what tests printed.
const SECTIONS: [&str; 6] = [
    "FAILURES",
    "ERRORS",
    "PASSES",
    "XFAILURES",
    "warnings summary",
    "short test summary info",
];

/// Counts by the last summary line, and by name where the call asked for it.
///
/// A strict `xfail` that passes is a failure of pytest's own; one that is not strict counts as neither.
pub fn count_pytest(output: &str) -> Option<TestCounts> {
    let lines: Vec<&str> = output.lines().collect();
    let at = lines.iter().rposition(|l| summary(l).is_some())?;
    let mut counts = summary(lines[at])?;
    let lines = &lines[..at];
    let is_section =
        |l: &&str| l.starts_with('=') && SECTIONS.contains(&l.trim_matches(['=', ' ']));
    let first = lines.iter().position(is_section).unwrap_or(lines.len());
    let mut told = Told::read(&lines[..first], progress);
    if told.tests.is_empty() {
        let last = lines.iter().rposition(is_section);
        told = Told::read(&lines[last.map_or(0, |at| at + 1)..], short_summary);
    }
    counts.unnamed_failures = counts.failed.saturating_sub(told.failures);
    told.names().tell(&mut counts);
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

/// What one line says of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Passed,
    Failed,
    Skipped,
    /// While it was set up or taken down, or in a part of it: it may have passed before or after.
    Spoiled,
}

/// What the lines say of one test.
#[derive(Default)]
struct Test {
    passed: u32,
    failed: u32,
    skipped: u32,
    spoiled: bool,
}

/// Tests by name.
#[derive(Default)]
struct Told<'a> {
    tests: BTreeMap<&'a str, Test>,
    /// Lines that told of a failure.
    failures: u64,
}

impl<'a> Told<'a> {
    fn read(lines: &[&'a str], read: fn(&'a str) -> Option<(&'a str, Word)>) -> Self {
        let mut out = Self::default();
        for (name, word) in lines.iter().filter_map(|line| read(line)) {
            let test = out.tests.entry(name).or_default();
            match word {
                Word::Passed => test.passed += 1,
                Word::Failed => test.failed += 1,
                Word::Skipped => test.skipped += 1,
                Word::Spoiled => test.spoiled = true,
            }
            out.failures += u64::from(matches!(word, Word::Failed | Word::Spoiled));
        }
        out
    }

    fn names(self) -> Names {
        let mut names = Names::default();
        for (name, mut test) in self.tests {
            if test.spoiled && test.failed == 0 {
                test.passed = test.passed.saturating_sub(1);
                test.failed = 1;
            }
            let all = [
                (test.passed, Outcome::Passed),
                (test.skipped, Outcome::Skipped),
                (test.failed, Outcome::Failed),
            ];
            for (times, outcome) in all {
                (0..times).for_each(|_| names.add(name.to_owned(), outcome));
            }
        }
        names
    }
}

/// Reads `a.py::t PASSED  [ 50%]`, `a.py::t SKIPPED (why) [ 50%]` and `[gw0] [ 50%] PASSED a.py::t`.
fn progress(line: &str) -> Option<(&str, Word)> {
    let line = line.trim_end();
    if let Some(rest) = line.strip_prefix("[gw") {
        let (word, name) = rest.split_once("%] ")?.1.split_once(' ')?;
        return named(name, word_of(word)?);
    }
    let line = match line.rsplit_once('[') {
        Some((rest, percent)) if percent.ends_with("%]") => rest.trim_end(),
        _ => line,
    };
    if line.ends_with(')')
        && let Some(at) = [" SKIPPED (", " XFAIL (", " XPASS ("]
            .iter()
            .filter_map(|word| line.find(word))
            .min()
    {
        return named(&line[..at], Word::Skipped);
    }
    let part = [" SUBFAILED", " SUBFAIL"].iter().find_map(|w| line.find(w));
    if let Some(at) = part {
        return named(&line[..at], Word::Spoiled);
    }
    let (name, word) = line.rsplit_once(' ')?;
    named(name, word_of(word)?)
}

/// Reads `PASSED a.py::t` and `FAILED a.py::t[x - y] - why`.
fn short_summary(line: &str) -> Option<(&str, Word)> {
    let (word, rest) = line.trim_end().split_once(' ')?;
    let word = word_of(word)?;
    let name = match word {
        Word::Passed | Word::Skipped => rest,
        Word::Failed | Word::Spoiled => {
            let end = rest.find("] - ").map(|at| at + 1);
            let end = end.or_else(|| rest.find(" - "));
            &rest[..end.unwrap_or(rest.len())]
        }
    };
    named(name, word)
}

fn word_of(word: &str) -> Option<Word> {
    match word.split(['[', '(']).next()? {
        "PASSED" => Some(Word::Passed),
        "FAILED" => Some(Word::Failed),
        "SKIPPED" | "XFAIL" | "XPASS" => Some(Word::Skipped),
        "ERROR" | "SUBFAILED" | "SUBFAIL" => Some(Word::Spoiled),
        _ => None,
    }
}

/// A line of a file, such as an error of collecting it, is about no test.
fn named(name: &str, word: Word) -> Option<(&str, Word)> {
    name.contains("::").then_some((name, word))
}
