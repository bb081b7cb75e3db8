//! `cto import`: take in a pack of elsewhere.

use std::path::PathBuf;

use cto_contract::outputs::{ImportOutput, ImportTag};
use cto_contract::trust::Provenance;
use cto_contract::verify::withheld_text;

use super::Outcome;
use super::run::status_word;
use crate::failure::Exit;
use crate::session::Session;

/// Take in a pack of elsewhere
///
/// The file is not trusted: it is unpacked aside with every size capped, no links and no paths that leave it, and
/// taken in only if the pack verifies. Who sealed it may be unknown, and files may be withheld; that is shown and
/// stays so.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Example:
  cto import run.tar.gz            then `cto show` with the run id that it prints")]
pub(crate) struct Args {
    /// An archive made by `cto export --tar`, or a pack directory
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let harness = session.harness()?;
    let done = cto_runner::import_pack(&harness, &args.file)?;
    let printer = &session.printer;
    if printer.json {
        printer.document(&ImportOutput {
            schema_version: ImportTag,
            run_id: done.run_id,
            path: done.pack.display().to_string(),
            status: done.verified.status,
            origin: done.verified.origin,
            of_this_home: done.of_this_home,
            pack_digest: done.verified.pack_digest,
            already_here: done.already_here,
            withheld: done.verified.withheld,
        })?;
        return Ok(Exit::DONE);
    }
    let mut page = printer.page();
    if let Some(status) = done.verified.status {
        let (word, style) = status_word(status);
        page.styled(style, word).text("  ");
    }
    page.line(if done.already_here {
        "the same pack was here already"
    } else {
        "taken in"
    });
    page.field("run", done.run_id.as_str());
    let provenance = Provenance {
        origin: Some(done.verified.origin),
        of_this_home: done.of_this_home,
    };
    page.field("origin", &provenance.text());
    page.field("pack", &done.pack.display().to_string());
    if let Some(withheld) = withheld_text(&done.verified.withheld) {
        page.field("withheld", &withheld);
    }
    printer.show(&page)?;
    Ok(Exit::DONE)
}
