//! `cto init`: a contract to start from, proposed from what a project looks like.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use cto_contract::words::Lane;
use cto_rules::outputs::{FileState, InitFile, InitOutput, InitTag};
use cto_rules::propose::{Proposal, propose};

use super::Outcome;
use crate::failure::{Exit, Failure};
use crate::printer::{GOOD, STRONG};
use crate::project_files;
use crate::session::Session;

const CONTRACT: &str = "cto-task.yaml";
const EXAMPLE: &str = ".env.example";
const IGNORE: &str = ".gitignore";

/// What `cto` and its relatives leave in a project, and what must not be committed.
const IGNORED: &[&str] = &[
    ".env",
    "cto.db",
    "cto.db-*",
    ".cto-sandbox/",
    ".sandcastle/",
];

/// Longest `.gitignore` that is extended.
const IGNORE_BYTES_MAX: u64 = 1 << 20;

/// Write a task contract to start from
///
/// Looks at the project's files, guesses how its tests run, and writes `cto-task.yaml`: what may change, what may
/// not, what judges the change, and what the tests need. Also `.env.example`, and lines for `.gitignore` that keep
/// secrets and leftovers out. The project is only read; no tool of it is started. Read the contract, say what the
/// change must do, then run it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto init
  cto init ../project
  cto init --force        write cto-task.yaml anew")]
pub(crate) struct Args {
    /// The project's top directory
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// Overwrite cto-task.yaml
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let facts = project_files::project_facts(&args.directory, session.env.get("HOME"))?;
    let proposal = propose(&facts);
    let target = args.directory.join(CONTRACT);
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
    let ignore = extended_ignore(&args.directory)?;
    cto_runner::write_file(&target, proposal.to_yaml().as_bytes())?;
    let file = |path: &str, state| InitFile {
        path: path.to_owned(),
        state,
    };
    let mut files = vec![file(
        CONTRACT,
        if is_there {
            FileState::Replaced
        } else {
            FileState::Written
        },
    )];
    let example = args.directory.join(EXAMPLE);
    if example.symlink_metadata().is_ok() {
        files.push(file(EXAMPLE, FileState::Kept));
    } else {
        cto_runner::write_file(&example, env_example().as_bytes())?;
        files.push(file(EXAMPLE, FileState::Written));
    }
    let state = ignore.state;
    if let Some(bytes) = ignore.bytes {
        cto_runner::write_file(&args.directory.join(IGNORE), &bytes)?;
    }
    files.push(file(IGNORE, state));
    let mut notes = proposal.notes.clone();
    if !project_files::is_repository(&args.directory) {
        notes.push(
            "this is no git repository: make it one and commit, a run starts from a commit"
                .to_owned(),
        );
    }
    let output = InitOutput {
        schema_version: InitTag,
        directory: args.directory.display().to_string(),
        languages: proposal.languages.iter().copied().collect(),
        files,
        notes,
        next: next_steps(&args.directory),
        contract: proposal.contract.clone(),
    };
    if session.printer.json {
        session.printer.document(&output)?;
    } else {
        show(&output, &proposal, session)?;
    }
    Ok(Exit::DONE)
}

/// What to type after this, in order.
fn next_steps(directory: &Path) -> Vec<String> {
    let lane = Lane::Command;
    let gates: Vec<String> = [(lane.gate(), "1"), (lane.stage_gate(), "3")]
        .into_iter()
        .filter_map(|(name, value)| name.map(|n| format!("{n}={value} ")))
        .collect();
    let mut steps = Vec::new();
    if directory != Path::new(".") {
        steps.push(format!("cd {}", directory.display()));
    }
    steps.extend([
        format!("$EDITOR {CONTRACT}"),
        format!("cto contract check {CONTRACT}"),
        format!("git add {CONTRACT} {EXAMPLE} {IGNORE} && git commit -m 'Set up cto'"),
        format!(
            "{}cto run --repo . --contract {CONTRACT} --engine command --stage 3 -- <agent…>",
            gates.concat()
        ),
        "cto export latest --patch | git apply".to_owned(),
    ]);
    steps
}

fn env_example() -> String {
    let lane = Lane::Command;
    let name = |gate: Option<String>| gate.unwrap_or_default();
    format!(
        "# Settings of `cto`, to be copied into `.env` of its config directory (`cto config show` says where). A file of\n\
         # that name in a repository is never read. The environment wins over it. Gates are not set here but in the\n\
         # environment of a call: {}=1 opens the lane for any program, {}=3 lets it work on a copy.\n\
         \n\
         # Where runs and evidence are kept.\n\
         #CTO_HOME=/var/lib/cto\n\
         \n\
         # Or below the home of Hermes, in profiles/cto-planb.\n\
         #HERMES_HOME=/var/lib/hermes\n\
         \n\
         # Who confines runs that name nobody: docker or podman. Without it `cto` does so itself.\n\
         #DEFAULT_SANDCASTLE_PROVIDER=podman\n\
         \n\
         # Names of the organisation and of the repository of sandboxes.\n\
         #GITHUB_ORG=example\n\
         #SANDCASTLE_REPO=example/sandboxes\n",
        name(lane.gate()),
        name(lane.stage_gate()),
    )
}

struct Ignore {
    state: FileState,
    /// What to write; none when nothing is missing.
    bytes: Option<Vec<u8>>,
}

/// The ignore file with the lines that it lacks.
fn extended_ignore(directory: &Path) -> Result<Ignore, Failure> {
    let path = directory.join(IGNORE);
    let refused = |what: &str| {
        Failure::new(
            Exit::USAGE,
            "ignore_file_unusable",
            format!("`{}` {what}", path.display()),
        )
        .hint(format!("add these lines yourself: {}", IGNORED.join(", ")))
    };
    let mut bytes = Vec::new();
    let state = match path.symlink_metadata() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => FileState::Written,
        Err(_) => return Err(refused("can't be read")),
        Ok(meta) if !meta.is_file() => return Err(refused("is not a regular file")),
        Ok(meta) if meta.len() > IGNORE_BYTES_MAX => {
            return Err(refused("is too large to be extended"));
        }
        Ok(_) => {
            File::open(&path)
                .and_then(|f| f.take(IGNORE_BYTES_MAX).read_to_end(&mut bytes))
                .map_err(|e| {
                    let mut failure = refused("can't be read");
                    failure.causes.push(e.to_string());
                    failure
                })?;
            FileState::Extended
        }
    };
    let missing: Vec<&str> = IGNORED
        .iter()
        .copied()
        .filter(|line| {
            !bytes
                .split(|b| *b == b'\n')
                .any(|l| l.trim_ascii() == line.as_bytes())
        })
        .collect();
    if missing.is_empty() {
        return Ok(Ignore {
            state: FileState::Kept,
            bytes: None,
        });
    }
    if !bytes.is_empty() && !bytes.ends_with(b"\n") {
        bytes.push(b'\n');
    }
    for line in missing {
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
    }
    Ok(Ignore {
        state,
        bytes: Some(bytes),
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
    page.heading("Next");
    for step in &output.next {
        page.text("  ").line(step);
    }
    session.printer.show(&page)
}
