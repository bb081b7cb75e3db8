//! A run in progress: its directory, lock, log and the things its steps hand to each other.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use cto_checkout::{Baseline, GitDir, GitLayer, Patch, PatchedLayer, WorkingCopy, Workspace};
use cto_contract::artifact::{EVENTS, Freshness, FreshnessMap, FreshnessSource};
use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::event::{
    EventKind, EventType, LimitHit, RunRecovered, RunStarted, Step, StepFinished, StepStarted,
};
use cto_contract::ids::{Digest, Nonce, RunId, TreeId};
use cto_contract::task::TaskContract;
use cto_contract::words::{Lane, MutationMode, Stage};
use cto_evidence::chain::LineChain;
use cto_rules::eligibility::ExecutionGrant;
use cto_rules::lifecycle::RunState;
use cto_rules::secrets::Known;
use cto_sandbox::StopToken;
use cto_store::RunCreated;

use crate::bench::{Bench, Ground};
use crate::checks::{Checker, Execution};
use crate::clock::{self, RunClock};
use crate::harness::{Harness, RunError, RunRequest};
use crate::inputs::ResolvedInput;
use crate::inside;
use crate::journal::{Journal, JournalError, Observer};
use crate::limits::Effective;
use crate::lock::{Holder, Lock};
use crate::sandbox::Confining;
use crate::source::Source;
use crate::{VERSION, error_chain};
use cto_contract::artifact::TASK_CONTRACT;
use cto_contract::plan::{InputPlan, SandboxPlan, SourcePlan, TreeKind};
use cto_evidence::canonical::{digest_of, to_canonical};
use cto_evidence::writer::PackWriter;

/// How often a stop is looked for while the checks of the baseline are waited for.
const STOP_LOOK: Duration = Duration::from_millis(5);
/// Tries for a run id that nobody has.
const ID_TRIES: u32 = 8;

pub(crate) struct Live<'h> {
    pub(crate) harness: &'h Harness,
    pub(crate) request: &'h RunRequest,
    pub(crate) run_id: RunId,
    pub(crate) nonce: Nonce,
    pub(crate) pack: PathBuf,
    pub(crate) work: PathBuf,
    pub(crate) contract: TaskContract,
    pub(crate) contract_digest: Digest,
    pub(crate) stage: Stage,
    pub(crate) limits: Effective,
    pub(crate) known: Known,
    pub(crate) places: Known,
    pub(crate) stop: StopToken,
    pub(crate) inputs: Vec<ResolvedInput>,
    pub(crate) parts: Parts,
    pub(crate) book: Book,
    journal: Journal,
    observer: Observer<'h>,
    /// Says that the baseline is in use, as long as it is open.
    pub(crate) baseline_use: Option<fs::File>,
    _lock: Lock,
}

/// What steps hand on.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) grant: Option<ExecutionGrant>,
    pub(crate) sandbox: Option<SandboxPlan>,
    pub(crate) confining: Option<Confining>,
    pub(crate) source: Option<Box<Source>>,
    /// The way to the model, for a contract that asks for one.
    pub(crate) model: Option<cto_egress::Route>,
    pub(crate) prepared: Option<Prepared>,
    pub(crate) launch: Option<crate::program::PlannedLaunch>,
    pub(crate) identity_digest: Option<Digest>,
    pub(crate) baseline_checks: Option<BaselineChecks>,
    pub(crate) patch: Option<Patch>,
    pub(crate) applied: Option<Applied>,
}

/// The checks on the untouched baseline, beside everything else.
pub(crate) struct BaselineChecks {
    pub(crate) thread: JoinHandle<io::Result<Vec<Execution>>>,
    /// Theirs alone: the run's own is shared with the runs beside it.
    pub(crate) stop: StopToken,
}

impl BaselineChecks {
    /// Waits for them, and ends them when a stop is asked for meanwhile.
    pub(crate) fn join(self, asked: &StopToken) -> io::Result<Vec<Execution>> {
        while !self.thread.is_finished() {
            if asked.is_asked() {
                self.stop.kill();
            }
            std::thread::park_timeout(STOP_LOOK);
        }
        self.thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the baseline's thread died")))
    }
}

/// The baseline with only the patch applied, and the tree that it was found to be.
pub(crate) struct Applied {
    pub(crate) tree: AppliedTree,
    pub(crate) tree_id: TreeId,
}

pub(crate) enum AppliedTree {
    Copy(WorkingCopy),
    Layer(PatchedLayer),
}

pub(crate) struct Prepared {
    pub(crate) baseline: Baseline,
    /// What the backend works in.
    pub(crate) workspace: Workspace,
    /// The copy that the patch will be applied to; it is checked against the patch's tree, whoever touched it. None
    /// where checks run in overlays.
    pub(crate) fresh: Option<WorkingCopy>,
    pub(crate) git_dir: GitDir,
    pub(crate) checker: Arc<Checker>,
    pub(crate) ground: Arc<Ground>,
    /// Where the backend works.
    pub(crate) bench: Bench,
    /// What lies below every tree that is an overlay, the topmost first.
    pub(crate) below: Vec<PathBuf>,
    pub(crate) git_layer: Option<GitLayer>,
    pub(crate) source_plan: Option<SourcePlan>,
    pub(crate) inputs: Vec<InputPlan>,
    /// What the checks run in.
    pub(crate) checks_kind: TreeKind,
}

/// When each artifact was written, by the run's own clocks.
pub(crate) struct Book {
    pub(crate) started_boot_ns: u64,
    nonce: Nonce,
    clock: RunClock,
    entries: FreshnessMap,
}

impl Book {
    pub(crate) fn new(started_boot_ns: u64, nonce: Nonce, clock: RunClock) -> Self {
        Self {
            started_boot_ns,
            nonce,
            clock,
            entries: BTreeMap::new(),
        }
    }

    pub(crate) fn note(&mut self, path: &str, source: FreshnessSource) {
        let monotonic_ns = clock::boot_ns().saturating_sub(self.started_boot_ns);
        let entry = Freshness {
            source,
            monotonic_ns,
            wall: self.clock.now(),
            nonce: self.nonce.clone(),
        };
        self.entries.insert(path.to_owned(), entry);
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.entries.contains_key(path)
    }

    pub(crate) fn entries(&self) -> &FreshnessMap {
        &self.entries
    }
}

/// What a step says when it is done.
pub(crate) type StepResult = Result<Vec<Blocker>, StepError>;

/// Why a step could not be carried out. All become blockers; only a log that can't be written ends the run at once.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StepError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("`{path}` could not be written")]
    Artifact { path: String, source: io::Error },
    #[error("{what}")]
    Environment { what: String, code: BlockerCode },
}

impl<'h> Live<'h> {
    /// Gives out a run id: from here on there is a pack, whatever happens.
    pub(crate) fn create(
        harness: &'h Harness,
        request: &'h RunRequest,
        inputs: Vec<ResolvedInput>,
        stop: StopToken,
        observer: Observer<'h>,
    ) -> Result<Self, RunError> {
        let contract = request.task.contract();
        let lane = request.lane;
        let env_name = |suffix: &str| {
            format!(
                "CTO_HARNESS_{}_{suffix}",
                lane.as_str().to_ascii_uppercase()
            )
        };
        let env_stage = lane
            .stage_gate()
            .and_then(|n| harness.env.get(&n)?.parse::<u8>().ok())
            .and_then(|n| Stage::try_from(n).ok());
        let stage = request
            .stage
            .or(env_stage)
            .unwrap_or(if lane == Lane::Fake {
                Stage::FIXTURE
            } else {
                Stage::FIRST
            });
        let env_wall = harness
            .env
            .get(&env_name("TIMEOUT_SECONDS"))
            .and_then(|v| v.parse().ok());
        let limits = Effective::new(
            &contract.limits,
            &harness.config.harness.limits,
            request.timeout_seconds,
            env_wall,
        );
        let nonce = Nonce::from_bytes(&clock::random()?);
        let started_boot_ns = clock::boot_ns();
        let holder = Holder::current(started_boot_ns);
        let (run_id, work, lock) = reserve(harness, request, &holder)?;
        let pack = harness.home.pack(&run_id);
        crate::requests::keep(&harness.home, &run_id, request).map_err(RunError::Create)?;
        let fresh = harness.home.runs().join(format!(".new-{run_id}"));
        // The contract is in the pack before the run id is given out, so that every recovery finds it.
        let other = |e: &dyn std::error::Error| RunError::Create(io::Error::other(error_chain(e)));
        let writer = PackWriter::create(&fresh).map_err(|e| other(&e))?;
        let contract_digest = digest_of(&contract).map_err(|e| other(&e))?;
        writer
            .write_new(
                TASK_CONTRACT,
                &to_canonical(&contract).map_err(|e| other(&e))?,
            )
            .map_err(|e| other(&e))?;
        let chain = LineChain::start(&nonce, run_id.clone(), contract.task_id.clone(), lane);
        let first = EventKind::RunStarted(RunStarted {
            nonce: nonce.clone(),
            harness_version: VERSION.to_owned(),
            stage,
            mutation_mode: contract.mutation_mode.unwrap_or(MutationMode::None),
            parent_run_id: request.parent.clone(),
            conformance: request.conformance || request.cheat.is_some(),
            title: contract.title.clone(),
        });
        let mut journal =
            Journal::create(&fresh.join(EVENTS), chain, first, observer).map_err(|source| {
                RunError::Journal {
                    run_id: run_id.clone(),
                    source,
                }
            })?;
        fs::rename(&fresh, &pack).map_err(RunError::Create)?;
        sync_dir(&harness.home.runs()).map_err(RunError::Create)?;
        journal.moved_to(&pack.join(EVENTS));
        harness.store().run_created(&RunCreated {
            run_id: run_id.clone(),
            case_id: contract.task_id.clone(),
            backend: lane,
            stage,
            started_at: journal.state().started_at,
            title: contract.title.clone(),
            conformance: journal.state().started.conformance,
        })?;
        let mut book = Book::new(started_boot_ns, nonce.clone(), journal.clock());
        book.note(TASK_CONTRACT, FreshnessSource::Written);
        Ok(Self {
            harness,
            request,
            book,
            known: Known::new(harness.env.secrets()),
            places: inside::places(&work, harness.home.root()),
            run_id,
            nonce,
            pack,
            work,
            contract,
            contract_digest,
            stage,
            limits,
            stop,
            inputs,
            parts: Parts::default(),
            journal,
            observer,
            baseline_use: None,
            _lock: lock,
        })
    }

    pub(crate) fn state(&self) -> &RunState {
        self.journal.state()
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) fn record(&mut self, kind: EventKind) -> Result<(), JournalError> {
        self.journal.record(kind, self.observer)
    }

    pub(crate) fn sync(&self) -> Result<(), JournalError> {
        self.journal.sync()
    }

    /// Records the intent, acts, records the result.
    pub(crate) fn perform(&mut self, step: Step) -> Result<(), RunError> {
        if step == Step::Complete {
            return self.complete().map_err(|e| self.fatal(e));
        }
        self.record(EventKind::StepStarted(StepStarted { step }))
            .map_err(|e| self.fatal(e))?;
        let mut blockers = match self.act(step) {
            Ok(blockers) => blockers,
            Err(StepError::Journal(error)) => return Err(self.fatal(error)),
            Err(StepError::Artifact { path, source }) => {
                vec![Blocker::new(
                    BlockerCode::ArtifactWriteFailure,
                    path.as_str(),
                    format!("`{path}` could not be written: {source}"),
                )]
            }
            Err(StepError::Environment { what, code }) => {
                if step == Step::Prepare {
                    self.discard_trees();
                }
                let blockers = vec![Blocker::new(code, step.as_str(), what)];
                // A gate that is found closed only now closes like any other.
                if code.row().event == Some(EventType::BackendGateBlocked)
                    && !self.state().backend_started
                {
                    self.record_gate(&blockers).map_err(|e| self.fatal(e))?;
                }
                blockers
            }
        };
        if self.stop.is_asked() {
            blockers.push(Blocker::new(
                BlockerCode::Interrupted,
                step.as_str(),
                format!("a stop was asked for during `{step}`"),
            ));
        }
        self.record(EventKind::StepFinished(StepFinished { step, blockers }))
            .map_err(|e| self.fatal(e))
    }

    /// Gives back the space of half-made copies: on a full disk the log needs it to say so.
    fn discard_trees(&self) {
        for name in ["copy", "upper", "checked", "import"] {
            crate::sealing::clear(&self.work.join(name));
        }
    }

    fn act(&mut self, step: Step) -> StepResult {
        match step {
            Step::Contract => self.step_contract(),
            Step::Eligibility => self.step_eligibility(),
            Step::Prepare => self.prepare_in_use(),
            Step::Plan => self.step_plan(),
            Step::Setup => self.step_setup(),
            Step::Backend => self.step_backend(),
            Step::Change => self.step_change(),
            Step::Policy => self.step_policy(),
            Step::Verification => self.step_verification(),
            Step::Complete | Step::Seal => Ok(Vec::new()),
        }
    }

    /// Closes a run whose step has no recorded end.
    pub(crate) fn abandon(&mut self, step: Step, reason: &str) -> Result<(), RunError> {
        let backend_had_started = self.state().backend_started;
        let data = RunRecovered {
            bytes_cut: 0,
            interrupted_step: Some(step),
            backend_had_started,
            reason: reason.to_owned(),
        };
        self.record(EventKind::RunRecovered(data))
            .map_err(|e| self.fatal(e))
    }

    fn fatal(&self, source: JournalError) -> RunError {
        RunError::Journal {
            run_id: self.run_id.clone(),
            source,
        }
    }

    /// Writes an artifact of the pack and notes when.
    pub(crate) fn artifact(&mut self, path: &str, bytes: &[u8]) -> Result<(), StepError> {
        let failed = |e: &dyn std::error::Error| StepError::Artifact {
            path: path.to_owned(),
            source: io::Error::other(error_chain(e)),
        };
        let writer = PackWriter::open(&self.pack).map_err(|e| failed(&e))?;
        writer.write_new(path, bytes).map_err(|e| failed(&e))?;
        self.book.note(path, FreshnessSource::Written);
        Ok(())
    }

    pub(crate) fn limit_hit(
        &mut self,
        limit: &str,
        allowed: u64,
        step: Step,
        blocker: Blocker,
    ) -> Result<(), JournalError> {
        self.record(EventKind::LimitExceeded(LimitHit {
            limit: limit.to_owned(),
            allowed,
            step,
            blocker,
        }))
    }
}

/// Makes the work directory under an id that nobody has, and holds its lock before anybody can see it there.
fn reserve(
    harness: &Harness,
    request: &RunRequest,
    holder: &Holder,
) -> Result<(RunId, PathBuf, Lock), RunError> {
    let mut last = None;
    for _ in 0..ID_TRIES {
        let run_id = RunId::compose(clock::now(), request.task.id(), clock::random()?);
        let work = harness.home.work_of(&run_id);
        if harness.home.pack(&run_id).exists() {
            continue;
        }
        let hidden = harness
            .home
            .work()
            .join(format!(".new-{}-{run_id}", holder.pid));
        fs::create_dir(&hidden).map_err(RunError::Create)?;
        let lock = Lock::take(&hidden.join("lock"), holder)?;
        match rustix::fs::renameat_with(
            rustix::fs::CWD,
            &hidden,
            rustix::fs::CWD,
            &work,
            rustix::fs::RenameFlags::NOREPLACE,
        ) {
            Ok(()) => return Ok((run_id, work, lock)),
            Err(errno) => {
                fs::remove_dir_all(&hidden).map_err(RunError::Create)?;
                last = Some(io::Error::from(errno));
            }
        }
    }
    Err(RunError::Create(
        last.unwrap_or_else(|| io::Error::other("no free run id")),
    ))
}

pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    fs::File::open(path)?.sync_all()
}
