//! Starting the backend: durable intent, launch, and what was seen of its end.

use std::path::Path;
use std::sync::Arc;

use cto_agent::LaunchSpec;
use cto_checkout::WorkingCopy;
use cto_contract::artifact::{FreshnessSource, SANDBOX_PROOF};
use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::event::{
    BackendFinished, BackendStarted, BackendText, EventKind, OutputCapped, Step,
};
use cto_contract::plan::{Layer, SandboxPlan, SettingSource, TreeKind};
use cto_contract::task::Limits;
use cto_contract::words::{BackendCompletion, Lane, SandboxClass};
use cto_evidence::canonical::to_canonical;
use cto_evidence::writer::PackWriter;
use cto_sandbox::{
    Access, Bind, Confinement, End, Endpoint, LaunchRequest, MemoryHold, SandboxMessage, StopCause,
    StopToken, Stream, Survivors,
};

use crate::bench::{Bench, Tree};
use crate::checks::{Checker, RedactedFile, to_os};
use crate::denials::totals;
use crate::heard::Heard;
use crate::live::{BaselineChecks, Live, StepError, StepResult};
use crate::model;
use crate::program::{PlannedLaunch, ProgramFile};
use crate::protected::ProtectedRoots;
use crate::sandbox::class_word;
use crate::sandbox_proof::{Names, sandbox_proof};
use crate::steps::egress::Egress;
use crate::steps::prepare::missing;
use crate::{error_chain, round_seconds};

const STDOUT: &str = "backend/stdout.log";
const STDERR: &str = "backend/stderr.log";

/// What confines a process, in the words of a report.
pub(crate) fn sandbox_plan(
    seen: &Confinement,
    limits: &Limits,
    provider_from: SettingSource,
) -> SandboxPlan {
    let class = class_word(seen.class);
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
        let is_watched = class >= SandboxClass::Process;
        let detail = match asked {
            None => "not asked for".to_owned(),
            Some(mb) if is_watched => format!("{mb} MiB of all processes together"),
            Some(mb) => format!("{mb} MiB asked for, watched only in a root of its own"),
        };
        layers.push(Layer {
            name: name.to_owned(),
            in_force: is_watched && asked.is_some(),
            detail,
        });
    }
    SandboxPlan {
        provider: seen.provider.as_str().to_owned(),
        provider_from,
        class,
        layers,
        writable_roots: vec!["$WORKSPACE".to_owned(), "$SCRATCH".to_owned()],
        read_paths: Vec::new(),
    }
}

pub(crate) fn no_sandbox() -> SandboxPlan {
    SandboxPlan {
        provider: "none".to_owned(),
        provider_from: SettingSource::Default,
        class: SandboxClass::None,
        layers: Vec::new(),
        writable_roots: Vec::new(),
        read_paths: Vec::new(),
    }
}

fn unprotected(source: std::io::Error) -> StepError {
    StepError::Environment {
        what: format!("the protected roots could not be looked at: {source}"),
        code: BlockerCode::ProtectedRootMutated,
    }
}

/// The error of a program that is not the file any more whose digest stands in the identity.
fn replaced(program: Option<&ProgramFile>) -> Option<StepError> {
    program
        .filter(|program| !program.is_unchanged())
        .map(|_| StepError::Environment {
            what: "the program was replaced or written after its digest was taken; try again once nobody installs it"
                .to_owned(),
            code: BlockerCode::ProviderUnavailable,
        })
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
        let PlannedLaunch { spec, program } = self
            .parts
            .launch
            .take()
            .ok_or_else(|| missing("the launch request"))?;
        if let Some(replaced) = replaced(program.as_ref()) {
            return Err(replaced);
        }
        let identity_digest = self
            .parts
            .identity_digest
            .clone()
            .ok_or_else(|| missing("the identity"))?;
        let roots = &self.harness.config.harness.protected_roots;
        let protected = ProtectedRoots::look(roots).map_err(unprotected)?;
        self.start_baseline_checks()?;
        self.record(EventKind::BackendStarted(BackendStarted {
            identity_digest,
        }))?;
        self.sync()?;
        let prepared = self
            .parts
            .prepared
            .as_ref()
            .ok_or_else(|| missing("the workspace"))?;
        let request = self.backend_request(&prepared.bench, spec)?;
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
        let stop = self.stop.clone();
        let launcher = self.parts.launcher()?.clone();
        let mut words = (self.request.lane != Lane::Fake).then(Heard::default);
        let denials = self.denial_words();
        let mut recorded = Ok(());
        let limits = &self.limits.limits;
        let mut egress = self.parts.model.take().map(|way| Egress::new(way, limits));
        let mut sink = |said: SandboxMessage<'_>, _: &mut cto_sandbox::Replies| match said {
            SandboxMessage::Output(Stream::Stdout, bytes) => {
                let clean = out.push(bytes);
                let plans = words.as_mut().map(|w| w.hear(clean)).unwrap_or_default();
                for text in plans {
                    if recorded.is_ok() {
                        recorded = self.record(EventKind::BackendPlan(BackendText { text }));
                    }
                }
            }
            SandboxMessage::Output(Stream::Stderr, bytes) => {
                err.push(bytes);
            }
            SandboxMessage::Attempt(attempt) => {
                if let Some(denial) = denials.denial(attempt, Step::Backend)
                    && recorded.is_ok()
                {
                    recorded = self.record(EventKind::SandboxDenied(denial));
                }
            }
            SandboxMessage::Started | SandboxMessage::Tick { .. } => {}
        };
        let launched = match &mut egress {
            None => launcher.launch(&request, &stop, &mut sink),
            Some(egress) => {
                let mut host = |listeners| egress.host(listeners);
                launcher.launch_hosted(&request, &stop, &mut sink, &mut host)
            }
        };
        // First of all: nothing of the agent is left that could speak, and nothing may be spoken for it.
        let traffic = egress.and_then(Egress::finish);
        recorded?;
        let model_traffic = traffic
            .map(|traffic| self.record_traffic(&traffic))
            .transpose()?;
        out.finish().map_err(artifact(STDOUT))?;
        err.finish().map_err(artifact(STDERR))?;
        for path in [STDOUT, STDERR] {
            self.book.note(path, FreshnessSource::Written);
        }
        let finished = match launched {
            Ok(outcome) => {
                let sandbox = SandboxPlan {
                    read_paths: self
                        .parts
                        .sandbox
                        .as_ref()
                        .map(|s| s.read_paths.clone())
                        .unwrap_or_default(),
                    ..sandbox_plan(
                        &outcome.confinement,
                        &self.limits.limits,
                        self.parts.provider_from(),
                    )
                };
                let user_home = self.harness.env.get("HOME").map(Path::new);
                let names = Names::new(self.harness.home.root(), user_home);
                let limits = &self.limits.limits;
                let proof =
                    sandbox_proof(&request, outcome.proof.as_ref(), &sandbox, limits, &names);
                let bytes = to_canonical(&proof)
                    .map_err(|e| artifact(SANDBOX_PROOF)(std::io::Error::other(e.to_string())))?;
                writer
                    .write_new(SANDBOX_PROOF, &bytes)
                    .map_err(|e| artifact(SANDBOX_PROOF)(std::io::Error::other(error_chain(&e))))?;
                self.book.note(SANDBOX_PROOF, FreshnessSource::Written);
                if outcome.output.capped {
                    let data = OutputCapped {
                        limit_bytes: self.limits.output_bytes(),
                        dropped_bytes: outcome.output.dropped_bytes,
                    };
                    self.record(EventKind::BackendOutputCapped(data))?;
                }
                if let Some(hit) = &outcome.limit_hit {
                    let name = hit.limit.as_str();
                    let blocker = Blocker::new(
                        BlockerCode::LimitExceeded,
                        name,
                        format!(
                            "the backend went over {name}: {} of {}",
                            hit.seen, hit.allowed
                        ),
                    );
                    self.limit_hit(name, hit.allowed, Step::Backend, blocker)?;
                }
                let (exit_code, signal) = match outcome.end {
                    End::Exited(code) => (Some(code), None),
                    End::Signaled(signal) => (None, Some(signal)),
                    End::NotStarted => (None, None),
                };
                let completion = match (outcome.stopped_by, outcome.end) {
                    (
                        Some(
                            StopCause::Wall
                            | StopCause::Asked
                            | StopCause::Finished
                            | StopCause::StdinFull,
                        ),
                        _,
                    ) => BackendCompletion::Harness,
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
                    sandbox,
                    recorded: outcome.recorded.map(totals),
                    start_failure,
                    agent: words.map(Heard::finish),
                    model_traffic,
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
                recorded: None,
                start_failure: Some(error_chain(&error)),
                agent: None,
                model_traffic,
            },
        };
        self.record(EventKind::BackendFinished(finished))?;
        if let Some(source) = &mut self.parts.source {
            source
                .look_after_backend()
                .map_err(|e| crate::source::failed(&e))?;
        }
        let after = ProtectedRoots::look(roots).map_err(unprotected)?;
        // Between the look and the start there is a moment; what was replaced in it shows now.
        match replaced(program.as_ref()) {
            Some(replaced) => Err(replaced),
            None => Ok(after.changed_since(&protected).into_iter().collect()),
        }
    }

    /// What will be launched: the plan is made from it, too.
    pub(crate) fn backend_request(
        &self,
        bench: &Bench,
        spec: LaunchSpec,
    ) -> Result<LaunchRequest, StepError> {
        let argv = spec.argv.iter().map(Into::into).collect();
        let mut tree = self.limits.tree();
        tree.memory_hold = match self.request.lane {
            // Applies a patch and is gone.
            Lane::Fake => MemoryHold::Looks,
            Lane::Command | Lane::Case | Lane::Codex | Lane::Pi | Lane::Claude | Lane::Acp => {
                MemoryHold::Group
            }
        };
        let mut request = bench
            .request(
                "backend",
                argv,
                to_os(spec.env),
                (self.limits.sandbox(), tree),
            )
            .map_err(|source| StepError::Artifact {
                path: "$WORKSPACE".to_owned(),
                source,
            })?;
        let fake = self.work.join("fake");
        if fake.is_dir() {
            request.binds.push(Bind {
                at: bench.fake_at(&fake),
                from: fake,
                access: Access::ReadOnly,
            });
        }
        let has_model = self.parts.model.is_some();
        request.endpoint = has_model.then_some(Endpoint { port: model::PORT });
        Ok(request)
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
        let stop = StopToken::new().map_err(|e| StepError::Environment {
            what: format!("the checks on the baseline can't be watched: {e}"),
            code: BlockerCode::ProviderUnavailable,
        })?;
        let checker = Checker {
            stop: stop.clone(),
            ..Checker::clone(&prepared.checker)
        };
        let baseline = prepared.baseline.clone();
        let copy = self.work.join("baseline");
        let ground = Arc::clone(&prepared.ground);
        let (kind, below) = (prepared.checks_kind, prepared.below.clone());
        let git_layer = prepared.git_layer.clone();
        let thread = std::thread::spawn(move || {
            let tree = match kind {
                TreeKind::Overlay => Tree::Overlay {
                    lowers: below,
                    upper: copy,
                },
                TreeKind::Copy => {
                    let other = |e: &dyn std::error::Error| std::io::Error::other(error_chain(e));
                    let made = WorkingCopy::make(&baseline, &copy).map_err(|e| other(&e))?;
                    if let Some(layer) = git_layer {
                        layer.copy_into(&made).map_err(|e| other(&e))?;
                    }
                    Tree::Copy(copy)
                }
            };
            let bench = ground.bench("baseline", tree)?;
            checker.baseline(&bench)
        });
        self.parts.baseline_checks = Some(BaselineChecks { thread, stop });
        Ok(())
    }
}
