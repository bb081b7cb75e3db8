//! Every kind of change is found, put in a patch, and reproduced from it in a fresh copy.

use std::fs;

use cto_checkout::{EntryMode, ImportCaps, remove_tree, write_entries};
use proptest::prelude::*;

use crate::stage::{Stage, chmod, entries, file, put};
use crate::tree_ids::{rows, tree};

/// Lets the agent act on a small tree, and returns what is found; the patch must work here and with plain git.
fn found(act: impl FnOnce(&Stage)) -> String {
    let stage = Stage::new(&[
        file("README", "hello\nworld\n"),
        file("src/a.py", "print(1)\n"),
        file("src/b.py", "print(2)"),
        (b"run.sh", EntryMode::Executable, b"#!/bin/sh\n"),
        (b"src/link", EntryMode::Symlink, b"../README"),
        (b"data.bin", EntryMode::Regular, b"\x00\x01\x02\xff"),
        file("dos.txt", "one\r\ntwo\r\n"),
    ]);
    act(&stage);
    let patch = stage.reproduce();
    stage.reproduce_with_plain_git(&patch);
    stage.changed()
}

#[test]
fn an_edit() {
    assert_eq!(found(|s| s.put("README", "hello\nthere\n")), "M README");
}

#[test]
fn nothing() {
    assert_eq!(found(|_| ()), "");
}

#[test]
fn a_new_file_in_a_new_directory() {
    assert_eq!(found(|s| s.put("x/y/z", "new")), "A x/y/z");
}

#[test]
fn a_new_empty_file() {
    assert_eq!(found(|s| s.put("empty", "")), "A empty");
}

#[test]
fn a_deletion_of_a_whole_directory() {
    assert_eq!(
        found(|s| s.remove("src")),
        "D src/a.py\nD src/b.py\nD src/link"
    );
}

#[test]
fn a_deletion_of_everything() {
    let all = |s: &Stage| {
        for name in ["README", "src", "run.sh", "data.bin", "dos.txt"] {
            s.remove(name);
        }
    };
    assert_eq!(found(all).lines().count(), 7);
}

#[test]
fn a_rename_is_a_deletion_and_an_addition() {
    assert_eq!(
        found(|s| fs::rename(s.at("src/a.py"), s.at("c.py")).unwrap()),
        "A c.py\nD src/a.py"
    );
}

#[test]
fn an_executable_bit_set_and_taken() {
    let act = |s: &Stage| {
        chmod(&s.at("README"), 0o755);
        chmod(&s.at("run.sh"), 0o644);
    };
    assert_eq!(found(act), "M README\nM run.sh");
}

#[test]
fn a_link_that_leads_elsewhere() {
    let act = |s: &Stage| {
        s.remove("src/link");
        s.link("src/link", "a.py");
        s.link("new-link", "src");
    };
    assert_eq!(found(act), "A new-link\nM src/link");
}

#[test]
fn bytes_that_are_no_text() {
    let act = |s: &Stage| {
        s.put("data.bin", b"\x00\x01\x02\xfe\x00");
        s.put(
            "more.bin",
            (0..=255).cycle().take(70_000).collect::<Vec<u8>>(),
        );
    };
    assert_eq!(found(act), "M data.bin\nA more.bin");
}

#[test]
fn line_ends() {
    let act = |s: &Stage| {
        s.put("dos.txt", "one\ntwo\r\n");
        s.put("README", "hello\r\nworld\r\n");
    };
    assert_eq!(found(act), "M README\nM dos.txt");
}

#[test]
fn names_of_every_kind() {
    let act = |s: &Stage| {
        s.put("ünïcödé 名前", "1\n");
        s.put("with space", "2\n");
        s.put("new\nline\t\"quoted\"\\", "3\n");
        put(&s.at_bytes(b"not-utf8-\xff\xfe"), b"4\n");
        s.put("-dash", "5\n");
        s.put(":(glob)*", "6\n");
        s.put("b/a/dev/null", "7\n");
    };
    assert_eq!(
        found(act),
        "A -dash\nA :(glob)*\nA b/a/dev/null\nA new\\u{a}line\\u{9}\"quoted\"\\\nA not-utf8-\\xff\\xfe\n\
         A with space\nA ünïcödé 名前"
    );
}

#[test]
fn a_file_that_becomes_a_directory() {
    let act = |s: &Stage| {
        s.remove("README");
        s.put("README/inside", "x\n");
    };
    assert_eq!(found(act), "D README\nA README/inside");
}

#[test]
fn a_directory_that_becomes_a_file() {
    let act = |s: &Stage| {
        s.remove("src");
        s.put("src", "x\n");
    };
    assert_eq!(found(act), "A src\nD src/a.py\nD src/b.py\nD src/link");
}

#[test]
fn a_file_that_becomes_a_link_and_a_link_that_becomes_a_file() {
    let act = |s: &Stage| {
        s.remove("README");
        s.link("README", "dos.txt");
        s.remove("src/link");
        s.put("src/link", "x");
    };
    assert_eq!(found(act), "M README\nM src/link");
}

#[test]
fn a_directory_that_becomes_a_link_and_a_link_that_becomes_a_directory() {
    let act = |s: &Stage| {
        s.remove("src");
        s.link("src", "elsewhere");
        s.put("elsewhere/x", "x");
    };
    assert_eq!(
        found(act),
        "A elsewhere/x\nA src\nD src/a.py\nD src/b.py\nD src/link"
    );
    let act = |s: &Stage| {
        s.remove("src/link");
        s.put("src/link/x", "x");
    };
    assert_eq!(found(act), "D src/link\nA src/link/x");
}

#[test]
fn attributes_cannot_hide_or_alter_bytes() {
    for attributes in [
        "* text=auto eol=lf\n",
        "* text eol=crlf\n",
        "* ident\n",
        "* filter=x\n",
        "* working-tree-encoding=UTF-16\n",
        "* -diff\n",
        "* diff=x whitespace=fix\n",
        "* binary\n",
        "[attr]text text\n* text\n",
    ] {
        let with_attributes = |s: &Stage| {
            s.put(".gitattributes", attributes);
            s.put("dos.txt", "one\ntwo\n");
            s.put("README", "hello\r\nworld\r\n");
            s.put("id", "$Id: forged $\n$Id$\n");
        };
        let stage = Stage::new(&[
            file("dos.txt", "one\r\ntwo\r\n"),
            file("README", "hello\nworld\n"),
        ]);
        with_attributes(&stage);
        stage.reproduce();
        assert_eq!(
            stage.changed(),
            "A .gitattributes\nM README\nM dos.txt\nA id",
            "{attributes}"
        );
        // And the same when they were in the baseline before.
        let stage = Stage::new(&[
            file(".gitattributes", attributes),
            file("dos.txt", "one\r\ntwo\r\n"),
            file("README", "hello\nworld\n"),
        ]);
        with_attributes(&stage);
        stage.reproduce();
        assert_eq!(stage.changed(), "M README\nM dos.txt\nA id", "{attributes}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_can_become_any_other(before in tree(), after in tree()) {
        let stage = Stage::new(&rows(&before));
        for entry in fs::read_dir(stage.copy.path()).unwrap() {
            remove_tree(&entry.unwrap().path()).unwrap();
        }
        let wanted = write_entries(stage.copy.path(), &entries(&rows(&after)), &ImportCaps::default()).unwrap();
        let patch = stage.reproduce();
        prop_assert_eq!(patch.tree_id, wanted.tree_id());
        prop_assert_eq!(patch.manifest, wanted);
    }
}
