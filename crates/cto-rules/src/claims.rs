//! What a log shows, claim by claim. The report states it, and whoever verifies the pack computes it again.

use cto_contract::artifact::{PATCH, SANDBOX_PROOF, TASK_CONTRACT, TEST_LOG};
use cto_contract::blocker::BlockerCode;
use cto_contract::claim::{Basis, Claim, ClaimKind};
use cto_contract::event::{EventType, VerificationCompleted};
use cto_contract::words::{ClaimLevel, RunStatus, SandboxClass};

use crate::lifecycle::RunState;

/// Every claim that a run of this status makes, each kind once, in the order of the kinds.
pub fn claims(state: &RunState, status: RunStatus) -> Vec<Claim> {
    let made = |kind: &ClaimKind| match kind {
        ClaimKind::SourceUnchanged => has_source(state),
        ClaimKind::OperatorAccepted => status == RunStatus::Pass,
        ClaimKind::PathsWithinContract
        | ClaimKind::PatchGivesCheckedTree
        | ClaimKind::ChecksPass
        | ClaimKind::ChecksFailBefore
        | ClaimKind::NothingSurvived
        | ClaimKind::WritesConfined
        | ClaimKind::BackendAccount => true,
    };
    let all = ClaimKind::ALL.iter().copied().filter(made);
    all.map(|kind| {
        let level = level(kind, state);
        let rests_on = match level {
            ClaimLevel::Absent => Vec::new(),
            ClaimLevel::SelfReported | ClaimLevel::Inferred | ClaimLevel::Verified => basis(kind),
        };
        Claim::new(kind, level, rests_on)
    })
    .collect()
}

fn has_source(state: &RunState) -> bool {
    let planned = state.plan.as_ref().is_some_and(|p| p.plan.source.is_some());
    planned || state.source.is_some()
}

/// What a claim of this kind rests on when something supports it.
fn basis(kind: ClaimKind) -> Vec<Basis> {
    let event = Basis::Event;
    match kind {
        ClaimKind::PathsWithinContract => vec![
            Basis::file(PATCH),
            Basis::file(TASK_CONTRACT),
            event(EventType::GitDiffChecked),
        ],
        ClaimKind::PatchGivesCheckedTree => vec![
            Basis::file(PATCH),
            event(EventType::PatchApplied),
            event(EventType::VerificationCompleted),
        ],
        ClaimKind::ChecksPass | ClaimKind::ChecksFailBefore => vec![
            Basis::file(TEST_LOG),
            event(EventType::VerificationCompleted),
        ],
        ClaimKind::SourceUnchanged => vec![event(EventType::SourceChecked)],
        ClaimKind::NothingSurvived | ClaimKind::BackendAccount => {
            vec![event(EventType::BackendFinished)]
        }
        ClaimKind::WritesConfined => vec![
            Basis::file(SANDBOX_PROOF),
            event(EventType::BackendFinished),
        ],
        ClaimKind::OperatorAccepted => Vec::new(),
    }
}

fn level(kind: ClaimKind, state: &RunState) -> ClaimLevel {
    let shown = |holds: bool, level: ClaimLevel| if holds { level } else { ClaimLevel::Absent };
    let verified = |holds: bool| shown(holds, ClaimLevel::Verified);
    let checks = state.verification.as_ref();
    let passed = |v: &VerificationCompleted| v.verification.passed == Some(true);
    let end = state.backend.as_ref();
    let ran = end.filter(|e| e.start_failure.is_none());
    match kind {
        ClaimKind::PathsWithinContract => {
            let within = state.diff.as_ref().is_some_and(|d| d.allowed_writes_passed);
            // Nobody can compute it again from a patch that lies in quarantine.
            let hidden = state.patch.as_ref().is_some_and(|p| {
                p.blockers
                    .iter()
                    .any(|b| b.code == BlockerCode::SecretExposed)
            });
            shown(
                within,
                match hidden {
                    true => ClaimLevel::SelfReported,
                    false => ClaimLevel::Verified,
                },
            )
        }
        ClaimKind::PatchGivesCheckedTree => {
            let applied = state.patch.as_ref().and_then(|p| {
                let applied = p.applied_tree_id.as_ref()?;
                (*applied == p.tree_id).then_some(applied)
            });
            let checked = checks.and_then(|v| v.verified_tree_id.as_ref());
            verified(applied.is_some() && applied == checked)
        }
        ClaimKind::ChecksPass => checks.map_or(ClaimLevel::Absent, |v| {
            shown(passed(v), v.verification.level)
        }),
        ClaimKind::ChecksFailBefore => checks.map_or(ClaimLevel::Absent, |v| {
            let failed_before = v.verification.fails_only_before();
            shown(passed(v) && failed_before, v.verification.level)
        }),
        ClaimKind::SourceUnchanged => verified(
            (state.source.as_ref()).is_some_and(|s| s.fingerprint_before == s.fingerprint_after),
        ),
        ClaimKind::NothingSurvived => verified(end.is_some_and(|e| e.no_survivors)),
        ClaimKind::WritesConfined => {
            // Whoever closes a dead run can't know that the file was written whole.
            let is_whole = state.recovered.is_none();
            verified(is_whole && ran.is_some_and(|e| e.sandbox.class >= SandboxClass::Full))
        }
        ClaimKind::BackendAccount => shown(ran.is_some(), ClaimLevel::SelfReported),
        ClaimKind::OperatorAccepted => ClaimLevel::Absent,
    }
}
