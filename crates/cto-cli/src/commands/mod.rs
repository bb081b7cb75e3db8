//! One file a command: its arguments and what it does.

use std::ffi::OsString;

use clap::FromArgMatches as _;
use cto_runner::Environment;

use crate::args::{self, Cli, Color, Command};
use crate::failure::{Exit, Failure};
use crate::printer::Printer;
use crate::session::Session;

pub(crate) mod admissions;
pub(crate) mod admit;
pub(crate) mod apply;
pub(crate) mod approve;
pub(crate) mod cases;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod contract;
pub(crate) mod delegate;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod engines;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod gate;
pub(crate) mod gc;
pub(crate) mod health;
pub(crate) mod import;
pub(crate) mod inbox;
pub(crate) mod index;
pub(crate) mod init;
pub(crate) mod key;
pub(crate) mod ladder;
pub(crate) mod ledger;
pub(crate) mod logs;
pub(crate) mod loops;
pub(crate) mod man;
pub(crate) mod matrix;
pub(crate) mod model;
pub(crate) mod operator;
pub(crate) mod outcome;
pub(crate) mod plan;
pub(crate) mod recover;
pub(crate) mod replay;
pub(crate) mod request;
pub(crate) mod rerun;
pub(crate) mod route;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod schema;
pub(crate) mod show;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod trust;
pub(crate) mod validate;
pub(crate) mod verify;
pub(crate) mod watch;
pub(crate) mod why;

/// What a command comes to.
pub(crate) type Outcome = Result<Exit, Failure>;

/// Parses, dispatches, and tells about a failure.
pub(crate) fn start(arguments: Vec<OsString>, env: Environment) -> Exit {
    // Errors of the parser come before its answer, so what they need is looked for in the raw words.
    let typed = |words: &[&str]| arguments.iter().any(|a| words.iter().any(|w| a == w));
    let early = Printer::new(
        typed(&["--json"]),
        false,
        false,
        if typed(&["--color=never"]) {
            Color::Never
        } else {
            Color::Auto
        },
        &env,
    );
    let parsed = args::command()
        .try_get_matches_from(&arguments)
        .and_then(|mut m| Cli::from_arg_matches_mut(&mut m));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return early.usage(&error),
    };
    let global = cli.global;
    let printer = Printer::new(
        global.json,
        global.quiet,
        global.verbose,
        global.color,
        &env,
    );
    let mut session = Session {
        env,
        home_flag: global.home,
        config_flag: global.config,
        printer,
    };
    match session
        .read_dotenv()
        .and_then(|()| dispatch(cli.command, &session))
    {
        Ok(exit) => exit,
        Err(failure) => session.printer.failure(&failure),
    }
}

fn dispatch(command: Command, session: &Session) -> Outcome {
    match command {
        Command::Init(args) => init::run(&args, session),
        Command::Contract(args) => contract::run(&args, session),
        Command::Route(args) => route::run(&args, session),
        Command::Run(args) => run::run(&args, session),
        Command::Rerun(args) => rerun::run(&args, session),
        Command::Apply(args) => apply::run(&args, session),
        Command::Request(args) => request::run(&args, session),
        Command::Inbox(args) => inbox::run(&args, session),
        Command::Approve(args) => approve::run(&args, session),
        Command::Deny(args) => approve::deny(&args, session),
        Command::Outcome(args) => outcome::run(&args, session),
        Command::Matrix(args) => matrix::run(&args, session),
        Command::Stop(args) => stop::run(&args, session),
        Command::Cases(args) => cases::run(&args, session),
        Command::Engines(args) => engines::run(&args, session),
        Command::Runs(args) => runs::run(&args, session),
        Command::Show(args) => show::run(&args, session),
        Command::Explain(args) => explain::run(&args, session),
        Command::Diff(args) => diff::run(&args, session),
        Command::Logs(args) => logs::run(&args, session),
        Command::Watch(args) => watch::run(&args, session),
        Command::Replay(args) => replay::run(&args, session),
        Command::Why(args) => why::run(&args, session),
        Command::Validate(args) => validate::run(&args, session),
        Command::Ladder(args) => ladder::run(&args, session),
        Command::Health(args) => health::run(&args, session),
        Command::Loop(args) => loops::run(&args, session),
        Command::Model(args) => model::run(&args, session),
        Command::Verify(args) => verify::run(&args, session),
        Command::Status(args) => status::run(&args, session),
        Command::Delegate(args) => delegate::run(&args, session),
        Command::Gate(args) => gate::run(&args, session),
        Command::Export(args) => export::run(&args, session),
        Command::Import(args) => import::run(&args, session),
        Command::Key(args) => key::run(&args, session),
        Command::Trust(args) => trust::run(&args, session),
        Command::Admit(args) => admit::run(&args, session),
        Command::Admissions(args) => admissions::run(&args, session),
        Command::Operator(args) => operator::run(&args, session),
        Command::Ledger(args) => ledger::run(&args, session),
        Command::Config(args) => config::run(&args, session),
        Command::Doctor(args) => doctor::run(&args, session),
        Command::Recover(args) => recover::run(&args, session),
        Command::Gc(args) => gc::run(&args, session),
        Command::Index(args) => index::run(&args, session),
        Command::Schema(args) => schema::run(&args, session),
        Command::Completions(args) => completions::run(&args, session),
        Command::Man(args) => man::run(&args, session),
    }
}
