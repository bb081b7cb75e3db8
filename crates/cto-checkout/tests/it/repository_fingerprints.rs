//! What must not change in the owner's repository, and what may.

use std::fs;
use std::os::unix::fs::symlink;

use cto_checkout::{DirtyKind, Repository, SourceFingerprint, UnsupportedKind};

use crate::repository_stage::{Owner, commit_in};
use crate::stage::{chmod, git, put, run_git};

fn dirty(repository: &Repository) -> Vec<String> {
    lines(&repository.fingerprint().unwrap())
}

fn lines(fingerprint: &SourceFingerprint) -> Vec<String> {
    let line = |dirty: &cto_checkout::DirtyPath| match dirty.kind {
        DirtyKind::Changed => format!("M {}", dirty.path),
        DirtyKind::Untracked => format!("? {}", dirty.path),
    };
    assert_eq!(fingerprint.clean, fingerprint.dirty.is_empty());
    fingerprint.dirty.iter().map(line).collect()
}

/// Does something to a repository and returns what the fingerprints say about it.
fn differences(owner: &Owner, act: impl FnOnce(&Owner)) -> Vec<String> {
    let repository = owner.open();
    let before = repository.fingerprint().unwrap();
    let again = repository.fingerprint_after(&before).unwrap();
    assert_eq!(before.differences(&again), Vec::<String>::new());
    assert_eq!(before.digest(), again.digest());
    act(owner);
    let after = repository.fingerprint_after(&before).unwrap();
    let found = before.differences(&after);
    assert_eq!(
        found.is_empty(),
        before.digest() == after.digest(),
        "{found:?}"
    );
    found
}

fn usual() -> Owner {
    Owner::with(&[
        ("a", "1\n"),
        ("d/b", "2\n"),
        (".gitignore", "*.log\ntarget/\n"),
    ])
}

#[test]
fn cleanliness_is_what_git_status_says() {
    let owner = usual();
    let repository = owner.open();
    assert_eq!(dirty(&repository), Vec::<String>::new());
    owner.put("a", "9\n");
    owner.put("new/x", "x");
    owner.put("target/x", "x");
    owner.put("staged", "x");
    owner.git(&["add", "staged"]);
    fs::remove_file(owner.repo.join("d/b")).unwrap();
    assert_eq!(dirty(&repository), ["M a", "M d/b", "? new/x", "M staged"]);
}

#[test]
fn an_edit_in_the_moment_of_the_commit_is_seen() {
    for _ in 0..20 {
        let owner = Owner::with(&[("a", "1\n")]);
        owner.put("a", "2\n");
        assert_eq!(dirty(&owner.open()), ["M a"]);
    }
}

#[test]
fn a_touched_file_is_clean_but_changed() {
    let owner = usual();
    let touch = |owner: &Owner| owner.put("a", "1\n");
    assert_eq!(differences(&owner, touch), ["path `a`: changed"]);
    assert_eq!(dirty(&owner.open()), Vec::<String>::new());
}

#[test]
fn every_kind_of_change_is_named() {
    type Case = (fn(&Owner), &'static [&'static str]);
    let cases: [Case; 13] = [
        (|owner| owner.put("new", "x"), &["path `new`: new"]),
        (|owner| owner.put("a", "x"), &["path `a`: changed"]),
        (
            |owner| fs::remove_file(owner.repo.join("a")).unwrap(),
            &["path `a`: gone"],
        ),
        (
            |owner| chmod(&owner.repo.join("a"), 0o600),
            &["path `a`: changed"],
        ),
        (
            |owner| owner.put(".git/config", "[user]\n"),
            &["git file `config`: changed"],
        ),
        (
            |owner| owner.put(".git/hooks/x", "x"),
            &["git file `hooks/x`: new"],
        ),
        (
            |owner| drop(owner.git(&["branch", "b"])),
            &["reference `refs/heads/b`: new"],
        ),
        (
            |owner| drop(owner.git(&["tag", "t"])),
            &["reference `refs/tags/t`: new"],
        ),
        (
            |owner| drop(owner.git(&["checkout", "-q", "--detach"])),
            &["HEAD: changed"],
        ),
        (
            |owner| commit_in(&owner.repo),
            &["HEAD: changed", "reference `refs/heads/main`: changed"],
        ),
        // None of these is a change of anything that counts.
        (|owner| owner.put("x.log", "x"), &[]),
        (|owner| owner.put("target/deep/x", "x"), &[]),
        (
            |owner| {
                owner.git(&["gc", "-q"]);
                owner.git(&["pack-refs", "--all"]);
            },
            &[],
        ),
    ];
    for (number, (act, expected)) in cases.into_iter().enumerate() {
        assert_eq!(differences(&usual(), act), expected, "case {number}");
    }
}

#[test]
fn the_ignore_rules_of_the_first_look_hold_for_the_second() {
    let owner = usual();
    owner.put("x.log", "x");
    owner.put("target/x", "x");
    owner.put("loose", "x");
    let found = differences(&owner, |owner| {
        owner.put(".gitignore", "loose\n");
        owner.put("x.log", "y");
        owner.put("target/y", "y");
    });
    assert_eq!(found, ["path `.gitignore`: changed"]);
    let found = differences(&owner, |owner| owner.put("loose", "ignored by now"));
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_rule_of_the_owners_own_counts() {
    let owner = usual();
    owner.put(".git/info/exclude", "*.tmp\n");
    owner.put("x.tmp", "x");
    assert_eq!(dirty(&owner.open()), Vec::<String>::new());
}

#[test]
fn other_forms_of_the_index_are_read_too() {
    let forms: [&[&[&str]]; 4] = [
        &[&["update-index", "--index-version", "4"]],
        &[&["update-index", "--split-index"]],
        &[
            &["config", "core.untrackedCache", "true"],
            &["update-index", "--untracked-cache"],
            &["status"],
        ],
        &[
            &["config", "index.skipHash", "true"],
            &["update-index", "--force-write-index"],
        ],
    ];
    for form in forms {
        let owner = usual();
        for arguments in form {
            owner.git(arguments);
        }
        let repository = owner.open();
        assert_eq!(dirty(&repository), Vec::<String>::new(), "{form:?}");
        owner.put("d/b", "3\n");
        assert_eq!(dirty(&repository), ["M d/b"], "{form:?}");
        let found = differences(&owner, |owner| owner.put("a", "3\n"));
        assert_eq!(found, ["path `a`: changed"], "{form:?}");
    }
}

#[test]
fn an_unfinished_merge_is_dirty() {
    let owner = Owner::with(&[("a", "1\n")]);
    owner.git(&["checkout", "-q", "-b", "side"]);
    owner.commit(&[("a", "side\n")]);
    owner.git(&["checkout", "-q", "main"]);
    owner.commit(&[("a", "main\n")]);
    let author = ["-c", "user.name=o", "-c", "user.email=o@example.com"];
    let merge = [&author[..], &["merge", "-q", "side"]].concat();
    assert!(!run_git(&owner.repo, &merge).status.success());
    assert_eq!(dirty(&owner.open()), ["M a"]);
}

#[test]
fn line_ends_as_the_owner_has_them_are_clean() {
    let owner = Owner::empty();
    owner.git(&["config", "core.autocrlf", "true"]);
    owner.put("a", "1\r\n2\r\n");
    git(&owner.repo, &["-c", "core.autocrlf=true", "add", "-A"]);
    owner.commit_index();
    // Without the times that git knows it has to read the file.
    put(&owner.repo.join("a"), b"1\r\n2\r\n");
    assert_eq!(dirty(&owner.open()), Vec::<String>::new());
}

#[test]
fn an_encoding_that_stops_git_does_not_stop_a_look() {
    let owner = Owner::with(&[("a.txt", "1\n")]);
    owner.put(".gitattributes", "*.txt working-tree-encoding=UTF-16\n");
    owner.put("a.txt", "1\n");
    assert_eq!(dirty(&owner.open()), ["? .gitattributes"]);
}

#[test]
fn hooks_behind_a_link_are_noted_as_a_link() {
    let owner = usual();
    fs::remove_dir_all(owner.repo.join(".git/hooks")).unwrap();
    symlink("../d", owner.repo.join(".git/hooks")).unwrap();
    let found = differences(&owner, |owner| {
        fs::remove_file(owner.repo.join(".git/hooks")).unwrap();
        symlink("../e", owner.repo.join(".git/hooks")).unwrap();
    });
    assert_eq!(found, ["git file `hooks`: changed"]);
}

#[test]
fn references_behind_a_link_are_refused() {
    let owner = usual();
    owner.git(&["checkout", "-q", "--detach"]);
    fs::rename(owner.repo.join(".git/refs"), owner.dir.path().join("refs")).unwrap();
    symlink(owner.dir.path().join("refs"), owner.repo.join(".git/refs")).unwrap();
    let error = owner.open().fingerprint().unwrap_err();
    assert_eq!(
        error.unsupported_kind(),
        Some(UnsupportedKind::LinkInGitDirectory)
    );
}

#[test]
fn a_repository_without_commits_has_a_fingerprint() {
    let owner = Owner::empty();
    owner.put("a", "1\n");
    assert_eq!(dirty(&owner.open()), ["? a"]);
}

#[test]
fn a_repository_inside_is_seen_but_not_entered() {
    let owner = usual();
    fs::create_dir(owner.repo.join("nested")).unwrap();
    git(&owner.repo.join("nested"), &["init", "-q"]);
    owner.put("nested/x", "x");
    assert_eq!(dirty(&owner.open()), ["? nested"]);
}
