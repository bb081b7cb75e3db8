//! What `go test -v` and `go test -json` print.

use std::collections::BTreeMap;

use cto_contract::verification::TestCounts;
use serde::Deserialize;

use super::super::names::Names;

/// What became of a test that began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    Skipped,
}

/// One line of `-json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Line {
    action: String,
    package: Option<String>,
    test: Option<String>,
}

/// Tests of one package, by name, since its last line.
type Package = BTreeMap<String, Option<Verdict>>;

/// Counts tests and their parts. A verdict counts once, and only for a test that was told to begin; a test without a
/// verdict has failed. None when no line of a package was found.
pub fn count_go(output: &str) -> Option<TestCounts> {
    let mut told = Told::default();
    let mut open = Package::new();
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
            if let Some(test) = event.test {
                note(package, &event.action, test);
            }
        } else if let Some((_, name)) = line.split_once("=== RUN   ") {
            note(&mut open, "run", name.trim_end().to_owned());
        } else if let Some((action, name)) = verdict(line) {
            note(&mut open, action, name.to_owned());
        } else if let Some(package) = package_line(line)
            // While a test runs, such a line is its own print; only a crash leaves one open.
            && (line.starts_with("FAIL") || open.values().all(Option::is_some))
        {
            told.close(package, std::mem::take(&mut open));
        }
    }
    for (name, package) in packages {
        told.close(&name, package);
    }
    if !told.any {
        return None;
    }
    told.close("", open);
    told.counts.passed_names = told.names.into_sorted();
    Some(told.counts)
}

#[derive(Default)]
struct Told {
    any: bool,
    counts: TestCounts,
    names: Names,
}

impl Told {
    fn close(&mut self, package: &str, tests: Package) {
        self.any = true;
        for (name, verdict) in tests {
            self.counts.ran += 1;
            match verdict {
                Some(Verdict::Passed) => {
                    self.counts.passed += 1;
                    self.names.add(format!("{package}.{name}"));
                }
                Some(Verdict::Skipped) => self.counts.skipped += 1,
                Some(Verdict::Failed) | None => self.counts.failed += 1,
            }
        }
    }
}

fn note(package: &mut Package, action: &str, name: String) {
    let verdict = match action {
        "run" => {
            package.entry(name).or_insert(None);
            return;
        }
        "pass" => Verdict::Passed,
        "fail" => Verdict::Failed,
        "skip" => Verdict::Skipped,
        _ => return,
    };
    // With `-count=2` a test comes twice, and what is bad stays.
    if let Some(known) = package.get_mut(&name)
        && (known.is_none() || verdict == Verdict::Failed)
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
