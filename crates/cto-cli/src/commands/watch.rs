//! `cto watch`: follow a run to its end.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::time::Duration;

use cto_contract::artifact::{ATTESTATION, EVENTS};
use cto_contract::event::{EventKind, RunEvent};
use cto_contract::words::RunStatus;
use cto_evidence::chain::LINE_BYTES_MAX;
use cto_evidence::pack::PackDir;
use cto_rules::views::progress::progress;
use cto_runner::Home;

use super::Outcome;
use crate::failure::{Exit, Failure};
use crate::session::Session;

/// Between two looks at the log.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Follow a run until it is sealed
///
/// Prints what has happened so far and goes on with what happens, up to the verdict. Under `--json`: the events,
/// one a line. The exit code is the verdict's.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto watch latest
  cto watch latest --json | jq -r .type")]
pub(crate) struct Args {
    /// A run id, a unique prefix, `latest`, or a path to a pack
    #[arg(value_name = "RUN")]
    run: String,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let found = session.find(&args.run)?;
    let unreadable = |e: &std::io::Error| {
        Failure::io(
            "file_unreadable",
            format!("could not read the log of `{}`", found.pack.display()),
            e,
        )
    };
    let mut file = PackDir::open(&found.pack)
        .and_then(|dir| dir.open_path(EVENTS))
        .map_err(|e| unreadable(&e))?;
    let mut offset = 0;
    let mut rest: Vec<u8> = Vec::new();
    let mut verdict: Option<RunStatus> = None;
    loop {
        // Asked before reading: what was written before its writer went is still read.
        let sealed = found.pack.join(ATTESTATION).exists();
        let alive = is_alive(session, found.run_id.as_ref());
        file.seek(SeekFrom::Start(offset))
            .map_err(|e| unreadable(&e))?;
        let read = file.read_to_end(&mut rest).map_err(|e| unreadable(&e))?;
        offset += read as u64;
        while let Some(end) = rest.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            verdict = tell(session, &line)?.or(verdict);
        }
        if rest.len() > LINE_BYTES_MAX {
            return Err(Failure::new(
                Exit::EVIDENCE,
                "log_broken",
                "a line of the log is longer than any that is written",
            ));
        }
        match verdict {
            Some(status) if sealed => return Ok(Exit::verdict(status)),
            None if sealed => {
                return Err(Failure::new(
                    Exit::EVIDENCE,
                    "log_broken",
                    "the pack is sealed but its log has no end",
                ));
            }
            Some(_) | None if !alive => {
                return Err(Failure::new(
                    Exit::FAULT,
                    "run_crashed",
                    "the run is not sealed and nobody works on it any more",
                )
                .hint("`cto recover` seals it as interrupted"));
            }
            Some(_) | None => std::thread::sleep(LOOK_EVERY),
        }
    }
}

/// A pack of elsewhere has no holder here.
fn is_alive(session: &Session, run_id: Option<&cto_contract::ids::RunId>) -> bool {
    let home = session
        .home_place()
        .ok()
        .and_then(|(place, _)| Home::open(&place).ok());
    home.is_some_and(|home| {
        cto_runner::live_runs(&home)
            .iter()
            .any(|(id, _)| Some(id) == run_id)
    })
}

fn tell(session: &Session, line: &[u8]) -> Result<Option<RunStatus>, Failure> {
    let event: RunEvent = serde_json::from_slice(line).map_err(|e| {
        Failure::of(Exit::EVIDENCE, "log_broken", &e).under("a line of the log is no event")
    })?;
    if session.printer.json {
        session.printer.json_line(&event)?;
    } else if let Some(text) = progress(&event) {
        let mut page = session.printer.page();
        page.line(&text);
        session.printer.show(&page)?;
    }
    Ok(if let EventKind::RunCompleted(completed) = &event.kind {
        Some(completed.status)
    } else {
        None
    })
}
