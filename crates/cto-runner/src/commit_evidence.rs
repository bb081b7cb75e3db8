//! Commits of a repository against packs: what a commit names is looked up, verified, and judged by the rules.

use std::path::{Path, PathBuf};

use cto_checkout::{CommitRecord, Oid, Repository, RepositoryError};
use cto_contract::addendum::{Addendum, Body};
use cto_contract::artifact::REPORT_JSON;
use cto_contract::ids::{CommitId, RunId};
use cto_contract::outputs::{CommitEvidence, GateOutput, GateTag};
use cto_contract::report::Report;
use cto_evidence::addendum::read_addendum;
use cto_evidence::verify::{VerifyOptions, verify};
use cto_rules::gate::{CommitFacts, NamedPack, gate_error, judge_commit, named_run};

use crate::harness::{RunError, scratch_name};
use crate::home::Home;

/// Largest addendum that is read.
const ADDENDUM_BYTES_MAX: u64 = 1 << 20;
/// Largest report that is read.
const REPORT_BYTES_MAX: u64 = 512 << 20;

/// Why commits can't be looked at.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    #[error("the repository can't be read")]
    Repository(#[from] RepositoryError),
    #[error("there is no place to work in")]
    Scratch(#[from] RunError),
    #[error("`{0}` is no range of commits")]
    Range(String),
    #[error("`{0}` is no commit id of this version")]
    Id(String),
}

/// A repository whose commits are looked at, and where their packs are.
pub struct CommitLook<'a> {
    repository: &'a Repository,
    /// The directory that holds packs by their run ids.
    packs: &'a Path,
    /// Which keys are known.
    options: &'a VerifyOptions,
}

/// Opens the repository at a directory or above it, and looks at its commits.
pub fn look_at_commits<T>(
    home: &Home,
    repo: &Path,
    packs: &Path,
    options: &VerifyOptions,
    look: impl FnOnce(&CommitLook<'_>) -> Result<T, CommitError>,
) -> Result<T, CommitError> {
    let scratch = home.work().join(scratch_name("look")?);
    let looked = Repository::open(repo, &scratch)
        .map_err(CommitError::from)
        .and_then(|repository| {
            look(&CommitLook {
                repository: &repository,
                packs,
                options,
            })
        });
    crate::sealing::clear(&scratch);
    looked
}

impl CommitLook<'_> {
    /// What the evidence says of one commit.
    pub fn one(&self, rev: &str) -> Result<CommitEvidence, CommitError> {
        let commit = self.repository.resolve(Some(rev))?;
        self.judge(commit.id)
    }

    /// Every commit by a lane that `HEAD` of the range holds and its base does not.
    pub fn gate(&self, range: &str) -> Result<GateOutput, CommitError> {
        let (base, head) = range
            .split_once("..")
            .filter(|(base, head)| !base.is_empty() && !head.starts_with('.'))
            .ok_or_else(|| CommitError::Range(range.to_owned()))?;
        let head = if head.is_empty() { "HEAD" } else { head };
        let base = self.repository.resolve(Some(base))?.id;
        let head = self.repository.resolve(Some(head))?.id;
        let commits = self.repository.commits_between(base, head)?;
        let mut checked = Vec::new();
        for id in &commits {
            let evidence = self.judge(*id)?;
            if evidence.by_lane {
                checked.push(evidence);
            }
        }
        let errors: Vec<_> = checked.iter().filter_map(gate_error).collect();
        Ok(GateOutput {
            schema_version: GateTag,
            ok: errors.is_empty(),
            base: word(base)?,
            head: word(head)?,
            commits: commits.len() as u64,
            checked,
            errors,
        })
    }

    fn judge(&self, id: Oid) -> Result<CommitEvidence, CommitError> {
        let CommitRecord {
            tree,
            author_email,
            message,
            ..
        } = self.repository.commit_record(id)?;
        let tree = tree.to_string();
        Ok(judge_commit(&CommitFacts {
            commit: word(id)?,
            tree_id: tree.parse().map_err(|_| CommitError::Id(tree))?,
            pack: named_run(&message).and_then(|run| self.pack(&run)),
            author_email,
            message,
        }))
    }

    /// The pack of a run, verified with the records beside it; none where it is not here.
    fn pack(&self, run_id: &RunId) -> Option<NamedPack> {
        let pack = Some(self.packs.join(run_id.as_str())).filter(|pack| pack.is_dir())?;
        let verified = verify(
            &pack,
            &VerifyOptions {
                expect_run: Some(run_id.clone()),
                ..self.options.clone()
            },
        );
        let report: Option<Report> = read(&pack.join(REPORT_JSON), REPORT_BYTES_MAX)
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let change = report.as_ref().map(|report| &report.change);
        let mut named = NamedPack {
            verifies: verified.ok,
            origin: verified.origin,
            pack_digest: verified.pack_digest,
            status: report.as_ref().map(|report| report.verdict.status),
            tree_id: change.and_then(|change| {
                (change.verified_tree_id.clone()).or(change.patch_tree_id.clone())
            }),
            landed_commit: None,
            outcome: None,
        };
        // Verified above with the pack: numbered, chained and signed.
        for addendum in addenda(&pack) {
            match addendum.body {
                Body::Landing { landed_commit, .. } => named.landed_commit = Some(landed_commit),
                Body::Outcome { outcome, .. } => named.outcome = Some(outcome),
                Body::Rollback { .. }
                | Body::Proof { .. }
                | Body::Closeout(_)
                | Body::Publication { .. } => {}
            }
        }
        Some(named)
    }
}

fn word(id: Oid) -> Result<CommitId, CommitError> {
    let text = id.to_string();
    text.parse().map_err(|_| CommitError::Id(text))
}

/// The records beside a pack, in their order.
fn addenda(pack: &Path) -> Vec<Addendum> {
    let mut dir = pack.as_os_str().to_owned();
    dir.push(".addenda");
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let read = |path: &PathBuf| read_addendum(&read(path, ADDENDUM_BYTES_MAX)?);
    paths.iter().filter_map(read).collect()
}

fn read(path: &Path, max: u64) -> Option<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
