//! The backend: durable intent, launch, what it left to record, and how it ended.

use std::cell::RefCell;
use std::sync::Arc;

use cto_agent::{Act, Ending, Note, PlainLines};
use cto_contract::artifact::{FreshnessSource, SANDBOX_PROOF};
use cto_contract::event::{
    BackendActivity, BackendFinished, BackendStarted, BackendStop, BackendText, EventFileFault,
    EventKind, EventType, ModelTraffic, OutputCapped, Step,
};
use cto_contract::lanes;
use cto_contract::plan::SandboxPlan;
use cto_contract::text::path_text;
use cto_contract::words::{BackendCompletion, Lane};
use cto_evidence::canonical::to_canonical;
use cto_rules::eligibility::ApprovalUse;
use cto_rules::verdicts::{Commands, Fault, LimitFact};
use cto_sandbox::{End, Outcome, Replies, SandboxMessage, StopCause, StopToken, Stream, Survivors};

use crate::baseline_checks::{Baseline, BaselineChecks};
use crate::checks::{Checker, RoundRooms};
use crate::collected::collect;
use crate::denials::{DenialWords, totals};
use crate::growing_file::GrowingFile;
use crate::journal::JournalError;
use crate::launch::{BackendLaunch, StartError, probe_version, start_backend};
use crate::open_run::{OpenRun, StepError};
use crate::protected::ProtectedRoots;
use crate::redacted_file::RedactedFile;
use crate::sandbox_proof::{Names, sandbox_proof};
use crate::source::Source;
use crate::steps::Permission;
use crate::steps::approval::consume;
use crate::steps::egress::{Egress, Passed, record_traffic};
use crate::steps::plan::{Planned, first_changed};
use crate::steps::prepare::Prepared;
use crate::steps::supervision::Supervision;
use crate::{error_chain, round_seconds};

/// Most paths that a refusal to start names.
const START_PATHS_MAX: usize = 20;
const STDOUT: &str = "backend/stdout.log";
/// Says that the harness ended a backend that had finished.
const HARNESS_COMPLETED: &str = "backend/provider-lifecycle-harness-completed.txt";
const STDERR: &str = "backend/stderr.log";

/// What came of a launch, with everything of the agent ended.
struct Launched {
    outcome: Result<Outcome, StartError>,
    /// What passed between the agent and its model.
    passed: Option<Passed>,
    ending: Ending,
    /// Why the harness ended it before its time, where it did.
    ended_for: Option<BackendStop>,
}

pub(crate) fn backend(
    run: &mut OpenRun<'_>,
    permission: Permission,
    planned: Planned,
    prepared: &Prepared,
    source: Option<&mut Source>,
    baseline: Baseline,
) -> Result<Baseline, StepError> {
    if planned.is_replaced() {
        return Err(Fault::ProgramReplaced.into());
    }
    let own_tree = planned.beside.tree.iter();
    let own_tree = own_tree.map(|(path, _)| path.display().to_string());
    let roots = &run.harness.config.harness.protected_roots;
    // The package that the program loads from is nobody's to change while it runs.
    let roots: Vec<String> = roots.iter().cloned().chain(own_tree).collect();
    let protected = ProtectedRoots::look(&roots)
        .map_err(|e| Fault::ProtectedRootsUnreadable { why: e.to_string() })?;
    // The last thing before anything starts: whatever stood in the way was found before.
    let approval = consume(run)?;
    let provider_from = permission.sandbox.from;
    let baseline = match run.request.lane.traits().baseline_checks {
        lanes::BaselineChecks::First => baseline,
        lanes::BaselineChecks::Beside => start_baseline_checks(run, prepared)?,
    };
    let version_output = probe_version(&permission, &planned, &run.stop);
    let objection = last_objection(
        run.request.lane,
        &planned,
        version_output.as_deref(),
        prepared,
    );
    if let Some(why) = objection {
        return Err(Fault::NothingToStart { why }.into());
    }
    let workspace_clean = look_at_start(run.request.lane, prepared)?;
    run.record(EventKind::BackendStarted(BackendStarted {
        identity_digest: planned.identity_digest.clone(),
        version_output,
        workspace_clean,
    }))?;
    run.sync()?;
    let words = DenialWords::of(run, source.as_deref());
    let (launched, written) = launch(run, (permission, approval), &planned, prepared, &words)?;
    run.look_at_disk()?;
    let (model_traffic, sandbox) = record(run, &planned, prepared, &launched, provider_from)?;
    let finished = BackendFinished {
        model_traffic,
        agent: launched.ending.words,
        pipeline: launched.ending.pipeline,
        program_replaced: planned.is_replaced(),
        protected_roots: protected.check_again(&roots),
        ..finished(&launched.outcome, sandbox, launched.ended_for)
    };
    run.record(EventKind::BackendFinished(finished))?;
    written?;
    if let Some(source) = source {
        source.look_after_backend();
    }
    Ok(baseline)
}

/// Looks once more at the tree that the backend gets: nobody but the harness had it, and it must be the baseline.
fn look_at_start(lane: Lane, prepared: &Prepared) -> Result<Option<bool>, StepError> {
    if lane.traits().ladder == lanes::LadderRule::Ruler {
        return Ok(None);
    }
    let seen = prepared.workspace.changes();
    let seen = seen.map_err(|e| Fault::WorkspaceNotMade {
        why: error_chain(&e),
    })?;
    if seen.is_clean() {
        return Ok(Some(true));
    }
    let changed = seen.changes.iter().map(|change| &change.path);
    let odd = seen.oddities.iter().map(|oddity| &oddity.path);
    let paths = changed.chain(odd).take(START_PATHS_MAX);
    let paths = paths.map(|path| path_text(path.as_bytes())).collect();
    Err(Fault::WorkspaceNotClean { paths }.into())
}

/// What speaks against a start at the last moment: the program does not say that it is the lane's, or what it will read was
/// changed by it when it was only asked who it is.
fn last_objection(
    lane: Lane,
    planned: &Planned,
    version_output: Option<&str>,
    prepared: &Prepared,
) -> Option<String> {
    let word = lane.traits().identity_word;
    let is_asked = planned.lane_plan.version_probe.is_some();
    if is_asked && !version_output.unwrap_or_default().contains(word) {
        return Some(format!(
            "the program does not say \"{word}\" when it is asked who it is: it is another one"
        ));
    }
    let changed = first_changed(&planned.lane_plan, &prepared.room.own_scratch())?;
    Some(format!(
        "`$SCRATCH/{changed}` is not as it was planned, and nothing was started"
    ))
}

/// Starts the backend, listens to it, and comes back when nothing of it is left, and with whether its output is written.
fn launch(
    run: &mut OpenRun<'_>,
    (permission, approval): (Permission, ApprovalUse),
    planned: &Planned,
    prepared: &Prepared,
    words: &DenialWords,
) -> Result<(Launched, Result<(), StepError>), StepError> {
    let mut out = RedactedFile::new(run.create_artifact(STDOUT)?, &run.secrets, &run.places);
    let mut err = RedactedFile::new(run.create_artifact(STDERR)?, &run.secrets, &run.places);
    let mut dialogue = planned.adapter.dialogue();
    let followed = planned.lane_plan.follow.as_ref();
    let mut followed =
        followed.map(|file| GrowingFile::new(file, &prepared.room, &run.secrets, &run.places));
    let egress = permission
        .model
        .map(|way| RefCell::new(Egress::new(way, run, planned.lane_plan.overhear.as_ref())));
    let mut supervision = Supervision::begin(run, prepared);
    let stop = run.stop.clone();
    let mut stderr_lines = PlainLines::default();
    let mut recorded: Result<(), JournalError> = Ok(());
    let mut activities = 0;
    let mut note = |kind: EventKind| {
        let is_activity = kind.event_type() == EventType::BackendActivity;
        activities += u64::from(is_activity);
        let is_one_too_many = is_activity && activities > BackendActivity::EVENTS_MAX;
        if recorded.is_ok() && !is_one_too_many {
            recorded = run.record(kind);
        }
    };
    let mut listener = |message: SandboxMessage<'_>, replies: &mut Replies| {
        let egress = egress.as_ref().map(RefCell::borrow);
        let egress = egress.as_deref();
        let acts = match message {
            SandboxMessage::Started => dialogue.open(),
            SandboxMessage::Output(Stream::Stdout, bytes) => {
                supervision.stirs();
                dialogue.hear(out.push(bytes))
            }
            SandboxMessage::Output(Stream::Stderr, bytes) => {
                supervision.stirs();
                let notes = stderr_lines.feed(err.push(bytes));
                notes.into_iter().map(Act::Note).collect()
            }
            SandboxMessage::Attempt(attempt) => {
                words
                    .denial(attempt, Step::Backend)
                    .map(EventKind::SandboxDenied)
                    .map(&mut note);
                Vec::new()
            }
            SandboxMessage::Tick { since_start } => {
                let mut acts = match &mut followed {
                    None => Vec::new(),
                    Some(file) => file.look(dialogue.as_mut()),
                };
                acts.extend(dialogue.tick(since_start));
                if !acts.is_empty() || !dialogue.may_be_ended() {
                    supervision.stirs();
                }
                supervision.tick(egress, replies).map(&mut note);
                acts
            }
            SandboxMessage::Activity(activity) => {
                supervision.see(activity, egress, replies);
                Vec::new()
            }
        };
        for act in acts {
            match act {
                Act::Tell(bytes) => replies.tell(&bytes),
                Act::CloseStdin => replies.close_stdin(),
                Act::Note(said) => note(event_of(said)),
                Act::Finished => replies.finish(),
            }
        }
    };
    let mut host = |listeners| match &egress {
        Some(egress) => egress.borrow_mut().host(listeners),
        None => Ok(()),
    };
    let outcome = start_backend(
        permission.grant,
        approval,
        BackendLaunch {
            launcher: &permission.sandbox.launcher,
            request: &planned.request,
            stop: &stop,
            listener: &mut listener,
            host: planned.request.endpoint.is_some().then_some(&mut host),
        },
    );
    // First of all: nothing of the agent is left that could speak, and nothing may be spoken for it.
    let ended_for = supervision.ended_for;
    let ended = egress.map(|egress| egress.into_inner().finish());
    let rest = followed.map(|file| file.finish(dialogue.as_mut()));
    if let Some(passed) = ended.as_ref().and_then(|ended| ended.passed.as_ref()) {
        passed.answers().for_each(|said| dialogue.overhear(&said));
        if !passed.has_all_answers() {
            dialogue.distrust(EventFileFault::Contradicted);
        }
    }
    let ending = dialogue.finish();
    let rest = rest.into_iter().flatten().filter_map(|act| match act {
        Act::Note(said) => Some(said),
        Act::Tell(_) | Act::CloseStdin | Act::Finished => None,
    });
    let rest = rest.chain(stderr_lines.finish());
    for said in rest.chain(ending.notes.clone()) {
        note(event_of(said));
    }
    recorded?;
    // Every key that was ever given out, before anything more is written.
    let passed = ended.and_then(|ended| {
        run.hide(&ended.opened);
        ended.passed
    });
    let mut written = Ok(());
    for (path, file) in [(STDOUT, out), (STDERR, err)] {
        if let Err(error) = file.finish() {
            written = Err(StepError::not_written(path, &error));
        }
        run.times.note(path, FreshnessSource::Written);
    }
    let launched = Launched {
        outcome,
        passed,
        ending,
        ended_for,
    };
    Ok((launched, written))
}

fn event_of(note: Note) -> EventKind {
    match note {
        Note::Plan(text) => EventKind::BackendPlan(BackendText { text }),
        Note::Activity(activity) => EventKind::BackendActivity(activity),
    }
}

/// Puts into pack and log what a launch left: traffic, proof of its confinement, the lane's own files, limits that were
/// hit. Returns the traffic's sums and what held the backend.
fn record(
    run: &mut OpenRun<'_>,
    planned: &Planned,
    prepared: &Prepared,
    launched: &Launched,
    provider_from: cto_contract::plan::SettingSource,
) -> Result<(Option<ModelTraffic>, SandboxPlan), StepError> {
    let passed = launched.passed.as_ref();
    let model_traffic = passed.map(|p| record_traffic(run, p)).transpose()?;
    for wanted in &planned.lane_plan.collect {
        collect(run, wanted, &prepared.room)?;
    }
    let Ok(outcome) = &launched.outcome else {
        return Ok((model_traffic, planned.sandbox.clone()));
    };
    let is_over = launched.ended_for != Some(BackendStop::Budget);
    if outcome.stopped_by == Some(StopCause::Finished) && is_over {
        let how = match launched.ended_for {
            Some(_) => "it did nothing any more after its work was committed",
            None => "it said that it had finished",
        };
        let text = format!("the harness ended the backend: {how}\n");
        run.artifact(HARNESS_COMPLETED, text.as_bytes())?;
    }
    let limits = run.limits.limits;
    let sandbox = SandboxPlan {
        read_paths: prepared.seen_paths.read.clone(),
        hidden_paths: prepared.seen_paths.hidden.clone(),
        ..crate::sandbox::sandbox_plan(&outcome.confinement, &limits, provider_from)
    };
    let user_home = run.harness.env.get("HOME").map(std::path::Path::new);
    let names = Names::new(run.harness.home.root(), user_home);
    let proof = outcome.proof.as_ref();
    let proof = sandbox_proof(&planned.request, proof, &sandbox, &limits, &names);
    let bytes = to_canonical(&proof).map_err(|e| StepError::not_written(SANDBOX_PROOF, &e))?;
    run.artifact(SANDBOX_PROOF, &bytes)?;
    if outcome.output.capped {
        let data = OutputCapped {
            limit_bytes: run.limits.output_bytes(),
            dropped_bytes: outcome.output.dropped_bytes,
        };
        run.record(EventKind::BackendOutputCapped(data))?;
    }
    if let Some(hit) = &outcome.limit_hit {
        let fact = LimitFact::Backend {
            limit: hit.limit.as_str().to_owned(),
            seen: hit.seen,
            allowed: hit.allowed,
        };
        run.limit_hit(Step::Backend, &fact)?;
    }
    Ok((model_traffic, sandbox))
}

/// How the backend ended, as far as the launch tells.
fn finished(
    outcome: &Result<Outcome, StartError>,
    sandbox: SandboxPlan,
    ended_for: Option<BackendStop>,
) -> BackendFinished {
    let none = BackendFinished {
        exit_code: None,
        signal: None,
        completion: BackendCompletion::None,
        stopped_by: None,
        timed_out: false,
        seconds: 0.0,
        cpu_seconds: None,
        peak_memory_bytes: None,
        stdout_bytes: 0,
        stderr_bytes: 0,
        dropped_bytes: 0,
        no_survivors: true,
        sandbox,
        recorded: None,
        start_failure: None,
        agent: None,
        pipeline: None,
        model_traffic: None,
        program_replaced: false,
        protected_roots: None,
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            let start_failure = Some(error_chain(error));
            return BackendFinished {
                start_failure,
                ..none
            };
        }
    };
    let (exit_code, signal) = match outcome.end {
        End::Exited(code) => (Some(code), None),
        End::Signaled(signal) => (None, Some(signal)),
        End::NotStarted => (None, None),
    };
    let completion = match (outcome.stopped_by, outcome.end) {
        (
            Some(StopCause::Wall | StopCause::Asked | StopCause::Finished | StopCause::StdinFull),
            _,
        ) => BackendCompletion::Harness,
        (Some(StopCause::SandboxDied), _) | (None, End::Signaled(_)) => BackendCompletion::Signal,
        (None, End::Exited(_)) => BackendCompletion::Own,
        (None, End::NotStarted) => BackendCompletion::None,
    };
    BackendFinished {
        exit_code,
        signal,
        completion,
        stopped_by: outcome.stopped_by.map(|cause| match cause {
            StopCause::Wall => BackendStop::Wall,
            StopCause::Asked => BackendStop::Asked,
            StopCause::Finished => ended_for.unwrap_or(BackendStop::Finished),
            StopCause::StdinFull => BackendStop::InputUnread,
            StopCause::SandboxDied => BackendStop::SandboxDied,
        }),
        timed_out: outcome.stopped_by == Some(StopCause::Wall),
        seconds: round_seconds(outcome.wall),
        cpu_seconds: outcome.cpu.map(round_seconds),
        peak_memory_bytes: outcome.peak_rss_bytes,
        stdout_bytes: outcome.output.stdout_bytes,
        stderr_bytes: outcome.output.stderr_bytes,
        dropped_bytes: outcome.output.dropped_bytes,
        no_survivors: matches!(outcome.confinement.survivors, Survivors::None { .. }),
        recorded: outcome.recorded.map(totals),
        start_failure: (outcome.end == End::NotStarted)
            .then(|| "it was stopped before it started".to_owned()),
        ..none
    }
}

/// The checks on the untouched baseline start before the backend does, in a tree of their own, and go on beside it.
fn start_baseline_checks(run: &OpenRun<'_>, prepared: &Prepared) -> Result<Baseline, StepError> {
    if run.contract.verification_commands.is_empty() {
        return Ok(Baseline::default());
    }
    let stop = StopToken::new().map_err(|e| Fault::CommandsNotRun {
        which: Commands::BaselineChecks,
        why: e.to_string(),
    })?;
    let checker = Checker {
        stop: stop.clone(),
        ..prepared.checker.clone()
    };
    let trees = Arc::clone(&prepared.trees);
    let below = prepared.below.clone();
    let started = BaselineChecks::start(stop, move || {
        let fresh = |name: &str| trees.baseline_room(&below, name);
        let shared = &fresh("baseline")?.room;
        checker.baseline(&RoundRooms {
            shared,
            fresh: &fresh,
        })
    });
    Ok(Baseline::beside(started))
}
