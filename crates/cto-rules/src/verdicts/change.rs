//! The change: it must be writable as a patch, hold no secret, and give the same tree on a fresh copy.

use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::event::{ChangedPath, CloneCheck, Oddity, PatchApplied, Residue};
use cto_contract::ids::{Digest, TreeId};
use cto_contract::text::shorten;

/// How many converted paths a pack lists.
const CONVERTED_MAX: usize = 100;
/// How many oddities a pack lists.
const ODDITIES_MAX: usize = 200;

/// A secret that an added line of the patch holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExposedSecret {
    pub rule: String,
    pub line: usize,
}

/// What applying the patch to the baseline came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Application {
    /// Not tried, because the change is refused already.
    NotTried,
    Tree(TreeId),
    Failed(String),
}

/// What was found of the change.
#[derive(Debug, Clone)]
pub struct ChangeFacts {
    pub base_tree_id: TreeId,
    /// Of the tree that the backend left.
    pub tree_id: TreeId,
    pub patch_digest: Digest,
    pub patch_bytes: u64,
    pub changes: Vec<ChangedPath>,
    pub oddities: Vec<Oddity>,
    pub exposed: Option<ExposedSecret>,
    pub applied: Application,
    pub residue: Residue,
    /// None where the tree has no attribute file.
    pub clone: Option<CloneFacts>,
    pub scratch_git: bool,
}

/// What a fresh clone makes of the change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CloneFacts {
    /// Each path whose conversion the change alters, and how.
    pub altered: Vec<(String, String)>,
    /// Paths that nothing converts and that came out otherwise all the same.
    pub differing: Vec<String>,
    pub compared: u64,
    /// Changed paths with conversion attributes.
    pub converted: Vec<String>,
}

/// Whether the patch is worth applying: one that is refused is not.
pub fn may_apply(oddities: &[Oddity], exposed: Option<&ExposedSecret>) -> bool {
    exposed.is_none() && !oddities.iter().any(|o| o.refused)
}

pub fn change(facts: ChangeFacts) -> PatchApplied {
    let mut blockers: Vec<Blocker> = Vec::new();
    let refused: Vec<&Oddity> = facts.oddities.iter().filter(|o| o.refused).collect();
    if let Some(first) = refused.first() {
        let names: Vec<String> = refused
            .iter()
            .map(|o| format!("{} ({})", o.path, o.kind))
            .collect();
        blockers.push(Blocker::new(
            BlockerCode::PatchNotReproducible,
            first.path.as_str(),
            format!("no patch can hold: {}", shorten(&names.join(", "), 400)),
        ));
    }
    if let Some(secret) = &facts.exposed {
        blockers.push(Blocker::new(
            BlockerCode::SecretExposed,
            secret.rule.as_str(),
            format!(
                "{} in line {} of the patch; it is in quarantine",
                secret.rule, secret.line
            ),
        ));
    }
    blockers.extend(facts.clone.iter().flat_map(clone_blockers));
    let applied_tree_id = match facts.applied {
        Application::NotTried => None,
        Application::Tree(id) => {
            if id != facts.tree_id {
                blockers.push(Blocker::new(
                    BlockerCode::PatchNotReproducible,
                    "patch.diff",
                    format!(
                        "the patch gives tree {id}, the backend left {}",
                        facts.tree_id
                    ),
                ));
            }
            Some(id)
        }
        Application::Failed(why) => {
            blockers.push(Blocker::new(
                BlockerCode::PatchNotReproducible,
                "patch.diff",
                why,
            ));
            None
        }
    };
    PatchApplied {
        base_tree_id: facts.base_tree_id,
        tree_id: facts.tree_id,
        applied_tree_id,
        patch_digest: facts.patch_digest,
        patch_bytes: facts.patch_bytes,
        changes: facts.changes,
        oddities: facts.oddities.into_iter().take(ODDITIES_MAX).collect(),
        residue: facts.residue,
        clone_check: facts.clone.map(|clone| CloneCheck {
            compared: clone.compared,
            not_compared_count: clone.converted.len() as u64,
            not_compared: clone.converted.into_iter().take(CONVERTED_MAX).collect(),
        }),
        scratch_git: facts.scratch_git,
        blockers,
    }
}

/// A change must not alter what git makes of any path: what lands would not be what was checked.
fn clone_blockers(clone: &CloneFacts) -> Vec<Blocker> {
    let mut blockers = Vec::new();
    let mut refuse = |paths: Vec<&str>, message: String| {
        if let Some(first) = paths.first() {
            let code = BlockerCode::PatchNotReproducible;
            blockers.push(Blocker::new(code, *first, shorten(&message, 500)));
        }
    };
    let count = clone.altered.len();
    let lines = clone.altered.iter().take(10);
    let lines: Vec<String> = lines
        .map(|(path, how)| format!("`{path}`: {how}"))
        .collect();
    refuse(
        clone
            .altered
            .iter()
            .map(|(path, _)| path.as_str())
            .collect(),
        format!(
            "the change alters {count} conversion attributes, so that git would write other bytes than were checked: {}",
            lines.join("; ")
        ),
    );
    refuse(
        clone.differing.iter().map(String::as_str).collect(),
        format!(
            "a fresh clone holds other bytes than were checked: {}",
            clone.differing.join(", ")
        ),
    );
    blockers
}
