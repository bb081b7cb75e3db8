//! Trees that resist being removed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use cto_checkout::remove_tree;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

use crate::stage::{chmod, put};

#[test]
fn nothing_there_is_fine() {
    let dir = tempfile::tempdir().unwrap();
    remove_tree(&dir.path().join("absent")).unwrap();
}

#[test]
fn closed_directories_are_opened() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    put(&root.join("a/b/c"), b"x");
    for path in ["a/b/c", "a/b", "a", ""] {
        chmod(&root.join(path), 0o000);
    }
    remove_tree(&root).unwrap();
    assert!(!root.exists());
}

#[test]
fn links_are_removed_and_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    put(&dir.path().join("precious/file"), b"x");
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    symlink(dir.path().join("precious"), root.join("link")).unwrap();
    symlink(&root, dir.path().join("to-root")).unwrap();
    remove_tree(&dir.path().join("to-root")).unwrap();
    assert!(root.exists());
    remove_tree(&root).unwrap();
    assert!(!root.exists());
    assert!(dir.path().join("precious/file").exists());
}

/// Makes a chain deeper than any path the kernel takes, with a file and a closed directory at each level.
fn dig(root: &Path, levels: usize) {
    fs::create_dir(root).unwrap();
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = openat(CWD, root, flags, Mode::empty()).unwrap();
    for _ in 0..levels {
        mkdirat(&at, "down", Mode::from_raw_mode(0o700)).unwrap();
        openat(
            &at,
            "file",
            OFlags::CREATE | OFlags::WRONLY,
            Mode::from_raw_mode(0o600),
        )
        .unwrap();
        mkdirat(&at, "moved-0", Mode::from_raw_mode(0o000)).unwrap();
        let below = openat(&at, "down", flags, Mode::empty()).unwrap();
        rustix::fs::fchmod(&at, Mode::from_raw_mode(0o000)).unwrap();
        at = below;
    }
}

#[test]
fn two_thousand_levels_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    dig(&root, 2_000);
    remove_tree(&root).unwrap();
    assert!(!root.exists());
}

#[test]
fn many_directories_side_by_side_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    for number in 0..300 {
        put(
            &root.join(format!("d{}/e{}/file", number % 20, number)),
            b"x",
        );
    }
    remove_tree(&root).unwrap();
    assert!(!root.exists());
}
