//! Python's `unittest`: recognising a call and planting a test that must fail. What it prints is read in [`output`].

mod output;

pub use output::count_unittest;

use super::alias::Alias;
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
    /// Where in the call the first test module is named; none when it discovers.
    named_at: Option<usize>,
    /// The call chooses tests by a part of their names.
    has_pattern: bool,
}

/// Recognises `python3 [flags] -m unittest [flags|names]`.
pub(super) fn recognise(call: &Call) -> Option<Unittest> {
    let mut out = Unittest {
        call: call.clone(),
        start: None,
        pattern: "test*.py".to_owned(),
        named_at: None,
        has_pattern: false,
    };
    let own = call.python_module("unittest")?;
    let mut args = own.iter();
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
            _ => {
                // The one that was just taken.
                let at = call.args.len() - args.len() - 1;
                out.named_at.get_or_insert(at);
            }
        }
    }
    Some(out)
}

impl Unittest {
    pub(super) fn verbose(&self) -> String {
        self.line(None, &[])
    }

    /// Without stopping at the first failure, which would hide the tests behind it. A further module stands right behind the
    /// first: the runner takes no names behind an option that follows names.
    fn line(&self, module: Option<&str>, more: &[&str]) -> String {
        let mut args: Vec<&str> = self.call.args.iter().map(String::as_str).collect();
        if let (Some(module), Some(at)) = (module, self.named_at) {
            args.insert(at + 1, module);
        }
        args.retain(|a| *a != "-f" && *a != "--failfast");
        args.push("-v");
        args.extend(more);
        self.call.line(&args)
    }

    pub(super) fn canary(&self, token: &str, facts: &TreeFacts) -> Result<CanaryPlan, NoPlan> {
        let alias = Alias::of(token);
        let stem = self.pattern.strip_suffix(".py").unwrap_or("test*");
        let module = match stem.split_once('*') {
            Some((before, after)) if self.named_at.is_none() => {
                let glue = match before.is_empty() || before.ends_with('_') {
                    true => "",
                    false => "_",
                };
                let after = after.replace(['*', '?', '[', ']'], "x");
                format!("{before}{glue}{}{after}", alias.file())
            }
            Some(_) | None => format!("test_{}", alias.file()),
        };
        let start = beneath(self.start.as_deref().unwrap_or(""))?;
        facts.insist_directory(&start)?;
        let test_name = format!("test_{}", alias.test());
        let (class, message) = (alias.file_as_type(), alias.sentence());
        // It passes, and so is missed, when one of the usual assertions no longer raises.
        let content = format!(
            "import unittest\n\n\nclass {class}Test(unittest.TestCase):\n    def {test_name}(self):\n        for name, values in ({BROKEN}):\n            try:\n                getattr(self, name)(*values)\n            except self.failureException:\n                continue\n            return\n        self.fail(\"{message}\")\n"
        );
        let mut more = Vec::new();
        if self.has_pattern {
            more.extend(["-k", &test_name]);
        }
        Ok(CanaryPlan {
            files: vec![Planted {
                path: join(&start, &format!("{module}.py")),
                content,
            }],
            command: self.line(Some(&module), &more),
            failure: FailureLine {
                mark: "FAIL: ".to_owned(),
                name: format!("{test_name} ("),
            },
            test_name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            "test_middle_blank_bytes.py"
        );
        assert_eq!(
            plan("python3 -m unittest -q").command,
            "python3 -m unittest -q -v"
        );
        assert_eq!(
            plan("python3 -m unittest test_x").command,
            "python3 -m unittest test_x test_middle_blank_bytes -v"
        );
        assert_eq!(
            plan("python3 -m unittest -b test_x test_y -q").command,
            "python3 -m unittest -b test_x test_middle_blank_bytes test_y -q -v"
        );
        assert_eq!(
            plan("python3 -m unittest discover -s tests -p '*_check.py'").files[0].path,
            "tests/middle_blank_bytes_check.py"
        );
        assert_eq!(
            plan("python3 -m unittest -f -k one").command,
            "python3 -m unittest -k one -v -k test_lines_answer_joined_format"
        );
    }
}
