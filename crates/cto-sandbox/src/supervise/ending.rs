//! How a launch has ended, as the outcome that the harness gets.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{ANSWER_PATIENCE, Running};
use crate::error::LaunchError;
use crate::facts::{Applied, Facts, Fallback};
use crate::launch_failure::failure_error;
use crate::launcher::Launcher;
use crate::layers::{self, Asked};
use crate::memory_group::MemoryGroup;
use crate::outcome::{Class, End, Outcome, OutputTotals, Proof, StdinTotals, StopCause, Survivors};
use crate::provider::container;
use crate::request::LaunchRequest;
use crate::wire;

/// How the launcher has ended.
pub(super) struct Ending {
    /// `None`: given up, something hangs in the kernel.
    pub(super) status: Option<ExitStatus>,
    pub(super) cause: Option<StopCause>,
    /// The launcher never said a word in time.
    pub(super) silent: bool,
}

impl Ending {
    fn how(&self) -> String {
        match self.status {
            _ if self.silent => format!("nothing came in {} s", ANSWER_PATIENCE.as_secs()),
            Some(status) => status.to_string(),
            None => "it could not be killed".to_owned(),
        }
    }

    fn survivors(&self, class: Class) -> Survivors {
        let waited = |codes: &[u8]| {
            let code = self.status.and_then(|status| status.code());
            codes.iter().any(|&known| code == Some(i32::from(known)))
        };
        let proof = match class {
            Class::Process | Class::Full
                if waited(&[
                    wire::EXIT_ORDERLY,
                    wire::EXIT_INIT_DIED,
                    wire::EXIT_INIT_KILLED,
                ]) =>
            {
                Proof::InitWaited
            }
            Class::None | Class::Group | Class::Weak if waited(&[wire::EXIT_ORDERLY]) => {
                Proof::SubreaperEmpty
            }
            Class::Process | Class::Full | Class::None | Class::Group | Class::Weak => {
                return Survivors::Unknown {
                    reason: match self.status {
                        Some(status) => format!("the launcher ended unexpectedly ({status})"),
                        None => "a killed process did not end in time".to_owned(),
                    },
                };
            }
        };
        Survivors::None { proof }
    }
}

/// The outcome of a launch that was stopped before anything happened.
pub(super) fn not_started(request: &LaunchRequest, start: Instant) -> Outcome {
    let uid = rustix::process::geteuid().as_raw();
    let nothing = Facts::group(Some(Fallback::NotTried), uid, Applied::NotAsked);
    let survivors = Survivors::None {
        proof: Proof::NothingStarted,
    };
    Outcome {
        end: End::NotStarted,
        stopped_by: Some(StopCause::Asked),
        started: false,
        wall: start.elapsed(),
        cpu: None,
        peak_rss_bytes: None,
        output: OutputTotals::default(),
        stdin: StdinTotals::default(),
        confinement: layers::confinement(&nothing, Some(Asked::of(request)), survivors),
        limit_hit: None,
        proof: None,
        facts: None,
        recorded: None,
    }
}

impl Running<'_, '_> {
    /// Makes the outcome from all that was seen and said.
    pub(super) fn conclude(
        mut self,
        launcher: &Launcher,
        request: &LaunchRequest,
        ending: &Ending,
        start: Instant,
    ) -> Result<Outcome, LaunchError> {
        let container = self.container.map(container::Running::finish);
        let wall = start.elapsed();
        let output = self.output.totals();
        let stdin = self.stdin.totals(&mut self.dialogue.replies);
        let report = self.report;
        if let Some(failure) = report.failure {
            return Err(failure_error(&failure, request));
        }
        let Some(mut facts) = report.facts.filter(|_| !ending.silent) else {
            return match ending.cause {
                Some(cause) if !ending.silent => Ok(Outcome {
                    stopped_by: Some(cause),
                    ..not_started(request, start)
                }),
                Some(_) | None => Err(LaunchError::NoAnswer {
                    program: launcher.program.clone(),
                    how: ending.how(),
                }),
            };
        };
        facts.memory_group = match self.memory {
            Some(_) => Applied::Yes,
            None => Applied::NotAsked,
        };
        facts.fallback = facts.fallback.or(report.refusal.map(Fallback::Refused));
        let proof = report.proved.map(|proved| {
            facts.inner.recorder = proved.recorder;
            proved.proof
        });
        // A supervisor that is killed at once may not have said it; only the command writes there.
        let started = report.started || output.stdout_bytes > 0;
        let (end, stopped_by) = match (&report.ended, started) {
            (Some(ended), _) => (ended.end, ending.cause.filter(|_| ended.told)),
            // The kernel kills the rest of a tree whose supervisor is dead.
            (None, true) => (
                End::Signaled(Signal::KILL.as_raw()),
                ending.cause.or(Some(StopCause::SandboxDied)),
            ),
            (None, false) => (
                End::NotStarted,
                ending.cause.or(Some(StopCause::SandboxDied)),
            ),
        };
        Ok(Outcome {
            end,
            stopped_by,
            started,
            wall,
            cpu: report
                .ended
                .as_ref()
                .map(|ended| Duration::from_micros(ended.cpu_micros)),
            peak_rss_bytes: report.ended.as_ref().map(|ended| ended.peak_rss_bytes),
            output,
            stdin,
            confinement: layers::confinement(
                &facts,
                Some(Asked::of(request)),
                container.unwrap_or_else(|| ending.survivors(facts.class)),
            ),
            limit_hit: report
                .ended
                .as_ref()
                .and_then(|ended| ended.limit_hit)
                .or_else(|| self.memory.as_ref().and_then(MemoryGroup::hit)),
            proof,
            facts: Some(facts),
            recorded: report.recorded,
        })
    }
}
