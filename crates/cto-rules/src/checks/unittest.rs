//! Python's `unittest`: recognising a call and planting a test that must fail. What it prints is read in [`output`].

mod output;

pub use output::count_unittest;

use super::alias::Alias;
use super::call::Call;
use super::canary::{
    CanaryPlan, Entry, EntryKind, FailureLine, NoPlan, Planted, TreeFacts, beneath, join, parent,
};

/// How many directories are looked at to find where the project's own tests stand.
const DIRECTORIES_MAX: usize = 64;

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
        let dir = match self.named_at.and_then(|at| self.call.args.get(at)) {
            Some(name) => directory_of(name, facts)?,
            None => {
                let start = beneath(self.start.as_deref().unwrap_or(""))?;
                facts.insist_directory(&start)?;
                self.home(start, facts)?
            }
        };
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
                path: join(&dir, &format!("{module}.py")),
                content,
            }],
            command: self.line(Some(&join(&dir, &module).replace('/', ".")), &more),
            failure: FailureLine {
                mark: "FAIL: ".to_owned(),
                name: format!("{test_name} ("),
            },
            test_name,
        })
    }

    /// Where the tests of a search stand, nearest to its start: a planted one is one among them. A directory is searched
    /// only as a package.
    fn home(&self, start: String, facts: &TreeFacts) -> Result<String, NoPlan> {
        let is_package = |entries: &[Entry]| {
            entries
                .iter()
                .any(|e| is_file(e) && e.name == "__init__.py")
        };
        let mut looked_at = vec![start.clone()];
        let mut next = 0;
        while let Some(dir) = looked_at.get(next).cloned() {
            let entries = facts.list(&dir)?;
            if entries.iter().any(|e| is_file(e) && self.finds(&e.name)) {
                return Ok(dir);
            }
            let below = entries.iter().filter(|e| e.kind == EntryKind::Directory);
            for name in below.map(|e| &e.name).filter(|n| !n.starts_with('.')) {
                let path = join(&dir, name);
                if looked_at.len() < DIRECTORIES_MAX && is_package(facts.list(&path)?) {
                    looked_at.push(path);
                }
            }
            next += 1;
        }
        Ok(start)
    }

    /// Whether the pattern of a search takes a file of this name; only patterns with one `*` are read.
    fn finds(&self, name: &str) -> bool {
        let parts = self.pattern.split_once('*');
        parts.is_some_and(|(head, tail)| {
            let middle = name.strip_prefix(head);
            middle.is_some_and(|rest| rest.ends_with(tail) && rest.ends_with(".py"))
        })
    }
}

fn is_file(entry: &Entry) -> bool {
    entry.kind == EntryKind::File
}

/// The directory of a test that is named as `a.b.Class.test` or `a/b.py`: all leading parts that are directories.
fn directory_of(name: &str, facts: &TreeFacts) -> Result<String, NoPlan> {
    if name.ends_with(".py") {
        let dir = parent(&beneath(name)?).to_owned();
        facts.insist_directory(&dir)?;
        return Ok(dir);
    }
    let mut dir = String::new();
    for part in name.split('.').filter(|part| !part.is_empty()) {
        let path = join(&dir, part);
        if facts.kind(&path)? != Some(EntryKind::Directory) {
            break;
        }
        dir = path;
    }
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_canary_is_where_the_runner_looks() {
        let plan = |c: &str| {
            let call = Call::read(c).unwrap();
            let mut facts = TreeFacts::default();
            facts.learn_list(String::new(), vec![entry("tests/")]);
            facts.learn_list("tests".to_owned(), Vec::new());
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

    fn entry(name: &str) -> Entry {
        let kind = match name.ends_with('/') {
            true => EntryKind::Directory,
            false => EntryKind::File,
        };
        let name = name.trim_end_matches('/').to_owned();
        Entry { name, kind }
    }

    #[test]
    fn it_stands_beside_the_tests_that_the_project_has() {
        let mut facts = TreeFacts::default();
        for (dir, names) in [
            ("", &["calc.py", "docs/", "src/", ".git/"][..]),
            ("docs", &["test_index.py"]),
            ("src", &["__init__.py", "tests/"]),
            ("src/tests", &["__init__.py", "test_calc.py", "unit/"]),
            ("src/tests/unit", &["test_more.py"]),
        ] {
            let entries = names.iter().map(|name| entry(name)).collect();
            facts.learn_list(dir.to_owned(), entries);
        }
        let plan = |line: &str| {
            let runner = recognise(&Call::read(line).unwrap()).unwrap();
            let plan = runner.canary("abc", &facts).unwrap();
            (plan.files[0].path.clone(), plan.command)
        };
        let (path, command) = plan("python3 -m unittest");
        assert_eq!(path, "src/tests/test_middle_blank_bytes.py");
        assert_eq!(command, "python3 -m unittest -v");
        let named = "src.tests.test_middle_blank_bytes";
        for line in [
            "python3 -m unittest src.tests.test_calc.T.test_adds",
            "python3 -m unittest src/tests/test_calc.py",
        ] {
            let (path, command) = plan(line);
            assert_eq!(path, "src/tests/test_middle_blank_bytes.py", "{line}");
            assert_eq!(command, format!("{line} {named} -v"));
        }
        // A directory that is no package is not searched.
        assert_eq!(
            plan("python3 -m unittest discover -s docs").0,
            "docs/test_middle_blank_bytes.py"
        );
        assert_eq!(
            plan("python3 -m unittest discover -p 'none_*.py'").0,
            "none_middle_blank_bytes.py"
        );
    }
}
