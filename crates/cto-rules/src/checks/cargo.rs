//! `cargo test`: recognising a call and planting a test that must fail. What it prints is read in [`output`].

mod manifest;
mod output;

pub use output::count_cargo;

use manifest::Selection;

use super::alias::Alias;
use super::call::Call;
use super::canary::{CanaryPlan, FailureLine, NoPlan, Planted, TreeFacts, join};

/// Options of cargo whose value is the next word.
const VALUED: &[&str] = &[
    "--bench",
    "--bin",
    "--color",
    "--config",
    "--example",
    "--exclude",
    "--features",
    "--jobs",
    "--lockfile-path",
    "--manifest-path",
    "--message-format",
    "--package",
    "--profile",
    "--target",
    "--target-dir",
    "--test",
];

/// Options of cargo that stand alone and leave the targets as they are.
const ALONE: &[&str] = &[
    "--all",
    "--all-features",
    "--all-targets",
    "--frozen",
    "--future-incompat-report",
    "--ignore-rust-version",
    "--locked",
    "--no-default-features",
    "--no-fail-fast",
    "--offline",
    "--release",
    "--tests",
    "--timings",
    "--workspace",
];

/// Options that choose targets, so that the planted one must be chosen too.
const TARGETS: &[&str] = &[
    "--bench",
    "--benches",
    "--bin",
    "--bins",
    "--example",
    "--examples",
    "--lib",
    "--test",
];

/// A plain call of `cargo test`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CargoTest {
    call: Call,
    /// The arguments up to `--` without those that would hide names.
    cargo: Vec<String>,
    /// The arguments of the test programs.
    harness: Vec<String>,
    selection: Selection,
    chooses_targets: bool,
    has_filter: bool,
    only_ignored: bool,
    skips: Vec<String>,
    /// Why a planted test would not run.
    doubt: Option<String>,
}

/// Recognises `cargo [flags] test|t [args]`; not a call that chooses another toolchain.
pub(super) fn recognise(call: &Call) -> Option<CargoTest> {
    if call.program() != "cargo" || call.args.first()?.starts_with('+') {
        return None;
    }
    let split = call.args.iter().position(|a| a == "--");
    let (cargo, harness) = match split {
        Some(at) => (&call.args[..at], &call.args[at + 1..]),
        None => (&call.args[..], &[][..]),
    };
    let mut out = CargoTest {
        call: call.clone(),
        cargo: Vec::new(),
        harness: Vec::new(),
        selection: Selection::default(),
        chooses_targets: false,
        has_filter: false,
        only_ignored: false,
        skips: Vec::new(),
        doubt: None,
    };
    out.read_cargo(cargo)?;
    out.read_harness(harness);
    Some(out)
}

impl CargoTest {
    /// Reads what stands before `--`; none when it is not the subcommand `test`.
    fn read_cargo(&mut self, args: &[String]) -> Option<()> {
        let mut subcommand = false;
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            if let Some(long) = arg.strip_prefix("--") {
                if ["verbose", "quiet"].contains(&long) {
                    continue;
                }
                self.cargo.push(arg.clone());
                let (name, value) = match long.split_once('=') {
                    Some((name, value)) => (format!("--{name}"), Some(value.to_owned())),
                    None if VALUED.contains(&arg.as_str()) => {
                        let value = args.next()?;
                        self.cargo.push(value.clone());
                        (arg.clone(), Some(value.clone()))
                    }
                    None => (arg.clone(), None),
                };
                self.note(&name, value);
            } else if let Some(short) = arg.strip_prefix('-').filter(|s| !s.is_empty()) {
                let letter = short.chars().next()?;
                if !"pFjZC".contains(letter) {
                    let kept: String = short.chars().filter(|c| !"qv".contains(*c)).collect();
                    if !kept.chars().all(|c| c == 'r') {
                        self.doubt = Some(format!("the option `{arg}` is not known"));
                    }
                    if !kept.is_empty() {
                        self.cargo.push(format!("-{kept}"));
                    }
                    continue;
                }
                self.cargo.push(arg.clone());
                let value = match short[1..].trim_start_matches('=') {
                    "" => {
                        let value = args.next()?;
                        self.cargo.push(value.clone());
                        value.clone()
                    }
                    glued => glued.to_owned(),
                };
                match letter {
                    'p' => self.note("--package", Some(value)),
                    'C' => self.doubt = Some("`-C` leads to another directory".to_owned()),
                    _ => {}
                }
            } else {
                self.cargo.push(arg.clone());
                if !subcommand {
                    if arg != "test" && arg != "t" {
                        return None;
                    }
                    subcommand = true;
                } else {
                    self.has_filter = true;
                }
            }
        }
        subcommand.then_some(())
    }

    fn note(&mut self, name: &str, value: Option<String>) {
        match (name, value) {
            ("--package", Some(value)) => self.selection.named.push(value),
            ("--exclude", Some(value)) => self.selection.excluded.push(value),
            ("--manifest-path", Some(value)) => self.selection.manifest = Some(value),
            ("--workspace" | "--all", None) => self.selection.workspace = true,
            ("--doc", _) => self.doubt = Some("only the examples in documents run".to_owned()),
            ("--no-run", _) => self.doubt = Some("with `--no-run` no test runs".to_owned()),
            (name, _) if TARGETS.contains(&name) => self.chooses_targets = true,
            (name, _) if VALUED.contains(&name) || ALONE.contains(&name) => {}
            (name, _) => self.doubt = Some(format!("the option `{name}` is not known")),
        }
    }

    fn read_harness(&mut self, args: &[String]) {
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let (name, glued) = match arg.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                _ => (arg.as_str(), None),
            };
            let is_glued = glued.is_some();
            let mut value = || {
                glued
                    .clone()
                    .or_else(|| args.next().cloned())
                    .unwrap_or_default()
            };
            match name {
                // They change what is printed, and nothing else.
                "-q" | "--quiet" | "--nocapture" | "--no-capture" | "--show-output" => continue,
                "--format" => {
                    let _hides_names = value();
                    continue;
                }
                "--skip" => {
                    let pattern = value();
                    self.harness.extend(["--skip".to_owned(), pattern.clone()]);
                    self.skips.push(pattern);
                    continue;
                }
                "--test-threads" | "--logfile" | "--color" | "-Z" | "--shuffle-seed" => {
                    self.harness.push(arg.clone());
                    if !is_glued {
                        self.harness.push(value());
                    }
                    continue;
                }
                "--ignored" => self.only_ignored = true,
                "--include-ignored"
                | "--exact"
                | "--report-time"
                | "--ensure-time"
                | "--shuffle"
                | "--force-run-in-process"
                | "--test" => {}
                flag if flag.starts_with('-') => {
                    self.doubt = Some(format!("the option `{flag}` is not known"));
                }
                _ => self.has_filter = true,
            }
            self.harness.push(arg.clone());
        }
    }

    pub(super) fn verbose(&self) -> String {
        self.line(&[], &[])
    }

    /// One stream, because cargo says on the other one which program the tests belong to.
    fn line(&self, cargo: &[String], harness: &[String]) -> String {
        let mut args = self.cargo.clone();
        if !args.iter().any(|a| a == "--no-fail-fast") {
            args.push("--no-fail-fast".to_owned());
        }
        args.extend_from_slice(cargo);
        if !self.harness.is_empty() || !harness.is_empty() {
            args.push("--".to_owned());
            args.extend(self.harness.iter().chain(harness).cloned());
        }
        format!("{} 2>&1", self.call.line(&args))
    }

    pub(super) fn canary(&self, token: &str, facts: &TreeFacts) -> Result<CanaryPlan, NoPlan> {
        if let Some(why) = &self.doubt {
            return NoPlan::because(why.clone());
        }
        let is_skipped = |name: &str| self.skips.iter().any(|s| name.contains(s.as_str()));
        let Some(alias) = Alias::fitting(token, |alias| !is_skipped(&alias.test())) else {
            return NoPlan::because("`--skip` would skip it, whatever it is called");
        };
        let (file, name, message) = (alias.file(), alias.test(), alias.sentence());
        let ignore = if self.only_ignored { "#[ignore]\n" } else { "" };
        let planted = self.selection.packages(facts)?.into_iter().map(|package| {
            // Linked with the library, so that code which runs before any test runs here as well.
            let link = package
                .library
                .map(|library| format!("extern crate {library} as _;\n\n"))
                .unwrap_or_default();
            Planted {
                path: join(&package.dir, &format!("tests/{file}.rs")),
                content: format!(
                    "#![allow(warnings)]\n\n{link}#[test]\n{ignore}fn {name}() {{\n    panic!(\"{message}\");\n}}\n"
                ),
            }
        });
        let files = planted.collect();
        let targets = [("--test".to_owned()), file];
        let filter = [name.clone()];
        let command = self.line(
            if self.chooses_targets { &targets } else { &[] },
            if self.has_filter { &filter } else { &[] },
        );
        Ok(CanaryPlan {
            files,
            command,
            failure: FailureLine {
                mark: format!("test {name} ..."),
                name: "FAILED".to_owned(),
            },
            test_name: name,
        })
    }
}
