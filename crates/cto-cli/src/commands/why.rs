//! `cto why`: which rule decides about a path or an action.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use cto_contract::artifact::TASK_CONTRACT;
use cto_contract::outputs::{SubjectKind, WhyOutput, WhyTag};
use cto_contract::task::TaskContract;
use cto_contract::text::one_line;
use cto_contract::words::Action;
use cto_rules::why::{Verdict, Why, why_action, why_path};

use super::Outcome;
use crate::contract_file;
use crate::failure::{Exit, Failure};
use crate::pack_file;
use crate::printer::{BAD, GOOD};
use crate::session::Session;

/// Say which rule decides about a path or an action
///
/// A path is judged in this order: what no contract can allow, `forbidden_paths`, `frozen_paths`, files where a test
/// runner looks for itself or that steer agents, `allowed_paths`; what nothing allows is refused. The answer comes
/// from the code that judges runs. One of the ten actions is looked up by its name; write `./push` for a file of
/// that name.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("of").required(true).args(["contract", "run"]), after_long_help = "\
Examples:
  cto why src/app.py --contract cto-task.yaml
  cto why tests/test_app.py --run latest      by the contract of that run
  cto why push --contract cto-task.yaml")]
pub(crate) struct Args {
    /// A path as it is in the repository, or one of the ten actions
    #[arg(value_name = "PATH|ACTION")]
    subject: OsString,
    /// Ask this contract
    #[arg(long, value_name = "FILE")]
    contract: Option<PathBuf>,
    /// Ask the contract of a run: its id, a unique prefix, `latest`, or a path to a pack
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let contract = contract(args, session)?;
    let why = answer(args, &contract)?;
    if session.printer.json {
        session.printer.document(&WhyOutput {
            schema_version: WhyTag,
            kind: match why.verdict {
                Verdict::Path(_) => SubjectKind::Path,
                Verdict::Action(_) => SubjectKind::Action,
            },
            subject: why.subject,
            task_id: contract.task_id,
            verdict: why.verdict.as_str().to_owned(),
            allowed: why.verdict.is_allowed(),
            decided_by: why.decided_by,
            sentence: why.sentence,
            hint: why.hint,
        })?;
        return Ok(Exit::DONE);
    }
    let mut page = session.printer.page();
    let style = if why.verdict.is_allowed() { GOOD } else { BAD };
    page.styled(style, &why.verdict.as_str().replace('_', " "))
        .text("  ")
        .line(&one_line(&why.sentence));
    if let Some(hint) = &why.hint {
        page.text("  next: ").line(hint);
    }
    session.printer.show(&page)?;
    Ok(Exit::DONE)
}

fn contract(args: &Args, session: &Session) -> Result<TaskContract, Failure> {
    if let Some(file) = &args.contract {
        return contract_file::read(file);
    }
    let found = session.find(args.run.as_deref().unwrap_or("latest"))?;
    let bytes = pack_file::require(&found.pack, TASK_CONTRACT)?;
    TaskContract::read(TASK_CONTRACT, &bytes)
        .map_err(|e| Failure::of(Exit::EVIDENCE, "contract_invalid", &e))
}

fn answer(args: &Args, contract: &TaskContract) -> Result<Why, Failure> {
    if let Some(action) = args.subject.to_str().and_then(|s| s.parse::<Action>().ok()) {
        return Ok(why_action(contract, action));
    }
    let mut path = args.subject.as_bytes();
    while let Some(rest) = path.strip_prefix(b"./") {
        path = rest;
    }
    let refused = |what: &str, hint: &str| {
        Err(Failure::new(
            Exit::USAGE,
            "path_not_a_file",
            format!("`{}` {what}", one_line(&args.subject.to_string_lossy())),
        )
        .hint(hint))
    };
    if path.starts_with(b"/") {
        return refused(
            "is absolute",
            "name the path as it is in the repository, such as src/app.py",
        );
    }
    if path.is_empty() || path.ends_with(b"/") || path == b"." {
        return refused(
            "names a directory",
            "rules are about files: name one in it, there or not",
        );
    }
    Ok(why_path(contract, path))
}
