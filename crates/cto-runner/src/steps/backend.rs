//! Starting the backend: durable intent, launch, and what was seen of its end.

use std::sync::Arc;

use cto_checkout::{WorkingCopy, Workspace};
use cto_contract::artifact::FreshnessSource;
use cto_contract::blocker::BlockerCode;
use cto_contract::event::{BackendFinished, BackendStarted, EventKind, OutputCapped};
use cto_contract::plan::{Layer, SandboxPlan, TreeKind};
use cto_contract::task::Limits;
use cto_contract::words::{BackendCompletion, SandboxClass};
use cto_evidence::writer::PackWriter;
use cto_sandbox::{
    Class, Confinement, End, LaunchRequest, Network, Overlay, StopCause, Stream, Survivors,
};

use crate::checks::{Bench, GRACE, RedactedFile, to_os};
use crate::live::{Live, StepError, StepResult};
use crate::steps::prepare::missing;
use crate::{error_chain, round_seconds};

const STDOUT: &str = "backend/stdout.log";
const STDERR: &str = "backend/stderr.log";

/// What confines a process, in the words of a report.
pub(crate) fn sandbox_plan(seen: &Confinement, limits: &Limits) -> SandboxPlan {
    let class = match seen.class {
        Class::Group => SandboxClass::Group,
        Class::Process => SandboxClass::Process,
    };
    let mut layers: Vec<Layer> = seen
        .layers
        .iter()
        .map(|l| Layer {
            name: l.name.as_str().to_owned(),
            in_force: l.in_force,
            detail: l.detail.clone(),
        })
        .collect();
    for (name, asked) in [
        ("memory_limit", limits.memory_mb),
        ("disk_limit", limits.disk_mb),
    ] {
        let detail = asked.map_or_else(
            || "not asked for".to_owned(),
            |mb| format!("{mb} MiB asked for, not enforced by this version"),
        );
        layers.push(Layer {
            name: name.to_owned(),
            in_force: false,
            detail,
        });
    }
    SandboxPlan {
        provider: seen.provider.as_str().to_owned(),
        class,
        layers,
        writable_roots: vec!["$WORKSPACE".to_owned(), "$SCRATCH".to_owned()],
    }
}

pub(crate) fn no_sandbox() -> SandboxPlan {
    SandboxPlan {
        provider: "none".to_owned(),
        class: SandboxClass::None,
        layers: Vec::new(),
        writable_roots: Vec::new(),
    }
}

impl Live<'_> {
    pub(crate) fn step_backend(&mut self) -> StepResult {
        if self.parts.grant.is_none() {
            // Unreachable by the rules; without a grant nothing is ever started.
            return Err(StepError::Environment {
                what: "`grant` the rules gave no right to start".to_owned(),
                code: BlockerCode::GateMissing,
            });
        }
        let spec = self
            .parts
            .launch
            .take()
            .ok_or_else(|| missing("the launch request"))?;
        let identity_digest = self
            .parts
            .identity_digest
            .clone()
            .ok_or_else(|| missing("the identity"))?;
        self.start_baseline_checks()?;
        self.record(EventKind::BackendStarted(BackendStarted {
            identity_digest,
        }))?;
        self.sync()?;
        let overlay = self.workspace_overlay()?;
        let request = LaunchRequest {
            argv: spec.argv.iter().map(Into::into).collect(),
            env: to_os(spec.env),
            cwd: self.work.join("workspace"),
            read_only: Vec::new(),
            overlay,
            limits: self.limits.sandbox(),
            network: Network::None,
            grace: GRACE,
        };
        let artifact = |path: &str| {
            let path = path.to_owned();
            move |source| StepError::Artifact { path, source }
        };
        let writer = PackWriter::open(&self.pack)
            .map_err(|e| artifact("backend")(std::io::Error::other(error_chain(&e))))?;
        let open = |path: &str| {
            let file = writer
                .create_new(path)
                .map_err(|e| artifact(path)(std::io::Error::other(error_chain(&e))))?;
            Ok::<_, StepError>(RedactedFile::new(file, &self.known, &self.places))
        };
        let mut out = open(STDOUT)?;
        let mut err = open(STDERR)?;
        let launched = self
            .harness
            .launcher
            .launch(&request, &self.stop, &mut |stream, bytes| match stream {
                Stream::Stdout => out.push(bytes),
                Stream::Stderr => err.push(bytes),
            });
        out.finish().map_err(artifact(STDOUT))?;
        err.finish().map_err(artifact(STDERR))?;
        for path in [STDOUT, STDERR] {
            self.book.note(path, FreshnessSource::Written);
        }
        let finished = match launched {
            Ok(outcome) => {
                if outcome.output.capped {
                    let data = OutputCapped {
                        limit_bytes: self.limits.output_bytes(),
                        dropped_bytes: outcome.output.dropped_bytes,
                    };
                    self.record(EventKind::BackendOutputCapped(data))?;
                }
                let (exit_code, signal) = match outcome.end {
                    End::Exited(code) => (Some(code), None),
                    End::Signaled(signal) => (None, Some(signal)),
                    End::NotStarted => (None, None),
                };
                let completion = match (outcome.stopped_by, outcome.end) {
                    (Some(StopCause::Wall | StopCause::Asked), _) => BackendCompletion::Harness,
                    (Some(StopCause::SandboxDied), _) | (None, End::Signaled(_)) => {
                        BackendCompletion::Signal
                    }
                    (None, End::Exited(_)) => BackendCompletion::Own,
                    (None, End::NotStarted) => BackendCompletion::None,
                };
                let start_failure = (outcome.end == End::NotStarted)
                    .then(|| "it was stopped before it started".to_owned());
                BackendFinished {
                    exit_code,
                    signal,
                    completion,
                    timed_out: outcome.stopped_by == Some(StopCause::Wall),
                    seconds: round_seconds(outcome.wall),
                    cpu_seconds: outcome.cpu.map(round_seconds),
                    peak_memory_bytes: outcome.peak_rss_bytes,
                    stdout_bytes: outcome.output.stdout_bytes,
                    stderr_bytes: outcome.output.stderr_bytes,
                    dropped_bytes: outcome.output.dropped_bytes,
                    no_survivors: matches!(outcome.confinement.survivors, Survivors::None { .. }),
                    sandbox: sandbox_plan(&outcome.confinement, &self.limits.limits),
                    start_failure,
                }
            }
            Err(error) => BackendFinished {
                exit_code: None,
                signal: None,
                completion: BackendCompletion::None,
                timed_out: false,
                seconds: 0.0,
                cpu_seconds: None,
                peak_memory_bytes: None,
                stdout_bytes: 0,
                stderr_bytes: 0,
                dropped_bytes: 0,
                no_survivors: true,
                sandbox: self.parts.sandbox.clone().unwrap_or_else(no_sandbox),
                start_failure: Some(error_chain(&error)),
            },
        };
        self.record(EventKind::BackendFinished(finished))?;
        Ok(Vec::new())
    }

    /// The overlay that the backend works in, when it is one.
    fn workspace_overlay(&self) -> Result<Option<Overlay>, StepError> {
        let prepared = self
            .parts
            .prepared
            .as_ref()
            .ok_or_else(|| missing("the workspace"))?;
        let Workspace::Overlay(tree) = &prepared.workspace else {
            return Ok(None);
        };
        let (at, work) = (self.work.join("workspace"), self.work.join("upper-work"));
        for dir in [&at, &work] {
            std::fs::create_dir_all(dir).map_err(|source| StepError::Artifact {
                path: "$WORKSPACE".to_owned(),
                source,
            })?;
        }
        Ok(Some(Overlay {
            lowers: vec![prepared.baseline.root.clone()],
            upper: tree.upper().to_owned(),
            work,
            at,
        }))
    }

    /// The checks on the untouched baseline start before the backend does, in a copy of their own.
    fn start_baseline_checks(&mut self) -> Result<(), StepError> {
        if self.contract.verification_commands.is_empty() {
            return Ok(());
        }
        let prepared = self
            .parts
            .prepared
            .as_ref()
            .ok_or_else(|| missing("the workspace"))?;
        let checker = Arc::clone(&prepared.checker);
        let baseline = prepared.baseline.clone();
        let tree = self.work.join("baseline");
        let scratch = self.work.join("baseline-scratch");
        let kind = prepared.checks_kind;
        self.parts.baseline_checks = Some(std::thread::spawn(move || {
            let bench = match kind {
                TreeKind::Overlay => Bench::over(vec![baseline.root.clone()], &tree, &scratch)?,
                TreeKind::Copy => {
                    let copy = WorkingCopy::make(&baseline, &tree)
                        .map_err(|e| std::io::Error::other(error_chain(&e)))?;
                    Bench::new(copy.path(), &scratch)?
                }
            };
            checker.baseline(&bench)
        }));
        Ok(())
    }
}
