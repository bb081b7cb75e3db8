//! Node's own runner, `node --test`: recognising a call and planting a test that must fail. What it prints is read in
//! [`output`].
//!
//! Each test file is a process of its own. So that a planted test shares it with the code under test, each file gets one
//! that loads it first; the files themselves are left out of that call.

mod files;
mod output;

pub use output::count_node;

use super::alias::Alias;
use super::call::Call;
use super::canary::{CanaryPlan, FailureLine, NoPlan, Planted, TreeFacts, join, parent};

/// Options whose value is the next word.
const VALUED: &[&str] = &[
    "--conditions",
    "--env-file",
    "--env-file-if-exists",
    "--experimental-loader",
    "--experimental-test-isolation",
    "--import",
    "--loader",
    "--max-old-space-size",
    "--require",
    "--test-concurrency",
    "--test-coverage-branches",
    "--test-coverage-exclude",
    "--test-coverage-functions",
    "--test-coverage-include",
    "--test-coverage-lines",
    "--test-global-setup",
    "--test-isolation",
    "--test-name-pattern",
    "--test-reporter",
    "--test-reporter-destination",
    "--test-shard",
    "--test-skip-pattern",
    "--test-timeout",
    "-C",
    "-r",
];

/// Calls that must throw.
const BROKEN: &str = "() => assert(false), () => assert.ok(false), () => assert.equal(1, 2), () => assert.notEqual(1, 1), () => assert.strictEqual(1, 2), () => assert.deepEqual([1], [2]), () => assert.deepStrictEqual([1], [2]), () => assert.throws(() => {}), () => assert.fail()";

/// A plain call of `node --test`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeTest {
    call: Call,
    /// Options without those that say how to report.
    options: Vec<String>,
    files: Vec<String>,
    /// Reports that go to files and stay.
    reports: Vec<(String, String)>,
    only: bool,
    has_pattern: bool,
    doubt: Option<String>,
}

/// Recognises `node [options] --test [options] [files]`.
pub(super) fn recognise(call: &Call) -> Option<NodeTest> {
    if !["node", "nodejs"].contains(&call.program()) {
        return None;
    }
    let mut out = NodeTest {
        call: call.clone(),
        options: Vec::new(),
        files: Vec::new(),
        reports: Vec::new(),
        only: false,
        has_pattern: false,
        doubt: None,
    };
    let (mut reporters, mut destinations) = (Vec::new(), Vec::new());
    let mut is_test = false;
    let mut args = call.args.iter().peekable();
    while let Some(arg) = args.next() {
        if !arg.starts_with('-') || !out.files.is_empty() {
            // Behind the first file node takes every word for one.
            out.files.push(arg.clone());
            continue;
        }
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None if VALUED.contains(&arg.as_str()) => (arg.as_str(), Some(args.next()?.clone())),
            None => (arg.as_str(), None),
        };
        match (name, &value) {
            ("--test-reporter", Some(value)) => {
                reporters.push(value.clone());
                continue;
            }
            ("--test-reporter-destination", Some(value)) => {
                destinations.push(value.clone());
                continue;
            }
            ("--test", None) => is_test = true,
            ("--test-only", None) => out.only = true,
            ("--test-name-pattern", Some(_)) => out.has_pattern = true,
            ("--test-shard" | "--test-skip-pattern" | "--test-rerun-failures", _) => {
                out.doubt = Some(format!("`{name}` may leave it out"));
            }
            (
                "--watch" | "-e" | "--eval" | "-p" | "--print" | "-c" | "--check" | "--run" | "--",
                _,
            ) => {
                return None;
            }
            _ => {}
        }
        let next_is_word = args.peek().is_some_and(|a| !a.starts_with('-'));
        let alone = name.starts_with("--test") || name.starts_with("--no-");
        if value.is_none() && next_is_word && !alone {
            out.doubt = Some(format!(
                "it is not known whether `{name}` takes the next word"
            ));
        }
        out.options.push(arg.clone());
        if let (Some(value), false) = (value, arg.contains('=')) {
            out.options.push(value);
        }
    }
    let pairs = reporters.into_iter().zip(destinations);
    out.reports = pairs
        .filter(|(_, to)| to != "stdout" && to != "stderr")
        .collect();
    is_test.then_some(out)
}

impl NodeTest {
    pub(super) fn verbose(&self) -> String {
        self.line(&[], &self.files)
    }

    /// The reporter whose lines a test can't print itself: what tests print is a comment in it.
    fn line(&self, options: &[String], files: &[String]) -> String {
        let mut args = self.options.clone();
        for (reporter, to) in &self.reports {
            args.push(format!("--test-reporter={reporter}"));
            args.push(format!("--test-reporter-destination={to}"));
        }
        args.push("--test-reporter=tap".to_owned());
        args.push("--test-reporter-destination=stdout".to_owned());
        args.extend(options.iter().chain(files).cloned());
        self.call.line(&args)
    }

    pub(super) fn canary(&self, token: &str, facts: &TreeFacts) -> Result<CanaryPlan, NoPlan> {
        if let Some(why) = &self.doubt {
            return NoPlan::because(why.clone());
        }
        let name = Alias::of(token).sentence();
        let file_name = |number: usize| {
            let words = Alias::of(&format!("{token}{number}")).file_with_hyphens();
            format!("{words}.test.mjs")
        };
        let options = if self.only { "{ only: true }, " } else { "" };
        // It passes, and so is missed, when one of the usual assertions no longer throws.
        let test = format!(
            "test('{name}', {options}() => {{\n  const broken = [{BROKEN}].filter((call) => {{\n    try {{ call(); }} catch {{ return false; }}\n    return true;\n  }});\n  if (broken.length === 0) throw new Error('{name}');\n}});\n"
        );
        let head = "import assert from 'node:assert';\nimport test from 'node:test';\n";
        let tested = files::find(&self.files, facts)?;
        let mut files = Vec::new();
        for (i, file) in tested.iter().enumerate() {
            let (dir, base) = (parent(file), file.rsplit('/').next().unwrap_or(file));
            // A file that can't be loaded fails in its own run.
            let load = format!("await import('./' + {}).catch(() => {{}});\n", string(base));
            files.push(Planted {
                path: join(dir, &file_name(i)),
                content: format!("{head}\n{load}\n{test}"),
            });
        }
        if files.is_empty() {
            files.push(Planted {
                path: file_name(0),
                content: format!("{head}\n{test}"),
            });
        }
        let pattern = [format!("--test-name-pattern={name}")];
        let paths: Vec<String> = files.iter().map(|f| f.path.clone()).collect();
        let command = self.line(if self.has_pattern { &pattern } else { &[] }, &paths);
        Ok(CanaryPlan {
            files,
            command,
            failure: FailureLine {
                mark: "not ok ".to_owned(),
                name: format!("- {name}"),
            },
            test_name: name,
        })
    }
}

/// A string of JavaScript.
fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
