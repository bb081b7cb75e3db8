//! `cto logs`: what backend, checks and harness left behind.

use cto_contract::outputs::{LogFile, LogsOutput, LogsTag};
use cto_runner::pack_file::{self, LogKind};

use super::Outcome;
use crate::failure::Exit;
use crate::session::Session;

/// Print the logs of a run
///
/// Raw output of the backend and of the checks. It is what they said, never evidence. Without a choice: backend
/// and checks.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto logs latest --tests
  cto logs latest --events | jq -r .type")]
pub(crate) struct Args {
    /// A run id, a unique prefix, `latest`, or a path to a pack
    #[arg(value_name = "RUN")]
    run: String,
    /// Print what the backend wrote
    #[arg(long)]
    backend: bool,
    /// Print what the checks wrote
    #[arg(long)]
    tests: bool,
    /// Print the event log, one JSON a line
    #[arg(long, conflicts_with_all = ["backend", "tests"])]
    events: bool,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let found = session.find(&args.run)?;
    if !session.printer.json {
        session.tell_provenance(&found);
    }
    if args.events && !session.printer.json {
        let events = pack_file::require(&found, cto_contract::artifact::EVENTS)?;
        session.printer.foreign(&events)?;
        return Ok(Exit::DONE);
    }
    let kinds: &[LogKind] = match (args.events, args.backend, args.tests) {
        (true, _, _) => &[],
        (false, true, false) => &[LogKind::Backend],
        (false, false, true) => &[LogKind::Tests],
        (false, true, true) | (false, false, false) => &[LogKind::Backend, LogKind::Tests],
    };
    let files = pack_file::logs(&found, kinds)?;
    if session.printer.json {
        let events = if args.events {
            pack_file::events(&found)?
        } else {
            Vec::new()
        };
        let shown = |(path, bytes): (String, Vec<u8>)| LogFile {
            path,
            bytes: bytes.len() as u64,
            text: String::from_utf8_lossy(&bytes).into_owned(),
        };
        session.printer.document(&LogsOutput {
            schema_version: LogsTag,
            run_id: found.run_id,
            origin: found.provenance.origin,
            of_this_home: found.provenance.of_this_home,
            files: files.into_iter().map(shown).collect(),
            events,
        })?;
        return Ok(Exit::DONE);
    }
    let several = files.len() > 1;
    for (name, bytes) in files {
        if several {
            let mut page = session.printer.page();
            page.styled(crate::printer::STRONG, &format!("==> {name} <=="))
                .end();
            session.printer.show(&page)?;
        }
        session.printer.foreign(&bytes)?;
        if several && !bytes.ends_with(b"\n") {
            session.printer.data(b"\n")?;
        }
    }
    Ok(Exit::DONE)
}
