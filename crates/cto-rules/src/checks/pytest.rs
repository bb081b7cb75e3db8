//! pytest: recognising a call and planting a test that must fail. What it prints is read in [`output`].

mod config;
mod marks;
mod output;

pub use output::count_pytest;

use config::Config;

use super::alias::Alias;
use super::call::Call;
use super::canary::{
    CanaryPlan, Entry, EntryKind, FailureLine, NoPlan, Planted, TreeFacts, beneath, join, parent,
};

/// Names each test on a line of its own with its outcome and runs all of them, whatever a project's own `addopts` say
/// about being quiet, showing what tests print, or stopping early.
const BY_NAME: [&str; 7] = [
    "--verbosity=1",
    "-rpfEsxX",
    "--color=no",
    "--maxfail=0",
    "--capture=fd",
    "-o",
    "console_output_style=progress",
];
/// Keeps the cache out of the tree, which would end dirty. pytest itself expands the variable.
const CACHE: [&str; 2] = ["-o", "cache_dir=$TMPDIR/pytest-cache"];

/// Options whose value is the next word.
const VALUED: &[&str] = &[
    "--assert",
    "--basetemp",
    "--capture",
    "--code-highlight",
    "--color",
    "--config-file",
    "--confcutdir",
    "--cov-config",
    "--cov-fail-under",
    "--cov-report",
    "--deselect",
    "--dist",
    "--doctest-glob",
    "--doctest-report",
    "--durations",
    "--durations-min",
    "--ignore",
    "--ignore-glob",
    "--import-mode",
    "--junit-prefix",
    "--junit-xml",
    "--junitprefix",
    "--junitxml",
    "--lfnf",
    "--last-failed-no-failures",
    "--log-cli-level",
    "--log-file",
    "--log-file-level",
    "--log-level",
    "--maxfail",
    "--maxprocesses",
    "--numprocesses",
    "--override-ini",
    "--pastebin",
    "--pdbcls",
    "--pythonwarnings",
    "--rootdir",
    "--show-capture",
    "--tb",
    "--timeout",
    "--timeout-method",
    "--verbosity",
];

/// Options that are known to stand alone.
const ALONE: &[&str] = &[
    "--cache-clear",
    "--continue-on-collection-errors",
    "--disable-warnings",
    "--doctest-modules",
    "--exitfirst",
    "--failed-first",
    "--ff",
    "--full-trace",
    "--keep-duplicates",
    "--last-failed",
    "--lf",
    "--new-first",
    "--nf",
    "--no-cov",
    "--no-header",
    "--noconftest",
    "--pyargs",
    "--quiet",
    "--runxfail",
    "--showlocals",
    "--strict",
    "--strict-config",
    "--strict-markers",
    "--verbose",
    "--forked",
    "--setup-show",
];

/// Options with which no test runs, or not all of them once one failed.
const UNFIT: &[&str] = &[
    "--co",
    "--collect-only",
    "--fixtures",
    "--fixtures-per-test",
    "--help",
    "--markers",
    "--no-summary",
    "--setup-only",
    "--setup-plan",
    "--stepwise",
    "--sw",
    "--version",
];

/// A plain call of `pytest` or `python3 -m pytest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pytest {
    call: Call,
    options: Options,
}

/// What the options of a call, or of a project's settings, say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Options {
    /// Files, directories and tests to collect.
    paths: Vec<String>,
    keyword: Option<String>,
    marker: Option<String>,
    config: Option<String>,
    /// Settings given by `-o`.
    settings: Vec<String>,
    /// Why it is not known what the call collects.
    doubt: Option<String>,
}

/// Recognises `pytest [args]` and `python3 [flags] -m pytest [args]`.
pub(super) fn recognise(call: &Call) -> Option<Pytest> {
    let args = if ["pytest", "pytest-3", "py.test"].contains(&call.program()) {
        &call.args
    } else {
        call.python_module("pytest")?
    };
    // Behind these nothing can be added.
    if args.iter().any(|a| a == "--" || a.starts_with('@')) {
        return None;
    }
    Some(Pytest {
        call: call.clone(),
        options: Options::read(args),
    })
}

impl Options {
    fn read(args: &[String]) -> Self {
        let mut out = Self::default();
        let mut args = args.iter().peekable();
        while let Some(arg) = args.next() {
            if let Some(long) = arg.strip_prefix("--") {
                let (name, value) = match long.split_once('=') {
                    Some((name, value)) => (format!("--{name}"), Some(value.to_owned())),
                    None if VALUED.contains(&arg.as_str()) => (arg.clone(), args.next().cloned()),
                    None => (arg.clone(), None),
                };
                match (name.as_str(), &value) {
                    ("--config-file", _) => out.config = value.clone(),
                    ("--override-ini", Some(setting)) => out.settings.push(setting.clone()),
                    _ => {}
                }
                if UNFIT.contains(&name.as_str()) {
                    out.doubt = Some(format!("with `{name}` not every test runs"));
                }
                let next_is_word = args.peek().is_some_and(|a| !a.starts_with('-'));
                if value.is_none() && next_is_word && !ALONE.contains(&name.as_str()) {
                    out.doubt = Some(format!(
                        "it is not known whether `{name}` takes the next word"
                    ));
                }
            } else if let Some(short) = arg.strip_prefix('-').filter(|s| !s.is_empty()) {
                out.read_short(short, &mut args);
            } else {
                out.paths.push(arg.clone());
            }
        }
        out
    }

    /// Reads a group of one-letter options such as `-xvk`.
    fn read_short<'a>(&mut self, group: &str, args: &mut impl Iterator<Item = &'a String>) {
        for (i, letter) in group.char_indices() {
            let rest = &group[i + letter.len_utf8()..];
            match letter {
                'v' | 'q' | 'x' | 's' | 'l' => {}
                'k' | 'm' | 'c' | 'o' | 'p' | 'r' | 'W' | 'n' => {
                    let value = if rest.is_empty() {
                        args.next().cloned()
                    } else {
                        Some(rest.trim_start_matches('=').to_owned())
                    };
                    match letter {
                        'k' => self.keyword = value,
                        'm' => self.marker = value,
                        'c' => self.config = value,
                        'o' => self.settings.extend(value),
                        _ => {}
                    }
                    return;
                }
                _ => {
                    self.doubt = Some(format!("the option `-{letter}` is not known"));
                    return;
                }
            }
        }
    }
}

impl Pytest {
    pub(super) fn verbose(&self) -> String {
        self.line(&[])
    }

    fn line(&self, more: &[String]) -> String {
        let own = self.call.args.iter().map(String::as_str);
        let args: Vec<&str> = own
            .chain(BY_NAME)
            .chain(CACHE)
            .chain(more.iter().map(String::as_str))
            .collect();
        self.call.line(&args)
    }

    pub(super) fn canary(&self, token: &str, facts: &TreeFacts) -> Result<CanaryPlan, NoPlan> {
        if let Some(why) = &self.options.doubt {
            return NoPlan::because(why.clone());
        }
        let first = self.options.paths.first();
        let first_dir = match first {
            Some(path) => {
                let file = path.split("::").next().unwrap_or(path);
                let path = beneath(file)?;
                Some(match path.ends_with(".py") {
                    true => parent(&path).to_owned(),
                    false => path,
                })
            }
            None => None,
        };
        let mut config = Config::find(
            self.options.config.as_deref(),
            first_dir.as_deref().unwrap_or(""),
            facts,
        )?;
        for setting in &self.options.settings {
            config.set(setting);
        }
        let from_variable = self.call.variable("PYTEST_ADDOPTS").unwrap_or("");
        let set = Options::read(&config.addopts);
        let variable = Options::read(&super::call::words(from_variable).unwrap_or_default());

        let alias = Alias::of(token);
        let (test_name, is_test_shaped) = config.function_name(&alias);
        let mut more = Vec::new();
        let last = |own: &Option<String>, variable: Option<String>, set: Option<String>| {
            let last = own.clone().or(variable).or(set);
            last.filter(|e| !e.trim().is_empty())
        };
        if let Some(expr) = last(&self.options.keyword, variable.keyword, set.keyword) {
            more.extend(["-k".to_owned(), format!("({expr}) or {test_name}")]);
        }
        let marks = match last(&self.options.marker, variable.marker, set.marker) {
            Some(expr) => match marks::selecting(&expr) {
                Some(marks) => marks.into_iter().map(str::to_owned).collect(),
                None => {
                    return NoPlan::because(format!("no mark is known that `-m {expr}` selects"));
                }
            },
            None => Vec::new(),
        };
        let names_files = self.options.paths.iter().any(|path| path.contains(".py"));
        let dir = match first_dir {
            Some(dir) => dir,
            None => config.home(facts)?,
        };
        facts.insist_directory(&dir)?;
        let (file, is_file_shaped) = config.file_name(&alias, facts.list(&dir)?);
        let path = join(&dir, &file);
        // A file inside a directory that is searched counts only by its name, even when it is given as well.
        let mut widen = |name: &str, values: &[String], value: &str| {
            let values = values.iter().map(String::as_str).chain([value]);
            let all: Vec<String> = values.map(super::call::quoted).collect();
            more.extend(["-o".to_owned(), format!("{name}={}", all.join(" "))]);
        };
        if !is_file_shaped {
            widen("python_files", &config.files, &file);
        }
        if !is_test_shaped {
            widen("python_functions", &config.functions, &test_name);
        }
        // Where the whole directory is searched it is found like any other, and the call stays as it was.
        if names_files {
            more.push(path.clone());
        } else if first.is_none() && !config.searches(&dir) {
            widen("testpaths", &config.testpaths, &path);
        }
        let import = if marks.is_empty() {
            ""
        } else {
            "import pytest\n\n\n"
        };
        let marks: String = marks
            .iter()
            .map(|m| format!("@pytest.mark.{m}\n"))
            .collect();
        let content = format!(
            "{import}{marks}def {test_name}():\n    raise AssertionError(\"{}\")\n",
            alias.sentence()
        );
        Ok(CanaryPlan {
            files: vec![Planted { path, content }],
            command: self.line(&more),
            failure: FailureLine {
                mark: "FAILED ".to_owned(),
                name: format!("::{test_name}"),
            },
            test_name,
        })
    }
}

impl Config {
    /// A name for a file as the project names its own, and whether it counts as one of tests by that name alone.
    fn file_name(&self, alias: &Alias, beside: &[Entry]) -> (String, bool) {
        if self.files.is_empty() {
            let any = |fits: fn(&str) -> bool| beside.iter().any(|e| fits(&e.name));
            let ends_in_test = any(|n| n.ends_with("_test.py"));
            return match ends_in_test && !any(|n| n.starts_with("test_")) {
                true => (format!("{}_test.py", alias.file()), true),
                false => (format!("test_{}.py", alias.file()), true),
            };
        }
        let like =
            |pattern: &String| put_into(pattern, &alias.file()).filter(|n| n.ends_with(".py"));
        match self.files.iter().find_map(like) {
            Some(name) => (name, true),
            None => (format!("test_{}.py", alias.file()), false),
        }
    }

    /// The same for a function.
    fn function_name(&self, alias: &Alias) -> (String, bool) {
        let words = alias.test();
        let is_plain = |p: &str| p.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
        let like = |pattern: &String| match is_plain(pattern) && !pattern.is_empty() {
            true => Some(format!("{}_{words}", pattern.trim_end_matches('_'))),
            false => put_into(pattern, &words).filter(|name| is_plain(name)),
        };
        match self.functions.iter().find_map(like) {
            Some(name) => (name, true),
            None => (format!("test_{words}"), self.functions.is_empty()),
        }
    }

    /// Whether a call without paths comes by this directory.
    fn searches(&self, dir: &str) -> bool {
        let same = |path: &String| path.trim_start_matches("./").trim_end_matches('/') == dir;
        self.testpaths.is_empty() || self.testpaths.iter().any(same)
    }

    /// The directory that tests stand in, when the call names none: there their `conftest.py` applies as well.
    fn home(&self, facts: &TreeFacts) -> Result<String, NoPlan> {
        let plain = |p: &&String| !p.contains(['*', '?', '[', ':']);
        let named = self.testpaths.iter().filter(plain).cloned();
        for dir in named.chain(["tests", "test"].map(str::to_owned)) {
            let dir = beneath(dir.strip_suffix('/').unwrap_or(&dir))?;
            if facts.kind(&dir)? == Some(EntryKind::Directory) {
                return Ok(dir);
            }
        }
        Ok(String::new())
    }
}

/// Words in place of the one `*` of a pattern; none for a pattern of another kind.
fn put_into(pattern: &str, words: &str) -> Option<String> {
    let (before, after) = pattern.split_once('*')?;
    let is_plain = !(before.contains(['?', '[', '/']) || after.contains(['*', '?', '[', '/']));
    let glue = |is_open: bool| if is_open { "" } else { "_" };
    is_plain.then(|| {
        let head = glue(before.is_empty() || before.ends_with('_'));
        let tail = glue(after.is_empty() || after.starts_with(['_', '.']));
        format!("{before}{head}{words}{tail}{after}")
    })
}
