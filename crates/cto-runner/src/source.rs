//! The repository that a task is copied from: looked at before, and again when nothing can write any more.

use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use cto_checkout::{
    CommitInfo, Oid, Repository, RepositoryError, SourceBaseline, SourceFingerprint,
};
use cto_contract::event::SourceChecked;
use cto_contract::ids::{CommitId, Digest};
use cto_contract::plan::SourcePlan;
use cto_contract::task::TaskContract;
use cto_contract::text::{path_text, shorten};
use cto_contract::words::SandboxClass;
use cto_evidence::canonical::sha256;
use cto_rules::eligibility::{RepositoryState, StartTree};
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
    /// Path of the contract in it, if it lies there.
    contract_file: Option<Vec<u8>>,
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
    contract_file: Option<&Path>,
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
        let contract_file = contract_file.and_then(|file| path_in(&repository, file));
        Ok(Source {
            contract_file,
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
    /// What of it was not committed when the run began.
    pub(crate) fn start_tree(&self) -> StartTree {
        self.uncommitted(&self.before)
    }

    fn uncommitted(&self, fingerprint: &SourceFingerprint) -> StartTree {
        let dirty = fingerprint.dirty.iter().map(|d| d.path.as_bytes());
        StartTree::new(dirty, self.contract_file.as_deref())
    }

    pub(crate) fn plan(
        &self,
        made: &SourceBaseline,
        contract: &TaskContract,
        lfs_pointers: u64,
    ) -> Result<SourcePlan, StepError> {
        let start = self.start_tree();
        Ok(SourcePlan {
            commit: commit_id(self.commit.id).ok_or_else(|| Fault::RepositoryUnsupported {
                why: format!("`{}` is not a commit id", self.commit.id),
            })?,
            commit_tree_id: tree_id(&self.commit.tree)?,
            history: contract.history,
            withheld: made
                .withheld
                .iter()
                .take(LISTED_MAX)
                .map(|p| path_text(p.as_bytes()))
                .collect(),
            withheld_count: made.withheld.len() as u64,
            lfs_pointers,
            dirty_source: contract.dirty_source,
            dirty_paths: start.paths,
            dirty_count: start.count,
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
            before: self.seen(&self.before),
            after_backend: middle.map(digest),
            after: self.seen(&after),
            differences,
            class,
        }))
    }

    fn seen(&self, fingerprint: &SourceFingerprint) -> SourceLook {
        SourceLook {
            head: fingerprint.head.id().and_then(commit_id),
            clean: self.uncommitted(fingerprint).is_clean(),
            fingerprint: digest(fingerprint),
        }
    }
}

/// The path of a file in the work tree, as git has it. A link is meant itself, not where it leads.
fn path_in(repository: &Repository, file: &Path) -> Option<Vec<u8>> {
    let top = repository.work_tree()?.canonicalize().ok()?;
    let file = file.parent()?.canonicalize().ok()?.join(file.file_name()?);
    let inside = file.strip_prefix(top).ok()?;
    Some(inside.as_os_str().as_bytes().to_vec())
}
