//! `cto engines`: the lanes, their gates, programs and records, and how to open or close one.

use std::io::{self, IsTerminal as _};

use cto_contract::admission::Integrity;
use cto_contract::outputs::{EngineChangeOutput, EngineRow, EnginesOutput};
use cto_contract::words::Stage;
use cto_runner::{EngineAsk, EngineError, EngineOffer, Harness, list_engines};
use cto_sandbox::StopToken;

use super::Outcome;
use super::run::parse_lane;
use crate::failure::{Exit, Failure};
use crate::session::Session;

/// List the lanes: program, gates, records, and what is missing
///
/// `fake` is the default and nothing can change that. Every other lane is closed until its environment name has the exact
/// value 1 and its stage name the exact digit of the stage, or until `cto engines allow` wrote its gates into `harness.yaml`.
/// Nothing is started and nobody is asked.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto engines
  cto engines allow codex       see what would be let in, then let it in
  cto engines deny codex")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Open a lane up to stage 3, where nothing lands
    ///
    /// Shows first what it will write: the gates for `harness.yaml`, and records that admit the source and the program that are
    /// installed here, by their digests. The program is started once, confined and without a network, to ask what it is. On
    /// a terminal it then asks; elsewhere it writes only with --write. A model needs a record of its own (`cto admit model`).
    Allow {
        /// The lane
        #[arg(value_name = "LANE")]
        lane: String,
        /// Permit stages up to this one: 2 for cases alone, 3 for copies of repositories too
        #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=3))]
        stage: u8,
        /// The hash that the registry publishes of the package, as you looked it up
        #[arg(long, value_name = "HASH")]
        integrity: Option<String>,
        /// Let new records take the place of others about the same
        #[arg(long)]
        replace: bool,
        /// Write without asking
        #[arg(long)]
        write: bool,
    },
    /// Close a lane that the config opened
    ///
    /// Takes its gates out of `harness.yaml`. Its records stay, and let nothing in without a gate.
    Deny {
        /// The lane
        #[arg(value_name = "LANE")]
        lane: String,
        /// Write without asking
        #[arg(long)]
        write: bool,
    },
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    match &args.command {
        None => list(&list_engines(&session.config()?, &session.env), session),
        Some(Command::Allow {
            lane,
            stage,
            integrity,
            replace,
            write,
        }) => {
            let lane = parse_lane(lane)?;
            let ask = EngineAsk {
                stage: Stage::try_from(*stage).ok(),
                integrity: integrity.as_deref().map(parse_hash).transpose()?,
            };
            let harness = session.harness()?;
            let stop = StopToken::new()
                .map_err(|e| Failure::io("signals_unavailable", "nothing can be started", &e))?;
            let offer = harness.engine_offer(lane, &ask, &stop)?;
            change(session, &harness, &offer, (*write, *replace))
        }
        Some(Command::Deny { lane, write }) => {
            let harness = session.harness()?;
            let offer = harness.engine_withdrawal(parse_lane(lane)?)?;
            change(session, &harness, &offer, (*write, false))
        }
    }
}

fn parse_hash(text: &str) -> Result<Integrity, Failure> {
    let parsed: Result<Integrity, _> = text.parse();
    match parsed {
        Ok(hash) if !hash.is_empty() => Ok(hash),
        Ok(_) | Err(_) => Err(Failure::new(
            Exit::USAGE,
            "integrity_invalid",
            "--integrity takes a hash such as `sha512-…`, as the registry publishes it",
        )),
    }
}

/// Shows what is offered, and writes it when that is wanted.
fn change(
    session: &Session,
    harness: &Harness,
    offer: &EngineOffer,
    (write, replace): (bool, bool),
) -> Outcome {
    let shown = offer.shown();
    let printer = &session.printer;
    if !printer.json {
        show(session, &shown)?;
    }
    let is_wanted = write || (!printer.json && agrees(session)?);
    let output = match is_wanted {
        true => harness.change_engine(offer, replace)?,
        false => shown,
    };
    if printer.json {
        printer.document(&output)?;
    } else if output.written {
        for record in &output.records {
            printer.talk(&format!(
                "wrote {}",
                record.path.as_deref().unwrap_or_default()
            ));
        }
        if output.gates_change {
            printer.talk(&format!("wrote {}", output.config_file));
        }
    } else {
        printer.talk("nothing was written; --write writes it");
    }
    Ok(match output.written {
        true => Exit::DONE,
        false => Exit::WAITING,
    })
}

fn show(session: &Session, shown: &EngineChangeOutput) -> Result<(), Failure> {
    let mut page = session.printer.page();
    match (shown.gates_change, shown.gates.is_empty()) {
        (false, _) => page.line(&format!("{} stays as it is", shown.config_file)),
        (true, true) => page.line(&format!(
            "{}: the gates of {} are taken out",
            shown.config_file, shown.lane
        )),
        (true, false) => page.line(&format!("{}:", shown.config_file)),
    };
    for line in shown.gates.lines().filter(|_| shown.gates_change) {
        page.line(&format!("  {line}"));
    }
    for record in &shown.records {
        page.heading(&format!("{} admission: {}", record.kind, record.subject));
        let fields = record.record.as_object().into_iter().flatten();
        for (name, value) in fields {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            let is_empty = ["", "null", "{}", "[]"].contains(&text.as_str());
            if !is_empty && name != "schema" {
                page.field(name, &text);
            }
        }
    }
    session.printer.show(&page)?;
    for note in &shown.notes {
        session.printer.talk(&format!("note: {note}"));
    }
    Ok(())
}

/// Asks a person at a terminal; where there is none, nobody agrees.
fn agrees(session: &Session) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Ok(false);
    }
    session.printer.ask("Write this? Type yes:");
    let mut line = String::new();
    io::stdin()
        .read_line(&mut line)
        .map_err(|e| Failure::io("answer_not_read", "the answer could not be read", &e))?;
    Ok(line.trim() == "yes")
}

fn list(output: &EnginesOutput, session: &Session) -> Outcome {
    if session.printer.json {
        session.printer.document(output)?;
        return Ok(Exit::DONE);
    }
    let rows: Vec<Vec<String>> = output.engines.iter().map(cells).collect();
    let mut page = session.printer.page();
    page.table(
        &[
            "lane", "state", "gate", "stage", "wire", "program", "admitted", "next",
        ],
        &rows,
    );
    session.printer.show(&page)?;
    Ok(Exit::DONE)
}

fn cells(row: &EngineRow) -> Vec<String> {
    let state = match (row.default, row.available, row.disabled) {
        (_, _, true) => "disabled",
        (true, _, _) => "default",
        (_, true, _) => "available",
        (_, false, _) => "not in this build",
    };
    let gate = match (&row.gate, row.gate_open) {
        (None, _) => "none",
        (Some(_), true) => "open",
        (Some(_), false) => "closed",
    };
    let wires: Vec<&str> = row.wires.iter().map(|wire| wire.as_str()).collect();
    let program = row.program.as_ref().map_or_else(String::new, |program| {
        let version = program.version.as_deref().unwrap_or("");
        let digest = program
            .digest
            .as_ref()
            .map_or_else(String::new, |d| format!("sha256:{}", &d.as_str()[..12]));
        match &program.problem {
            Some(problem) => problem.clone(),
            None => format!("{version} {digest}").trim().to_owned(),
        }
    });
    let admitted = |name: &str, is: Option<bool>| match is {
        Some(true) => Some(name.to_owned()),
        Some(false) | None => None,
    };
    let admitted: Vec<String> = [
        admitted("source", row.source_admitted),
        admitted("binary", row.binary_admitted),
        admitted("model", row.model_admitted),
    ]
    .into_iter()
    .flatten()
    .collect();
    vec![
        row.lane.to_string(),
        state.to_owned(),
        gate.to_owned(),
        row.stage.map_or_else(|| "-".to_owned(), |s| s.to_string()),
        wires.join(", "),
        program,
        admitted.join(", "),
        row.next.clone().unwrap_or_default(),
    ]
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let exit = match &error {
            EngineError::NotByConfig { .. }
            | EngineError::Program(..)
            | EngineError::Unasked { .. }
            | EngineError::OtherProgram { .. }
            | EngineError::Gates { .. }
            | EngineError::Changed { .. }
            | EngineError::Record(_) => Exit::USAGE,
            EngineError::Ledger(_) => Exit::EVIDENCE,
            EngineError::File { .. } => Exit::FAULT,
        };
        Self::of(exit, error.code(), &error).hint_if(error.hint())
    }
}
