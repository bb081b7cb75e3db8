//! The source repository: whether it changed during the run, and whether that can have been the backend.

use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::event::SourceChecked;
use cto_contract::ids::{CommitId, Digest};
use cto_contract::plan::SourcePlan;
use cto_contract::text::shorten;
use cto_contract::words::{DirtySource, SandboxClass};

/// One look at the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLook {
    pub head: Option<CommitId>,
    pub clean: bool,
    pub fingerprint: Digest,
}

/// The looks at the source, before anything and after everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFacts {
    pub before: SourceLook,
    /// When the backend had ended; none when that look failed.
    pub after_backend: Option<Digest>,
    pub after: SourceLook,
    /// What differs, bounded.
    pub differences: Vec<String>,
    /// What held the backend.
    pub class: SandboxClass,
}

/// Whether a run from this source can ever count as a proof: one that may start from uncommitted changes never does.
pub const fn can_be_proof(source: &SourcePlan) -> bool {
    match source.dirty_source {
        DirtySource::Refused => true,
        DirtySource::Allowed => false,
    }
}

/// Full confinement keeps a backend from even seeing the source, so under it a change is somebody else's.
pub fn source(facts: SourceFacts) -> SourceChecked {
    let SourceFacts {
        before,
        after_backend,
        after,
        differences,
        class,
    } = facts;
    let mutated = class < SandboxClass::Full
        && after_backend
            .as_ref()
            .is_some_and(|seen| *seen != before.fingerprint);
    let meanwhile = after_backend.unwrap_or_else(|| after.fingerprint.clone());
    let shown = shorten(&differences.join(", "), 400);
    let first = differences.first().map_or("", String::as_str);
    let blocker = if mutated {
        Some(Blocker::new(
            BlockerCode::SourceRepositoryMutated,
            first,
            format!(
                "the source changed while a backend ran that could have written there: {shown}"
            ),
        ))
    } else if before.fingerprint != after.fingerprint || before.fingerprint != meanwhile {
        Some(Blocker::new(
            BlockerCode::SourceChangedDuringRun,
            first,
            format!("the source changed during the run: {shown}"),
        ))
    } else {
        None
    };
    SourceChecked {
        head_before: before.head,
        head_after: after.head,
        clean_before: before.clean,
        clean_after: after.clean,
        fingerprint_before: before.fingerprint,
        fingerprint_after_backend: meanwhile,
        fingerprint_after: after.fingerprint,
        differences,
        source_repository_mutated: mutated,
        blockers: blocker.into_iter().collect(),
    }
}
