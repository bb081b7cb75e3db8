//! Runs verification commands: confined like any agent, each with its output on disk, capped.

mod planting;
mod result_file;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cto_agent::base_environment;
use cto_contract::task::{Expect, TaskContract, VerificationCommand};
use cto_contract::verification::{Canary, CanaryStatus, CheckRoom, CommandResult};
use cto_rules::checks::{
    Check, Observed, OracleUse, Runner, all_checks, first_error, is_tool_missing, judge_command,
    judged, read_junit,
};
use cto_rules::secrets::Known;
use cto_sandbox::{
    Access, Attempt, Bind, End, LaunchError, Launcher, Means, MemoryHold, Outcome, SandboxMessage,
    StopCause, StopToken, TreeLimits,
};

use crate::baseline_checks::Baseline;
use crate::inside;
use crate::limits::Effective;
use crate::redacted_file::RedactedFile;
use crate::room::Room;
use crate::trees::FreshRoom;
use planting::Layers;
use result_file::ResultFile;

/// How much of a command's output is searched for test results.
const PARSED_BYTES_MAX: u64 = 16 << 20;
/// Where a check finds the oracle of its case.
pub(crate) const ORACLE_VARIABLE: &str = "CTO_ORACLE";
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
    /// As the agent's own: code that it wrote runs here too.
    pub(crate) memory: MemoryHold,
    pub(crate) stop: StopToken,
    pub(crate) known: Known,
    /// Where the harness keeps its state: a pack never names it.
    pub(crate) home: PathBuf,
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
    /// The room that it had for itself.
    pub(crate) own: Option<FreshRoom>,
}

/// The rooms of one round of checks.
pub(crate) struct RoundRooms<'r> {
    /// Of all commands but oracles.
    pub(crate) shared: &'r Room,
    /// Makes one that nobody has used, by a name that was not given before.
    pub(crate) fresh: &'r dyn Fn(&str) -> io::Result<FreshRoom>,
}

/// What the canary run gave.
#[derive(Default)]
pub(crate) struct CanaryRun {
    /// One for each command, or part of one, that starts a known runner.
    planted: Vec<PlantedTest>,
    pub(crate) executions: Vec<Execution>,
}

/// What came of the test that was planted for one check.
struct PlantedTest {
    command: String,
    part: Option<String>,
    canary: Canary,
}

impl CanaryRun {
    /// The canary of the check that a result is of.
    pub(crate) fn of(&self, result: &CommandResult) -> Option<Canary> {
        let own = |p: &&PlantedTest| (&p.command, &p.part) == (&result.command, &result.part);
        self.planted.iter().find(own).map(|p| p.canary.clone())
    }
}

/// What one planted test gave.
struct OnePlanted {
    status: CanaryStatus,
    detail: String,
    ran: Option<Execution>,
}

impl Checker {
    /// The untouched baseline: every command runs, whatever the others did, and runners tell tests by name.
    pub(crate) fn baseline(&self, rooms: &RoundRooms<'_>) -> io::Result<Vec<Execution>> {
        let checks = all_checks(&self.contract).enumerate();
        checks
            .map(|(i, check)| {
                let mut execution = self.check(&check, rooms, &format!("before-{i}"))?;
                if !execution.result.passed {
                    execution.result.first_error = first_error(&read_text(&execution.output)?);
                }
                Ok(execution)
            })
            .collect()
    }

    /// The changed tree: in order, each as often as asked, up to the first failure that is new; by name where a runner
    /// is known.
    pub(crate) fn after(
        &self,
        rooms: &RoundRooms<'_>,
        baseline: &mut Baseline,
    ) -> io::Result<Vec<Execution>> {
        let mut out = Vec::new();
        for (i, command) in self.contract.verification_commands.iter().enumerate() {
            let checks = Check::all_of(command);
            for round in 0..command.repeat {
                for (part, check) in checks.iter().enumerate() {
                    let name = format!("after-{i}-{round}-{part}");
                    let mut execution = self.check(check, rooms, &name)?;
                    if !execution.result.passed {
                        let mut before = baseline.wait(&self.stop)?.iter().map(|e| &e.result);
                        let same = before.find(|b| b.is_same_check(&execution.result));
                        execution.result = judged(check, execution.result, same);
                    }
                    let passed = execution.result.passed;
                    out.push(execution);
                    if !passed {
                        return Ok(out);
                    }
                }
            }
        }
        Ok(out)
    }

    /// Runs a command once, in the room that the rules give it.
    fn check(
        &self,
        check: &Check<'_>,
        rooms: &RoundRooms<'_>,
        name: &str,
    ) -> io::Result<Execution> {
        let started = Started {
            check,
            line: &check.line(),
            name,
            oracle: self.oracle_for(check.command),
            room: CheckRoom::Shared,
        };
        // Where nothing is held, no room is anybody's own.
        let is_held = self.launcher.means != Means::None;
        match OracleUse::of(check.text()).room() {
            CheckRoom::Own if is_held && started.oracle.is_some() => {
                let own = (rooms.fresh)(name)?;
                let room = CheckRoom::Own;
                let execution = self.execute(&Started { room, ..started }, &own.room)?;
                let own = Some(own);
                Ok(Execution { own, ..execution })
            }
            CheckRoom::Own | CheckRoom::Shared => self.execute(&started, rooms.shared),
        }
    }

    /// The oracle, for a command that names it: the others run the code under test in their own process.
    fn oracle_for(&self, command: &VerificationCommand) -> Option<&Path> {
        match OracleUse::of(&command.run) {
            OracleUse::Unused => None,
            OracleUse::Named | OracleUse::Program => self.oracle.as_deref(),
        }
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
            let check = Check {
                command: &command,
                part: None,
                runner: None,
            };
            let started = Started {
                check: &check,
                line,
                name: &format!("setup-{i}"),
                oracle: None,
                room: CheckRoom::Shared,
            };
            let execution = self.execute(&started, room)?;
            let passed = execution.result.passed;
            out.push(execution);
            if !passed {
                break;
            }
        }
        Ok(out)
    }

    /// For each runner that is known, plants a test that must fail and reruns it: if it does not see it fail, the code
    /// under test is in control. Commands before a runner that make something for it run as well.
    pub(crate) fn canary(
        &self,
        fresh: impl FnOnce() -> io::Result<FreshRoom>,
        token: &str,
    ) -> io::Result<CanaryRun> {
        let checks: Vec<Check<'_>> = all_checks(&self.contract).collect();
        let Some(last) = checks.iter().rposition(|check| check.runner.is_some()) else {
            return Ok(CanaryRun::default());
        };
        let room = &fresh()?.room;
        let mut run = CanaryRun::default();
        let layers = Layers::open(room.layers())?;
        for (i, check) in checks.iter().take(last + 1).enumerate() {
            let name = format!("canary-{i}");
            let Some(runner) = &check.runner else {
                if OracleUse::of(check.text()) == OracleUse::Unused {
                    let started = Started {
                        check,
                        line: check.text(),
                        name: &name,
                        oracle: None,
                        room: CheckRoom::Shared,
                    };
                    run.executions.push(self.execute(&started, room)?);
                }
                continue;
            };
            let token = format!("{token}{i}");
            let one = self.plant_and_run(&layers, check, runner, room, (&name, &token))?;
            run.executions.extend(one.ran);
            run.planted.push(PlantedTest {
                command: check.command.run.clone(),
                part: check.part.clone(),
                canary: Canary {
                    status: one.status,
                    runner: runner.name().to_owned(),
                    detail: one.detail,
                },
            });
        }
        Ok(run)
    }

    fn plant_and_run(
        &self,
        layers: &Layers,
        check: &Check<'_>,
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
        let started = Started {
            check,
            line: &plan.command,
            name,
            oracle: None,
            room: CheckRoom::Shared,
        };
        let execution = self.execute(&started, room)?;
        let output = read_text(&execution.output)?;
        let exit = execution.result.exit_code;
        let failed = exit.is_some_and(|code| code != check.command.expect.exit);
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
        for file in &plan.files {
            // What is left of it would only make the next runner fail for two reasons.
            layers.uproot(file).ok();
        }
        Ok(OnePlanted {
            status,
            detail: detail.to_owned(),
            ran: Some(execution),
        })
    }

    fn execute(&self, started: &Started<'_>, room: &Room) -> io::Result<Execution> {
        let &Started {
            check,
            line,
            name,
            oracle,
            room: kind,
        } = started;
        let places = room.places();
        let mut env = base_environment(&places, &self.path);
        env.extend(room.more_env());
        if let Some(oracle) = oracle {
            env.insert(
                ORACLE_VARIABLE.to_owned(),
                room.oracle_at(oracle).to_string_lossy().into_owned(),
            );
        }
        let argv = ["/bin/sh", "-c", line].map(OsString::from).to_vec();
        let tree = TreeLimits {
            memory_hold: self.memory,
            ..self.limits.tree()
        };
        let limits = (self.limits.sandbox(), tree);
        let mut request = room.request(name, argv, to_os(env), limits)?;
        request.binds.extend(oracle.map(|from| Bind {
            from: from.to_owned(),
            at: room.oracle_at(from),
            access: Access::ReadOnly,
        }));
        let output = room.log(name);
        let mut outside = room.outside();
        outside.extend(oracle.map(|from| (from.to_owned(), "$CTO_ORACLE")));
        let places = inside::places(&outside, &self.home);
        let mut log = RedactedFile::create(&output, &self.known, &places)?;
        let mut attempts: Vec<Attempt> = Vec::new();
        let results = check.command.expect.junit.as_ref();
        let results = results.map(|path| ResultFile::note(room, path.as_str()));
        let results = results.transpose()?;
        let launched =
            self.launcher
                .launch(&request, &self.stop, &mut |message, _| match message {
                    SandboxMessage::Output(_, bytes) => {
                        log.push(bytes);
                    }
                    // The recorder has a bound of its own.
                    SandboxMessage::Attempt(attempt) => attempts.push(attempt.clone()),
                    SandboxMessage::Started
                    | SandboxMessage::Activity(_)
                    | SandboxMessage::Tick { .. } => {}
                });
        log.finish()?;
        let said = read_text(&output)?;
        let tests = match (&results, &check.runner) {
            (Some(results), _) => results.read().and_then(|text| read_junit(&text)),
            (None, Some(runner)) => runner.count(&said),
            (None, None) => None,
        };
        let (mut seen, limit) = observed(
            launched,
            Observed {
                exit_code: None,
                signal: None,
                timed_out: false,
                output_capped: false,
                seconds: 0.0,
                tests,
                room: kind,
                start_failure: None,
                tool_missing: false,
            },
        );
        seen.tool_missing = is_tool_missing(check, seen.exit_code, &said);
        Ok(Execution {
            result: judge_command(check, seen),
            line: line.to_owned(),
            output,
            limit,
            attempts,
            own: None,
        })
    }
}

/// One command to be started.
struct Started<'s> {
    check: &'s Check<'s>,
    /// What the shell is given: the command, or its runner called so that it tells more.
    line: &'s str,
    /// Of this start: that of its log.
    name: &'s str,
    oracle: Option<&'s Path>,
    room: CheckRoom,
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
