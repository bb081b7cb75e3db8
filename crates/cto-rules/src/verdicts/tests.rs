use cto_contract::blocker::BlockerCode;
use cto_contract::event::{Oddity, Residue, Step};
use cto_contract::ids::{Digest, TreeId};
use cto_contract::verification::CommandResult;
use cto_contract::words::{FaultClass, SandboxClass};
use proptest::prelude::*;

use super::*;

fn tree(digit: char) -> TreeId {
    digit.to_string().repeat(40).parse().unwrap()
}

fn digest(digit: char) -> Digest {
    digit.to_string().repeat(64).parse().unwrap()
}

#[test]
fn a_full_disk_is_the_fault_of_who_filled_it() {
    let named = |taken: u64, free_before: u64| {
        let full = Fault::DiskFull {
            unit: DiskUnit::Bytes,
            taken,
            free_before,
        };
        fault(Step::Backend, &full).code
    };
    assert_eq!(named(90 << 20, 95 << 20), BlockerCode::LimitExceeded);
    assert_eq!(named(2 << 20, 95 << 20), BlockerCode::ArtifactWriteFailure);
    assert_eq!(named(0, 0), BlockerCode::LimitExceeded);
}

#[test]
fn nobody_is_blamed_for_what_the_machine_did() {
    let why = || "no space left on device".to_owned();
    let of_machine = [
        Fault::NotWritten {
            path: "test.log".to_owned(),
            why: why(),
        },
        Fault::WorkspaceNotMade { why: why() },
        Fault::MountsRefused,
        Fault::ProgramReplaced,
        Fault::RepositoryNotCopied { why: why() },
        Fault::ProtectedRootsUnreadable { why: why() },
        Fault::CommandsNotRun {
            which: Commands::Setup,
            why: why(),
        },
        Fault::CommandsNotRun {
            which: Commands::BaselineChecks,
            why: why(),
        },
        Fault::CommandsNotRun {
            which: Commands::Checks,
            why: why(),
        },
        Fault::TreeNotRead { why: why() },
        Fault::SourceNotLookedAt { why: why() },
        Fault::PackNotScanned { why: why() },
    ];
    for cause in of_machine {
        let blocker = fault(Step::Verification, &cause);
        let class = blocker.code.row().fault;
        assert_eq!(class, FaultClass::Environment, "{cause:?}");
        assert!(!blocker.subject.is_empty(), "{cause:?}");
    }
    let left = Fault::TreeNotReadable { why: why() };
    let class = fault(Step::Change, &left).code.row().fault;
    assert_eq!(class, FaultClass::Agent);
}

#[test]
fn a_limit_is_named_in_event_and_blocker_alike() {
    let facts = [
        LimitFact::Backend {
            limit: "memory_mb".to_owned(),
            seen: 3,
            allowed: 2,
        },
        LimitFact::Model {
            budget: "tokens".to_owned(),
            seen: 11,
            allowed: 10,
        },
        LimitFact::Command {
            line: "make".to_owned(),
            limit: "disk_mb".to_owned(),
            allowed: 5,
        },
        LimitFact::Tree {
            why: "too deep".to_owned(),
        },
        LimitFact::ChangedPaths {
            paths: 9,
            bytes: 8,
            allowed: 7,
        },
    ];
    let lines: Vec<String> = facts
        .iter()
        .map(|fact| {
            let hit = limit_hit(Step::Backend, fact);
            assert_eq!(hit.limit, hit.blocker.subject);
            format!("{} {}: {}", hit.limit, hit.allowed, hit.blocker.message)
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    memory_mb 2: the backend went over memory_mb: 3 of 2
    tokens 10: the backend used up its tokens: 11 of 10
    disk_mb 5: `make` went over disk_mb, which is 5
    tree 0: the tree that the backend left: too deep
    changed_paths 7: the backend changed 9 paths: their list takes 8 bytes of 7
    ");
}

fn change_facts(applied: Application) -> ChangeFacts {
    ChangeFacts {
        base_tree_id: tree('1'),
        tree_id: tree('2'),
        patch_digest: digest('a'),
        patch_bytes: 1,
        changes: Vec::new(),
        oddities: Vec::new(),
        exposed: None,
        applied,
        residue: Residue::default(),
        clone: None,
        scratch_git: false,
    }
}

#[test]
fn a_change_holds_only_when_its_patch_gives_its_own_tree() {
    let codes = |facts| {
        let event = change(facts);
        let codes: Vec<&str> = event.blockers.iter().map(|b| b.code.as_str()).collect();
        (event.applied_tree_id.is_some(), codes.join(" "))
    };
    let good = change_facts(Application::Tree(tree('2')));
    assert_eq!(codes(good.clone()), (true, String::new()));
    let other = change_facts(Application::Tree(tree('3')));
    assert_eq!(codes(other), (true, "patch_not_reproducible".to_owned()));
    let failed = change_facts(Application::Failed("no".to_owned()));
    assert_eq!(codes(failed), (false, "patch_not_reproducible".to_owned()));
    let exposed = ExposedSecret {
        rule: "aws".to_owned(),
        line: 3,
    };
    let odd = |refused| Oddity {
        path: "x".to_owned(),
        kind: "fifo".to_owned(),
        refused,
    };
    assert!(may_apply(&[odd(false)], None));
    assert!(!may_apply(&[odd(true)], None));
    assert!(!may_apply(&[], Some(&exposed)));
    let refused = ChangeFacts {
        oddities: vec![odd(true)],
        exposed: Some(exposed),
        applied: Application::NotTried,
        ..good
    };
    let both = "patch_not_reproducible secret_exposed".to_owned();
    assert_eq!(codes(refused), (false, both));
}

#[test]
fn a_setup_must_succeed_and_leave_the_baseline_alone() {
    let ran = |passed| CommandResult {
        exit_code: Some(1),
        passed,
        seconds: 0.1,
        ..CommandResult::unknown("npm ci")
    };
    let codes = |passed, changed: &[&str]| {
        let changed: Vec<String> = changed.iter().map(|&p| p.to_owned()).collect();
        let event = setup(vec![ran(passed)], 0, &changed);
        let codes: Vec<String> = event
            .blockers
            .iter()
            .map(|b| format!("{} {}", b.code, b.subject))
            .collect();
        codes.join(", ")
    };
    assert_eq!(codes(true, &[]), "");
    assert_eq!(codes(false, &[]), "provider_unavailable npm ci");
    assert_eq!(codes(true, &["a"]), "dirty_starting_tree a");
}

proptest! {
    /// The whole table: what the source was before, when the backend had ended, and after, under each class.
    #[test]
    fn a_changed_source_is_never_a_pass_and_the_agent_is_blamed_only_when_it_could_have(
        middle in prop::option::of(prop::sample::select(vec!['1', '2'])),
        last in prop::sample::select(vec!['1', '2']),
        class in prop::sample::select(SandboxClass::ALL.to_vec()),
    ) {
        let look = |digit| SourceLook { head: None, clean: true, fingerprint: digest(digit) };
        let event = source(SourceFacts {
            before: look('1'),
            after_backend: middle.map(digest),
            after: look(last),
            differences: Vec::new(),
            class,
        });
        let changed = middle == Some('2') || last == '2';
        let by_agent = middle == Some('2') && class < SandboxClass::Full;
        let code = event.blockers.first().map(|b| b.code);
        prop_assert_eq!(event.source_repository_mutated, by_agent);
        prop_assert_eq!(code, match (changed, by_agent) {
            (false, _) => None,
            (true, true) => Some(BlockerCode::SourceRepositoryMutated),
            (true, false) => Some(BlockerCode::SourceChangedDuringRun),
        });
    }
}

#[test]
fn a_change_that_alters_a_conversion_or_comes_out_otherwise_is_refused() {
    let clone = |altered: &[&str], differing: &[&str], converted: &[&str]| CloneFacts {
        altered: altered
            .iter()
            .map(|p| ((*p).to_owned(), "ident was unset and is set".to_owned()))
            .collect(),
        differing: differing.iter().map(|p| (*p).to_owned()).collect(),
        compared: 1,
        converted: converted.iter().map(|p| (*p).to_owned()).collect(),
    };
    for (found, expected) in [
        (clone(&[], &[], &[]), &[][..]),
        (clone(&[], &[], &["a"]), &[]),
        (clone(&["a", "b"], &[], &["a"]), &["a"]),
        (clone(&[], &["c"], &[]), &["c"]),
        (clone(&["a"], &["c"], &[]), &["a", "c"]),
    ] {
        let shown = found.converted.clone();
        let facts = ChangeFacts {
            clone: Some(found),
            ..change_facts(Application::NotTried)
        };
        let event = change(facts);
        let subjects: Vec<&str> = event.blockers.iter().map(|b| b.subject.as_str()).collect();
        assert_eq!(subjects, expected);
        assert!(
            event
                .blockers
                .iter()
                .all(|b| b.code == BlockerCode::PatchNotReproducible)
        );
        assert_eq!(event.clone_check.unwrap().not_compared, shown);
    }
}
