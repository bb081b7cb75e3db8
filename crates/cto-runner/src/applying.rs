//! `cto apply`: the checked patch of a run into the working tree that it was made for. Nothing is committed.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use cto_checkout::{
    ApplyRequest, LandingError, Oid, Repository, RepositoryError, TreeId, apply_to_work_tree,
};
use cto_contract::artifact::PATCH;
use cto_contract::ids::RunId;
use cto_contract::outputs::{ApplyOutput, ApplyTag};
use cto_contract::text::path_text;
use cto_rules::patch;

use crate::admissions::write_new;
use crate::harness::{Harness, RunError, scratch_name};
use crate::pack_file::{self, PackFileError};
use crate::provenance::OpenedPack;
use crate::sealing::clear;
use crate::transfer::{PatchOf, TransferError, export_patch};

/// Most other changed paths that are named.
const OTHERS_MAX: usize = 20;

/// Why nothing was applied. The working tree is as it was.
#[derive(Debug, thiserror::Error)]
pub enum ApplyRunError {
    #[error("run {run_id} is not of this home: its ledger knows nothing of it")]
    NotOfThisHome { run_id: String },
    #[error("the patch can't be handed over")]
    Pack(#[from] TransferError),
    #[error("the pack can't be read")]
    File(#[from] PackFileError),
    #[error("run {run_id} was no work on a repository: its case has a tree of its own")]
    NoRepository { run_id: RunId },
    #[error("the patch of run {run_id} can't be read as the verifier reads it: {why}")]
    Unreadable { run_id: RunId, why: String },
    #[error("a run is copying from this repository")]
    Busy,
    #[error("the repository can't be used")]
    Repository(#[from] RepositoryError),
    #[error("the patch was not applied")]
    Refused(#[from] LandingError),
    #[error("there is no room to prepare it")]
    Scratch(#[source] io::Error),
}

impl From<RunError> for ApplyRunError {
    fn from(error: RunError) -> Self {
        Self::Scratch(io::Error::other(crate::error_chain(&error)))
    }
}

impl ApplyRunError {
    /// Machine-readable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotOfThisHome { .. } => "run_of_elsewhere",
            Self::Pack(error) => error.code(),
            Self::File(error) => error.code(),
            Self::NoRepository { .. } => "run_without_repository",
            Self::Unreadable { .. } => "patch_unreadable",
            Self::Busy => "repository_busy",
            Self::Repository(RepositoryError::NotFound { .. }) => "repository_missing",
            Self::Repository(RepositoryError::Read { source, .. })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                "repository_missing"
            }
            Self::Repository(RepositoryError::NotOwned { .. }) => "repository_not_owned",
            Self::Repository(_) => "repository_unsupported",
            Self::Refused(LandingError::OtherBase { .. }) => "base_moved",
            Self::Refused(LandingError::Dirty { .. }) => "working_tree_differs",
            Self::Refused(LandingError::Locked { .. }) => "repository_busy",
            Self::Refused(LandingError::NoWorkTree) => "no_working_tree",
            Self::Refused(LandingError::OtherTree { .. } | LandingError::NotAsChecked { .. }) => {
                "verified_tree_mismatch"
            }
            Self::Refused(_) => "patch_not_applied",
            Self::Scratch(_) => "no_room",
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NotOfThisHome { .. } => {
                "`cto verify` says whose it is; `cto export --patch` hands its patch to `git apply`, on your own account"
            }
            Self::Pack(error) => return error.hint().map(str::to_owned),
            Self::File(error) => return error.hint(),
            Self::NoRepository { .. } => "`cto diff` shows its change",
            Self::Busy => "wait for it (`cto runs`), or end it (`cto stop`)",
            Self::Refused(LandingError::OtherBase { .. }) => {
                "check that commit out, or let the task run again on the new one (`cto rerun`)"
            }
            Self::Refused(LandingError::Dirty { .. }) => {
                "put it back as the base commit has it (`git stash`), then apply again"
            }
            Self::Refused(LandingError::OtherTree { .. } | LandingError::NotAsChecked { .. }) => {
                "do not rely on it; stop and investigate"
            }
            Self::Repository(_) => {
                "go to the repository that the run was made for, or name it with --repo"
            }
            Self::Unreadable { .. } | Self::Refused(_) | Self::Scratch(_) => return None,
        };
        Some(hint.to_owned())
    }

    /// What was given does not verify, or is not what was checked.
    pub const fn is_about_evidence(&self) -> bool {
        match self {
            Self::Pack(error) => error.is_about_evidence(),
            Self::NotOfThisHome { .. }
            | Self::File(_)
            | Self::Unreadable { .. }
            | Self::Refused(LandingError::OtherTree { .. } | LandingError::NotAsChecked { .. }) => {
                true
            }
            Self::NoRepository { .. }
            | Self::Busy
            | Self::Repository(_)
            | Self::Refused(_)
            | Self::Scratch(_) => false,
        }
    }

    /// The repository is not in a state that the patch was checked for.
    pub const fn is_about_state(&self) -> bool {
        matches!(
            self,
            Self::Busy
                | Self::Repository(_)
                | Self::Refused(
                    LandingError::OtherBase { .. }
                        | LandingError::Dirty { .. }
                        | LandingError::Locked { .. }
                        | LandingError::NoWorkTree
                )
        )
    }
}

/// Gone again when it is dropped.
struct Room(PathBuf);

impl Drop for Room {
    fn drop(&mut self) {
        // What can't be removed now is removed by the next recovery.
        clear(&self.0);
    }
}

impl Harness {
    /// Applies exactly the checked patch of a passed run of this home to the working tree of a repository that stands at the
    /// commit it was made for. Anything else is refused, and the tree stays as it was.
    pub fn apply(
        &self,
        opened: &OpenedPack,
        repository: &Path,
    ) -> Result<ApplyOutput, ApplyRunError> {
        if !opened.provenance.of_this_home {
            let run_id = opened.run_id.as_ref().map(RunId::to_string);
            return Err(ApplyRunError::NotOfThisHome {
                run_id: run_id.unwrap_or_default(),
            });
        }
        let (exported, _) = export_patch(opened, &self.config.trusted, PatchOf::KnownOrigin)?;
        let run_id = exported.run_id;
        // Once more, against the list of files whose digest the ledger knows.
        let bytes = pack_file::require(opened, PATCH)?;
        let entries = patch::parse(&bytes).map_err(|error| ApplyRunError::Unreadable {
            run_id: run_id.clone(),
            why: error.to_string(),
        })?;
        let (_, report) = pack_file::report(opened)?;
        let change = &report.change;
        let ids = report.source.baseline_head.as_ref().zip(
            change
                .baseline_tree_id
                .as_ref()
                .zip(change.patch_tree_id.as_ref()),
        );
        let Some((head, (before, after))) = ids else {
            return Err(ApplyRunError::NoRepository { run_id });
        };
        let unreadable = |what: &str| ApplyRunError::Unreadable {
            run_id: run_id.clone(),
            why: format!("`{what}` is no id of git's"),
        };
        let base: Oid = head
            .as_str()
            .parse()
            .map_err(|_| unreadable(head.as_str()))?;
        let tree = |id: &cto_contract::ids::TreeId| {
            let parsed: Result<TreeId, _> = id.as_str().parse();
            parsed.map_err(|_| unreadable(id.as_str()))
        };
        let trees = (tree(before)?, tree(after)?);
        let room = Room(self.home.work().join(scratch_name("apply")?));
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(&room.0);
        made.map_err(ApplyRunError::Scratch)?;
        let target = Repository::open(repository, &room.0.join("look"))?;
        let locked = self.home.lock_target_alone(target.git_directory());
        let locked = locked.map_err(ApplyRunError::Scratch)?;
        let _lock = locked.ok_or(ApplyRunError::Busy)?;
        let file = room.0.join(PATCH);
        write_new(&file, &bytes).map_err(ApplyRunError::Scratch)?;
        let request = ApplyRequest {
            patch: &file,
            entries: &entries,
            base,
            trees,
        };
        let applied = apply_to_work_tree(&target, &request, &room.0.join("apply.git"))?;
        let text = |path: &cto_checkout::TreePath| path_text(path.as_bytes());
        Ok(ApplyOutput {
            schema_version: ApplyTag,
            run_id,
            pack_digest: exported.pack_digest,
            base: head.clone(),
            changed_files: applied.paths.iter().map(text).collect(),
            was_there: applied.was_there,
            other_changes_count: applied.others.len() as u64,
            other_changes: applied.others.iter().take(OTHERS_MAX).map(text).collect(),
        })
    }
}
