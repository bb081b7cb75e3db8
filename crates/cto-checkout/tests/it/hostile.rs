//! What an agent may try in its copy, and what must come of it.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;

use cto_checkout::{
    GitError, PatchCaps, PatchError, ScanCaps, ScanError, TreePath, WorkingCopy, apply_patch,
    ignored, take_patch, verify_tree,
};

use crate::stage::{Stage, chmod, file, git, listing, put, run_git};

#[test]
fn an_edit_with_its_times_set_back_is_found() {
    let stage = Stage::new(&[file("a", "one\n"), file("b", "two\n")]);
    let before = fs::metadata(stage.at("a")).unwrap();
    stage.put("a", "ONE\n");
    let times = FileTimes::new()
        .set_modified(before.modified().unwrap())
        .set_accessed(before.accessed().unwrap());
    File::options()
        .write(true)
        .open(stage.at("a"))
        .unwrap()
        .set_times(times)
        .unwrap();
    let after = fs::metadata(stage.at("a")).unwrap();
    assert_eq!(
        (before.len(), before.mtime_nsec(), before.ino()),
        (after.len(), after.mtime_nsec(), after.ino())
    );
    assert_eq!(stage.changed(), "M a");
}

#[test]
fn an_edit_right_after_the_copy_is_found() {
    for _ in 0..50 {
        let stage = Stage::new(&[file("a", "one\n")]);
        stage.put("a", "two\n");
        assert_eq!(stage.changed(), "M a");
    }
}

#[test]
fn an_untouched_copy_is_not_read_again() {
    let stage = Stage::new(&[file("a", "one\n"), file("b", "two\n")]);
    stage.put("b", "three\n");
    let changes = stage.copy.changes().unwrap();
    // On a file system whose times prove nothing all of them are read.
    assert!(changes.files_hashed >= 1);
    assert_eq!(listing(&changes), "M b");
}

#[test]
fn a_touched_file_is_no_change() {
    let stage = Stage::new(&[file("a", "one\n")]);
    stage.put("a", "one\n");
    chmod(&stage.at("a"), 0o600);
    assert!(stage.copy.changes().unwrap().is_clean());
}

#[test]
fn a_nested_repository_is_odd_and_its_files_are_seen() {
    let stage = Stage::new(&[file("a", "one\n")]);
    fs::create_dir(stage.at("sub")).unwrap();
    git(&stage.at("sub"), &["init", "-q"]);
    stage.put("sub/file", "x");
    stage.put("other/.GIT", "gitdir: /elsewhere\n");
    stage.put("third/git~1/config", "x");
    assert_eq!(stage.changed(), "A sub/file");
    assert_eq!(
        stage.odd(),
        "other/.GIT: a nested `.git`\nsub/.git: a nested `.git`\nthird/git~1: a nested `.git`"
    );
    assert!(!stage.copy.changes().unwrap().is_clean());
}

#[test]
fn the_top_git_is_scratch_and_nothing_in_it_runs() {
    let stage = Stage::new(&[
        file("a", "one\n"),
        file(".gitattributes", "* diff=evil filter=evil\n"),
    ]);
    git(stage.copy.path(), &["init", "-q"]);
    git(stage.copy.path(), &["add", "-A"]);
    let marker = stage.dir.path().join("marker");
    let script = stage.dir.path().join("evil.sh");
    put(
        &script,
        format!("#!/bin/sh\ntouch {}\n", marker.display()).as_bytes(),
    );
    chmod(&script, 0o755);
    let evil = script.display();
    stage.put(
        ".git/config",
        format!(
            "[core]\n\tfsmonitor = {evil}\n\thooksPath = {}\n\tpager = {evil}\n\teditor = {evil}\n\tsshCommand = {evil}\n\
             [diff]\n\texternal = {evil}\n[diff \"evil\"]\n\ttextconv = {evil}\n\tcommand = {evil}\n\
             [filter \"evil\"]\n\tclean = {evil}\n\tsmudge = {evil}\n\tprocess = {evil}\n\trequired = true\n",
            stage.dir.path().display()
        ),
    );
    for hook in [
        "post-index-change",
        "applypatch-msg",
        "pre-applypatch",
        "reference-transaction",
    ] {
        put(
            &stage.dir.path().join(hook),
            format!("#!/bin/sh\ntouch {}\n", marker.display()).as_bytes(),
        );
        chmod(&stage.dir.path().join(hook), 0o755);
    }
    stage.put("a", "two\n");
    stage.put("new.txt", "x\n");
    let changes = stage.copy.changes().unwrap();
    assert!(changes.has_scratch_git);
    ignored(
        &stage.git_dir,
        &stage.baseline,
        changes.changes.iter().map(|change| &change.path),
    )
    .unwrap();
    let patch = stage.reproduce();
    assert_eq!(stage.changed(), "M a\nA new.txt");
    assert!(!marker.exists());
    // The trap is a real one: plain git in the copy springs it.
    run_git(stage.copy.path(), &["status"]);
    assert!(marker.exists());
    assert!(patch.bytes > 0);
}

#[test]
fn odd_things_are_named() {
    let stage = Stage::new(&[file("a", "one\n")]);
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        stage.at("fifo"),
        rustix::fs::Mode::from_raw_mode(0o600),
    )
    .unwrap();
    let _listener = UnixListener::bind(stage.at("socket")).unwrap();
    stage.link("absolute", "/etc/passwd");
    stage.link("leaves", "../../x");
    stage.link("into", ".git/config");
    stage.link("here", ".");
    stage.link("tricky", "here/..");
    fs::create_dir(stage.at("empty")).unwrap();
    stage.put("all", "x");
    chmod(&stage.at("all"), 0o4777);
    put(&stage.dir.path().join("outside"), b"x");
    fs::hard_link(stage.dir.path().join("outside"), stage.at("hard")).unwrap();
    fs::hard_link(stage.at("a"), stage.at("a2")).unwrap();
    assert_eq!(
        stage.odd(),
        "absolute: a symbolic link with an absolute target\n\
         all: permissions 4777\n\
         empty: an empty directory\n\
         fifo: a fifo\n\
         hard: a file with 2 names, not all of them in the tree\n\
         into: a symbolic link into `.git`\n\
         leaves: a symbolic link that leaves the tree\n\
         socket: a socket\n\
         tricky: a symbolic link that leaves the tree"
    );
}

#[test]
fn closed_directories_and_files_hide_nothing() {
    let stage = Stage::new(&[file("d/a", "one\n")]);
    stage.put("d/e/secret", "x");
    stage.put("closed", "x");
    for path in ["closed", "d/e/secret", "d/e", "d"] {
        chmod(&stage.at(path), 0o000);
    }
    assert_eq!(stage.changed(), "A closed\nA d/e/secret");
}

#[test]
fn residue_goes_by_the_baselines_rules_alone() {
    let stage = Stage::new(&[
        file(".gitignore", "__pycache__/\n*.log\n!keep.log\n"),
        file("src/.gitignore", "/build\n"),
        file("src/a.py", "x\n"),
    ]);
    stage.put(".gitignore", "*\n");
    stage.put("src/.gitignore", "*\n");
    stage.put("evil/.gitignore", "*\n");
    for path in [
        "__pycache__/a.pyc",
        "src/__pycache__/x/y.pyc",
        "run.log",
        "keep.log",
        "src/build/out",
        "src/new.py",
        "evil/hidden",
        "new\nline.log",
    ] {
        stage.put(path, "x");
    }
    let changes = stage.copy.changes().unwrap();
    let new = changes
        .changes
        .iter()
        .filter(|change| change.is_new())
        .map(|change| &change.path);
    let residue = ignored(&stage.git_dir, &stage.baseline, new).unwrap();
    let residue: Vec<String> = residue.iter().map(TreePath::to_string).collect();
    assert_eq!(
        residue,
        [
            "__pycache__/a.pyc",
            "new\\u{a}line.log",
            "run.log",
            "src/__pycache__/x/y.pyc",
            "src/build/out"
        ]
    );
}

#[test]
fn a_path_below_a_former_link_is_not_residue() {
    let stage = Stage::new(&[
        file(".gitignore", "*.log\n"),
        file("d/x", "x"),
        (b"link", cto_checkout::EntryMode::Symlink, b"d"),
    ]);
    stage.remove("link");
    stage.put("link/a.log", "x");
    let paths = ["link/a.log", "b.log"].map(TreePath::from);
    let residue = ignored(&stage.git_dir, &stage.baseline, &paths).unwrap();
    assert_eq!(
        residue.into_iter().collect::<Vec<_>>(),
        [TreePath::from("b.log")]
    );
}

#[test]
fn a_replaced_root_is_noticed() {
    let stage = Stage::new(&[file("a", "one\n")]);
    fs::rename(stage.copy.path(), stage.dir.path().join("away")).unwrap();
    symlink(stage.dir.path().join("away"), stage.copy.path()).unwrap();
    assert!(matches!(
        stage.copy.changes(),
        Err(ScanError::RootReplaced { .. })
    ));
}

#[test]
fn every_cap_of_a_scan_holds() {
    let caps = ScanCaps {
        entries: 4,
        depth: 2,
        path_bytes: 10,
        hash_bytes: 10,
    };
    let failure = |path: &str, content: &str| {
        let stage = Stage::new(&[file("a", "1")]);
        stage.put(path, content);
        let copy = WorkingCopy::make(&stage.baseline, &stage.dir.path().join("small")).unwrap();
        put(&copy.path().join(path), content.as_bytes());
        let error = copy.with_caps(caps).changes().unwrap_err();
        assert!(error.is_limit());
        error.to_string()
    };
    assert_eq!(
        failure("b/c/d", ""),
        "`b/c/d` lies deeper than 2 directories"
    );
    assert_eq!(
        failure("elevenbytes", ""),
        "the path `elevenbytes` is longer than 10 bytes"
    );
    assert_eq!(
        failure("b", "eleven bytes"),
        "more than 10 bytes would have to be read; `b` goes over"
    );
    let stage = Stage::new(&[
        file("a", "1"),
        file("b", "2"),
        file("c", "3"),
        file("d", "4"),
        file("e", "5"),
    ]);
    let copy = WorkingCopy::make(&stage.baseline, &stage.dir.path().join("small")).unwrap();
    assert!(matches!(
        copy.with_caps(caps).changes(),
        Err(ScanError::TooManyEntries { max: 4, .. })
    ));
}

#[test]
fn a_patch_over_its_cap_leaves_no_file() {
    let stage = Stage::new(&[file("a", "1")]);
    stage.put("a", "line\n".repeat(10_000));
    let changes = stage.copy.changes().unwrap().changes;
    let out = stage.dir.path().join("capped.diff");
    let caps = PatchCaps {
        patch_bytes: 1_000,
        ..PatchCaps::default()
    };
    let error = take_patch(
        &stage.git_dir,
        &stage.baseline,
        &stage.copy,
        &changes,
        &out,
        &caps,
    )
    .unwrap_err();
    assert!(matches!(
        error,
        PatchError::Git(GitError::TooMuchOutput { max: 1_000, .. })
    ));
    assert!(!out.exists());
}

#[test]
fn a_git_over_its_time_is_ended() {
    let stage = Stage::new(&[file("a", "1")]);
    stage.put("a", "2");
    let changes = stage.copy.changes().unwrap().changes;
    let out = stage.dir.path().join("late.diff");
    let caps = PatchCaps {
        wall: std::time::Duration::ZERO,
        ..PatchCaps::default()
    };
    let error = take_patch(
        &stage.git_dir,
        &stage.baseline,
        &stage.copy,
        &changes,
        &out,
        &caps,
    )
    .unwrap_err();
    assert!(matches!(error, PatchError::Git(GitError::TimedOut { .. })));
    assert!(!out.exists());
}

#[test]
fn a_file_that_changes_after_it_was_found_is_not_put_in_the_patch() {
    let stage = Stage::new(&[file("a", "1")]);
    stage.put("a", "2");
    let changes = stage.copy.changes().unwrap().changes;
    stage.put("a", "3");
    let out = stage.dir.path().join("swapped.diff");
    let error = take_patch(
        &stage.git_dir,
        &stage.baseline,
        &stage.copy,
        &changes,
        &out,
        &PatchCaps::default(),
    );
    assert!(matches!(
        error,
        Err(PatchError::Read(ScanError::ChangedWhileRead { .. }))
    ));
}

#[test]
fn a_patch_cannot_reach_outside_of_the_copy() {
    let stage = Stage::new(&[file("a", "1\n")]);
    for (number, target) in [
        "../escape",
        ".git/config",
        "sub/.git/config",
        "/tmp/cto-escape",
    ]
    .iter()
    .enumerate()
    {
        let patch = stage.dir.path().join(format!("evil-{number}.diff"));
        let text = format!(
            "diff --git a/{target} b/{target}\nnew file mode 100644\n--- /dev/null\n+++ b/{target}\n@@ -0,0 +1 @@\n+x\n"
        );
        put(&patch, text.as_bytes());
        let fresh = WorkingCopy::make(
            &stage.baseline,
            &stage.dir.path().join(format!("fresh-{number}")),
        )
        .unwrap();
        let applied = apply_patch(&stage.git_dir, &patch, &fresh);
        assert!(applied.is_err(), "{target}");
        assert!(fresh.changes().unwrap().is_clean());
    }
    assert!(!stage.dir.path().join("escape").exists());
}

#[test]
fn a_patch_that_git_cannot_apply_is_an_error_and_changes_nothing() {
    let stage = Stage::new(&[(b"loop", cto_checkout::EntryMode::Symlink, b"loop")]);
    stage.remove("loop");
    stage.put("loop/file", "x\n");
    let patch = stage.patch();
    let fresh = WorkingCopy::make(&stage.baseline, &stage.dir.path().join("fresh")).unwrap();
    assert!(apply_patch(&stage.git_dir, &patch.path, &fresh).is_err());
    assert!(fresh.changes().unwrap().is_clean());
}

#[test]
fn one_file_more_than_the_patch_says_is_a_mismatch() {
    let stage = Stage::new(&[file("a", "1\n")]);
    stage.put("a", "2\n");
    let patch = stage.patch();
    let fresh = WorkingCopy::make(&stage.baseline, &stage.dir.path().join("fresh")).unwrap();
    apply_patch(&stage.git_dir, &patch.path, &fresh).unwrap();
    put(&fresh.path().join("extra"), b"x");
    let mismatch = verify_tree(&fresh, &patch.manifest).unwrap().unwrap_err();
    assert_eq!(mismatch.expected, patch.tree_id);
    assert_eq!(mismatch.differing.len(), 1);
    assert_eq!(mismatch.differing[0].path, TreePath::from("extra"));
}

#[test]
fn what_verification_leaves_behind_is_told_from_the_patch() {
    let stage = Stage::new(&[file("a", "1\n"), file("b", "1\n")]);
    stage.put("a", "2\n");
    let patch = stage.patch();
    let mut fresh = WorkingCopy::make(&stage.baseline, &stage.dir.path().join("fresh")).unwrap();
    apply_patch(&stage.git_dir, &patch.path, &fresh).unwrap();
    fresh.restamp().unwrap();
    put(&fresh.path().join("b"), b"changed by a test\n");
    put(&fresh.path().join("made-by-a-test"), b"x");
    assert_eq!(
        listing(&fresh.changes_since().unwrap()),
        "M b\nA made-by-a-test"
    );
    assert_eq!(
        listing(&fresh.changes().unwrap()),
        "M a\nM b\nA made-by-a-test"
    );
}

#[test]
fn a_closed_root_hides_nothing() {
    let stage = Stage::new(&[file("a", "one\n"), file("d/b", "two\n")]);
    stage.put("a", "other\n");
    chmod(&stage.at(""), 0o000);
    assert_eq!(stage.changed(), "M a");
}
