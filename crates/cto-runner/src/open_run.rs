//! A run in progress: its directory, lock and log, and how a step of it is carried out.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use cto_agent::ModelPair;
use cto_contract::artifact::{EVENTS, FreshnessSource, TASK_CONTRACT};
use cto_contract::blocker::Blocker;
use cto_contract::event::{
    EventKind, EventType, GateBlocked, RunStarted, Step, StepFinished, StepStarted,
};
use cto_contract::ids::{Digest, Nonce, RunId};
use cto_contract::task::TaskContract;
use cto_contract::verification::CommandResult;
use cto_contract::words::Lane;
use cto_evidence::canonical::{digest_of, to_canonical};
use cto_evidence::chain::LineChain;
use cto_evidence::writer::PackWriter;
use cto_rules::lifecycle::{Next, RunState, next_step};
use cto_rules::secrets::Known;
use cto_rules::verdicts::{self, ExposedFile, Fault, LimitFact};
use cto_sandbox::StopToken;
use cto_store::RunCreated;

use crate::artifact_times::ArtifactTimes;
use crate::clock;
use crate::eligibility::stage_asked;
use crate::harness::{Harness, Parent, RunError, RunRequest};
use crate::inputs::ResolvedInput;
use crate::inside;
use crate::journal::{Journal, JournalError, Observer};
use crate::last_scan::{ScanError, scan_files, scan_log};
use crate::limits::Effective;
use crate::lock::{Holder, LOCK, Lock, maker_tag};
use crate::model::Opened;
use crate::reserve::{RESERVE_BYTES, Reserve};
use crate::room::{BACKEND_ROOM, BACKEND_TREE, CHECKED_TREE};
use crate::room_names::RoomNames;
use crate::{VERSION, error_chain};
use cto_rules::ladder::HomeKind;

/// How the directory of a pack begins before its log does.
pub(crate) const DRAFT: &str = ".new-";
/// Tries for a run id that nobody has.
const ID_TRIES: u32 = 8;

/// What is the same for all steps of a run.
pub(crate) struct OpenRun<'h> {
    pub(crate) harness: &'h Harness,
    pub(crate) request: &'h RunRequest,
    pub(crate) run_id: RunId,
    pub(crate) pack: PathBuf,
    pub(crate) work: PathBuf,
    pub(crate) names: RoomNames,
    pub(crate) contract: TaskContract,
    pub(crate) contract_digest: Digest,
    pub(crate) limits: Effective,
    /// Secrets and endpoints that must not be written anywhere; eligibility adds those of the model.
    pub(crate) secrets: Known,
    /// Paths of this machine and what a pack calls them.
    pub(crate) places: Known,
    /// The pair that a record admits; none before the decision, and for a run without a model.
    pub(crate) pair: Option<ModelPair>,
    /// Nothing is started and nobody is asked.
    pub(crate) is_only_planned: bool,
    pub(crate) stop: StopToken,
    pub(crate) inputs: Vec<ResolvedInput>,
    pub(crate) times: ArtifactTimes,
    journal: Journal,
    observer: Observer<'h>,
    /// From before the agent starts until the run ends.
    reserve: Option<Reserve>,
    /// How the disk was found full, until the step says so.
    disk_full: Option<Fault>,
    _lock: Lock,
}

/// Why the walk of a run goes no further.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The rules want the run completed now.
    Stopped,
    /// Not even its log can be written.
    Failed(RunError),
}

impl From<RunError> for Halt {
    fn from(error: RunError) -> Self {
        Self::Failed(error)
    }
}

/// Why a step could not be carried out.
#[derive(Debug)]
pub(crate) enum StepError {
    /// The log can't be written: the run ends at once.
    Log(JournalError),
    /// The rules name it.
    Fault(Fault),
}

impl From<JournalError> for StepError {
    fn from(error: JournalError) -> Self {
        Self::Log(error)
    }
}

impl From<Fault> for StepError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl StepError {
    pub(crate) fn not_written(path: &str, error: &dyn std::error::Error) -> Self {
        Self::Fault(Fault::NotWritten {
            path: path.to_owned(),
            why: error_chain(error),
        })
    }
}

impl<'h> OpenRun<'h> {
    /// Gives out a run id: from here on there is a pack, whatever happens.
    pub(crate) fn create(
        harness: &'h Harness,
        request: &'h RunRequest,
        inputs: Vec<ResolvedInput>,
        stop: StopToken,
        observer: Observer<'h>,
    ) -> Result<Self, RunError> {
        let contract = request.task.contract();
        let asked = stage_asked(harness, request.lane, request.stage, request.task.work());
        let limits = limits_of(harness, request, &contract);
        let nonce = Nonce::from_bytes(&clock::random()?);
        let started_boot_ns = clock::boot_ns();
        let names = RoomNames::choose(&harness.home.rooms())?;
        let (run_id, work, lock) = reserve(harness, request, &Holder::current(started_boot_ns))?;
        crate::requests::keep(&harness.home, &run_id, request).map_err(RunError::Create)?;
        let contract_digest = digest_of(&contract)
            .map_err(|e| RunError::Create(io::Error::other(error_chain(&e))))?;
        let first = RunStarted {
            nonce: nonce.clone(),
            harness_version: VERSION.to_owned(),
            stage: asked.stage,
            mutation_mode: asked.mode(contract.mutation_mode),
            parent_run_id: request.parent.as_ref().map(|p| p.run_id().clone()),
            // Whatever runs in a validator's home counts nowhere else.
            conformance: request.conformance
                || request.cheat.is_some()
                || harness.home_kind()? == HomeKind::Validators,
            fake_baseline: matches!(request.parent, Some(Parent::Measured(_))),
            title: contract.title.clone(),
            asked_model: crate::model::asked(harness, request.lane, contract.network),
        };
        let repository = request.task.repository_key();
        let journal = begin_log(
            harness,
            request.lane,
            (&run_id, &contract),
            repository.as_ref(),
            first,
            observer,
        )?;
        let mut times = ArtifactTimes::new(started_boot_ns, nonce, journal.clock());
        times.note(TASK_CONTRACT, FreshnessSource::Written);
        Ok(Self {
            harness,
            request,
            times,
            secrets: Known::new(harness.env.secrets()),
            places: inside::places(
                &[
                    (names.place(BACKEND_TREE), "$WORKSPACE"),
                    (names.place(BACKEND_ROOM).join("scratch"), "$SCRATCH"),
                ],
                harness.home.root(),
            ),
            pack: harness.home.pack(&run_id),
            run_id,
            work,
            names,
            contract,
            contract_digest,
            limits,
            pair: None,
            is_only_planned: false,
            stop,
            inputs,
            journal,
            observer,
            reserve: None,
            disk_full: None,
            _lock: lock,
        })
    }

    /// Takes the words that give a model away, and every key that was given out for it so far, from everything that is written
    /// from here on.
    pub(crate) fn hide(&mut self, model: &Opened) {
        let own = self.harness.env.secrets().into_iter();
        let more = model.secrets.iter().cloned().chain(model.given.secrets());
        self.secrets = Known::new(own.chain(more).collect());
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

    /// Takes secrets out of log and pack, and says which files held one.
    pub(crate) fn scan_pack(&mut self) -> Result<Vec<ExposedFile>, ScanError> {
        let quarantine = self.harness.home.quarantine(&self.run_id);
        scan_log(&mut self.journal, &quarantine, &self.secrets, self.observer)?;
        scan_files(&self.pack, &quarantine, &self.secrets, &mut self.times)
    }

    /// Whether the rules want this step now.
    pub(crate) fn is_next(&self, step: Step) -> bool {
        next_step(self.state()) == Next::Perform(step)
    }

    /// Carries out one step, if the rules want it now: records the intent, acts, records the result.
    pub(crate) fn step<T>(
        &mut self,
        step: Step,
        act: impl FnOnce(&mut Self) -> Result<T, StepError>,
    ) -> Result<T, Halt> {
        if !self.is_next(step) {
            return Err(Halt::Stopped);
        }
        self.record(EventKind::StepStarted(StepStarted { step }))
            .map_err(|e| self.fatal(e))?;
        let acted = act(self);
        self.look_at_disk().map_err(|e| self.fatal(e))?;
        let (made, fault) = match (acted, self.disk_full.take()) {
            (Err(StepError::Log(error)), _) => return Err(self.fatal(error).into()),
            // Whatever else went wrong then went wrong for want of space.
            (Ok(_) | Err(StepError::Fault(_)), Some(full)) => {
                (None, Some(verdicts::fault(step, &full)))
            }
            (Ok(made), None) => (Some(made), None),
            (Err(StepError::Fault(fault)), None) => (None, Some(verdicts::fault(step, &fault))),
        };
        if let Some(blocker) = &fault {
            if step == Step::Prepare {
                self.discard_trees();
            }
            // A gate that is found closed only now closes like any other.
            if blocker.code.row().event == Some(EventType::BackendGateBlocked)
                && !self.state().backend_started
            {
                self.record_gate(std::slice::from_ref(blocker), Vec::new())
                    .map_err(|e| self.fatal(e))?;
            }
        }
        let interrupted = self.stop.is_asked().then(|| verdicts::interrupted(step));
        let blockers = fault.into_iter().chain(interrupted).collect();
        self.record(EventKind::StepFinished(StepFinished { step, blockers }))
            .map_err(|e| self.fatal(e))?;
        made.ok_or(Halt::Stopped)
    }

    /// Records which gate is closed, if one is, and what the checks showed on the baseline if that closed it.
    pub(crate) fn record_gate(
        &mut self,
        reasons: &[Blocker],
        baseline: Vec<CommandResult>,
    ) -> Result<(), JournalError> {
        let Some(first) = reasons.first() else {
            return Ok(());
        };
        let data = GateBlocked {
            backend: self.request.lane,
            gate: first.subject.clone(),
            reason: first.message.clone(),
            mutation_mode: self.state().started.mutation_mode,
            case_executed: false,
            blockers: reasons.to_vec(),
            baseline,
        };
        self.record(EventKind::BackendGateBlocked(data))
    }

    /// Gives back the space of half-made copies: on a full disk the log needs it to say so.
    fn discard_trees(&self) {
        let made = [BACKEND_TREE, CHECKED_TREE].map(|what| self.names.place(what));
        for tree in made.into_iter().chain([self.work.join("import")]) {
            crate::sealing::clear(&tree);
        }
    }

    /// Keeps space for the end of the run, before anybody can take it.
    pub(crate) fn keep_reserve(&mut self) -> Result<(), StepError> {
        let made = Reserve::make(&self.work).map_err(|e| Fault::NoReserve {
            mib: RESERVE_BYTES >> 20,
            why: error_chain(&e),
        })?;
        self.reserve = Some(made);
        self.journal.let_wait();
        Ok(())
    }

    /// Looks whether the disk is full once nothing of a command is left, and if so gives back what was kept: from here on
    /// the run only ends.
    pub(crate) fn look_at_disk(&mut self) -> Result<(), JournalError> {
        let held = self.reserve.as_ref();
        let scratch = [self.work.as_path(), self.names.root()];
        let Some(full) = held.and_then(|reserve| reserve.shortage(&scratch)) else {
            return Ok(());
        };
        self.disk_full = Some(full);
        self.release_reserve()
    }

    /// Gives back what was kept, now that no command runs any more.
    pub(crate) fn release_reserve(&mut self) -> Result<(), JournalError> {
        if let Some(reserve) = self.reserve.take() {
            reserve.release();
        }
        self.journal.write_all()
    }

    /// `PATH` for launched processes: the operator's, less what is not absolute or lies in home.
    pub(crate) fn search_path(&self) -> String {
        search_path(self.harness)
    }

    pub(crate) fn fatal(&self, source: JournalError) -> RunError {
        RunError::Journal {
            run_id: self.run_id.clone(),
            source,
        }
    }

    /// Writes an artifact of the pack and notes when.
    pub(crate) fn artifact(&mut self, path: &str, bytes: &[u8]) -> Result<(), StepError> {
        PackWriter::open(&self.pack)
            .and_then(|writer| writer.write_new(path, bytes))
            .map_err(|e| StepError::not_written(path, &e))?;
        self.times.note(path, FreshnessSource::Written);
        Ok(())
    }

    /// Opens a new artifact of the pack; the caller notes it when it is whole.
    pub(crate) fn create_artifact(&self, path: &str) -> Result<fs::File, StepError> {
        PackWriter::open(&self.pack)
            .and_then(|writer| writer.create_new(path))
            .map_err(|e| StepError::not_written(path, &e))
    }

    pub(crate) fn limit_hit(&mut self, step: Step, fact: &LimitFact) -> Result<(), JournalError> {
        self.record(EventKind::LimitExceeded(verdicts::limit_hit(step, fact)))
    }
}

fn limits_of(harness: &Harness, request: &RunRequest, contract: &TaskContract) -> Effective {
    let lane = request.lane.as_str().to_ascii_uppercase();
    let wall = harness
        .env
        .get(&format!("CTO_HARNESS_{lane}_TIMEOUT_SECONDS"))
        .and_then(|value| value.parse().ok());
    let config = &harness.config.harness.limits;
    Effective::new(&contract.limits, config, request.timeout_seconds, wall)
}

/// Starts the log in a new pack, durably, and enters the run into ledger and index.
///
/// The contract is in the pack before the run id is given out, so that every recovery finds it.
fn begin_log(
    harness: &Harness,
    lane: Lane,
    (run_id, contract): (&RunId, &TaskContract),
    repository: Option<&Digest>,
    first: RunStarted,
    observer: Observer<'_>,
) -> Result<Journal, RunError> {
    let other = |e: &dyn std::error::Error| RunError::Create(io::Error::other(error_chain(e)));
    let fresh = harness.home.runs().join(format!("{DRAFT}{run_id}"));
    let writer = PackWriter::create(&fresh).map_err(|e| other(&e))?;
    let bytes = to_canonical(contract).map_err(|e| other(&e))?;
    let mut file = writer.create_new(TASK_CONTRACT).map_err(|e| other(&e))?;
    file.write_all(&bytes)
        .and_then(|()| file.sync_data())
        .map_err(RunError::Create)?;
    let chain = LineChain::start(&first.nonce, run_id.clone(), contract.task_id.clone(), lane);
    let first = EventKind::RunStarted(first);
    let begun = Journal::create(&fresh.join(EVENTS), chain, first, observer);
    let mut journal = begun.map_err(|source| RunError::Journal {
        run_id: run_id.clone(),
        source,
    })?;
    let pack = harness.home.pack(run_id);
    fs::rename(&fresh, &pack).map_err(RunError::Create)?;
    sync_dir(&harness.home.runs()).map_err(RunError::Create)?;
    journal.moved_to(&pack.join(EVENTS));
    let state = journal.state();
    let created = RunCreated {
        run_id: run_id.clone(),
        case_id: contract.task_id.clone(),
        backend: lane,
        stage: state.started.stage,
        started_at: state.started_at,
        title: contract.title.clone(),
        conformance: state.started.conformance,
        fake_baseline: state.started.fake_baseline,
    };
    match repository {
        Some(repository) => harness.store().run_created_on(&created, repository)?,
        None => harness.store().run_created(&created)?,
    };
    harness.mark_ledger();
    Ok(journal)
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
            .join(format!(".new-{}-{run_id}", maker_tag()));
        fs::create_dir(&hidden).map_err(RunError::Create)?;
        let lock = Lock::take(&hidden.join(LOCK), holder)?;
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

/// Where programs are looked for: the operator's places, but none of home.
pub(crate) fn search_path(harness: &Harness) -> String {
    let own = harness.home.root();
    let usable = |dir: &&str| dir.starts_with('/') && !Path::new(dir).starts_with(own);
    let path = harness.env.get("PATH");
    let path = path.unwrap_or("/usr/local/bin:/usr/bin:/bin");
    path.split(':').filter(usable).collect::<Vec<_>>().join(":")
}
