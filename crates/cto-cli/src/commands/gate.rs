//! `cto gate` and `cto verify --commit`: commits against accepted evidence.

use std::path::PathBuf;

use cto_contract::outputs::{
    CommitAnswer, CommitEvidence, GateOutput, VerifyCommitOutput, VerifyCommitTag,
};
use cto_evidence::verify::VerifyOptions;
use cto_runner::{CommitError, CommitLook, look_at_commits};

use super::Outcome;
use super::verify::read_key;
use crate::failure::{Exit, Failure};
use crate::printer::{BAD, GOOD, Page};
use crate::session::Session;

/// Refuse commits by a lane that rest on no accepted evidence, for CI
///
/// Looks at every commit that HEAD holds and BASE does not. One that a lane made, by its trailers or its author, must name a
/// pack that is here, verifies, is of known origin, passed, checked this very tree, and was accepted by an operator. Commits
/// of people pass. Docs: docs/gate.md has a ready step for GitHub, Forgejo and GitLab.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto gate origin/main..HEAD
  cto gate v1.2.. --packs ./evidence --key harness.pub

Exit codes: 0 every commit passes, 5 one does not")]
pub(crate) struct Args {
    /// The commits, as BASE..HEAD; without HEAD it is the one that is checked out
    #[arg(value_name = "BASE..HEAD")]
    range: String,
    #[command(flatten)]
    place: PlaceArgs,
    /// Take packs of this public key as known: a PEM file, or base64
    #[arg(long, value_name = "FILE_OR_BASE64")]
    key: Option<String>,
}

/// Where commits and packs are.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct PlaceArgs {
    /// The repository of the commits; without it the one around this directory
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
    /// Look for packs here, by their run ids, and not in the home
    #[arg(long, value_name = "DIR")]
    packs: Option<PathBuf>,
}

impl PlaceArgs {
    /// Opens the repository in a scratch of its own, and looks.
    fn look<T>(
        &self,
        key: Option<&str>,
        session: &Session,
        look: impl FnOnce(&CommitLook<'_>) -> Result<T, CommitError>,
    ) -> Result<T, Failure> {
        let options = VerifyOptions {
            trusted: session.config()?.trusted,
            extra_key: key.map(read_key).transpose()?,
            ..VerifyOptions::default()
        };
        let home = session.home()?;
        let packs = self.packs.clone().unwrap_or_else(|| home.runs());
        let repo = self.repo.clone().unwrap_or_else(|| PathBuf::from("."));
        look_at_commits(&home, &repo, &packs, &options, look).map_err(failure)
    }
}

fn failure(error: CommitError) -> Failure {
    let code = match &error {
        CommitError::Repository(_) => "commits_unreadable",
        CommitError::Scratch(_) => "scratch_not_made",
        CommitError::Range(_) => "range_malformed",
        CommitError::Id(_) => "commit_id_unknown",
    };
    Failure::of(Exit::USAGE, code, &error)
        .hint("name a range such as `origin/main..HEAD`, in a repository that has both ends")
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let key = args.key.as_deref();
    let output = (args.place).look(key, session, |look| look.gate(&args.range))?;
    if session.printer.json {
        session.printer.document(&output)?;
    } else {
        let mut page = session.printer.page();
        told(&mut page, &output);
        session.printer.show(&page)?;
    }
    Ok(if output.ok {
        Exit::DONE
    } else {
        Exit::EVIDENCE
    })
}

fn told(page: &mut Page, output: &GateOutput) {
    let (style, word) = match output.ok {
        true => (GOOD, "OK"),
        false => (BAD, "REFUSED"),
    };
    let count = output.checked.len();
    page.styled(style, word)
        .text(&format!("  {} commits, {count} by a lane", output.commits))
        .end();
    for evidence in &output.checked {
        let failed = output.errors.iter().find(|e| e.commit == evidence.commit);
        let what = failed.map_or_else(
            || format!("{}, accepted", evidence.answer),
            |error| error.message.clone(),
        );
        page.field(
            evidence.commit.as_str().get(..12).unwrap_or_default(),
            &what,
        );
    }
}

/// `cto verify --commit`.
pub(super) fn verify_commit(
    rev: &str,
    place: &PlaceArgs,
    key: Option<&str>,
    session: &Session,
) -> Outcome {
    let evidence: CommitEvidence = place.look(key, session, |look| look.one(rev))?;
    let is_good = matches!(
        evidence.answer,
        CommitAnswer::Exact | CommitAnswer::Equivalent
    );
    let output = VerifyCommitOutput {
        schema_version: VerifyCommitTag,
        evidence,
    };
    if session.printer.json {
        session.printer.document(&output)?;
    } else {
        let mut page = session.printer.page();
        let evidence = &output.evidence;
        let style = if is_good { GOOD } else { BAD };
        page.styled(style, evidence.answer.as_str()).end();
        page.field("commit", evidence.commit.as_str());
        if let Some(run) = &evidence.run_id {
            page.field("run", run.as_str());
        }
        if let Some(outcome) = evidence.outcome {
            page.field("outcome", outcome.as_str());
        }
        if let Some(reason) = &evidence.reason {
            page.field("because", reason);
        }
        session.printer.show(&page)?;
    }
    Ok(if is_good { Exit::DONE } else { Exit::EVIDENCE })
}
