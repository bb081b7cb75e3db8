//! What node's runner prints: TAP, or its `spec` report.

use cto_contract::verification::TestCounts;

use super::super::names::Names;

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
    let names = if is_tap {
        tap(&lines[..at])
    } else {
        spec(&lines[..at])
    };
    Some(TestCounts {
        ran,
        passed,
        failed,
        skipped,
        passed_names: names.into_sorted(),
    })
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
    let mut passed: Option<String> = None;
    for line in lines {
        let body = line.trim_start_matches(' ');
        let depth = (line.len() - body.len()) / 4;
        // Whether a point is a suite is told after it.
        if body == "type: 'suite'" {
            passed = None;
        }
        let point = body
            .strip_prefix("ok ")
            .or_else(|| body.strip_prefix("not ok "));
        let point = point.and_then(|p| p.split_once(" - "));
        if let Some(name) = body.strip_prefix("# Subtest: ") {
            open.truncate(depth);
            open.push(name);
        } else if let Some((number, name)) = point
            && number.parse::<u64>().is_ok()
        {
            flush(&mut names, passed.take());
            let directive = [" # SKIP", " # TODO"].iter().any(|d| name.contains(d));
            open.truncate(depth);
            if body.starts_with("ok ") && !directive {
                passed = Some(full(&open, name));
            }
        }
    }
    flush(&mut names, passed);
    names
}

fn flush(names: &mut Names, passed: Option<String>) {
    if let Some(name) = passed {
        names.add(name);
    }
}

/// Reads `▶ name` as opening and `✔ name (1.2ms)` as passed, two blanks deeper for each level.
fn spec(lines: &[&str]) -> Names {
    let mut names = Names::default();
    let mut open: Vec<&str> = Vec::new();
    for line in lines {
        let body = line.trim_start_matches(' ');
        let depth = (line.len() - body.len()) / 2;
        if let Some(name) = body.strip_prefix("▶ ") {
            open.truncate(depth);
            open.push(timeless(name).unwrap_or(name));
        } else if let Some(name) = body.strip_prefix("✔ ").and_then(timeless) {
            // What was opened before is closed by its own name; it is a suite or a test with parts.
            let closes = open.len() > depth && open[depth] == name;
            open.truncate(depth);
            if !closes {
                names.add(full(&open, name));
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
