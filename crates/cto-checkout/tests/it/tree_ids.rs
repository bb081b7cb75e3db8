//! Tree ids computed here against those of `git write-tree`.

use std::collections::BTreeMap;

use cto_checkout::{EntryMode, ImportCaps, Manifest, write_entries};
use proptest::prelude::*;

use crate::stage::{Row, entries, git};

pub(crate) type Tree = BTreeMap<Vec<u8>, (EntryMode, Vec<u8>)>;

/// Names chosen so that files and directories sort around each other and collide.
fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::sample::select(vec!["a", "a-b", "a.b", "a0", "ab", "b", "ü", "z z"]).prop_map(|name| name.as_bytes().to_vec()),
        1 => prop::collection::vec(prop::num::u8::ANY, 1..4)
            .prop_map(|bytes| bytes.into_iter().filter(|byte| !matches!(byte, 0 | b'/' | b'.' | b'~')).chain(*b"_").collect()),
    ]
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(prop::sample::select(vec!["one\n", "two\n", "three\r\n", "$Id$\n", "\t x \n", "end"]), 0..6)
            .prop_map(|lines| lines.concat().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..300),
    ]
}

fn node() -> impl Strategy<Value = (EntryMode, Vec<u8>)> {
    prop_oneof![
        5 => content().prop_map(|content| (EntryMode::Regular, content)),
        2 => content().prop_map(|content| (EntryMode::Executable, content)),
        1 => prop::sample::select(vec!["a", "./nowhere/b", "gone"]).prop_map(|target| (EntryMode::Symlink, target.as_bytes().to_vec())),
    ]
}

/// Any tree; where a file and a directory want the same name, whoever comes first in order stays.
pub(crate) fn tree() -> impl Strategy<Value = Tree> {
    let path = prop::collection::vec(name(), 1..4).prop_map(|names| names.join(&b'/'));
    prop::collection::btree_map(path, node(), 0..14).prop_map(|rows| {
        let mut tree = Tree::new();
        for (path, node) in rows {
            let mut above = path.clone();
            let mut free = true;
            while let Some(slash) = above.iter().rposition(|&byte| byte == b'/') {
                above.truncate(slash);
                free &= !tree.contains_key(&above);
            }
            // A link to itself that becomes a directory is more than `git apply` can do.
            let loops = node.1 == b"a" && path.ends_with(b"a");
            if free && !loops {
                tree.insert(path, node);
            }
        }
        tree
    })
}

pub(crate) fn rows(tree: &Tree) -> Vec<Row<'_>> {
    tree.iter()
        .map(|(path, (mode, content))| (path.as_slice(), *mode, content.as_slice()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_tree_id_is_the_one_git_computes(tree in tree()) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("tree");
        let manifest = write_entries(&root, &entries(&rows(&tree)), &ImportCaps::default()).unwrap();
        git(&root, &["init", "-q"]);
        git(&root, &["add", "-A", "-f"]);
        let theirs = git(&root, &["write-tree"]);
        prop_assert_eq!(manifest.tree_id().to_string(), theirs.trim());
    }
}

#[test]
fn the_empty_tree_has_the_id_everybody_knows() {
    assert_eq!(
        Manifest::default().tree_id().to_string(),
        "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    );
}
