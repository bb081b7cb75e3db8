//! What node's runner prints: TAP, or its `spec` report.

use cto_contract::verification::TestCounts;

use super::super::names::{Names, Outcome};

/// Counts by the last block of sums, `# pass 8` or `ℹ pass 8`, and by name. A test marked `todo` is not passed.
pub fn count_node(output: &str) -> Option<TestCounts> {
    let lines: Vec<&str> = output.lines().collect();
    let at = lines.iter().rposition(|l| figure(l, "tests").is_some())?;
    let part = |name: &str| lines[at..].iter().find_map(|l| figure(l, name));
    let ran = part("tests")?;
    let passed = part("pass")?;
    let failed = part("fail")?.checked_add(part("cancelled").unwrap_or(0))?;
    let skipped = part("skipped")
        .unwrap_or(0)
        .checked_add(part("todo").unwrap_or(0))?;
    // The runner's own sums always add up.
    let sum = passed.checked_add(failed)?.checked_add(skipped)?;
    if sum > ran {
        return None;
    }
    let is_tap = lines[at].starts_with('#');
    let mut counts = TestCounts {
        ran,
        passed,
        failed,
        skipped,
        ..TestCounts::default()
    };
    let names = if is_tap {
        tap(&lines[..at])
    } else {
        spec(&lines[..at])
    };
    names.tell(&mut counts);
    let named = counts.failed_names.len() as u64;
    counts.unnamed_failures = failed.saturating_sub(named);
    Some(counts)
}

fn figure(line: &str, name: &str) -> Option<u64> {
    let rest = line
        .strip_prefix("# ")
        .or_else(|| line.strip_prefix("ℹ "))?;
    rest.strip_prefix(name)?.strip_prefix(' ')?.parse().ok()
}

/// Reads nested points: `# Subtest: name` opens one, `ok 1 - name` closes it, four blanks deeper are its own.
fn tap(lines: &[&str]) -> Names {
    let mut names = Names::default();
    let mut open: Vec<&str> = Vec::new();
    let mut last: Option<(String, Outcome)> = None;
    for line in lines {
        let body = line.trim_start_matches(' ');
        let depth = (line.len() - body.len()) / 4;
        // Whether a point is a suite is told after it.
        if body == "type: 'suite'" {
            last = None;
        }
        if let Some(name) = body.strip_prefix("# Subtest: ") {
            open.truncate(depth);
            open.push(name);
        } else if let Some((name, outcome)) = point(body) {
            flush(&mut names, last.take());
            open.truncate(depth);
            last = tested(&open, name, outcome);
        }
    }
    flush(&mut names, last);
    names
}

/// Reads `ok 1 - name`, `not ok 2 - name` and `ok 3 - name # SKIP why`.
fn point(body: &str) -> Option<(&str, Outcome)> {
    let (rest, outcome) = match body.strip_prefix("not ") {
        Some(rest) => (rest, Outcome::Failed),
        None => (body, Outcome::Passed),
    };
    let (number, name) = rest.strip_prefix("ok ")?.split_once(" - ")?;
    number.parse::<u64>().ok()?;
    let directive = [" # SKIP", " # TODO"].iter().filter_map(|d| name.find(d));
    Some(match directive.min() {
        Some(at) => (&name[..at], Outcome::Skipped),
        None => (name, outcome),
    })
}

/// A test by its full name; none for a file that could not be loaded, which the runner reports as a failed test.
fn tested(open: &[&str], name: &str, outcome: Outcome) -> Option<(String, Outcome)> {
    let is_file = open.is_empty() && file_name(name).is_some();
    (!is_file || outcome != Outcome::Failed).then(|| (full(open, name), outcome))
}

fn flush(names: &mut Names, last: Option<(String, Outcome)>) {
    if let Some((name, outcome)) = last {
        names.add(name, outcome);
    }
}

/// Reads `▶ name` as opening, `✔ name (1.2ms)` as passed, `✖ name (1.2ms)` as failed and `﹣ name (1.2ms) # SKIP` as
/// skipped, two blanks deeper for each level.
fn spec(lines: &[&str]) -> Names {
    let mut names = Names::default();
    let mut open: Vec<&str> = Vec::new();
    // Behind this line the failed ones are shown again.
    let again = |line: &&&str| **line != "✖ failing tests:";
    for line in lines.iter().take_while(again) {
        let body = line.trim_start_matches(' ');
        let depth = (line.len() - body.len()) / 2;
        let verdict = [
            ("✔ ", Outcome::Passed),
            ("✖ ", Outcome::Failed),
            ("﹣ ", Outcome::Skipped),
        ];
        let verdict = verdict.iter().find_map(|(mark, outcome)| {
            let text = body.strip_prefix(mark)?;
            let text = text.split(" # ").next().unwrap_or(text);
            Some((timeless(text)?, *outcome))
        });
        if let Some(name) = body.strip_prefix("▶ ") {
            open.truncate(depth);
            open.push(timeless(name).unwrap_or(name));
        } else if let Some((name, outcome)) = verdict {
            // What was opened before is closed by its own name; it is a suite or a test with parts.
            let closes = open.len() > depth && open[depth] == name;
            open.truncate(depth);
            if let (false, Some((name, outcome))) = (closes, tested(&open, name, outcome)) {
                names.add(name, outcome);
            }
        }
    }
    names
}

/// A name without the `(1.2ms)` behind it; none when something else stands there.
fn timeless(text: &str) -> Option<&str> {
    let (name, time) = text.rsplit_once(" (")?;
    time.strip_suffix("ms)")?.parse::<f64>().ok().map(|_| name)
}

fn full(open: &[&str], name: &str) -> String {
    let all: Vec<&str> = open.iter().copied().chain([name]).collect();
    let file = all.first().and_then(|n| file_name(n));
    let top = file
        .into_iter()
        .chain(all.iter().copied().skip(usize::from(file.is_some())));
    top.collect::<Vec<_>>().join(" > ")
}

/// A file that reports nothing itself is named by its path, which is another one in each copy of a tree.
fn file_name(name: &str) -> Option<&str> {
    let (_, file) = name.rsplit_once('/')?;
    let is_script = [".js", ".cjs", ".mjs", ".ts", ".cts", ".mts"]
        .iter()
        .any(|e| file.ends_with(e));
    (is_script && !name.contains(' ')).then_some(file)
}
