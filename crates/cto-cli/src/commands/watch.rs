//! `cto watch`: follow a run to its end.

use std::time::Duration;

use cto_contract::artifact::EVENTS;
use cto_contract::event::RunEvent;
use cto_rules::views::progress::progress;
use cto_runner::pack_file;
use cto_runner::{Follower, Home, Standing};

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
    session.tell_provenance(&found);
    if found.provenance.origin.is_some() {
        // It is sealed: what its log says must be what was sealed.
        pack_file::require(&found, EVENTS)?;
    }
    // A pack of elsewhere has no holder here, and needs no home.
    let home = session
        .home_place()
        .ok()
        .and_then(|(place, _)| Home::open(&place).ok());
    let mut follower = Follower::open(found, home)?;
    loop {
        let look = follower.look()?;
        for event in &look.events {
            tell(session, event)?;
        }
        match look.standing {
            Standing::GoesOn => std::thread::sleep(LOOK_EVERY),
            Standing::Sealed(status) => return Ok(Exit::verdict(status)),
            Standing::SealedWithoutEnd => {
                return Err(Failure::new(
                    Exit::EVIDENCE,
                    "log_broken",
                    "the pack is sealed but its log has no end",
                ));
            }
            Standing::Crashed => {
                return Err(Failure::new(
                    Exit::FAULT,
                    "run_crashed",
                    "the run is not sealed and nobody works on it any more",
                )
                .hint("`cto recover` seals it as interrupted"));
            }
        }
    }
}

fn tell(session: &Session, event: &RunEvent) -> Result<(), Failure> {
    if session.printer.json {
        return session.printer.json_line(event);
    }
    let Some(text) = progress(event) else {
        return Ok(());
    };
    let mut page = session.printer.page();
    page.line(&text);
    session.printer.show(&page)
}
