//! Python's `unittest`: recognising a call, counting its output, planting a test that must fail.

use cto_contract::verification::TestCounts;

/// A plain call of `python3 -m unittest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unittest {
    /// Directory that is searched, when the call discovers tests.
    start: Option<String>,
    /// File name pattern of discovery.
    pattern: String,
    /// Test modules named in the call; none when it discovers.
    named: bool,
}

/// A canary: the file to plant and the call that must find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanaryPlan {
    pub path: String,
    pub content: String,
    pub command: String,
    /// Text that the output must hold when the canary ran and failed.
    pub evidence: String,
    /// Name of the planted test, to leave it out of the count.
    pub test_name: String,
}

/// Recognises `python3 [flags] -m unittest [flags|names]`.
pub(super) fn recognise(words: &[String]) -> Option<Unittest> {
    let (program, rest) = words.split_first()?;
    let base = program.rsplit('/').next().unwrap_or(program);
    if !(base == "python"
        || base
            .strip_prefix("python3")
            .is_some_and(|v| v.chars().all(|c| c == '.' || c.is_ascii_digit())))
    {
        return None;
    }
    let module = rest.iter().position(|w| w == "-m")?;
    if !rest[..module].iter().all(|w| w.starts_with('-'))
        || rest.get(module + 1).map(String::as_str) != Some("unittest")
    {
        return None;
    }
    let mut call = Unittest {
        start: None,
        pattern: "test*.py".to_owned(),
        named: false,
    };
    let mut args = rest[module + 2..].iter();
    let mut discover = false;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "discover" if !discover => discover = true,
            "-s" | "--start-directory" => call.start = Some(args.next()?.clone()),
            "-p" | "--pattern" => call.pattern = args.next()?.clone(),
            "-t" | "--top-level-directory" | "-k" | "--durations" => {
                args.next()?;
            }
            flag if flag.starts_with('-') => {}
            name if discover => call.start = Some(name.to_owned()),
            _ => call.named = true,
        }
    }
    Some(call)
}

impl Unittest {
    pub(super) fn canary(&self, command: &str, token: &str) -> CanaryPlan {
        let stem = self.pattern.strip_suffix(".py").unwrap_or("test*");
        let module = if self.named || !stem.contains('*') {
            format!("test_cto_canary_{token}")
        } else {
            stem.replacen('*', &format!("_cto_canary_{token}"), 1)
                .replace(['*', '?', '[', ']'], "x")
        };
        let file = format!("{module}.py");
        let path = match &self.start {
            Some(dir) if dir != "." => format!("{}/{file}", dir.trim_end_matches('/')),
            _ => file,
        };
        let test_name = format!("test_canary_{token}");
        let content = format!(
            "import unittest\n\n\nclass CtoCanary{token}(unittest.TestCase):\n    def {test_name}(self):\n        self.fail(\"cto canary {token}\")\n"
        );
        let command = if self.named {
            format!("{command} -v {module}")
        } else {
            format!("{command} -v")
        };
        CanaryPlan {
            path,
            content,
            command,
            evidence: format!("FAIL: {test_name}"),
            test_name,
        }
    }
}

/// Counts what a run of unittest printed, by its summary, and by name where it was told to be verbose.
pub fn count_unittest(output: &str) -> Option<TestCounts> {
    let ran = output.lines().rev().find_map(|line| {
        let rest = line.strip_prefix("Ran ")?;
        let (number, rest) = rest.split_once(' ')?;
        rest.starts_with("test")
            .then(|| number.parse::<u64>().ok())?
    })?;
    let summary = output
        .lines()
        .rev()
        .find(|l| l.starts_with("OK") || l.starts_with("FAILED") || l.starts_with("NO TESTS RAN"))
        .unwrap_or("");
    let part = |name: &str| -> u64 {
        summary
            .split_once('(')
            .map_or("", |(_, inside)| inside.trim_end_matches(')'))
            .split(", ")
            .find_map(|item| item.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
            .unwrap_or(0)
    };
    let failed = part("failures") + part("errors") + part("unexpected successes");
    let skipped = part("skipped");
    let expected_failures = part("expected failures");
    Some(TestCounts {
        ran,
        failed,
        skipped,
        passed: ran.saturating_sub(failed + skipped + expected_failures),
        passed_names: passed_names(output),
    })
}

/// Reads `name (module.Class) ... ok` lines, whose name may stand on the line before when a docstring is shown.
fn passed_names(output: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut last_header: Option<&str> = None;
    for line in output.lines() {
        let (head, verdict) = line
            .rsplit_once(" ... ")
            .map_or((line, None), |(h, v)| (h, Some(v.trim())));
        if is_header(head) {
            last_header = Some(head);
        }
        if verdict == Some("ok")
            && let Some(header) = last_header.take()
        {
            names.push(full_name(header));
        }
        if names.len() >= 100_000 {
            break;
        }
    }
    names.sort();
    names.dedup();
    names
}

fn is_header(text: &str) -> bool {
    text.split_once(" (")
        .is_some_and(|(name, rest)| !name.is_empty() && !name.contains(' ') && rest.ends_with(')'))
}

/// Newer versions print `name (module.Class.name)`, older ones `name (module.Class)`; both become the first.
fn full_name(header: &str) -> String {
    let (name, rest) = header.split_once(" (").unwrap_or((header, ""));
    let class = rest.trim_end_matches(')');
    if class.rsplit('.').next() == Some(name) {
        class.to_owned()
    } else {
        format!("{class}.{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VERBOSE: &str = "test_a (test_s.T.test_a) ... ok\ntest_b (test_s.T.test_b)\nSays what it does. ... ok\ntest_c (test_s.T) ... FAIL\ntest_d (test_s.T.test_d) ... skipped 'no'\n\n======\nFAIL: test_c (test_s.T)\n------\nRan 4 tests in 0.001s\n\nFAILED (failures=1, skipped=1)\n";

    #[test]
    fn a_verbose_run_is_counted_by_name() {
        let counts = count_unittest(VERBOSE).unwrap();
        assert_eq!(
            (counts.ran, counts.passed, counts.failed, counts.skipped),
            (4, 2, 1, 1)
        );
        assert_eq!(counts.passed_names, ["test_s.T.test_a", "test_s.T.test_b"]);
    }

    #[test]
    fn zero_tests_are_counted_as_zero_and_silence_as_nothing() {
        assert_eq!(
            count_unittest("Ran 0 tests in 0.000s\n\nNO TESTS RAN\n")
                .unwrap()
                .passed,
            0
        );
        assert_eq!(count_unittest(""), None);
    }

    #[test]
    fn the_canary_is_where_the_runner_looks() {
        let plan = |c: &str| super::super::Runner::recognise(c).unwrap().canary(c, "abc");
        assert_eq!(
            plan("python3 -m unittest -q").path,
            "test_cto_canary_abc.py"
        );
        assert_eq!(
            plan("python3 -m unittest -q").command,
            "python3 -m unittest -q -v"
        );
        assert_eq!(
            plan("python3 -m unittest test_x").command,
            "python3 -m unittest test_x -v test_cto_canary_abc"
        );
        assert_eq!(
            plan("python3 -m unittest discover -s tests -p '*_check.py'").path,
            "tests/_cto_canary_abc_check.py"
        );
    }

    proptest! {
        #[test]
        fn counting_never_panics(text in any::<String>()) {
            let _counts = count_unittest(&text);
        }
    }
}
