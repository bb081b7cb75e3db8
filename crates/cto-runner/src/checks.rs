//! Runs verification commands: confined like any agent, each with its output on disk, capped.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cto_agent::{Places, base_environment};
use cto_contract::task::{TaskContract, VerificationCommand};
use cto_contract::verification::{Canary, CanaryStatus, CommandResult};
use cto_rules::checks::{Observed, Runner, judge_command, read_junit};
use cto_rules::secrets::{Known, Redactor};
use cto_sandbox::{End, LaunchRequest, Launcher, Network, Overlay, StopCause, StopToken};

use crate::limits::Effective;

/// How much of a command's output is searched for test results.
const PARSED_BYTES_MAX: u64 = 16 << 20;
/// Time between TERM and KILL.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// Everything that is the same for all commands of a run.
pub(crate) struct Checker {
    pub(crate) launcher: Launcher,
    pub(crate) contract: TaskContract,
    pub(crate) path: String,
    pub(crate) oracle: Option<PathBuf>,
    pub(crate) limits: Effective,
    pub(crate) stop: StopToken,
    pub(crate) known: Known,
    /// Paths of this machine and what a pack calls them.
    pub(crate) places: Known,
}

/// A place where commands run: a tree, and scratch of its own.
pub(crate) struct Bench {
    /// Where the commands see the tree.
    pub(crate) tree: PathBuf,
    pub(crate) scratch: PathBuf,
    layer: Option<Layer>,
}

/// An overlay over a tree that nobody writes: what the commands leave is in `upper`.
struct Layer {
    lowers: Vec<PathBuf>,
    upper: PathBuf,
}

/// One execution, with its output kept in a file.
pub(crate) struct Execution {
    pub(crate) result: CommandResult,
    pub(crate) line: String,
    pub(crate) output: PathBuf,
}

/// What the canary run gave.
pub(crate) struct CanaryRun {
    pub(crate) canary: Canary,
    /// Names of the tests that passed beside it.
    pub(crate) names: Option<Vec<String>>,
    pub(crate) execution: Option<Execution>,
}

impl Bench {
    /// Commands run in the tree itself.
    pub(crate) fn new(tree: &Path, scratch: &Path) -> io::Result<Self> {
        for dir in ["home", "tmp"] {
            fs::create_dir_all(scratch.join(dir))?;
        }
        Ok(Self {
            tree: tree.to_owned(),
            scratch: scratch.to_owned(),
            layer: None,
        })
    }

    /// Commands run at `tree` in an overlay over `lowers`, the topmost first, which stay as they are.
    pub(crate) fn over(lowers: Vec<PathBuf>, tree: &Path, scratch: &Path) -> io::Result<Self> {
        let upper = scratch.join("upper");
        fs::create_dir_all(&upper)?;
        fs::create_dir_all(tree)?;
        let layer = Some(Layer { lowers, upper });
        Ok(Self {
            layer,
            ..Self::new(tree, scratch)?
        })
    }

    /// The upper directory, when there is one.
    pub(crate) fn upper(&self) -> Option<&Path> {
        self.layer.as_ref().map(|l| l.upper.as_path())
    }

    /// Where a file of the tree is written and found from outside.
    fn outside(&self, path: &str) -> PathBuf {
        self.upper().unwrap_or(&self.tree).join(path)
    }

    /// The overlay of one launch. Each needs a work directory that no mount has used.
    fn overlay(&self, name: &str) -> io::Result<Option<Overlay>> {
        let Some(layer) = &self.layer else {
            return Ok(None);
        };
        let work = self.scratch.join(format!("work-{name}"));
        fs::create_dir_all(&work)?;
        Ok(Some(Overlay {
            lowers: layer.lowers.clone(),
            upper: layer.upper.clone(),
            work,
            at: self.tree.clone(),
        }))
    }

    fn places(&self) -> Places {
        let text = |p: &Path| p.to_string_lossy().into_owned();
        Places {
            workspace: text(&self.tree),
            scratch: text(&self.scratch),
            home: text(&self.scratch.join("home")),
        }
    }
}

impl Checker {
    /// Whether an overlay over this tree can be mounted here: tried, not guessed.
    pub(crate) fn can_overlay(&self, lower: &Path, scratch: &Path) -> bool {
        let tried = || -> io::Result<bool> {
            let bench = Bench::over(vec![lower.to_owned()], &scratch.join("tree"), scratch)?;
            let request = LaunchRequest {
                argv: ["/bin/sh", "-c", "exit 0"].map(OsString::from).to_vec(),
                env: BTreeMap::new(),
                cwd: bench.tree.clone(),
                read_only: Vec::new(),
                overlay: bench.overlay("try")?,
                limits: self.limits.sandbox(),
                network: Network::None,
                grace: GRACE,
            };
            let launched = self.launcher.launch(&request, &self.stop, &mut |_, _| {});
            Ok(launched.is_ok_and(|o| o.end == End::Exited(0)))
        };
        tried().unwrap_or(false)
    }

    /// The untouched baseline: every command runs, whatever the others did, and runners tell tests by name.
    pub(crate) fn baseline(&self, bench: &Bench) -> io::Result<Vec<Execution>> {
        let commands = self.contract.verification_commands.iter().enumerate();
        commands
            .map(|(i, command)| {
                let runner = Runner::recognise(&command.run);
                let line = runner
                    .as_ref()
                    .map_or_else(|| command.run.clone(), |r| r.verbose(&command.run));
                self.execute(
                    command,
                    &line,
                    runner.as_ref(),
                    bench,
                    &format!("before-{i}"),
                )
            })
            .collect()
    }

    /// The changed tree: in order, each as often as asked, up to the first failure.
    pub(crate) fn after(&self, bench: &Bench) -> io::Result<Vec<Execution>> {
        let mut out = Vec::new();
        for (i, command) in self.contract.verification_commands.iter().enumerate() {
            let runner = Runner::recognise(&command.run);
            for round in 0..command.repeat {
                let execution = self.execute(
                    command,
                    &command.run,
                    runner.as_ref(),
                    bench,
                    &format!("after-{i}-{round}"),
                )?;
                let passed = execution.result.passed;
                out.push(execution);
                if !passed {
                    return Ok(out);
                }
            }
        }
        Ok(out)
    }

    /// The first command whose runner is known, and that runner.
    pub(crate) fn canary_runner(&self) -> Option<(&VerificationCommand, Runner)> {
        self.contract
            .verification_commands
            .iter()
            .find_map(|c| Runner::recognise(&c.run).map(|r| (c, r)))
    }

    /// Plants a test that must fail and reruns the runner: if it does not see it fail, the code under test is in control.
    pub(crate) fn canary(&self, bench: &Bench, token: &str) -> io::Result<CanaryRun> {
        let Some((command, runner)) = self.canary_runner() else {
            let detail = "no command starts a test runner that the harness knows".to_owned();
            return Ok(CanaryRun {
                canary: Canary {
                    status: CanaryStatus::NotApplicable,
                    runner: None,
                    detail,
                },
                names: None,
                execution: None,
            });
        };
        let plan = runner.canary(&command.run, token);
        let path = bench.outside(&plan.path);
        if let Some(above) = path.parent() {
            fs::create_dir_all(above)?;
        }
        let planted =
            File::create_new(&path).and_then(|mut file| file.write_all(plan.content.as_bytes()));
        if let Err(error) = planted {
            let detail = format!(
                "the canary could not be planted at `{}`: {error}",
                plan.path
            );
            return Ok(CanaryRun {
                canary: Canary {
                    status: CanaryStatus::Swallowed,
                    runner: Some(runner.name().to_owned()),
                    detail,
                },
                names: None,
                execution: None,
            });
        }
        let execution = self.execute(command, &plan.command, Some(&runner), bench, "canary")?;
        let output = read_text(&execution.output)?;
        let failed = execution
            .result
            .exit_code
            .is_some_and(|c| c != command.expect.exit);
        let told = output.contains(&plan.evidence);
        let (status, detail) = match (failed, told) {
            (true, true) => (CanaryStatus::Caught, "the planted test failed, as it must"),
            (false, true) => (
                CanaryStatus::Swallowed,
                "the planted test failed, yet the runner reported success",
            ),
            (true, false) => (
                CanaryStatus::Swallowed,
                "the runner failed without telling of the planted test",
            ),
            (false, false) => (
                CanaryStatus::Swallowed,
                "the runner reported success and never told of the planted test",
            ),
        };
        let names = runner.count(&output).map(|t| {
            t.passed_names
                .into_iter()
                .filter(|n| !n.ends_with(&plan.test_name))
                .collect()
        });
        Ok(CanaryRun {
            canary: Canary {
                status,
                runner: Some(runner.name().to_owned()),
                detail: detail.to_owned(),
            },
            names,
            execution: Some(execution),
        })
    }

    fn execute(
        &self,
        command: &VerificationCommand,
        line: &str,
        runner: Option<&Runner>,
        bench: &Bench,
        name: &str,
    ) -> io::Result<Execution> {
        let places = bench.places();
        let mut env = base_environment(&places, &self.path);
        // Only a command that names the oracle gets it: the others run the code under test in their own process.
        let oracle = self.oracle.as_ref().filter(|_| {
            command.run.contains("$CTO_ORACLE") || command.run.contains("${CTO_ORACLE}")
        });
        if let Some(oracle) = oracle {
            env.insert(
                "CTO_ORACLE".to_owned(),
                oracle.to_string_lossy().into_owned(),
            );
        }
        let request = LaunchRequest {
            argv: ["/bin/sh", "-c", line].map(OsString::from).to_vec(),
            env: to_os(env),
            cwd: bench.tree.clone(),
            read_only: oracle.cloned().into_iter().collect(),
            overlay: bench.overlay(name)?,
            limits: self.limits.sandbox(),
            network: Network::None,
            grace: GRACE,
        };
        let output = bench.scratch.join(format!("{name}.log"));
        let mut log = RedactedFile::create(&output, &self.known, &self.places)?;
        let launched = self
            .launcher
            .launch(&request, &self.stop, &mut |_, bytes| log.push(bytes));
        log.finish()?;
        let junit = match &command.expect.junit {
            Some(path) => read_text(&bench.outside(path.as_str()))
                .ok()
                .and_then(|t| read_junit(&t)),
            None => None,
        };
        let tests = match runner {
            _ if command.expect.junit.is_some() => junit,
            Some(runner) => runner.count(&read_text(&output)?),
            None => None,
        };
        let mut seen = Observed {
            exit_code: None,
            signal: None,
            timed_out: false,
            output_capped: false,
            seconds: 0.0,
            tests,
            count_due: runner.is_some() || command.expect.junit.is_some(),
            is_oracle: oracle.is_some(),
            start_failure: None,
        };
        match launched {
            Ok(outcome) => {
                seen.seconds = crate::round_seconds(outcome.wall);
                seen.output_capped = outcome.output.capped;
                seen.timed_out = outcome.stopped_by == Some(StopCause::Wall);
                match outcome.end {
                    End::Exited(code) => seen.exit_code = Some(code),
                    End::Signaled(signal) => seen.signal = Some(signal),
                    End::NotStarted => {
                        seen.start_failure = Some("it was stopped before it started".to_owned())
                    }
                }
                if outcome.stopped_by == Some(StopCause::SandboxDied) {
                    seen.start_failure = Some("its sandbox died".to_owned());
                }
            }
            Err(error) => seen.start_failure = Some(crate::error_chain(&error)),
        }
        Ok(Execution {
            result: judge_command(command, &seen),
            line: line.to_owned(),
            output,
        })
    }
}

pub(crate) fn to_os(env: BTreeMap<String, String>) -> BTreeMap<OsString, OsString> {
    env.into_iter().map(|(k, v)| (k.into(), v.into())).collect()
}

/// Reads the end of a file as text: summaries stand there.
fn read_text(path: &Path) -> io::Result<String> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let mut file = {
        use std::os::unix::fs::OpenOptionsExt as _;
        File::options()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(path)?
    };
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    io::Seek::seek(
        &mut file,
        io::SeekFrom::Start(meta.len().saturating_sub(PARSED_BYTES_MAX)),
    )?;
    let mut bytes = Vec::new();
    file.take(PARSED_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A file that gets output with the known secrets taken out and the machine's paths renamed.
pub(crate) struct RedactedFile {
    file: io::BufWriter<File>,
    secrets: Redactor,
    places: Redactor,
    clean: Vec<u8>,
    buffer: Vec<u8>,
    error: Option<io::Error>,
}

impl RedactedFile {
    pub(crate) fn create(path: &Path, known: &Known, places: &Known) -> io::Result<Self> {
        Ok(Self::new(File::create_new(path)?, known, places))
    }

    pub(crate) fn new(file: File, known: &Known, places: &Known) -> Self {
        Self {
            file: io::BufWriter::new(file),
            secrets: Redactor::new(known),
            places: Redactor::new(places),
            clean: Vec::new(),
            buffer: Vec::new(),
            error: None,
        }
    }

    /// Takes bytes; the first error is kept and ends the writing.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.clean.clear();
        self.buffer.clear();
        self.secrets.push(bytes, &mut self.clean);
        self.places.push(&self.clean, &mut self.buffer);
        if self.error.is_none() {
            self.error = self.file.write_all(&self.buffer).err();
        }
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.clean.clear();
        self.buffer.clear();
        self.secrets.finish(&mut self.clean);
        self.places.push(&self.clean, &mut self.buffer);
        self.places.finish(&mut self.buffer);
        match self.error.take() {
            Some(error) => Err(error),
            None => self
                .file
                .write_all(&self.buffer)
                .and_then(|()| self.file.flush()),
        }
    }
}
