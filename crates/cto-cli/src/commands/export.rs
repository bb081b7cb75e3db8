//! `cto export`: hand a pack or its patch to someone.

use std::path::{Path, PathBuf};

use cto_contract::outputs::{ExportKind, ExportOutput, ExportTag};
use cto_contract::verify::withheld_text;
use cto_runner::PatchOf;

use super::Outcome;
use crate::failure::Exit;
use crate::session::Session;

/// Write a pack as an archive, or its patch
///
/// Both are written only if the pack verifies, and the patch only of a pass
/// whose signer is known here. The archive is the same bytes
/// whenever and wherever it is made; with a name that ends in `gz` it is compressed. Files that must not leave this
/// place can be withheld: the copy verifies, says which they are, and proves less.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["tar", "patch"]), after_long_help = "\
Examples:
  cto export latest --tar run.tar.gz
  cto export latest --tar run.tar.gz --withhold patch.diff test.log
  cto export latest --patch | git apply
  cto export latest --patch change.patch")]
pub(crate) struct Args {
    /// A run id, a unique prefix, `latest`, or a path to a pack
    #[arg(value_name = "RUN")]
    run: String,
    /// Write the whole pack as a tar archive
    #[arg(long, value_name = "FILE")]
    tar: Option<PathBuf>,
    /// Leave these files out of the archive: `patch.diff`, `test.log`, or files under `backend/`
    #[arg(long, value_name = "PATH", num_args = 1.., requires = "tar", conflicts_with = "patch")]
    withhold: Vec<String>,
    /// Write the patch of a pass, to stdout without a file
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    patch: Option<Option<PathBuf>>,
    /// Write the patch whoever sealed the pack, also where no key here knows the signer
    #[arg(long, requires = "patch")]
    any_origin: bool,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let found = session.find(&args.run)?;
    let trusted = session.config()?.trusted;
    let of_this_home = found.provenance.of_this_home;
    let printer = &session.printer;
    session.tell_provenance(&found);
    let output = if let Some(file) = &args.tar {
        let done = cto_runner::export_tar(&found, &trusted, file, &args.withhold)?;
        printer.talk(&format!(
            "wrote {} ({} bytes) of run {}",
            file.display(),
            done.bytes,
            done.run_id
        ));
        if let Some(withheld) = withheld_text(&done.withheld) {
            printer.talk(&format!("withheld {withheld}"));
        }
        written(ExportKind::Tar, done, of_this_home, Some(file), None)
    } else {
        let of = match args.any_origin {
            true => PatchOf::AnyOrigin,
            false => PatchOf::KnownOrigin,
        };
        let (done, bytes) = cto_runner::export_patch(&found, &trusted, of)?;
        match args.patch.as_ref().and_then(Option::as_ref) {
            Some(file) => {
                cto_runner::write_file(file, &bytes)?;
                printer.talk(&format!(
                    "wrote {} ({} bytes) of run {}",
                    file.display(),
                    done.bytes,
                    done.run_id
                ));
                written(ExportKind::Patch, done, of_this_home, Some(file), None)
            }
            None if printer.json => written(
                ExportKind::Patch,
                done,
                of_this_home,
                None,
                String::from_utf8(bytes).ok(),
            ),
            None => {
                printer.foreign(&bytes)?;
                return Ok(Exit::DONE);
            }
        }
    };
    if printer.json {
        printer.document(&output)?;
    }
    Ok(Exit::DONE)
}

fn written(
    kind: ExportKind,
    done: cto_runner::Exported,
    of_this_home: bool,
    file: Option<&Path>,
    patch: Option<String>,
) -> ExportOutput {
    ExportOutput {
        schema_version: ExportTag,
        run_id: done.run_id,
        origin: done.origin,
        of_this_home,
        kind,
        path: file.map(|f| f.display().to_string()),
        bytes: done.bytes,
        pack_digest: done.pack_digest,
        patch,
        withheld: done.withheld,
    }
}
