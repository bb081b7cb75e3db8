//! Claims follow from the log: a report that says more, less or something else is found.

use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::claim::{Basis, Claim, ClaimKind};
use cto_contract::event::{EventKind, EventType};
use cto_contract::report::Report;
use cto_contract::verification::{CanaryStatus, CheckRoom, Verification};
use cto_contract::words::{ClaimLevel, SandboxClass};

use crate::sample::{self, Pack, Plan};
use crate::stranger::agree;
use crate::{check, codes};

fn sealed(mut plan: Plan, edit: fn(&mut Report)) -> Pack {
    plan.edit = edit;
    plan.seal()
}

/// Changes events of a run, and gives its claims as the harness makes them.
fn shown(mut plan: Plan, edit: impl Fn(&mut EventKind)) -> Vec<(ClaimKind, ClaimLevel)> {
    for (_, kind) in &mut plan.events {
        edit(kind);
    }
    let claims = plan.seal().sealed.report.verdict.claims;
    claims.iter().map(|c| (c.kind, c.level)).collect()
}

fn level(claims: &[(ClaimKind, ClaimLevel)], kind: ClaimKind) -> Option<ClaimLevel> {
    claims.iter().find(|(k, _)| *k == kind).map(|(_, l)| *l)
}

#[test]
fn every_level_follows_from_its_own_event() {
    type Edit = fn(&mut EventKind);
    let finished: Edit = |kind| {
        if let EventKind::BackendFinished(end) = kind {
            end.no_survivors = false;
        }
    };
    let less_held: Edit = |kind| {
        if let EventKind::BackendFinished(end) = kind {
            end.sandbox.class = SandboxClass::Process;
        }
    };
    let outside: Edit = |kind| {
        if let EventKind::GitDiffChecked(diff) = kind {
            diff.allowed_writes_passed = false;
        }
    };
    let other_tree: Edit = |kind| {
        if let EventKind::VerificationCompleted(checks) = kind {
            checks.verified_tree_id = None;
        }
    };
    let failed: Edit = |kind| {
        if let EventKind::VerificationCompleted(checks) = kind {
            checks.verification.passed = Some(false);
        }
    };
    let passed_before: Edit = |kind| {
        if let EventKind::VerificationCompleted(checks) = kind {
            for before in &mut checks.verification.baseline {
                before.passed = true;
            }
        }
    };
    let hidden: Edit = |kind| {
        if let EventKind::PatchApplied(patch) = kind {
            patch.blockers = vec![Blocker::new(BlockerCode::SecretExposed, "patch.diff", "x")];
        }
    };
    let cases = [
        (ClaimKind::NothingSurvived, finished, ClaimLevel::Absent),
        (ClaimKind::WritesConfined, less_held, ClaimLevel::Absent),
        (ClaimKind::PathsWithinContract, outside, ClaimLevel::Absent),
        (
            ClaimKind::PatchGivesCheckedTree,
            other_tree,
            ClaimLevel::Absent,
        ),
        (ClaimKind::ChecksPass, failed, ClaimLevel::Absent),
        (
            ClaimKind::ChecksFailBefore,
            passed_before,
            ClaimLevel::Absent,
        ),
        (
            ClaimKind::PathsWithinContract,
            hidden,
            ClaimLevel::SelfReported,
        ),
    ];
    let whole = shown(sample::pass(), |_| {});
    for (kind, edit, expected) in cases {
        let less = shown(sample::pass(), edit);
        assert!(level(&whole, kind) > Some(expected), "{kind}");
        assert_eq!(level(&less, kind), Some(expected), "{kind}");
        let others = |claims: &[(ClaimKind, ClaimLevel)]| -> Vec<(ClaimKind, ClaimLevel)> {
            let with_it = |k: ClaimKind| {
                k == kind || (kind == ClaimKind::ChecksPass && k == ClaimKind::ChecksFailBefore)
            };
            claims
                .iter()
                .filter(|(k, _)| !with_it(*k))
                .copied()
                .collect()
        };
        assert_eq!(others(&less), others(&whole), "{kind}: nothing else moves");
    }
}

#[test]
fn what_is_not_proven_is_claimed_as_absent_and_rests_on_nothing() {
    for plan in [sample::blocked(), sample::recovered(), sample::pass()] {
        for claim in plan.seal().sealed.report.verdict.claims {
            let is_absent = claim.level == ClaimLevel::Absent;
            assert_eq!(claim.rests_on.is_empty(), is_absent, "{}", claim.kind);
            assert_eq!(claim.sentence.starts_with("Not shown: "), is_absent);
        }
    }
    let blocked = shown(sample::blocked(), |_| {});
    assert!(
        blocked
            .iter()
            .all(|(_, level)| *level == ClaimLevel::Absent)
    );
    assert_eq!(blocked.len(), 7);
    // Only a pass could be accepted, and only where a repository was copied can one be as it was.
    assert_eq!(level(&blocked, ClaimKind::OperatorAccepted), None);
    assert_eq!(level(&blocked, ClaimKind::SourceUnchanged), None);
}

#[test]
fn a_report_that_claims_something_else_than_its_log_is_found_also_by_a_stranger() {
    let cases: [(&str, Pack); 9] = [
        (
            "checks are verified",
            sealed(sample::pass(), |r| {
                let claim = &mut r.verdict.claims[2];
                claim.level = ClaimLevel::Verified;
            }),
        ),
        (
            "an operator accepted",
            sealed(sample::pass(), |r| {
                let basis = vec![Basis::Event(EventType::RunCompleted)];
                let last = r.verdict.claims.last_mut().unwrap();
                *last = Claim::new(ClaimKind::OperatorAccepted, ClaimLevel::Verified, basis);
            }),
        ),
        (
            "a claim is left out",
            sealed(sample::blocked(), |r| {
                r.verdict.claims.pop();
            }),
        ),
        (
            "a claim is made twice",
            sealed(sample::pass(), |r| {
                let first = r.verdict.claims[0].clone();
                r.verdict.claims.insert(1, first);
            }),
        ),
        (
            "less than the log shows",
            sealed(sample::pass(), |r| {
                r.verdict.claims[0].level = ClaimLevel::Inferred;
            }),
        ),
        (
            "another sentence",
            sealed(sample::pass(), |r| {
                r.verdict.claims[0].sentence = "The change is accepted".to_owned();
            }),
        ),
        (
            "another file",
            sealed(sample::pass(), |r| {
                r.verdict.claims[0].rests_on[0] = Basis::file("report.md");
            }),
        ),
        (
            "a file that is not there",
            sealed(sample::pass(), |r| {
                r.verdict.claims[0].rests_on[0] = Basis::file("oracle.log");
            }),
        ),
        (
            "a blocked run claims a scope",
            sealed(sample::blocked(), |r| {
                let basis = vec![Basis::file("patch.diff")];
                r.verdict.claims[0] =
                    Claim::new(ClaimKind::PathsWithinContract, ClaimLevel::Verified, basis);
            }),
        ),
    ];
    let packs = cases.map(|(name, pack)| {
        assert_eq!(codes(&check(&pack)), ["report_mismatch"], "{name}");
        (name.to_owned(), pack)
    });
    agree(&packs, false);
}

#[test]
fn checks_that_are_said_to_pass_must_have_passed() {
    let lie = |edit: fn(&mut Verification)| {
        let mut plan = sample::pass();
        for (_, kind) in &mut plan.events {
            if let EventKind::VerificationCompleted(checks) = kind {
                edit(&mut checks.verification);
            }
        }
        plan.seal()
    };
    let cases = [
        ("failed", lie(|v| v.commands[0].passed = false)),
        (
            "another exit code",
            lie(|v| v.commands[0].exit_code = Some(1)),
        ),
        ("nothing ran", lie(|v| v.commands.clear())),
        (
            "a test is lost",
            lie(|v| {
                let tests = v.baseline[0].tests.as_mut().unwrap();
                tests.passed_names = vec!["a".to_owned()];
            }),
        ),
        (
            "what had to be mended is skipped",
            lie(|v| {
                let [before, now] = [&mut v.baseline[0], &mut v.commands[0]];
                before.tests.as_mut().unwrap().failed_names = vec!["a".to_owned()];
                now.tests.as_mut().unwrap().skipped_names = vec!["a".to_owned()];
            }),
        ),
        ("a level too high", lie(|v| v.level = ClaimLevel::Verified)),
        (
            "a command's level too high",
            lie(|v| {
                v.commands[0].level = ClaimLevel::Verified;
                v.level = ClaimLevel::Verified;
            }),
        ),
        (
            "a room of its own for what is no oracle",
            lie(|v| {
                v.commands[0].room = CheckRoom::Own;
                v.commands[0].level = ClaimLevel::Verified;
                v.level = ClaimLevel::Verified;
            }),
        ),
        (
            "the canary was swallowed",
            lie(|v| v.commands[0].canary.as_mut().unwrap().status = CanaryStatus::Swallowed),
        ),
    ];
    let packs = cases.map(|(name, pack)| {
        assert_eq!(codes(&check(&pack)), ["report_mismatch"], "{name}");
        (name.to_owned(), pack)
    });
    agree(&packs, false);
}
