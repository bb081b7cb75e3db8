//! The repository that a task is copied from: looked at before, and again when nothing can write any more.

use std::fs::File;
use std::path::Path;

use cto_checkout::{
    CommitInfo, DirtyPath, Oid, Repository, RepositoryError, SourceBaseline, SourceFingerprint,
};
use cto_contract::event::SourceChecked;
use cto_contract::ids::{CommitId, Digest};
use cto_contract::plan::SourcePlan;
use cto_contract::text::{path_text, shorten};
use cto_contract::words::{HistoryClass, SandboxClass};
use cto_evidence::canonical::sha256;
use cto_rules::eligibility::RepositoryState;
use cto_rules::paths::PathPolicy;
use cto_rules::verdicts::{self, Fault, SourceFacts, SourceLook};

use crate::error_chain;
use crate::home::Home;
use crate::open_run::StepError;
use crate::trees::tree_id;

/// How many paths of a kind a pack lists.
const LISTED_MAX: usize = 100;

/// A source that can be copied from, and how it was found.
pub(crate) struct Source {
    pub(crate) repository: Repository,
    pub(crate) commit: CommitInfo,
    before: SourceFingerprint,
    after_backend: Option<SourceFingerprint>,
    /// Held while the run lasts: nobody may land in this repository meanwhile.
    _lock: File,
}

/// What opening came to: something to copy from, or the state that the rules will refuse.
pub(crate) enum Opened {
    Source(Box<Source>),
    Refused(RepositoryState),
}

/// Opens the repository, finds the commit and takes the first fingerprint.
pub(crate) fn open(
    home: &Home,
    path: &Path,
    rev: Option<&str>,
    scratch: &Path,
) -> Result<Opened, StepError> {
    let looked = || -> Result<Source, RepositoryError> {
        let repository = Repository::open(path, scratch)?;
        let commit = repository.resolve(rev)?;
        let lock = home
            .lock_target(repository.git_directory())
            .map_err(|source| RepositoryError::Write {
                path: home.locks(),
                source,
            })?;
        let before = repository.fingerprint()?;
        Ok(Source {
            repository,
            commit,
            before,
            after_backend: None,
            _lock: lock,
        })
    };
    match looked() {
        Ok(source) => Ok(Opened::Source(Box::new(source))),
        Err(error) => refused(&error).map(Opened::Refused),
    }
}

/// The error in the words of the rules. What is neither ownership nor kind is the machine's fault.
fn refused(error: &RepositoryError) -> Result<RepositoryState, StepError> {
    match error {
        RepositoryError::NotOwned { owner, .. } => Ok(RepositoryState::NotOwned(format!(
            "the repository belongs to user {owner} and not to the user who runs this"
        ))),
        RepositoryError::Unsupported { kind, detail } => Ok(RepositoryState::Unsupported(format!(
            "{kind}: {}",
            shorten(detail, 200)
        ))),
        RepositoryError::NotFound { .. }
        | RepositoryError::NoSuchRevision { .. }
        | RepositoryError::AmbiguousRevision { .. }
        | RepositoryError::Malformed { .. }
        | RepositoryError::Corrupt { .. } => Ok(RepositoryState::Unsupported(shorten(
            &error_chain(error),
            200,
        ))),
        RepositoryError::Read { .. }
        | RepositoryError::Answer { .. }
        | RepositoryError::Write { .. }
        | RepositoryError::GitDir(_)
        | RepositoryError::Git(_)
        | RepositoryError::Baseline(_)
        | RepositoryError::Remove(_) => Err(failed(error)),
    }
}

pub(crate) fn failed(error: &RepositoryError) -> StepError {
    let why = error_chain(error);
    match error {
        RepositoryError::Unsupported { .. } => Fault::RepositoryUnsupported { why },
        RepositoryError::NotOwned { .. }
        | RepositoryError::NotFound { .. }
        | RepositoryError::NoSuchRevision { .. }
        | RepositoryError::AmbiguousRevision { .. }
        | RepositoryError::Malformed { .. }
        | RepositoryError::Corrupt { .. }
        | RepositoryError::Read { .. }
        | RepositoryError::Answer { .. }
        | RepositoryError::Write { .. }
        | RepositoryError::GitDir(_)
        | RepositoryError::Git(_)
        | RepositoryError::Baseline(_)
        | RepositoryError::Remove(_) => Fault::RepositoryNotCopied { why },
    }
    .into()
}

fn commit_id(id: Oid) -> Option<CommitId> {
    id.to_string().parse().ok()
}

fn digest(fingerprint: &SourceFingerprint) -> Digest {
    let text = fingerprint.digest();
    text.parse().unwrap_or_else(|_| sha256(text.as_bytes()))
}

impl Source {
    /// Uncommitted changes that the task could collide with.
    pub(crate) fn dirty_in_scope(&self, policy: &PathPolicy) -> bool {
        let in_scope = |d: &DirtyPath| policy.allowed_by(d.path.as_bytes()).is_some();
        // Beyond the list nothing is known, so nothing is assumed.
        self.before.dirty.iter().any(in_scope) || self.before.dirty_count > self.before.dirty.len()
    }

    pub(crate) fn plan(
        &self,
        made: &SourceBaseline,
        history: HistoryClass,
        lfs_pointers: u64,
    ) -> Result<SourcePlan, StepError> {
        Ok(SourcePlan {
            commit: commit_id(self.commit.id).ok_or_else(|| Fault::RepositoryUnsupported {
                why: format!("`{}` is not a commit id", self.commit.id),
            })?,
            commit_tree_id: tree_id(&self.commit.tree)?,
            history,
            withheld: made
                .withheld
                .iter()
                .take(LISTED_MAX)
                .map(|p| path_text(p.as_bytes()))
                .collect(),
            withheld_count: made.withheld.len() as u64,
            lfs_pointers,
            dirty_paths: self
                .before
                .dirty
                .iter()
                .take(LISTED_MAX)
                .map(|d| path_text(d.path.as_bytes()))
                .collect(),
            fingerprint: digest(&self.before),
        })
    }

    /// Looks again when the backend has ended. Where that fails, the last look must do.
    pub(crate) fn look_after_backend(&mut self) {
        self.after_backend = self.repository.fingerprint_after(&self.before).ok();
    }

    /// Looks a last time and says what became of it. `class` is what held the backend.
    pub(crate) fn check(&self, class: SandboxClass) -> Result<SourceChecked, RepositoryError> {
        let after = self.repository.fingerprint_after(&self.before)?;
        let middle = self.after_backend.as_ref();
        let differences = self
            .before
            .differences(&after)
            .into_iter()
            .chain(middle.map_or_else(Vec::new, |middle| self.before.differences(middle)))
            .map(|line| shorten(&line, 200))
            .fold(Vec::new(), |mut lines, line| {
                if !lines.contains(&line) && lines.len() < LISTED_MAX {
                    lines.push(line);
                }
                lines
            });
        Ok(verdicts::source(SourceFacts {
            before: look(&self.before),
            after_backend: middle.map(digest),
            after: look(&after),
            differences,
            class,
        }))
    }
}

fn look(fingerprint: &SourceFingerprint) -> SourceLook {
    SourceLook {
        head: fingerprint.head.id().and_then(commit_id),
        clean: fingerprint.clean,
        fingerprint: digest(fingerprint),
    }
}
