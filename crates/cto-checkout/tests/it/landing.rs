//! A checked change goes onto one branch of a repository, or the repository stays as it was.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use cto_checkout::{BranchName, LandingError, TreeId};
use cto_contract::task::BranchUpdate;

use crate::landing_stage::{Checked, EDIT, RUN, grant, small, write};
use crate::repository_stage::Owner;
use crate::stage::git;

#[test]
fn a_change_lands_on_a_branch_that_nobody_works_on_and_nothing_else_moves() {
    let checked = Checked::new(small(), EDIT);
    let head = checked.owner.git(&["rev-parse", "main"]);
    let before = checked.owner.open().fingerprint().unwrap();
    let landed = checked.lands("cto/one", BranchUpdate::RefOnly).unwrap();
    let owner = &checked.owner;
    assert_eq!(
        owner.git(&["rev-parse", "cto/one"]),
        landed.commit.to_string()
    );
    assert_eq!(owner.git(&["rev-parse", "cto/one^"]), head);
    assert_eq!(
        owner.git(&["rev-parse", "cto/one^{tree}"]),
        checked.tree.to_string()
    );
    assert_eq!(owner.git(&["rev-parse", "main"]), head);
    let shown = owner.git(&["log", "-1", "--format=%an|%ae|%cn|%ce|%ct|%B", "cto/one"]);
    let expected = format!(
        "command|command@lane.invalid|An Operator|operator@example.com|1780000000|Change something\n\nCTO-Run: {RUN}"
    );
    assert_eq!(shown.trim(), expected);
    let after = owner.open().fingerprint_after(&before).unwrap();
    assert_eq!(
        before.differences(&after),
        ["reference `refs/heads/cto/one`: new"]
    );
    checked.is_sound();
}

#[test]
fn landing_twice_is_landing_once() {
    let checked = Checked::new(small(), EDIT);
    let first = checked.prepare("cto/one", BranchUpdate::RefOnly);
    let again = checked.prepare("cto/one", BranchUpdate::RefOnly);
    assert_eq!(first.commit(), again.commit());
    assert!(!checked.land(&first).unwrap().was_there);
    assert!(checked.land(&first).unwrap().was_there);
    assert!(checked.land(&again).unwrap().was_there);
    checked.is_sound();
}

#[test]
fn no_hook_of_the_target_runs() {
    for update in [BranchUpdate::RefOnly, BranchUpdate::CheckedOut] {
        let checked = Checked::new(small(), EDIT);
        let witness = checked.owner.dir.path().join("witness");
        for hook in [
            "reference-transaction",
            "post-checkout",
            "pre-commit",
            "post-index-change",
        ] {
            let path = checked.owner.repo.join(".git/hooks").join(hook);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            write(
                &path,
                format!("#!/bin/sh\necho {hook} >> {}\n", witness.display()),
            );
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let branch = match update {
            BranchUpdate::RefOnly => "cto/one",
            BranchUpdate::CheckedOut => "main",
        };
        checked.lands(branch, update).unwrap();
        assert!(
            !witness.exists(),
            "{}",
            fs::read_to_string(&witness).unwrap()
        );
    }
}

#[test]
fn a_branch_that_somebody_works_on_is_left_alone() {
    type Setup = fn(&Owner);
    let setups: [(&str, Setup); 4] = [
        ("the main work tree", |o| {
            o.git(&["switch", "-q", "-c", "busy"]);
        }),
        ("a linked work tree", |o| {
            o.git(&["worktree", "add", "-q", "-b", "busy", "../linked"]);
        }),
        ("a rebase", |o| {
            o.git(&["branch", "busy"]);
            fs::create_dir(o.repo.join(".git/rebase-merge")).unwrap();
            write(
                o.repo.join(".git/rebase-merge/head-name"),
                "refs/heads/busy\n",
            );
        }),
        ("a bisection", |o| {
            o.git(&["branch", "busy"]);
            write(o.repo.join(".git/BISECT_START"), "busy\n");
        }),
    ];
    for (name, setup) in setups {
        let checked = Checked::new(small(), EDIT);
        setup(&checked.owner);
        let prepared = checked.prepare("busy", BranchUpdate::RefOnly);
        let before = checked.state();
        let refused = checked.land(&prepared).unwrap_err();
        assert!(
            matches!(refused, LandingError::InUse { .. }),
            "{name}: {refused:?}"
        );
        assert_eq!(checked.state(), before, "{name}");
    }
}

#[test]
fn a_branch_that_moved_is_left_where_it_is() {
    for update in [BranchUpdate::RefOnly, BranchUpdate::CheckedOut] {
        let checked = Checked::new(small(), EDIT);
        let branch = match update {
            BranchUpdate::RefOnly => "other",
            BranchUpdate::CheckedOut => "main",
        };
        if update == BranchUpdate::RefOnly {
            checked.owner.git(&["branch", "other"]);
        }
        let prepared = checked.prepare(branch, update);
        checked.owner.commit(&[("z", "9\n")]);
        if update == BranchUpdate::RefOnly {
            checked.owner.git(&["branch", "-f", "other", "main"]);
        }
        let before = checked.state();
        let refused = checked.land(&prepared).unwrap_err();
        assert!(matches!(refused, LandingError::Moved { .. }), "{refused:?}");
        assert_eq!(checked.state(), before);
        // One that was made meanwhile, too.
        let prepared = checked.prepare("fresh", BranchUpdate::RefOnly);
        checked.owner.git(&["branch", "fresh"]);
        let refused = checked.land(&prepared).unwrap_err();
        assert!(matches!(refused, LandingError::Moved { .. }), "{refused:?}");
        checked.is_sound();
    }
}

#[test]
fn only_the_tree_that_was_checked_and_granted_lands() {
    let checked = Checked::new(small(), EDIT);
    let other: TreeId = checked
        .owner
        .git(&["rev-parse", "HEAD^{tree}"])
        .parse()
        .unwrap();
    let refused = checked.try_prepare("cto/one", BranchUpdate::RefOnly, other);
    assert!(
        matches!(refused, Err(LandingError::OtherTree { .. })),
        "{refused:?}"
    );
    let prepared = checked.prepare("cto/one", BranchUpdate::RefOnly);
    let refused = prepared
        .land(&checked.owner.open(), grant(other))
        .unwrap_err();
    assert!(
        matches!(refused, LandingError::OtherGrant { .. }),
        "{refused:?}"
    );
    assert_eq!(checked.owner.git(&["branch", "--list", "cto/*"]), "");
}

#[test]
fn what_is_no_plain_branch_is_refused() {
    let checked = Checked::new(small(), EDIT);
    for name in [
        "HEAD",
        "-x",
        "a..b",
        "refs/tags/x",
        "x.lock",
        "",
        "a b",
        "refs/heads/",
        "../x",
    ] {
        let refused = BranchName::parse(name);
        let is_tag = name == "refs/tags/x";
        // A short name may look like a full one of another kind: it is a branch below `refs/heads/` then.
        assert!(refused.is_err() != is_tag, "{name}");
    }
    checked.owner.git(&["branch", "real"]);
    checked
        .owner
        .git(&["symbolic-ref", "refs/heads/alias", "refs/heads/real"]);
    let refused = checked.lands("alias", BranchUpdate::RefOnly).unwrap_err();
    assert!(
        matches!(refused, LandingError::SymbolicBranch { .. }),
        "{refused:?}"
    );
}

#[test]
fn a_repository_that_another_git_holds_is_left_alone() {
    let checked = Checked::new(small(), EDIT);
    checked.owner.git(&["branch", "held"]);
    let lock = checked.owner.repo.join(".git/refs/heads/held.lock");
    write(&lock, "");
    let refused = checked.lands("held", BranchUpdate::RefOnly).unwrap_err();
    assert!(
        matches!(&refused, LandingError::Locked { path } if path.ends_with("held.lock")),
        "{refused:?}"
    );
    fs::remove_file(lock).unwrap();
    let lock = checked.owner.repo.join(".git/index.lock");
    write(&lock, "somebody else's");
    let prepared = checked.prepare("main", BranchUpdate::CheckedOut);
    let before = checked.state();
    let refused = checked.land(&prepared).unwrap_err();
    assert!(
        matches!(&refused, LandingError::Locked { path } if path.ends_with("index.lock")),
        "{refused:?}"
    );
    assert_eq!(checked.state(), before);
}

#[test]
fn a_bare_repository_takes_a_change_on_any_branch() {
    let owner = small();
    let bare = owner.dir.path().join("bare.git");
    git(
        owner.dir.path(),
        &["clone", "-q", "--bare", "repo", "bare.git"],
    );
    let checked = Checked::new(owner.at(bare), EDIT);
    let landed = checked.lands("main", BranchUpdate::RefOnly).unwrap();
    assert_eq!(
        checked.owner.git(&["rev-parse", "main"]),
        landed.commit.to_string()
    );
    checked.owner.git(&["fsck", "--strict", "--no-dangling"]);
    let refused = checked.lands("main", BranchUpdate::CheckedOut).unwrap_err();
    assert!(
        matches!(refused, LandingError::NotCheckedOut { .. }),
        "{refused:?}"
    );
}
