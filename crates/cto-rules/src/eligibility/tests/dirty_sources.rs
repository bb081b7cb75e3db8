//! Sources with changes that nobody committed.

use super::decisions::codes;
use super::*;

#[test]
fn a_dirty_source_is_refused_unless_the_contract_allows_it_or_is_the_only_file() {
    let trees: &[(&[&str], bool)] = &[
        (&[], false),
        (&["task.yaml"], false),
        (&["src/a"], true),
        (&["notes"], true),
        (&["notes", "task.yaml"], true),
        (&["sub/task.yaml"], true),
    ];
    for (dirty, is_dirty) in trees {
        for allowed in [DirtySource::Refused, DirtySource::Allowed] {
            for work in [Work::Repository, Work::Case] {
                let mut facts = good(Lane::Command, 3);
                facts.asked.work = work;
                facts.asked.contract.dirty_source = allowed;
                let paths = dirty.iter().map(|path| path.as_bytes());
                let tree = StartTree::new(paths, Some(b"task.yaml"));
                facts.learn(Answer::StartTree(tree), now());
                let decision = decided(&facts);
                let refused =
                    *is_dirty && work == Work::Repository && allowed == DirtySource::Refused;
                let expected = if refused { "dirty_starting_tree" } else { "" };
                assert_eq!(codes(&decision), expected, "{dirty:?} {allowed} {work:?}");
            }
        }
    }
}

#[test]
fn uncommitted_paths_are_named_up_to_a_bound_and_counted() {
    let paths: Vec<String> = (0..1_000).map(|n| format!("f{n:04}")).collect();
    let tree = StartTree::new(paths.iter().map(|p| p.as_bytes()), Some(b"f0000"));
    assert_eq!((tree.paths.len(), tree.count), (StartTree::PATHS_MAX, 999));
    let mut facts = good(Lane::Command, 3);
    facts.learn(Answer::StartTree(tree), now());
    let message = decided(&facts).record.reasons[0].message.clone();
    assert!(!message.contains("`f0000`") && message.contains("`f0020`"));
    assert!(message.ends_with("and 979 more"), "{message}");
}
