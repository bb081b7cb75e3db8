//! The change: what the working tree differs in, as a patch that gives the same tree on a fresh copy.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use cto_checkout::{
    Change, CloneLook, EntryMode, Patch, PatchCaps, PatchedLayer, ScanError, TreePath, UpperEntry,
    apply_patch, look_at_clone, take_patch, verify_tree,
};
use cto_contract::artifact::{FreshnessSource, PATCH, QUARANTINED, UPPER_DIRECTORY};
use cto_contract::event::{ChangeKind, ChangedPath, EventKind, Oddity, Residue, Step};
use cto_contract::ids::Digest;
use cto_contract::text::path_text;
use cto_evidence::canonical::{hash_reader, sha256};
use cto_rules::residue::LeftBy;
use cto_rules::secrets::{scan_added_lines, scan_text};
use cto_rules::verdicts::{
    self, Application, ChangeFacts, CloneFacts, ExposedSecret, Fault, LimitFact,
};
use cto_rules::{patch, paths};

use crate::error_chain;
use crate::open_run::{OpenRun, StepError};
use crate::residue::{self, Sorted};
use crate::steps::prepare::{PatchBase, Prepared};
use crate::trees::{Applied, AppliedTree, tree_id};

/// How many residue paths a pack lists.
const RESIDUE_MAX: usize = 200;
/// How many entries of an upper directory a pack lists.
const UPPER_LISTED_MAX: usize = 10_000;
/// How much the list of changed paths may take in a line of the log, of which it fills up to three.
const CHANGES_BYTES_MAX: usize = 16 << 20;
/// What an entry of it takes besides the path.
const CHANGE_BYTES: usize = 128;
/// The most that JSON makes of one byte: `\u001b`.
const ESCAPED_BYTES: usize = 6;

/// A change that was taken.
pub(crate) struct Changed {
    pub(crate) patch: Patch,
    /// None when the patch is refused or gives another tree.
    pub(crate) applied: Option<Applied>,
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

fn clone_facts(look: &CloneLook) -> CloneFacts {
    let text = |path: &TreePath| path_text(path.as_bytes());
    let altered = look.altered.iter().map(|altered| {
        let (attribute, before, after) = (altered.attribute, &altered.before, &altered.after);
        let how = format!("{attribute} was {before} and is {after}");
        (text(&altered.path), how)
    });
    CloneFacts {
        altered: altered.collect(),
        differing: look.differing.iter().map(text).collect(),
        compared: look.compared as u64,
        converted: look.converted.iter().map(text).collect(),
    }
}

/// Takes the change. None when there is more of it than a run may leave: the log says so.
pub(crate) fn change(
    run: &mut OpenRun<'_>,
    prepared: &Prepared,
    patch_base: PatchBase,
) -> Result<Option<Changed>, StepError> {
    let Some((sorted, has_scratch_git)) = sort_changes(run, prepared)? else {
        return Ok(None);
    };
    let Sorted {
        changes,
        oddities,
        residue,
    } = sorted;
    let oddities: Vec<Oddity> = oddities
        .iter()
        .map(|o| Oddity {
            path: path_text(o.path.as_bytes()),
            kind: o.kind.to_string(),
            refused: o.kind.is_violation(),
        })
        .collect();
    let file = run.work.join(PATCH);
    let taken = take_patch(
        &prepared.trees.git_dir,
        &prepared.trees.baseline,
        &prepared.workspace,
        &changes,
        &file,
        &PatchCaps::default(),
    )
    .map_err(|e| not_taken(&e))?;
    let clone = look_at_clone(
        &run.work.join("clone"),
        &prepared.trees.git_dir,
        &prepared.trees.baseline,
        &prepared.workspace,
        &changes,
    )
    .map_err(|e| not_taken(&e))?;
    let exposed = scan_patch(run, &file, &changes)?;
    let (patch_digest, patch_bytes) = match &exposed {
        Some(secret) => quarantine_patch(run, &file, secret)?,
        None => keep_patch(run, &file)?,
    };
    let applied = match verdicts::may_apply(&oddities, exposed.as_ref()) {
        true => Some(apply(run, prepared, patch_base, &taken, &changes)),
        false => None,
    };
    let application = match &applied {
        None => Application::NotTried,
        Some(Ok(applied)) => Application::Tree(applied.tree_id.clone()),
        Some(Err(why)) => Application::Failed(why.clone()),
    };
    let event = verdicts::change(ChangeFacts {
        base_tree_id: tree_id(&taken.base_tree_id)?,
        tree_id: tree_id(&taken.tree_id)?,
        patch_digest,
        patch_bytes,
        changes: changes.iter().map(changed_path).collect(),
        oddities,
        exposed,
        applied: application,
        residue: shown_residue(&residue),
        clone: clone.as_ref().map(clone_facts),
        scratch_git: has_scratch_git,
    });
    run.record(EventKind::PatchApplied(event))?;
    Ok(Some(Changed {
        patch: taken,
        applied: applied.and_then(Result::ok),
    }))
}

/// Tells the change from what is thrown away, and whether there was a `.git` of the agent's. None when there is more than a
/// run may leave: the log says so.
fn sort_changes(
    run: &mut OpenRun<'_>,
    prepared: &Prepared,
) -> Result<Option<(Sorted, bool)>, StepError> {
    let found = match prepared.workspace.changes() {
        Ok(found) => found,
        Err(error) if error.is_limit() => {
            let why = error_chain(&error);
            run.limit_hit(Step::Change, &LimitFact::Tree { why })?;
            return Ok(None);
        }
        Err(error) => return Err(unreadable(&error).into()),
    };
    if let Some(upper) = &found.upper {
        keep_upper(run, upper)?;
    }
    let sorted = residue::sort(
        &run.contract,
        LeftBy::Agent(run.request.lane),
        &prepared.trees,
        &prepared.trees.baseline.manifest,
        &found,
    )
    .map_err(|e| not_taken(&e))?;
    if let Some(fact) = too_many(&sorted.changes) {
        run.limit_hit(Step::Change, &fact)?;
        return Ok(None);
    }
    Ok(Some((sorted, found.has_scratch_git)))
}

/// What is thrown away, as a report lists it.
fn shown_residue(residue: &[TreePath]) -> Residue {
    let shown = residue.iter().take(RESIDUE_MAX);
    Residue {
        count: residue.len() as u64,
        paths: shown.map(|path| path_text(path.as_bytes())).collect(),
        truncated: residue.len() > RESIDUE_MAX,
    }
}

/// Judges every path of the patch, as it is read back.
pub(crate) fn policy(run: &mut OpenRun<'_>, changed: &Changed) -> Result<(), StepError> {
    let mut bytes = Vec::new();
    File::open(&changed.patch.path)
        .and_then(|mut f| f.read_to_end(&mut bytes))
        .map_err(|e| StepError::not_written(PATCH, &e))?;
    let entries =
        patch::parse(&bytes).map_err(|e| Fault::PatchNotReadable { why: e.to_string() })?;
    let checked = paths::check_diff(&run.contract, &entries);
    run.record(EventKind::GitDiffChecked(checked))?;
    Ok(())
}

/// Whose fault it is that a tree could not be read: the machine's, or that of who left it so.
fn unreadable(error: &ScanError) -> Fault {
    let why = error_chain(error);
    match error {
        ScanError::Read { source, .. } if !is_left_so(source) => Fault::TreeNotRead { why },
        ScanError::Read { .. }
        | ScanError::ChangedWhileRead { .. }
        | ScanError::RootReplaced { .. }
        | ScanError::NotATree(_)
        | ScanError::TooManyEntries { .. }
        | ScanError::TooDeep { .. }
        | ScanError::PathTooLong { .. }
        | ScanError::TooManyBytes { .. } => Fault::TreeNotReadable { why },
    }
}

/// Whether an agent can have made a file refuse to be read.
fn is_left_so(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound
    )
}

fn not_taken(error: &dyn std::error::Error) -> Fault {
    Fault::TreeNotReadable {
        why: error_chain(error),
    }
}

/// Lists the upper directory in the pack, up to a bound, with the number of all entries in the last line.
fn keep_upper(run: &mut OpenRun<'_>, upper: &[UpperEntry]) -> Result<(), StepError> {
    let lines = upper.iter().take(UPPER_LISTED_MAX).map(|entry| {
        let path = path_text(entry.path.as_bytes());
        serde_json::json!({ "kind": entry.kind, "path": path })
    });
    let total = serde_json::json!({ "entries": upper.len() });
    let text: String = lines
        .chain([total])
        .map(|line| format!("{line}\n"))
        .collect();
    run.artifact(UPPER_DIRECTORY, text.as_bytes())
}

/// A list that no line of the log could hold, before a run is left without a verdict.
fn too_many(changes: &[Change]) -> Option<LimitFact> {
    let escaped = |byte: &u8| match byte {
        b' '..=b'~' => 1,
        _ => ESCAPED_BYTES,
    };
    let bytes: usize = changes
        .iter()
        .map(|c| CHANGE_BYTES + c.path.as_bytes().iter().map(escaped).sum::<usize>())
        .sum();
    (bytes > CHANGES_BYTES_MAX).then_some(LimitFact::ChangedPaths {
        paths: changes.len(),
        bytes,
        allowed: CHANGES_BYTES_MAX,
    })
}

/// Looks for secrets in what was added: lines, and the names of files.
fn scan_patch(
    run: &OpenRun<'_>,
    file: &Path,
    changes: &[Change],
) -> Result<Option<ExposedSecret>, StepError> {
    let bytes = std::fs::read(file).map_err(|e| StepError::not_written(PATCH, &e))?;
    let added = changes.iter().filter(|c| c.before.is_none());
    let names: Vec<&[u8]> = added.map(|c| c.path.as_bytes()).collect();
    let in_names = scan_text(&names.join(&b'\n'), &run.secrets).into_iter();
    let found = scan_added_lines(&bytes, &run.secrets).into_iter();
    let found = found.chain(in_names).next();
    Ok(found.map(|finding| ExposedSecret {
        rule: finding.rule.to_string(),
        line: finding.line,
    }))
}

/// Puts the patch into the pack as it is.
fn keep_patch(run: &mut OpenRun<'_>, file: &Path) -> Result<(Digest, u64), StepError> {
    let failed = |e: io::Error| StepError::not_written(PATCH, &e);
    let mut out = run.create_artifact(PATCH)?;
    io::copy(&mut File::open(file).map_err(failed)?, &mut out).map_err(failed)?;
    // Durable before the log tells of it: nobody could make it again from the log.
    out.sync_data().map_err(failed)?;
    run.times.note(PATCH, FreshnessSource::Written);
    hash_reader(File::open(file).map_err(failed)?).map_err(failed)
}

/// A patch is never redacted: it goes to quarantine whole, and a stub that names rule and digest takes its place.
fn quarantine_patch(
    run: &mut OpenRun<'_>,
    file: &Path,
    secret: &ExposedSecret,
) -> Result<(Digest, u64), StepError> {
    let failed = |e: io::Error| StepError::not_written(PATCH, &e);
    let dir = run.harness.home.quarantine(&run.run_id);
    crate::home::make_private(&dir).map_err(|e| StepError::not_written(PATCH, &e))?;
    std::fs::copy(file, dir.join(PATCH)).map_err(failed)?;
    let (digest, _) = hash_reader(File::open(file).map_err(failed)?).map_err(failed)?;
    let stub = format!("{QUARANTINED}: rule {}, sha256 {digest}\n", secret.rule);
    run.artifact(PATCH, stub.as_bytes())?;
    Ok((sha256(stub.as_bytes()), stub.len() as u64))
}

/// Applies the patch to a fresh baseline and finds out which tree that gives.
fn apply(
    run: &OpenRun<'_>,
    prepared: &Prepared,
    patch_base: PatchBase,
    taken: &Patch,
    changes: &[Change],
) -> Result<Applied, String> {
    let text = |e: &dyn std::error::Error| error_chain(e);
    let trees = &prepared.trees;
    let (tree, id) = match patch_base {
        PatchBase::Layer => {
            let dest = run.work.join("patched");
            let made = PatchedLayer::make(&trees.git_dir, &trees.baseline, taken, changes, &dest);
            let layer = made.map_err(|e| text(&e))?;
            let id = layer.tree_id;
            (AppliedTree::Layer(layer), id)
        }
        PatchBase::Copy(mut fresh) => {
            apply_patch(&trees.git_dir, &taken.path, &fresh).map_err(|e| text(&e))?;
            verify_tree(&fresh, &taken.manifest)
                .map_err(|e| text(&e))?
                .map_err(|e| text(&e))?;
            let id = fresh.restamp().map_err(|e| text(&e))?;
            // Only now: until here anything but the tree is a mismatch.
            if let Some(layer) = &trees.git_layer {
                layer.copy_into(&fresh).map_err(|e| text(&e))?;
            }
            (AppliedTree::Copy(fresh), id)
        }
    };
    let tree_id = id
        .to_string()
        .parse()
        .map_err(|_| format!("`{id}` is not a tree id"))?;
    Ok(Applied { tree, tree_id })
}
