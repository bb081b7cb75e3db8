//! The change: what the working tree differs in, as a patch that gives the same tree on a fresh copy.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use cto_checkout::{
    Change, EntryMode, Patch, PatchCaps, PatchedLayer, UpperEntry, apply_patch, ignored,
    take_patch, verify_tree,
};
use cto_contract::artifact::{FreshnessSource, PATCH, UPPER_DIRECTORY};
use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::event::{
    ChangeKind, ChangedPath, EventKind, Oddity, PatchApplied, Residue, Step,
};
use cto_contract::ids::TreeId;
use cto_contract::text::{path_text, shorten};
use cto_evidence::canonical::{hash_reader, sha256};
use cto_evidence::writer::PackWriter;
use cto_rules::secrets::{Finding, scan_added_lines};
use cto_rules::{patch, paths};

use crate::error_chain;
use crate::live::{Applied, AppliedTree, Book, Live, StepError, StepResult};
use crate::steps::prepare::missing;

/// How many residue paths and oddities a pack lists.
const LISTED_MAX: usize = 200;
/// How many entries of an upper directory a pack lists.
const UPPER_LISTED_MAX: usize = 10_000;
/// How much the list of changed paths may take in a line of the log, of which it fills up to three.
const CHANGES_BYTES_MAX: usize = 16 << 20;
/// What an entry of it takes besides the path.
const CHANGE_BYTES: usize = 128;
/// The most that JSON makes of one byte: `\u001b`.
const ESCAPED_BYTES: usize = 6;

/// The id in the words of a report.
pub(crate) fn tree_id(id: &cto_checkout::TreeId) -> Result<TreeId, StepError> {
    id.to_string().parse().map_err(|_| StepError::Environment {
        what: format!("`{id}` is not a tree id"),
        code: BlockerCode::PatchNotReproducible,
    })
}

fn changed_path(change: &Change) -> ChangedPath {
    let mode = |e: &cto_checkout::Entry| match e.mode {
        EntryMode::Regular => "100644",
        EntryMode::Executable => "100755",
        EntryMode::Symlink => "120000",
    };
    let is_link = |e: &cto_checkout::Entry| e.mode == EntryMode::Symlink;
    let kind = match (&change.before, &change.after) {
        (None, _) => ChangeKind::Added,
        (Some(_), None) => ChangeKind::Deleted,
        (Some(b), Some(a)) if is_link(b) != is_link(a) => ChangeKind::TypeChanged,
        (Some(b), Some(a)) if b.oid == a.oid => ChangeKind::ModeChanged,
        (Some(_), Some(_)) => ChangeKind::Modified,
    };
    ChangedPath {
        path: path_text(change.path.as_bytes()),
        change: kind,
        before_mode: change.before.as_ref().map(|e| mode(e).to_owned()),
        after_mode: change.after.as_ref().map(|e| mode(e).to_owned()),
    }
}

/// Lists the upper directory in the pack, up to a bound, with the number of all entries in the last line.
fn keep_upper(pack: &Path, book: &mut Book, upper: &[UpperEntry]) -> Result<(), StepError> {
    let failed = |source| StepError::Artifact {
        path: UPPER_DIRECTORY.to_owned(),
        source,
    };
    let lines = upper.iter().take(UPPER_LISTED_MAX).map(|entry| {
        let path = path_text(entry.path.as_bytes());
        serde_json::json!({ "kind": entry.kind, "path": path })
    });
    let total = serde_json::json!({ "entries": upper.len() });
    let text: String = lines
        .chain([total])
        .map(|line| format!("{line}\n"))
        .collect();
    PackWriter::open(pack)
        .and_then(|writer| writer.write_new(UPPER_DIRECTORY, text.as_bytes()))
        .map_err(|e| failed(io::Error::other(error_chain(&e))))?;
    book.note(UPPER_DIRECTORY, FreshnessSource::Written);
    Ok(())
}

/// Refuses a list that no line of the log could hold, before a run is left without a verdict.
fn too_many(changes: &[Change]) -> Option<Blocker> {
    let escaped = |byte: &u8| match byte {
        b' '..=b'~' => 1,
        _ => ESCAPED_BYTES,
    };
    let bytes: usize = changes
        .iter()
        .map(|c| CHANGE_BYTES + c.path.as_bytes().iter().map(escaped).sum::<usize>())
        .sum();
    (bytes > CHANGES_BYTES_MAX).then(|| {
        Blocker::new(
            BlockerCode::LimitExceeded, "",
            format!(
                "the backend changed {} paths: their list takes {bytes} bytes of {CHANGES_BYTES_MAX}",
                changes.len()
            ),
        )
    })
}

impl Live<'_> {
    pub(crate) fn step_change(&mut self) -> StepResult {
        let prepared = self
            .parts
            .prepared
            .as_ref()
            .ok_or_else(|| missing("the workspace"))?;
        let not_reproducible = |what: String| StepError::Environment {
            what,
            code: BlockerCode::PatchNotReproducible,
        };
        let found = match prepared.workspace.changes() {
            Ok(found) => found,
            Err(error) if error.is_limit() => {
                let blocker = Blocker::new(
                    BlockerCode::LimitExceeded,
                    "",
                    format!("the tree that the backend left: {}", error_chain(&error)),
                );
                self.limit_hit("tree", 0, Step::Change, blocker)?;
                return Ok(Vec::new());
            }
            Err(error) => return Err(not_reproducible(error_chain(&error))),
        };
        if let Some(upper) = &found.upper {
            keep_upper(&self.pack, &mut self.book, upper)?;
        }
        let new = found.changes.iter().filter(|c| c.is_new()).map(|c| &c.path);
        let ignored = ignored(&prepared.git_dir, &prepared.baseline, new)
            .map_err(|e| not_reproducible(error_chain(&e)))?;
        let (residue, changes): (Vec<Change>, Vec<Change>) = found
            .changes
            .into_iter()
            .partition(|c| ignored.contains(&c.path));
        if let Some(blocker) = too_many(&changes) {
            self.limit_hit(
                "changed_paths",
                CHANGES_BYTES_MAX as u64,
                Step::Change,
                blocker,
            )?;
            return Ok(Vec::new());
        }
        let mut blockers = Vec::new();
        let oddities: Vec<Oddity> = found
            .oddities
            .iter()
            .map(|o| Oddity {
                path: path_text(o.path.as_bytes()),
                kind: o.kind.to_string(),
                refused: o.kind.is_violation(),
            })
            .collect();
        let refused: Vec<String> = oddities
            .iter()
            .filter(|o| o.refused)
            .map(|o| format!("{} ({})", o.path, o.kind))
            .collect();
        if !refused.is_empty() {
            blockers.push(Blocker::new(
                BlockerCode::PatchNotReproducible,
                "",
                format!("no patch can hold: {}", shorten(&refused.join(", "), 400)),
            ));
        }
        let file = self.work.join(PATCH);
        let taken = take_patch(
            &prepared.git_dir,
            &prepared.baseline,
            &prepared.workspace,
            &changes,
            &file,
            &PatchCaps::default(),
        )
        .map_err(|e| not_reproducible(error_chain(&e)))?;
        let base_tree_id = tree_id(&taken.base_tree_id)?;
        let new_tree_id = tree_id(&taken.tree_id)?;
        let changed: Vec<ChangedPath> = changes.iter().map(changed_path).collect();
        let scratch_git = found.has_scratch_git;

        let exposed = self.scan_patch(&file)?;
        let (patch_digest, patch_bytes) = match &exposed {
            Some(finding) => {
                blockers.push(Blocker::new(
                    BlockerCode::SecretExposed,
                    "",
                    format!(
                        "{} in line {} of the patch; it is in quarantine",
                        finding.rule, finding.line
                    ),
                ));
                self.quarantine_patch(&file, finding)?
            }
            None => self.keep_patch(&file)?,
        };
        let applied_tree_id = if blockers.is_empty() {
            match self.apply_to_baseline(&taken, &changes) {
                Ok(id) => Some(id),
                Err(what) => {
                    blockers.push(Blocker::new(BlockerCode::PatchNotReproducible, "", what));
                    None
                }
            }
        } else {
            None
        };
        if let Some(applied) = &applied_tree_id
            && *applied != new_tree_id
        {
            blockers.push(Blocker::new(
                BlockerCode::PatchNotReproducible,
                "",
                format!("the patch gives tree {applied}, the backend left {new_tree_id}"),
            ));
        }
        let count = residue.len() as u64;
        let data = PatchApplied {
            base_tree_id,
            tree_id: new_tree_id,
            applied_tree_id,
            patch_digest,
            patch_bytes,
            changes: changed,
            oddities: oddities.into_iter().take(LISTED_MAX).collect(),
            residue: Residue {
                count,
                paths: residue
                    .iter()
                    .take(LISTED_MAX)
                    .map(|c| path_text(c.path.as_bytes()))
                    .collect(),
                truncated: residue.len() > LISTED_MAX,
            },
            scratch_git,
            blockers,
        };
        self.parts.patch = Some(taken);
        self.record(EventKind::PatchApplied(data))?;
        Ok(Vec::new())
    }

    fn scan_patch(&self, file: &std::path::Path) -> Result<Option<Finding>, StepError> {
        let bytes = std::fs::read(file).map_err(|source| StepError::Artifact {
            path: PATCH.to_owned(),
            source,
        })?;
        Ok(scan_added_lines(&bytes, &self.known).into_iter().next())
    }

    /// Puts the patch into the pack as it is.
    fn keep_patch(
        &mut self,
        file: &std::path::Path,
    ) -> Result<(cto_contract::ids::Digest, u64), StepError> {
        let failed = |source| StepError::Artifact {
            path: PATCH.to_owned(),
            source,
        };
        let writer =
            PackWriter::open(&self.pack).map_err(|e| failed(io::Error::other(error_chain(&e))))?;
        let mut out = writer
            .create_new(PATCH)
            .map_err(|e| failed(io::Error::other(error_chain(&e))))?;
        io::copy(&mut File::open(file).map_err(failed)?, &mut out).map_err(failed)?;
        self.book.note(PATCH, FreshnessSource::Written);
        hash_reader(File::open(file).map_err(failed)?).map_err(failed)
    }

    /// A patch is never redacted: it goes to quarantine whole, and a stub that names rule and digest takes its place.
    fn quarantine_patch(
        &mut self,
        file: &std::path::Path,
        finding: &Finding,
    ) -> Result<(cto_contract::ids::Digest, u64), StepError> {
        let failed = |source| StepError::Artifact {
            path: PATCH.to_owned(),
            source,
        };
        let dir = self.harness.home.quarantine(&self.run_id);
        crate::home::make_private(&dir).map_err(|e| failed(io::Error::other(error_chain(&e))))?;
        std::fs::copy(file, dir.join(PATCH)).map_err(failed)?;
        let (digest, _) = hash_reader(File::open(file).map_err(failed)?).map_err(failed)?;
        let stub = format!(
            "{}: rule {}, sha256 {digest}\n",
            cto_contract::artifact::QUARANTINED,
            finding.rule
        );
        self.artifact(PATCH, stub.as_bytes())?;
        Ok((sha256(stub.as_bytes()), stub.len() as u64))
    }

    fn apply_to_baseline(&mut self, taken: &Patch, changes: &[Change]) -> Result<TreeId, String> {
        let prepared = self
            .parts
            .prepared
            .as_mut()
            .ok_or("the workspace is gone")?;
        let git_dir = &prepared.git_dir;
        let (tree, id) = match prepared.fresh.take() {
            None => {
                let dest = self.work.join("patched");
                let layer = PatchedLayer::make(git_dir, &prepared.baseline, taken, changes, &dest)
                    .map_err(|e| error_chain(&e))?;
                let id = layer.tree_id;
                (AppliedTree::Layer(layer), id)
            }
            Some(mut fresh) => {
                apply_patch(git_dir, &taken.path, &fresh).map_err(|e| error_chain(&e))?;
                verify_tree(&fresh, &taken.manifest)
                    .map_err(|e| error_chain(&e))?
                    .map_err(|e| error_chain(&e))?;
                let id = fresh.restamp().map_err(|e| error_chain(&e))?;
                // Only now: until here anything but the tree is a mismatch.
                if let Some(layer) = &prepared.git_layer {
                    layer.copy_into(&fresh).map_err(|e| error_chain(&e))?;
                }
                (AppliedTree::Copy(fresh), id)
            }
        };
        let tree_id: TreeId = id
            .to_string()
            .parse()
            .map_err(|_| format!("`{id}` is not a tree id"))?;
        self.parts.applied = Some(Applied {
            tree,
            tree_id: tree_id.clone(),
        });
        Ok(tree_id)
    }

    pub(crate) fn step_policy(&mut self) -> StepResult {
        let Some(taken) = &self.parts.patch else {
            return Ok(Vec::new());
        };
        let mut bytes = Vec::new();
        File::open(&taken.path)
            .and_then(|mut f| f.read_to_end(&mut bytes))
            .map_err(|source| StepError::Artifact {
                path: PATCH.to_owned(),
                source,
            })?;
        let entries = patch::parse(&bytes).map_err(|e| StepError::Environment {
            what: format!("the patch can't be read back: {e}"),
            code: BlockerCode::PatchNotReproducible,
        })?;
        let checked = paths::check_diff(&self.contract, &entries);
        self.record(EventKind::GitDiffChecked(checked))?;
        Ok(Vec::new())
    }
}
