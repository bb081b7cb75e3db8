//! Python's `unittest`: recognising a call, counting its output, planting a test that must fail.

use cto_contract::verification::TestCounts;

use super::call::Call;
use super::canary::{CanaryPlan, FailureLine, NoPlan, Planted, TreeFacts, beneath, join};

/// Assertions that must raise.
const BROKEN: &str = r#"("assertEqual", (1, 2)), ("assertNotEqual", (1, 1)), ("assertTrue", (False,)), ("assertFalse", (True,)), ("assertIs", (1, 2)), ("assertIn", (1, [])), ("assertIsNone", (1,)), ("assertRaises", (OSError, int))"#;

/// A plain call of `python3 -m unittest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unittest {
    call: Call,
    /// Directory that is searched, when the call discovers tests.
    start: Option<String>,
    /// File name pattern of discovery.
    pattern: String,
    /// Test modules named in the call; none when it discovers.
    named: bool,
    /// The call chooses tests by a part of their names.
    has_pattern: bool,
}

/// Recognises `python3 [flags] -m unittest [flags|names]`.
pub(super) fn recognise(call: &Call) -> Option<Unittest> {
    let mut out = Unittest {
        call: call.clone(),
        start: None,
        pattern: "test*.py".to_owned(),
        named: false,
        has_pattern: false,
    };
    let mut args = call.python_module("unittest")?.iter();
    let mut discover = false;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "discover" if !discover => discover = true,
            "-s" | "--start-directory" => out.start = Some(args.next()?.clone()),
            "-p" | "--pattern" => out.pattern = args.next()?.clone(),
            "-k" => {
                args.next()?;
                out.has_pattern = true;
            }
            "-t" | "--top-level-directory" | "--durations" => {
                args.next()?;
            }
            flag if flag.starts_with("-k") => out.has_pattern = true,
            flag if flag.starts_with('-') => {}
            name if discover => out.start = Some(name.to_owned()),
            _ => out.named = true,
        }
    }
    Some(out)
}

impl Unittest {
    pub(super) fn verbose(&self) -> String {
        self.line(&[])
    }

    /// Without stopping at the first failure, which would hide the tests behind it.
    fn line(&self, more: &[&str]) -> String {
        let own = self.call.args.iter().map(String::as_str);
        let own = own.filter(|a| *a != "-f" && *a != "--failfast");
        let args: Vec<&str> = own.chain(["-v"]).chain(more.iter().copied()).collect();
        self.call.line(&args)
    }

    pub(super) fn canary(&self, token: &str, facts: &TreeFacts) -> Result<CanaryPlan, NoPlan> {
        let stem = self.pattern.strip_suffix(".py").unwrap_or("test*");
        let module = if self.named || !stem.contains('*') {
            format!("test_cto_canary_{token}")
        } else {
            stem.replacen('*', &format!("_cto_canary_{token}"), 1)
                .replace(['*', '?', '[', ']'], "x")
        };
        let start = beneath(self.start.as_deref().unwrap_or(""))?;
        facts.insist_directory(&start)?;
        let test_name = format!("test_canary_{token}");
        // It passes, and so is missed, when one of the usual assertions no longer raises.
        let content = format!(
            "import unittest\n\n\nclass CtoCanary{token}(unittest.TestCase):\n    def {test_name}(self):\n        for name, values in ({BROKEN}):\n            try:\n                getattr(self, name)(*values)\n            except self.failureException:\n                continue\n            return\n        self.fail(\"cto canary {token}\")\n"
        );
        let mut more = Vec::new();
        if self.has_pattern {
            more.extend(["-k", &test_name]);
        }
        if self.named {
            more.push(&module);
        }
        Ok(CanaryPlan {
            files: vec![Planted {
                path: join(&start, &format!("{module}.py")),
                content,
            }],
            command: self.line(&more),
            failure: FailureLine {
                mark: "FAIL: ".to_owned(),
                name: format!("{test_name} ("),
            },
            test_name,
        })
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
        let plan = |c: &str| {
            let call = Call::read(c).unwrap();
            let mut facts = TreeFacts::default();
            let name = "tests".to_owned();
            let kind = super::super::EntryKind::Directory;
            facts.learn_list(String::new(), vec![super::super::Entry { name, kind }]);
            recognise(&call).unwrap().canary("abc", &facts).unwrap()
        };
        assert_eq!(
            plan("python3 -m unittest -q").files[0].path,
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
            plan("python3 -m unittest discover -s tests -p '*_check.py'").files[0].path,
            "tests/_cto_canary_abc_check.py"
        );
        assert_eq!(
            plan("python3 -m unittest -f -k one").command,
            "python3 -m unittest -k one -v -k test_canary_abc"
        );
    }

    proptest! {
        #[test]
        fn counting_never_panics(text in any::<String>()) {
            let _counts = count_unittest(&text);
        }
    }
}
