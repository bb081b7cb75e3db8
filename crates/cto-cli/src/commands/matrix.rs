//! `cto matrix`: all cases, side by side.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use cto_contract::artifact::REPORT_JSON;
use cto_contract::event::RunEvent;
use cto_contract::ids::{CaseId, RunId};
use cto_contract::outputs::{MatrixCounts, MatrixOutput, MatrixRun, MatrixTag};
use cto_contract::words::{Lane, NeverActive, RunStatus};
use cto_evidence::writer::PackWriter;
use cto_runner::{Catalog, Harness, RunRequest, SandboxAsk, Task};
use cto_sandbox::StopToken;

use super::Outcome;
use super::run::{parse_lane, status_word};
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::printer::BAD;
use crate::sandbox_args::{self, SandboxArgs};
use crate::session::Session;

/// Run all cases side by side
///
/// Each gets its own run and its own sealed pack; the matrix report names them. Exit 1 when any does not pass.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto matrix
  cto matrix --jobs 1 --cases ./cases")]
pub(crate) struct Args {
    /// Let this lane do the work
    #[arg(long, value_name = "LANE", default_value = "fake")]
    engine: String,
    /// Run so many at once; without it as many as there are cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Add a directory of your own cases
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
    #[command(flatten)]
    sandbox: SandboxArgs,
}

/// What is the same for all runs.
#[derive(Clone, Copy)]
struct Asked {
    lane: Lane,
    sandbox: SandboxAsk,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let lane = parse_lane(&args.engine)?;
    let asked = Asked {
        lane,
        sandbox: args.sandbox.ask()?,
    };
    let catalog = Catalog {
        extra: args.cases.clone(),
    };
    let ids = catalog.ids()?;
    let jobs = args
        .jobs
        .map_or_else(
            || std::thread::available_parallelism().map_or(1, usize::from),
            usize::from,
        )
        .min(ids.len().max(1));
    let harness = session.harness()?;
    sandbox_args::choose(&harness, asked.sandbox, session)?;
    session.recover(&harness)?;
    let interrupt = Interrupt::listen()
        .map_err(|e| Failure::io("signals_unavailable", "signals can't be listened to", &e))?;
    let started_at = cto_runner::now();
    let begun = Instant::now();
    let runs = all(
        &harness,
        &catalog,
        &ids,
        asked,
        jobs,
        &interrupt.stop,
        session,
    );
    let mut counts = MatrixCounts::default();
    for run in &runs {
        match run.status {
            Some(RunStatus::Pass) => counts.pass += 1,
            Some(RunStatus::Fail) => counts.fail += 1,
            Some(RunStatus::Blocked) => counts.blocked += 1,
            None => counts.error += 1,
        }
    }
    let name: CaseId = format!("run-all-{lane}")
        .parse()
        .map_err(|e| Failure::of(Exit::FAULT, "matrix_not_written", &e))?;
    let matrix_id = RunId::compose(
        started_at,
        &name,
        cto_runner::random().map_err(|e| Failure::of(Exit::FAULT, "no_randomness", &e))?,
    );
    let directory = harness.home.pack(&matrix_id);
    let ok = counts.pass == runs.len() as u64 && !runs.is_empty();
    let output = MatrixOutput {
        schema_version: MatrixTag,
        matrix_id: matrix_id.clone(),
        engine: lane,
        jobs: jobs as u64,
        started_at,
        finished_at: cto_runner::now(),
        seconds: seconds(begun),
        ok,
        counts,
        runs,
        report_path: directory.join(REPORT_JSON).display().to_string(),
        runtime_default_activation: NeverActive,
    };
    write(&harness, &matrix_id, &output)?;
    if session.printer.json {
        session.printer.document(&output)?;
    } else {
        show(&output, session)?;
    }
    Ok(match interrupt.signal() {
        Some(signal) => Exit::signal(signal),
        None if ok => Exit::DONE,
        None => Exit::FAILED,
    })
}

fn all(
    harness: &Harness,
    catalog: &Catalog,
    ids: &[String],
    asked: Asked,
    jobs: usize,
    stop: &StopToken,
    session: &Session,
) -> Vec<MatrixRun> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, MatrixRun)>> = Mutex::new(Vec::new());
    let bar = session.printer.progress();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some((index, id)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, ids.get(i)?)))
                {
                    if stop.is_asked() {
                        return;
                    }
                    let run = one(harness, catalog, id, asked, &stop.clone());
                    let word = run.status.map_or("error", RunStatus::as_str);
                    bar.line(&format!("{word:<8} {id} ({:.2} s)", run.seconds));
                    done.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((index, run));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, run)| run).collect()
}

fn one(
    harness: &Harness,
    catalog: &Catalog,
    id: &str,
    asked: Asked,
    stop: &StopToken,
) -> MatrixRun {
    let begun = Instant::now();
    let mut quiet = |_: &RunEvent| {};
    let result = catalog.find(id).map_err(Failure::from).and_then(|case| {
        let request = RunRequest {
            task: Task::Case(case),
            lane: asked.lane,
            argv: Vec::new(),
            stage: None,
            timeout_seconds: None,
            cheat: None,
            parent: None,
            conformance: false,
            sandbox: asked.sandbox,
        };
        harness
            .run(&request, stop, &mut quiet)
            .map_err(Failure::from)
    });
    let case_id = id.to_owned();
    match result {
        Ok(result) => MatrixRun {
            case_id,
            run_id: Some(result.run_id),
            status: Some(result.report.verdict.status),
            seconds: seconds(begun),
            failure_reason: result.report.verdict.failure_reason,
            error: None,
        },
        Err(failure) => {
            let why: Vec<String> = std::iter::once(failure.message)
                .chain(failure.causes)
                .collect();
            MatrixRun {
                case_id,
                run_id: None,
                status: None,
                seconds: seconds(begun),
                failure_reason: Some(why.join(": ")),
                error: Some(failure.code.to_owned()),
            }
        }
    }
}

fn seconds(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1000.0).round() / 1000.0
}

/// The directory appears with its report or not at all. It is no pack: it has no log and no attestation.
fn write(harness: &Harness, id: &RunId, output: &MatrixOutput) -> Result<(), Failure> {
    let failed = |e: &dyn std::error::Error| Failure::of(Exit::FAULT, "matrix_not_written", e);
    let fresh = harness.home.runs().join(format!(".new-{id}"));
    let mut bytes = serde_json::to_vec_pretty(output).map_err(|e| failed(&e))?;
    bytes.push(b'\n');
    let writer = PackWriter::create(&fresh).map_err(|e| failed(&e))?;
    writer
        .write_new(REPORT_JSON, &bytes)
        .map_err(|e| failed(&e))?;
    std::fs::rename(&fresh, harness.home.pack(id)).map_err(|e| failed(&e))
}

fn show(output: &MatrixOutput, session: &Session) -> Result<(), Failure> {
    let mut page = session.printer.page();
    for run in &output.runs {
        let (word, style) = run.status.map_or(("ERROR", BAD), status_word);
        page.styled(style, &format!("{word:<8}"))
            .text(&format!("{:<28} {:>7.2} s  ", run.case_id, run.seconds));
        page.line(&cto_contract::text::shorten(
            run.failure_reason.as_deref().unwrap_or_default(),
            80,
        ));
    }
    page.end().line(&format!(
        "{} pass, {} fail, {} blocked, {} error in {:.2} s with {} jobs",
        output.counts.pass,
        output.counts.fail,
        output.counts.blocked,
        output.counts.error,
        output.seconds,
        output.jobs
    ));
    page.field("report", &output.report_path);
    session.printer.show(&page)
}
