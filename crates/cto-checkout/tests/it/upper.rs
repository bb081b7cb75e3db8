//! The same script in a plain copy and in an overlay: both must tell the same changes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use cto_checkout::{Changes, EntryMode, ScanCaps, ScanError, remove_tree, upper_changes};
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};

use crate::stage::{Row, Stage, chmod, has_root, listing, put};

pub(crate) const TREE: [Row<'static>; 9] = [
    (b"a", EntryMode::Regular, b"one\n"),
    (b"d/e/deep", EntryMode::Regular, b"deep\n"),
    (b"d/e/more", EntryMode::Regular, b"more\n"),
    (b"d/f", EntryMode::Regular, b"f\n"),
    (b"d.x", EntryMode::Regular, b"sorts between\n"),
    (b"empty", EntryMode::Regular, b""),
    (b"link", EntryMode::Symlink, b"d/f"),
    (b"run", EntryMode::Executable, b"#!/bin/sh\n"),
    (b"through", EntryMode::Symlink, b"d/../a"),
];

#[expect(
    clippy::disallowed_methods,
    reason = "the scripts stand for an agent's commands"
)]
pub(crate) fn run(program: &str, arguments: &[&str], at: &Path) -> Output {
    Command::new(program)
        .args(arguments)
        .current_dir(at)
        .output()
        .unwrap()
}

pub(crate) fn run_well(program: &str, arguments: &[&str], at: &Path) {
    let output = run(program, arguments, at);
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Mounts `lower` and `upper` of the current directory and runs a script in what they give together.
const MOUNT_AND_RUN: &str = "mount -t overlay overlay \
     -o lowerdir=lower,upperdir=upper,workdir=work,userxattr merged && cd merged && exec sh -e -c \"$1\"";

/// The three directories an overlay needs besides the lower tree, and where it is mounted.
fn make_parts(dir: &Path) {
    for part in ["upper", "work", "merged"] {
        fs::create_dir(dir.join(part)).unwrap();
        chmod(&dir.join(part), 0o755);
    }
}

fn unshared(script: &str) -> [&str; 6] {
    ["-Urm", "sh", "-c", MOUNT_AND_RUN, "sh", script]
}

static REFUSAL: LazyLock<Option<String>> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("lower")).unwrap();
    make_parts(dir.path());
    let output = run("unshare", &unshared("true"), dir.path());
    remove_tree(&dir.path().join("work")).unwrap();
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).trim().to_owned())
});

pub(crate) fn can_mount() -> bool {
    let Some(refusal) = &*REFUSAL else {
        return true;
    };
    cto_testkit::has(&format!("overlay mounts: {refusal}"), false)
}

/// Runs a script in an overlay over the stage's baseline and returns the upper directory.
pub(crate) fn in_overlay(stage: &Stage, script: &str) -> PathBuf {
    let dir = stage.dir.path();
    symlink(&stage.baseline.root, dir.join("lower")).unwrap();
    make_parts(dir);
    run_well("unshare", &unshared(script), dir);
    remove_tree(&dir.join("work")).unwrap();
    dir.join("upper")
}

/// Runs a script in both and returns what it changed, as lines, and what is odd after it.
fn same_in_both(script: &str) -> (String, String) {
    let stage = Stage::new(&TREE);
    let upper = in_overlay(&stage, script);
    // With the same rights as in the overlay, which are more than an ordinary user's.
    let plainly = ["-Urm", "sh", "-e", "-c", script];
    run_well("unshare", &plainly, stage.copy.path());
    let caps = ScanCaps::default();
    let plain = stage.copy.changes().unwrap();
    let overlay = stage.baseline.upper_changes(&upper, &caps).unwrap();
    assert_eq!(listing(&overlay), listing(&plain), "{script}");
    assert_eq!(overlay.changes, plain.changes, "{script}");
    assert_eq!(odd(&overlay), odd(&plain), "{script}");
    assert_eq!(overlay.has_scratch_git, plain.has_scratch_git, "{script}");
    let again = upper_changes(&upper, &stage.baseline.manifest, &caps).unwrap();
    assert_eq!(again.changes, plain.changes, "{script}");
    (listing(&overlay), odd(&overlay))
}

fn odd(changes: &Changes) -> String {
    let lines: Vec<String> = changes
        .oddities
        .iter()
        .map(|oddity| format!("{}: {}", oddity.path, oddity.kind))
        .collect();
    lines.join("\n")
}

#[test]
fn an_overlay_tells_the_same_as_a_copy() {
    if !can_mount() {
        return;
    }
    for (script, expected) in [
        ("true", ""),
        ("echo two > a", "M a"),
        ("touch a d/f d; chmod 644 a; : >> d/e/deep", ""),
        ("chmod +x a; chmod -x run", "M a\nM run"),
        ("rm a", "D a"),
        ("rm d/e/deep", "D d/e/deep"),
        ("rm d/e/deep d/e/more", "D d/e/deep\nD d/e/more"),
        ("rm -r d", "D d/e/deep\nD d/e/more\nD d/f"),
        ("rm -r d; mkdir d", "D d/e/deep\nD d/e/more\nD d/f"),
        (
            "rm -r d; mkdir -p d/e; echo f > d/f; echo new > d/e/new",
            "D d/e/deep\nD d/e/more\nA d/e/new",
        ),
        ("rm -r d/e; mkdir d/e; echo more > d/e/more", "D d/e/deep"),
        ("rm a; mkdir a; echo x > a/x", "D a\nA a/x"),
        ("rm a; mkdir a", "D a"),
        ("rm -r d; echo x > d", "A d\nD d/e/deep\nD d/e/more\nD d/f"),
        ("rm -r d/e; ln -s f d/e", "A d/e\nD d/e/deep\nD d/e/more"),
        ("rm link; echo x > link", "M link"),
        ("rm link; mkdir link; echo x > link/x", "D link\nA link/x"),
        ("ln -s a new; ln -sfn d/e link", "M link\nA new"),
        (
            "ln -s /etc/passwd out; ln -s ../.. d/up; ln -s .git/config g",
            "A d/up\nA g\nA out",
        ),
        ("mv a b", "D a\nA b"),
        ("mv a d/f", "D a\nM d/f"),
        (
            "mv d/e moved",
            "D d/e/deep\nD d/e/more\nA moved/deep\nA moved/more",
        ),
        ("mkdir -p n/o/p n/q; echo x > n/o/p/x", "A n/o/p/x"),
        (
            "mkdir -p sub/.git; echo x > sub/.git/config; echo x > sub/file",
            "A sub/file",
        ),
        ("mkdir .git; echo x > .git/config", ""),
        ("mkfifo d/pipe; rm a; mkfifo a", "D a"),
        (
            "echo x > new; ln new also; ln a d/second",
            "A also\nA d/second\nA new",
        ),
        ("rm empty; : > empty; : > hollow", "A hollow"),
        (
            "mkdir closed; echo x > closed/x; chmod 000 closed/x closed",
            "A closed/x",
        ),
        ("chmod 4755 run; chmod 666 a; chmod 1777 d", ""),
        ("chmod 711 .", ""),
    ] {
        assert_eq!(same_in_both(script).0, expected, "{script}");
    }
}

#[test]
fn what_is_odd_in_an_overlay_is_named() {
    if !can_mount() {
        return;
    }
    for (script, expected) in [
        ("rm d/e/deep d/e/more", "d/e: an empty directory"),
        ("touch d d/e", ""),
        ("rm -r d/e; mkdir d/e", "d/e: an empty directory"),
        ("rm -r d/e d/f", "d: an empty directory"),
        ("mkdir -p n/o", "n/o: an empty directory"),
        ("mkfifo pipe", "pipe: a fifo"),
        ("mkdir -p d/.git", "d/.git: a nested `.git`"),
        ("mkdir .git", ""),
        (
            "ln -s /etc/passwd out",
            "out: a symbolic link with an absolute target",
        ),
        (
            "ln -s ../.. d/up",
            "d/up: a symbolic link that leaves the tree",
        ),
        // `link` is a link of the lower tree, and behind it `..` leads elsewhere than it looks.
        (
            "ln -s link/../x new",
            "new: a symbolic link that leaves the tree",
        ),
        // The other way round: the link of the lower tree is unchanged, what it goes through is not.
        (
            "rm -r d; ln -s . d",
            "through: a symbolic link that leaves the tree",
        ),
        (
            "mkdir c; chmod 000 c",
            "c: permissions 0000\nc: an empty directory",
        ),
    ] {
        assert_eq!(same_in_both(script).1, expected, "{script}");
    }
}

/// Operations that end the same in any file system, or fail the same, and stay in their tree.
fn operation() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "a", "d", "d/e", "d/e/deep", "d/f", "empty", "link", "run", "n", "n/o", "d/e/n", "a/x",
        "link/x", "d/.git", ".git",
    ]);
    let verb = prop::sample::select(vec![
        "echo new > NAME",
        "echo one > NAME",
        ": > NAME",
        "touch NAME",
        "chmod +x NAME",
        "chmod 600 NAME",
        "rm -rf NAME",
        "mkdir -p NAME",
        "mkfifo NAME",
        "ln -sfn OTHER NAME",
        "ln -s . NAME",
        "ln -s /nonexistent NAME",
        "test ! -d NAME && test ! -d OTHER && mv -fT NAME OTHER",
        "test ! -d OTHER && test -f NAME && cp NAME OTHER",
        "test ! -e OTHER && test -d NAME && cp -r NAME copied",
    ]);
    // A fifo would hold up whoever opens it.
    (verb, name.clone(), name).prop_map(|(verb, name, other)| {
        let act = verb.replace("NAME", name).replace("OTHER", other);
        format!("if test ! -p {name} && test ! -p {other}; then ({act}) || true; fi")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_script_tells_the_same_in_both(operations in prop::collection::vec(operation(), 1..12)) {
        if can_mount() {
            same_in_both(&operations.join("\n"));
        }
    }
}

/// A lower tree and an upper directory that no kernel wrote.
struct ByHand {
    stage: Stage,
    upper: PathBuf,
}

impl ByHand {
    fn new() -> Self {
        let stage = Stage::new(&TREE);
        let upper = stage.dir.path().join("upper");
        fs::create_dir(&upper).unwrap();
        Self { stage, upper }
    }

    fn put(&self, path: &str, content: &str) {
        put(&self.upper.join(path), content.as_bytes());
    }

    fn make_device(&self, path: &str, device: u64) {
        let path = self.upper.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mode = Mode::from_raw_mode(0o600);
        mknodat(CWD, path, FileType::CharacterDevice, mode, device).unwrap();
    }

    fn set_attribute(&self, path: &str, name: &str, value: &str) {
        let path = self.upper.join(path);
        setxattr(path, name, value.as_bytes(), XattrFlags::empty()).unwrap();
    }

    fn read(&self, caps: &ScanCaps) -> Result<Changes, ScanError> {
        upper_changes(&self.upper, &self.stage.baseline.manifest, caps)
    }

    fn changed(&self) -> String {
        listing(&self.read(&ScanCaps::default()).unwrap())
    }
}

#[test]
fn an_unchanged_copy_is_read_and_is_no_change() {
    let by_hand = ByHand::new();
    by_hand.put("a", "one\n");
    let changes = by_hand.read(&ScanCaps::default()).unwrap();
    assert!(changes.is_clean());
    assert_eq!(changes.files_hashed, 1);
}

#[test]
fn a_whiteout_over_nothing_is_no_change() {
    let by_hand = ByHand::new();
    by_hand.make_device("d/gone", 0);
    by_hand.make_device(".git", 0);
    let changes = by_hand.read(&ScanCaps::default()).unwrap();
    assert!(changes.is_clean());
    assert!(!changes.has_scratch_git);
    assert_eq!(odd(&changes), "");
}

#[test]
fn an_empty_file_with_the_attribute_is_a_whiteout() {
    let by_hand = ByHand::new();
    by_hand.put("a", "");
    by_hand.set_attribute("a", "user.overlay.whiteout", "");
    by_hand.put("d/e", "");
    by_hand.set_attribute("d/e", "user.overlay.whiteout", "y");
    by_hand.put("full", "x");
    by_hand.set_attribute("full", "user.overlay.whiteout", "y");
    assert_eq!(by_hand.changed(), "D a\nD d/e/deep\nD d/e/more\nA full");
}

#[test]
fn only_an_opaque_directory_hides_what_is_below() {
    let by_hand = ByHand::new();
    by_hand.put("d/e/deep", "deep\n");
    assert_eq!(by_hand.changed(), "");
    by_hand.set_attribute("d", "user.overlay.opaque", "x");
    by_hand.set_attribute("d/e", "user.overlay.origin", "y");
    assert_eq!(by_hand.changed(), "");
    by_hand.set_attribute("d/e", "user.overlay.opaque", "y");
    assert_eq!(by_hand.changed(), "D d/e/more");
    by_hand.set_attribute(
        "d",
        "user.overlay.opaque",
        "a value longer than any the kernel writes",
    );
    assert_eq!(by_hand.changed(), "D d/e/more");
    by_hand.set_attribute("d", "user.overlay.opaque", "y");
    assert_eq!(by_hand.changed(), "D d/e/more\nD d/f");
}

#[test]
fn what_only_root_can_make_is_read_too() {
    if !has_root() {
        return;
    }
    let by_hand = ByHand::new();
    by_hand.put("d/e/new", "x");
    by_hand.set_attribute("d/e", "trusted.overlay.opaque", "y");
    by_hand.make_device("a", rustix::fs::makedev(1, 3));
    assert_eq!(by_hand.changed(), "D a\nD d/e/deep\nD d/e/more\nA d/e/new");
    assert_eq!(
        odd(&by_hand.read(&ScanCaps::default()).unwrap()),
        "a: a character device"
    );
}

#[test]
fn closed_directories_hide_nothing() {
    let by_hand = ByHand::new();
    by_hand.put("n/o/x", "x");
    by_hand.put("n/o/empty", "");
    for path in ["n/o/x", "n/o/empty", "n/o", "n", ""] {
        chmod(&by_hand.upper.join(path), 0o000);
    }
    assert_eq!(by_hand.changed(), "A n/o/empty\nA n/o/x");
}

#[test]
fn an_upper_over_a_bound_is_refused() {
    let by_hand = ByHand::new();
    by_hand.put("n/o/x", "four");
    let usual = ScanCaps::default();
    for (caps, expected) in [
        (
            ScanCaps {
                entries: 2,
                ..usual
            },
            "the tree has more than 2 entries; `n/o/x` is one too many",
        ),
        (
            ScanCaps { depth: 2, ..usual },
            "`n/o/x` lies deeper than 2 directories",
        ),
        (
            ScanCaps {
                path_bytes: 4,
                ..usual
            },
            "the path `n/o/x` is longer than 4 bytes",
        ),
        (
            ScanCaps {
                hash_bytes: 3,
                ..usual
            },
            "more than 3 bytes would have to be read; `n/o/x` goes over",
        ),
    ] {
        let error = by_hand.read(&caps).unwrap_err();
        assert!(error.is_limit());
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn an_upper_that_is_not_there_is_an_error() {
    let by_hand = ByHand::new();
    fs::remove_dir(&by_hand.upper).unwrap();
    let error = by_hand.read(&ScanCaps::default()).unwrap_err();
    assert_eq!(error.to_string(), "could not read `.`");
}
