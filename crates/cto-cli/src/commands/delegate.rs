//! `cto delegate`: contract, request, decision, run, diff and outcome in one command.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use cto_contract::landing::{DisposableTerms, Disposal};
use cto_contract::path::PathPattern;
use cto_contract::task::TaskContract;
use cto_contract::words::{Lane, RunStatus, Stage};
use cto_rules::propose::delegate::{DelegateFault, Delegated, delegate};
use cto_rules::propose::propose;
use cto_runner::{
    ApprovalAsk, Harness, RepositoryTask, RunRequest, RunResult, Task, project_facts,
};

use super::run::{Performed, parse_lane, perform, told};
use super::{Outcome, approve, diff, outcome};
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::sandbox_args::SandboxArgs;
use crate::session::Session;
use crate::signing::SignArgs;

/// Minutes for which the request of a delegated task counts.
const REQUEST_MINUTES: i64 = 480;

/// Give a task to an agent: contract, request, decision, run, diff and outcome in one command
///
/// The contract is proposed from the project's files and bounded by what is said here. Every gate, record, proof and signature
/// is asked for as by the single commands. Up to stage 3 a copy is changed and nothing lands; from stage 4 on an
/// operator approves the run at the terminal before it starts, and accepts or rejects what landed. Exit 4: a person has to decide.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto delegate 'Collapse whitespace in slugify' --engine codex --allow src/ --verify 'python3 -m unittest -q'
  cto delegate 'Mend it' --engine command --allow a.txt --verify 'make test' -- my-agent
  cto delegate 'Mend it' --engine command --stage 5 --key ~/.ssh/id_ed25519_sk -- my-agent")]
pub(crate) struct Args {
    /// What is to be done, in the words that the agent gets
    #[arg(value_name = "TASK")]
    task: String,
    /// The repository to work on
    #[arg(long, value_name = "DIR", default_value = ".")]
    repo: PathBuf,
    /// The lane that does it; `cto engines` lists them
    #[arg(long, value_name = "LANE")]
    engine: String,
    /// A path that may change; without any, what the project's files suggest
    #[arg(long, value_name = "PATH")]
    allow: Vec<String>,
    /// A command that judges the change; without any, what the project's files suggest
    #[arg(long, value_name = "CMD")]
    verify: Vec<String>,
    /// Ask for a proof stage, 3 to 5; without it the one that the environment permits, else 3
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(3..=5))]
    stage: Option<u8>,
    /// Who owns the disposable repository of stage 4
    #[arg(long, value_name = "NAME", requires = "disposal")]
    owner: Option<String>,
    /// What becomes of it afterwards: delete or retain
    #[arg(long, value_name = "POLICY", requires = "owner")]
    disposal: Option<Disposal>,
    #[command(flatten)]
    sandbox: SandboxArgs,
    #[command(flatten)]
    sign: SignArgs,
    /// Program and arguments of the `command` lane
    #[arg(last = true, value_name = "PROGRAM")]
    argv: Vec<String>,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let lane = parse_lane(&args.engine)?;
    let stage = stage(args, lane, session)?;
    let contract = contract(args, lane, stage, session)?;
    let path = std::path::absolute(&args.repo)
        .map_err(|e| Failure::io("repository_unreadable", "the repository can't be named", &e))?;
    let request = RunRequest {
        task: Task::Repository(RepositoryTask {
            path,
            contract,
            contract_file: None,
            rev: None,
        }),
        lane,
        argv: args.argv.clone(),
        stage: Some(stage),
        timeout_seconds: None,
        cheat: None,
        parent: None,
        conformance: false,
        sandbox: args.sandbox.ask()?,
        approval: ApprovalAsk::None,
    };
    let harness = session.harness()?;
    session.recover(&harness)?;
    if stage < Stage::DISPOSABLE {
        return in_a_copy(&harness, &request, session);
    }
    with_approval(args, &harness, &request, session)
}

/// The stage that is asked for: the flag, else the digit of the environment, else the last where nothing lands.
fn stage(args: &Args, lane: Lane, session: &Session) -> Result<Stage, Failure> {
    let set = lane.stage_gate();
    let set = set.and_then(|name| session.env.get(&name)?.parse().ok());
    let number = args.stage.or(set.filter(|n| (3..=5).contains(n)));
    Stage::try_from(number.unwrap_or(3)).map_err(|e| Failure::of(Exit::USAGE, "stage_unknown", &e))
}

fn contract(
    args: &Args,
    lane: Lane,
    stage: Stage,
    session: &Session,
) -> Result<TaskContract, Failure> {
    let facts = project_facts(&args.repo, session.env.get("HOME"))?;
    let allow: Result<Vec<PathPattern>, _> = args.allow.iter().map(|p| p.parse()).collect();
    let allow = allow.map_err(|e| Failure::of(Exit::USAGE, "path_refused", &e))?;
    let said = Delegated {
        task: &args.task,
        allow: &allow,
        verify: &args.verify,
        lane,
        stage,
    };
    delegate(propose(&facts).contract, said).map_err(|fault| {
        let hint = match fault {
            DelegateFault::NoTask => "say what is to be done",
            DelegateFault::NoPaths => "--allow PATH, once for each",
            DelegateFault::NoChecks => "--verify CMD, such as --verify 'make test'",
        };
        Failure::of(Exit::USAGE, "task_incomplete", &fault).hint(hint)
    })
}

/// Where nothing lands: the change is shown, and how to take it.
fn in_a_copy(harness: &Harness, request: &RunRequest, session: &Session) -> Outcome {
    let performed = perform(harness, request, false, session)?;
    let (run_id, passed) = (performed.result.run_id.clone(), is_pass(&performed.result));
    let exit = shown(performed, session)?;
    if passed {
        session.printer.talk(&format!(
            "next: `cto export {run_id} --patch change.patch`, then `git apply change.patch`; \
             to land it from a run, stages 4 and 5 need an operator, signed records and the proofs of the stages below"
        ));
    }
    Ok(exit)
}

fn is_pass(result: &RunResult) -> bool {
    result.report.verdict.status == RunStatus::Pass
}

/// Tells the verdict and, for people, the change.
fn shown(performed: Performed, session: &Session) -> Outcome {
    let (run_id, passed) = (
        performed.result.run_id.to_string(),
        is_pass(&performed.result),
    );
    let exit = told(performed, false, session)?;
    if passed && !session.printer.json {
        diff::show(&run_id, session)?;
    }
    Ok(exit)
}

/// Where a change lands: an operator decides before and after.
fn with_approval(
    args: &Args,
    harness: &Harness,
    request: &RunRequest,
    session: &Session,
) -> Outcome {
    let terms = args.owner.clone().zip(args.disposal);
    let terms = terms.map(|(owner, disposal_policy)| DisposableTerms {
        owner,
        disposal_policy,
    });
    let interrupt = Interrupt::listen()
        .map_err(|e| Failure::io("signals_unavailable", "signals can't be listened to", &e))?;
    let (state, _) = harness.request_approval(request, REQUEST_MINUTES, terms, &interrupt.stop)?;
    drop(interrupt);
    let id = state.opened.request_id;
    if !can_sign(args) {
        session.printer.ask(&format!(
            "{id} waits for a decision: `cto approve {id}`, then `cto run --request {id}`"
        ));
        return Ok(Exit::WAITING);
    }
    approve::grant(&id, &args.sign, session)?;
    let approved = RunRequest {
        sandbox: request.sandbox,
        ..harness.requested_run(&id)?
    };
    let performed = perform(harness, &approved, false, session)?;
    let run_id = performed.result.run_id.to_string();
    let has_landed = matches!(&performed.result.landing, Some(Ok(l)) if l.commit.is_some());
    let exit = shown(performed, session)?;
    if !has_landed || session.printer.json {
        return Ok(exit);
    }
    session.printer.ask(
        "\nType `accepted` or `rejected` to decide about it now; anything else leaves it for `cto outcome`:",
    );
    let mut word = String::new();
    io::stdin()
        .read_line(&mut word)
        .map_err(|e| Failure::io("outcome_not_read", "the outcome could not be read", &e))?;
    match word.trim() {
        decided @ ("accepted" | "rejected") => {
            outcome::decide_now(&run_id, decided, args.sign.clone(), session)
        }
        _ => Ok(exit),
    }
}

/// Whether a person can sign here and now.
fn can_sign(args: &Args) -> bool {
    (args.sign.key.is_some() || args.sign.agent) && io::stdin().is_terminal()
}
