//! `cto diff`: the change itself.

use cto_contract::artifact::PATCH;
use cto_contract::outputs::{DiffOutput, DiffTag};
use cto_evidence::canonical::sha256;
use cto_runner::pack_file;

use super::Outcome;
use crate::failure::{Exit, Failure};
use crate::printer::{ADDED, FAINT, PLACE, Page, REMOVED};
use crate::session::Session;

/// Print the patch of a run
///
/// Byte for byte when piped, so that `git apply` takes it; coloured and with control characters made visible on a
/// terminal.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto diff latest
  cto diff latest > change.patch       but see `cto export --patch`, which verifies first")]
pub(crate) struct Args {
    /// A run id, a unique prefix, `latest`, or a path to a pack
    #[arg(value_name = "RUN")]
    run: String,
}

/// Shows the change of a run that was just made.
pub(super) fn show(run: &str, session: &Session) -> Result<(), Failure> {
    let args = Args {
        run: run.to_owned(),
    };
    self::run(&args, session).map(drop)
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let found = session.find(&args.run)?;
    let patch = pack_file::require(&found, PATCH)?;
    if session.printer.json {
        let (_, report) = pack_file::report(&found)?;
        session.printer.document(&DiffOutput {
            schema_version: DiffTag,
            run_id: report.run.run_id,
            origin: found.provenance.origin,
            of_this_home: found.provenance.of_this_home,
            files: report.change.changes,
            bytes: patch.len() as u64,
            sha256: sha256(&patch),
            patch: String::from_utf8(patch).ok(),
        })?;
        return Ok(Exit::DONE);
    }
    session.tell_provenance(&found);
    if session.printer.out_terminal {
        let mut page = session.printer.page();
        colour(&mut page, &String::from_utf8_lossy(&patch));
        session.printer.show(&page)?;
    } else {
        session.printer.data(&patch)?;
    }
    Ok(Exit::DONE)
}

fn colour(page: &mut Page, patch: &str) {
    for line in patch.lines() {
        match line.as_bytes().first() {
            Some(b'+') => page.styled(ADDED, line),
            Some(b'-') => page.styled(REMOVED, line),
            Some(b'@') => page.styled(PLACE, line),
            Some(b' ') => page.text(line),
            Some(_) | None => page.styled(FAINT, line),
        };
        page.end();
    }
}
