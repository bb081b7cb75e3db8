//! What `go test -v` and `go test -json` print.

use std::collections::BTreeMap;

use cto_contract::verification::TestCounts;
use serde::Deserialize;

use super::super::names::{Names, Outcome};

/// One line of `-json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Line {
    action: String,
    package: Option<String>,
    test: Option<String>,
}

/// Tests of one package, by name, since its last line.
type Tests = BTreeMap<String, Option<Outcome>>;

/// A package as `-json` tells it.
#[derive(Default)]
struct Package {
    tests: Tests,
    has_failed: bool,
}

/// Counts tests and their parts. A verdict counts once, and only for a test that was told to begin; a test without a
/// verdict has failed. None when no line of a package was found.
pub fn count_go(output: &str) -> Option<TestCounts> {
    let mut told = Told::default();
    let mut open = Tests::new();
    let mut packages: BTreeMap<String, Package> = BTreeMap::new();
    for line in output.lines() {
        if line.starts_with("{\"") {
            let Ok(event) = serde_json::from_str::<Line>(line) else {
                continue;
            };
            let package = packages
                .entry(event.package.unwrap_or_default())
                .or_default();
            told.any = true;
            match event.test {
                Some(test) => note(&mut package.tests, &event.action, test),
                None => package.has_failed |= event.action == "fail",
            }
        } else if let Some((_, name)) = line.split_once("=== RUN   ") {
            note(&mut open, "run", name.trim_end().to_owned());
        } else if let Some((action, name)) = verdict(line) {
            note(&mut open, action, name.to_owned());
        } else if let Some(package) = package_line(line)
            // While a test runs, such a line is its own print; only a crash leaves one open.
            && (line.starts_with("FAIL") || open.values().all(Option::is_some))
        {
            let has_failed = line.starts_with("FAIL");
            told.close(package, std::mem::take(&mut open), has_failed);
        }
    }
    for (name, package) in packages {
        told.close(&name, package.tests, package.has_failed);
    }
    if !told.any {
        return None;
    }
    told.close("", open, false);
    let mut counts = told.counts;
    told.names.tell(&mut counts);
    Some(counts)
}

#[derive(Default)]
struct Told {
    any: bool,
    counts: TestCounts,
    names: Names,
}

impl Told {
    /// A package that failed without a failed test did not build, or ended its process otherwise.
    fn close(&mut self, package: &str, tests: Tests, has_failed: bool) {
        self.any = true;
        let failed_before = self.counts.failed;
        for (name, verdict) in tests {
            let outcome = verdict.unwrap_or(Outcome::Failed);
            self.counts.ran += 1;
            *match outcome {
                Outcome::Passed => &mut self.counts.passed,
                Outcome::Skipped => &mut self.counts.skipped,
                Outcome::Failed => &mut self.counts.failed,
            } += 1;
            self.names.add(format!("{package}.{name}"), outcome);
        }
        if has_failed && self.counts.failed == failed_before {
            self.counts.unnamed_failures += 1;
        }
    }
}

fn note(package: &mut Tests, action: &str, name: String) {
    let verdict = match action {
        "run" => {
            package.entry(name).or_insert(None);
            return;
        }
        "pass" => Outcome::Passed,
        "fail" => Outcome::Failed,
        "skip" => Outcome::Skipped,
        _ => return,
    };
    // With `-count=2` a test comes twice, and a test may print a verdict itself: the worst counts.
    let badness = |outcome: Outcome| match outcome {
        Outcome::Passed => 0,
        Outcome::Skipped => 1,
        Outcome::Failed => 2,
    };
    if let Some(known) = package.get_mut(&name)
        && known.is_none_or(|known| badness(verdict) > badness(known))
    {
        *known = Some(verdict);
    }
}

/// Reads `--- PASS: TestX (0.00s)`, also behind what a test printed without ending its line.
fn verdict(line: &str) -> Option<(&'static str, &str)> {
    let (at, action) = [
        ("--- PASS: ", "pass"),
        ("--- FAIL: ", "fail"),
        ("--- SKIP: ", "skip"),
    ]
    .iter()
    .find_map(|(mark, action)| line.find(mark).map(|at| (at + mark.len(), *action)))?;
    let (name, time) = line[at..].trim_end().rsplit_once(" (")?;
    time.strip_suffix("s)")?.parse::<f64>().ok()?;
    Some((action, name))
}

/// Reads `ok  \tpkg\t0.003s`, `FAIL\tpkg [build failed]` and `?   \tpkg\t[no test files]`.
fn package_line(line: &str) -> Option<&str> {
    let (status, rest) = line.split_once('\t')?;
    if !["ok  ", "FAIL", "?   "].contains(&status) {
        return None;
    }
    rest.split(['\t', ' ']).next().filter(|p| !p.is_empty())
}
