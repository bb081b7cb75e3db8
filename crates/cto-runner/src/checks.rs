//! Runs verification commands: confined like any agent, each with its output on disk, capped.

mod planting;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cto_agent::base_environment;
use cto_contract::task::{Expect, TaskContract, VerificationCommand};
use cto_contract::verification::{Canary, CanaryStatus, CommandResult};
use cto_rules::checks::{Observed, PlantedTest, Runner, judge_command, read_junit, whole_canary};
use cto_rules::secrets::Known;
use cto_sandbox::{
    Access, Attempt, Bind, End, LaunchError, Launcher, Outcome, SandboxMessage, StopCause,
    StopToken,
};

use crate::limits::Effective;
use crate::redacted_file::RedactedFile;
use crate::room::Room;
use planting::Layers;

/// How much of a command's output is searched for test results.
const PARSED_BYTES_MAX: u64 = 16 << 20;
/// Time between TERM and KILL.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// Everything that is the same for all commands of a run.
#[derive(Clone)]
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

/// One execution, with its output kept in a file.
pub(crate) struct Execution {
    pub(crate) result: CommandResult,
    pub(crate) line: String,
    pub(crate) output: PathBuf,
    /// A limit of all processes together that ended it, and how much was allowed.
    pub(crate) limit: Option<(String, u64)>,
    /// What it tried that was refused, and what it executed.
    pub(crate) attempts: Vec<Attempt>,
}

/// What the canary run gave.
pub(crate) struct CanaryRun {
    pub(crate) canary: Canary,
    /// Names of the tests that passed beside it.
    pub(crate) names: Option<Vec<String>>,
    pub(crate) executions: Vec<Execution>,
}

/// What one planted test gave.
struct OnePlanted {
    status: CanaryStatus,
    detail: String,
    /// With the names of the tests that passed beside it, where the runner tells them.
    ran: Option<(Execution, Option<Vec<String>>)>,
}

impl Checker {
    /// The untouched baseline: every command runs, whatever the others did, and runners tell tests by name.
    pub(crate) fn baseline(&self, room: &Room) -> io::Result<Vec<Execution>> {
        let commands = self.contract.verification_commands.iter().enumerate();
        commands
            .map(|(i, command)| {
                let runner = Runner::recognise(&command.run);
                let line = runner
                    .as_ref()
                    .map_or_else(|| command.run.clone(), Runner::verbose);
                self.execute(
                    command,
                    &line,
                    runner.as_ref(),
                    room,
                    &format!("before-{i}"),
                )
            })
            .collect()
    }

    /// The changed tree: in order, each as often as asked, up to the first failure; by name where a runner is known.
    pub(crate) fn after(&self, room: &Room) -> io::Result<Vec<Execution>> {
        let mut out = Vec::new();
        for (i, command) in self.contract.verification_commands.iter().enumerate() {
            let runner = Runner::recognise(&command.run);
            let line = runner
                .as_ref()
                .map_or_else(|| command.run.clone(), Runner::verbose);
            for round in 0..command.repeat {
                let execution = self.execute(
                    command,
                    &line,
                    runner.as_ref(),
                    room,
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

    /// The contract's setup, in order, up to the first failure.
    pub(crate) fn setup(&self, room: &Room) -> io::Result<Vec<Execution>> {
        let mut out = Vec::new();
        for (i, line) in self.contract.setup_commands.iter().enumerate() {
            let command = VerificationCommand {
                run: line.clone(),
                expect: Expect::default(),
                must_fail_before: false,
                repeat: 1,
            };
            let execution = self.execute(&command, line, None, room, &format!("setup-{i}"))?;
            let passed = execution.result.passed;
            out.push(execution);
            if !passed {
                break;
            }
        }
        Ok(out)
    }

    /// Whether any command starts a runner that a test can be planted for.
    pub(crate) fn has_known_runner(&self) -> bool {
        let commands = &self.contract.verification_commands;
        commands.iter().any(|c| Runner::recognise(&c.run).is_some())
    }

    /// For each runner that is known, plants a test that must fail and reruns it: if it does not see it fail, the code
    /// under test is in control. Commands before a runner that make something for it run as well.
    pub(crate) fn canary(&self, room: &Room, token: &str) -> io::Result<CanaryRun> {
        let commands = &self.contract.verification_commands;
        let runners: Vec<Option<Runner>> =
            commands.iter().map(|c| Runner::recognise(&c.run)).collect();
        let until = runners
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |i| i + 1);
        let mut tried = Vec::new();
        let (mut names, mut executions) = (None, Vec::new());
        // Without a known runner there is no tree to look at either.
        let layers = match until {
            0 => Layers::none(),
            _ => Layers::open(room.layers())?,
        };
        for (i, (command, runner)) in commands.iter().zip(&runners).take(until).enumerate() {
            let name = format!("canary-{i}");
            let Some(runner) = runner else {
                if !asks_for_oracle(command) {
                    executions.push(self.execute(command, &command.run, None, room, &name)?);
                }
                continue;
            };
            let token = format!("{token}{i}");
            let one = self.plant_and_run(&layers, command, runner, room, (&name, &token))?;
            if let Some((execution, passed)) = one.ran {
                executions.push(execution);
                if let Some(passed) = passed {
                    names.get_or_insert_with(Vec::new).extend(passed);
                }
            }
            tried.push(PlantedTest {
                runner: runner.name(),
                status: one.status,
                detail: one.detail,
            });
        }
        Ok(CanaryRun {
            canary: whole_canary(&tried),
            names,
            executions,
        })
    }

    fn plant_and_run(
        &self,
        layers: &Layers,
        command: &VerificationCommand,
        runner: &Runner,
        room: &Room,
        (name, token): (&str, &str),
    ) -> io::Result<OnePlanted> {
        let without = |status, detail| OnePlanted {
            status,
            detail,
            ran: None,
        };
        let plan = match layers.plan(runner, token)? {
            Ok(plan) => plan,
            Err(why) => {
                let detail = format!("no test could be planted: {why}");
                return Ok(without(CanaryStatus::NotApplicable, detail));
            }
        };
        for file in &plan.files {
            if let Err(error) = layers.plant(file) {
                let detail = format!(
                    "the canary could not be planted at `{}`: {error}",
                    file.path
                );
                return Ok(without(CanaryStatus::Swallowed, detail));
            }
        }
        let execution = self.execute(command, &plan.command, Some(runner), room, name)?;
        let output = read_text(&execution.output)?;
        let exit = execution.result.exit_code;
        let failed = exit.is_some_and(|code| code != command.expect.exit);
        let (status, detail) = match (failed, plan.is_told(&output)) {
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
        let own = |name: &String| !name.ends_with(&plan.test_name);
        let passed = runner
            .count(&output)
            .map(|tests| tests.passed_names.into_iter().filter(own).collect());
        for file in &plan.files {
            // What is left of it would only make the next runner fail for two reasons.
            layers.uproot(file).ok();
        }
        Ok(OnePlanted {
            status,
            detail: detail.to_owned(),
            ran: Some((execution, passed)),
        })
    }

    fn execute(
        &self,
        command: &VerificationCommand,
        line: &str,
        runner: Option<&Runner>,
        room: &Room,
        name: &str,
    ) -> io::Result<Execution> {
        let places = room.places();
        let mut env = base_environment(&places, &self.path);
        env.extend(room.more_env());
        // Only a command that names the oracle gets it: the others run the code under test in their own process.
        let oracle = self.oracle.as_ref().filter(|_| asks_for_oracle(command));
        if let Some(oracle) = oracle {
            env.insert(
                "CTO_ORACLE".to_owned(),
                room.oracle_at(oracle).to_string_lossy().into_owned(),
            );
        }
        let argv = ["/bin/sh", "-c", line].map(OsString::from).to_vec();
        let limits = (self.limits.sandbox(), self.limits.tree());
        let mut request = room.request(name, argv, to_os(env), limits)?;
        request.binds.extend(oracle.map(|from| Bind {
            from: from.clone(),
            at: room.oracle_at(from),
            access: Access::ReadOnly,
        }));
        let output = room.log(name);
        let mut log = RedactedFile::create(&output, &self.known, &self.places)?;
        let mut attempts: Vec<Attempt> = Vec::new();
        let launched =
            self.launcher
                .launch(&request, &self.stop, &mut |message, _| match message {
                    SandboxMessage::Output(_, bytes) => {
                        log.push(bytes);
                    }
                    // The recorder has a bound of its own.
                    SandboxMessage::Attempt(attempt) => attempts.push(attempt.clone()),
                    SandboxMessage::Started | SandboxMessage::Tick { .. } => {}
                });
        log.finish()?;
        let tests = match (&command.expect.junit, runner) {
            // The code under test made it: no link of it leads the harness anywhere else.
            (Some(path), _) => Layers::open(room.written())?
                .read(path.as_str(), PARSED_BYTES_MAX)
                .unwrap_or_default()
                .and_then(|text| read_junit(&text)),
            (None, Some(runner)) => runner.count(&read_text(&output)?),
            (None, None) => None,
        };
        let (seen, limit) = observed(
            launched,
            Observed {
                exit_code: None,
                signal: None,
                timed_out: false,
                output_capped: false,
                seconds: 0.0,
                tests,
                count_due: runner.is_some() || command.expect.junit.is_some(),
                is_oracle: oracle.is_some(),
                start_failure: None,
            },
        );
        Ok(Execution {
            result: judge_command(command, &seen),
            line: line.to_owned(),
            output,
            limit,
            attempts,
        })
    }
}

/// Adds how a launch ended, and names the limit of all its processes together that ended it.
fn observed(
    launched: Result<Outcome, LaunchError>,
    seen: Observed,
) -> (Observed, Option<(String, u64)>) {
    let outcome = match launched {
        Ok(outcome) => outcome,
        Err(error) => {
            let start_failure = Some(crate::error_chain(&error));
            let seen = Observed {
                start_failure,
                ..seen
            };
            return (seen, None);
        }
    };
    let limit = outcome.limit_hit.as_ref();
    let limit = limit.map(|hit| (hit.limit.as_str().to_owned(), hit.allowed));
    let (exit_code, signal) = match outcome.end {
        End::Exited(code) => (Some(code), None),
        End::Signaled(signal) => (None, Some(signal)),
        End::NotStarted => (None, None),
    };
    let start_failure = match (outcome.stopped_by, outcome.end) {
        (Some(StopCause::SandboxDied), _) => Some("its sandbox died".to_owned()),
        (_, End::NotStarted) => Some("it was stopped before it started".to_owned()),
        (_, End::Exited(_) | End::Signaled(_)) => None,
    };
    let seen = Observed {
        exit_code,
        signal,
        timed_out: outcome.stopped_by == Some(StopCause::Wall),
        output_capped: outcome.output.capped,
        seconds: crate::round_seconds(outcome.wall),
        start_failure,
        ..seen
    };
    (seen, limit)
}

fn asks_for_oracle(command: &VerificationCommand) -> bool {
    command.run.contains("$CTO_ORACLE") || command.run.contains("${CTO_ORACLE}")
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
