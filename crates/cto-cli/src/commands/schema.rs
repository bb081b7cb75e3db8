//! `cto schema`: the JSON Schema of every output and file.

use std::path::{Path, PathBuf};

use cto_contract::outputs::{SchemaRow, SchemasOutput, SchemasTag, WrittenOutput, WrittenTag};
use cto_runner::schemas;

use super::Outcome;
use crate::failure::{Exit, Failure};
use crate::session::Session;
use crate::suggest;

/// Print the JSON Schema of an output or a file
///
/// Without a name: the list. Every `--json` output and every file of a pack has one.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto schema report
  cto schema --all schemas/")]
pub(crate) struct Args {
    /// The schema to print
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Write all of them into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "name")]
    all: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    match (&args.all, &args.name) {
        (Some(dir), _) => write_all(dir, session)?,
        (None, Some(name)) => session.printer.document(&find(name)?.schema())?,
        (None, None) => list(session)?,
    }
    Ok(Exit::DONE)
}

fn find(name: &str) -> Result<&'static schemas::Entry, Failure> {
    schemas::find(name).ok_or_else(|| {
        let failure = Failure::new(
            Exit::USAGE,
            "schema_unknown",
            format!(
                "there is no schema `{}`",
                cto_contract::text::shorten(name, 60)
            ),
        );
        match suggest::nearest(name, schemas::ALL.iter().map(|e| e.name)) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure.hint("`cto schema` lists them"),
        }
    })
}

fn list(session: &Session) -> Result<(), Failure> {
    if session.printer.json {
        let rows = schemas::ALL
            .iter()
            .map(|e| SchemaRow {
                name: e.name.to_owned(),
                about: e.about.to_owned(),
            })
            .collect();
        return session.printer.document(&SchemasOutput {
            schema_version: SchemasTag,
            schemas: rows,
        });
    }
    let rows: Vec<Vec<String>> = schemas::ALL
        .iter()
        .map(|e| vec![e.name.to_owned(), e.about.to_owned()])
        .collect();
    let mut page = session.printer.page();
    page.table(&["name", "describes"], &rows);
    session.printer.show(&page)
}

fn write_all(dir: &Path, session: &Session) -> Result<(), Failure> {
    let mut files = Vec::new();
    make_directory(dir)?;
    for entry in schemas::ALL {
        let mut text = serde_json::to_vec_pretty(&entry.schema())
            .map_err(|e| Failure::of(Exit::FAULT, "output_not_encoded", &e))?;
        text.push(b'\n');
        let name = format!("{}.schema.json", entry.name);
        cto_runner::write_file(&dir.join(&name), &text)?;
        files.push(name);
    }
    tell_written(dir, files, session)
}

pub(crate) fn make_directory(dir: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(dir).map_err(|e| {
        Failure::io(
            "directory_not_made",
            format!("could not make the directory `{}`", dir.display()),
            &e,
        )
    })
}

pub(crate) fn tell_written(
    dir: &Path,
    files: Vec<String>,
    session: &Session,
) -> Result<(), Failure> {
    if session.printer.json {
        return session.printer.document(&WrittenOutput {
            schema_version: WrittenTag,
            directory: dir.display().to_string(),
            files,
        });
    }
    session.printer.talk(&format!(
        "wrote {} files into {}",
        files.len(),
        dir.display()
    ));
    Ok(())
}
