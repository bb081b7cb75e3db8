//! `cto init`: a contract to start from, proposed from what a project looks like.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use cto_rules::outputs::{FileState, InitFile, InitOutput, InitTag};
use cto_rules::propose::files::{
    FileNames, IGNORED, env_example, extended_ignore, missing_ignores, next_steps,
};
use cto_rules::propose::{Proposal, propose};
use cto_runner::{is_repository, project_facts};

use super::Outcome;
use crate::failure::{Exit, Failure};
use crate::printer::{GOOD, STRONG};
use crate::session::Session;

const NAMES: FileNames = FileNames {
    contract: "cto-task.yaml",
    example: ".env.example",
    ignore: ".gitignore",
};

/// Longest `.gitignore` that is extended.
const IGNORE_BYTES_MAX: u64 = 1 << 20;

/// Write a task contract to start from
///
/// Looks at the project's files, guesses how its tests run, and writes `cto-task.yaml`: what may change, what may
/// not, what judges the change, and what the tests need. Nothing else of the project is written, and the contract does
/// not count as an uncommitted change; lines that `.gitignore` should have are only proposed. The project is only read;
/// no tool of it is started. Read the contract, say what the change must do, then run it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto init
  cto init ../project
  cto init --force        write cto-task.yaml anew
  cto init --workspace    also write .env.example and the lines of .gitignore")]
pub(crate) struct Args {
    /// The project's top directory
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// Overwrite cto-task.yaml
    #[arg(long)]
    force: bool,
    /// Also write .env.example, and the lines that .gitignore lacks
    #[arg(long)]
    workspace: bool,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let facts = project_facts(&args.directory, session.env.get("HOME"))?;
    let proposal = propose(&facts);
    let target = args.directory.join(NAMES.contract);
    let is_there = target.symlink_metadata().is_ok();
    if is_there && !args.force {
        return Err(Failure::new(
            Exit::USAGE,
            "contract_exists",
            format!("`{}` is there already", target.display()),
        )
        .hint(format!(
            "`cto contract check {}` reads it; `--force` overwrites it",
            target.display()
        )));
    }
    // Read first: a file that can't be extended must not leave the project half set up.
    let ignore = match (args.workspace, read_ignore(&args.directory)) {
        (true, read) => Some(read?),
        // Where it can't be read every line is proposed.
        (false, read) => read.ok(),
    };
    let ignore_bytes = ignore.as_ref().map_or(&[][..], |ignore| &ignore.bytes);
    cto_runner::write_file(&target, proposal.to_yaml().as_bytes())?;
    let written = match is_there {
        true => FileState::Replaced,
        false => FileState::Written,
    };
    let mut files = vec![file(NAMES.contract, written)];
    let mut proposed_ignores = missing_ignores(ignore_bytes);
    if let (true, Some(ignore)) = (args.workspace, &ignore) {
        files.extend(write_workspace(&args.directory, ignore)?);
        proposed_ignores.clear();
    }
    let mut notes = proposal.notes.clone();
    if !is_repository(&args.directory) {
        notes.push(
            "this is no git repository: make it one and commit, a run starts from a commit"
                .to_owned(),
        );
    }
    let directory = args.directory.display().to_string();
    let output = InitOutput {
        schema_version: InitTag,
        languages: proposal.languages.iter().copied().collect(),
        files,
        proposed_ignores: proposed_ignores.into_iter().map(str::to_owned).collect(),
        notes,
        next: next_steps(&directory, NAMES),
        contract: proposal.contract.clone(),
        directory,
    };
    if session.printer.json {
        session.printer.document(&output)?;
    } else {
        show(&output, &proposal, session)?;
    }
    Ok(Exit::DONE)
}

fn file(path: &str, state: FileState) -> InitFile {
    InitFile {
        path: path.to_owned(),
        state,
    }
}

/// Writes the files that a whole workspace has besides its contracts.
fn write_workspace(directory: &Path, ignore: &Ignore) -> Result<[InitFile; 2], Failure> {
    let example = directory.join(NAMES.example);
    let example = if example.symlink_metadata().is_ok() {
        FileState::Kept
    } else {
        cto_runner::write_file(&example, env_example().as_bytes())?;
        FileState::Written
    };
    let state = match (extended_ignore(&ignore.bytes), ignore.is_there) {
        (None, _) => FileState::Kept,
        (Some(extended), is_there) => {
            cto_runner::write_file(&directory.join(NAMES.ignore), &extended)?;
            match is_there {
                true => FileState::Extended,
                false => FileState::Written,
            }
        }
    };
    Ok([file(NAMES.example, example), file(NAMES.ignore, state)])
}

/// The project's ignore file; empty where there is none.
struct Ignore {
    bytes: Vec<u8>,
    is_there: bool,
}

fn read_ignore(directory: &Path) -> Result<Ignore, Failure> {
    let path = directory.join(NAMES.ignore);
    let refused = |what: &str| {
        Failure::new(
            Exit::USAGE,
            "ignore_file_unusable",
            format!("`{}` {what}", path.display()),
        )
        .hint(format!("add these lines yourself: {}", IGNORED.join(", ")))
    };
    let mut bytes = Vec::new();
    match path.symlink_metadata() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Ignore {
                bytes,
                is_there: false,
            });
        }
        Err(_) => return Err(refused("can't be read")),
        Ok(meta) if !meta.is_file() => return Err(refused("is not a regular file")),
        Ok(meta) if meta.len() > IGNORE_BYTES_MAX => {
            return Err(refused("is too large to be extended"));
        }
        Ok(_) => {}
    }
    File::open(&path)
        .and_then(|f| f.take(IGNORE_BYTES_MAX).read_to_end(&mut bytes))
        .map_err(|e| {
            let mut failure = refused("can't be read");
            failure.causes.push(e.to_string());
            failure
        })?;
    Ok(Ignore {
        bytes,
        is_there: true,
    })
}

fn show(output: &InitOutput, proposal: &Proposal, session: &Session) -> Result<(), Failure> {
    let contract = &proposal.contract;
    let mut page = session.printer.page();
    let join = |list: Vec<String>| {
        if list.is_empty() {
            "nothing".to_owned()
        } else {
            list.join(", ")
        }
    };
    page.styled(STRONG, "Found").end();
    page.field(
        "languages",
        &join(output.languages.iter().map(ToString::to_string).collect()),
    );
    page.field(
        "source",
        &join(
            contract
                .allowed_paths
                .iter()
                .map(ToString::to_string)
                .collect(),
        ),
    );
    page.field(
        "tests",
        &join(
            contract
                .verification_commands
                .iter()
                .map(|c| c.run.clone())
                .collect(),
        ),
    );
    page.field(
        "needs",
        &join(contract.inputs.iter().map(|i| i.from.to_string()).collect()),
    );
    page.field(
        "frozen",
        &join(
            contract
                .frozen_paths
                .iter()
                .map(ToString::to_string)
                .collect(),
        ),
    );
    for note in &output.notes {
        page.field("note", note);
    }
    page.heading("Files");
    for file in &output.files {
        page.text("  ")
            .styled(GOOD, &format!("{:<9}", file.state.as_str()))
            .text(" ")
            .line(&file.path);
    }
    if !output.proposed_ignores.is_empty() {
        page.heading("Lines that .gitignore should have");
        for line in &output.proposed_ignores {
            page.text("  ").line(line);
        }
    }
    page.heading("Next");
    for step in &output.next {
        page.text("  ").line(step);
    }
    session.printer.show(&page)
}
