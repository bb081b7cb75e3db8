//! Landing on the branch that is checked out: its files and its index follow, or all stays as it was.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use cto_checkout::{Landed, LandingError, Prepared};
use cto_contract::task::BranchUpdate;

use crate::landing_stage::{Checked, EDIT, grant, small, write};
use crate::repository_stage::Owner;
use crate::stage::sh;

#[test]
fn a_branch_that_is_checked_out_moves_with_its_files_and_its_index() {
    let checked = Checked::new(small(), EDIT);
    write(checked.owner.repo.join(".git/info/exclude"), "kept\n");
    write(checked.owner.repo.join("kept"), "ignored\n");
    let landed = checked.lands("main", BranchUpdate::CheckedOut).unwrap();
    let owner = &checked.owner;
    assert_eq!(owner.git(&["rev-parse", "HEAD"]), landed.commit.to_string());
    assert_eq!(
        fs::read_to_string(owner.repo.join("a")).unwrap(),
        "changed\n"
    );
    assert_eq!(
        fs::read_to_string(owner.repo.join("n/m/x")).unwrap(),
        "new\n"
    );
    assert_eq!(
        fs::read_link(owner.repo.join("l")).unwrap(),
        PathBuf::from("a")
    );
    assert!(!owner.repo.join("e").exists());
    let mode = fs::metadata(owner.repo.join("d/b"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o111, 0o111);
    assert_eq!(owner.git(&["diff", "--cached", "--name-only"]), "");
    checked.is_sound();
    let again = checked.lands("main", BranchUpdate::CheckedOut).unwrap();
    assert!(again.was_there);
}

#[test]
fn files_become_directories_and_the_other_way_round() {
    let checked = Checked::new(
        Owner::with(&[("x", "1\n"), ("y/z", "2\n"), ("y/w", "3\n"), ("k", "4\n")]),
        "rm x; mkdir x; echo in > x/in; rm -r y; echo y > y; printf 'b\\0c' > bin; echo odd > \"$(printf 'n\\nl \\351')\"",
    );
    checked.lands("main", BranchUpdate::CheckedOut).unwrap();
    assert_eq!(
        fs::read_to_string(checked.owner.repo.join("x/in")).unwrap(),
        "in\n"
    );
    assert_eq!(
        fs::read_to_string(checked.owner.repo.join("y")).unwrap(),
        "y\n"
    );
    checked.is_sound();
}

#[test]
fn a_work_tree_that_is_not_clean_is_left_as_it_is() {
    for dirt in [
        "echo edited > a",
        "echo untracked > new",
        "echo staged > d/b; git add d/b",
        "rm e/f/g",
        "chmod +x a",
    ] {
        let checked = Checked::new(small(), EDIT);
        sh(&checked.owner.repo, dirt);
        let prepared = checked.prepare("main", BranchUpdate::CheckedOut);
        let before = checked.state();
        let refused = checked.land(&prepared).unwrap_err();
        assert!(
            matches!(refused, LandingError::Dirty { .. }),
            "{dirt}: {refused:?}"
        );
        assert_eq!(checked.state(), before, "{dirt}");
    }
}

#[test]
fn an_ignored_file_in_the_way_undoes_everything() {
    let checked = Checked::new(small(), EDIT);
    write(checked.owner.repo.join(".git/info/exclude"), "n/\n");
    fs::create_dir_all(checked.owner.repo.join("n/m")).unwrap();
    write(checked.owner.repo.join("n/m/x"), "the owner's own\n");
    let refused = checked.lands("main", BranchUpdate::CheckedOut).unwrap_err();
    assert!(matches!(refused, LandingError::Dirty { .. }), "{refused:?}");
    let own = fs::read_to_string(checked.owner.repo.join("n/m/x")).unwrap();
    assert_eq!(own, "the owner's own\n");
    assert_eq!(
        checked.owner.git(&["rev-parse", "HEAD"]),
        checked.base.to_string()
    );
    checked.is_sound();
}

#[test]
fn a_landing_that_was_killed_is_finished_by_the_next() {
    // Every number of files that were in place already, with the reference moved or not.
    for done in 0..=6 {
        for is_moved in [false, true] {
            let checked = Checked::new(small(), EDIT);
            let prepared = checked.prepare("main", BranchUpdate::CheckedOut);
            let owner = &checked.owner;
            let clone = owner.dir.path().join("clone");
            let mark = format!("cto landing {}\n", prepared.commit());
            write(owner.repo.join(".git/index.lock"), mark);
            fs::create_dir(owner.repo.join(".git/cto-landing")).unwrap();
            write(owner.repo.join(".git/cto-landing/3"), "half");
            write(owner.repo.join(".git/cto.lock"), "");
            let done = if is_moved { 6 } else { done };
            for change in prepared.changes().iter().take(done) {
                let path = change.path.as_path();
                let to = owner.repo.join(path);
                fs::remove_file(&to).ok();
                if change.after.is_some() {
                    fs::create_dir_all(to.parent().unwrap()).unwrap();
                    match fs::read_link(clone.join(path)) {
                        Ok(link) => symlink(link, &to).unwrap(),
                        Err(_) => drop(fs::copy(clone.join(path), &to).unwrap()),
                    }
                }
            }
            if is_moved {
                let own = owner.dir.path().join("landing-1.git/objects");
                sh(
                    &own,
                    &format!("cp -rn ?? '{}/.git/objects/'", owner.repo.display()),
                );
                owner.git(&[
                    "update-ref",
                    "refs/heads/main",
                    &prepared.commit().to_string(),
                ]);
            }
            let landed = checked.land(&prepared).unwrap();
            assert_eq!(landed.was_there, is_moved);
            assert_eq!(
                owner.git(&["rev-parse", "HEAD"]),
                prepared.commit().to_string()
            );
            sh(
                &owner.repo,
                "find e -type d -empty -delete 2>/dev/null; true",
            );
            checked.is_sound();
        }
    }
}

#[test]
fn a_landing_that_was_killed_is_taken_back_where_the_branch_moved_meanwhile() {
    let checked = Checked::new(small(), EDIT);
    let prepared = checked.prepare("main", BranchUpdate::CheckedOut);
    let owner = &checked.owner;
    let mark = format!("cto landing {}\n", prepared.commit());
    write(owner.repo.join(".git/index.lock"), mark);
    write(owner.repo.join("a"), "changed\n");
    fs::create_dir_all(owner.repo.join("n/m")).unwrap();
    write(owner.repo.join("n/m/x"), "new\n");
    // Somebody moved the branch without a look at the index, to a commit with the same tree.
    let tree = owner.git(&["rev-parse", "HEAD^{tree}"]);
    let author = ["-c", "user.name=o", "-c", "user.email=o@example.com"];
    let commit = ["commit-tree", &tree, "-p", "HEAD", "-m", "other"];
    let other = owner.git(&[&author[..], &commit[..]].concat());
    owner.git(&["update-ref", "refs/heads/main", &other]);
    let refused = checked.land(&prepared).unwrap_err();
    assert!(matches!(refused, LandingError::Moved { .. }), "{refused:?}");
    assert_eq!(fs::read_to_string(owner.repo.join("a")).unwrap(), "1\n");
    assert!(!owner.repo.join("n").exists());
    assert_eq!(owner.git(&["rev-parse", "HEAD"]), other);
    checked.is_sound();
}

#[test]
fn two_landings_at_once_leave_one() {
    let checked = Checked::new(small(), EDIT);
    let prepared: Vec<Prepared> = (0..4)
        .map(|_| checked.prepare("main", BranchUpdate::CheckedOut))
        .collect();
    let targets: Vec<_> = prepared.iter().map(|_| checked.owner.open()).collect();
    let results: Vec<Result<Landed, LandingError>> = std::thread::scope(|scope| {
        let started: Vec<_> = prepared
            .iter()
            .zip(&targets)
            .map(|(prepared, target)| scope.spawn(|| prepared.land(target, grant(prepared.tree()))))
            .collect();
        started
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let first =
        |result: &&Result<Landed, LandingError>| matches!(result, Ok(landed) if !landed.was_there);
    assert_eq!(results.iter().filter(first).count(), 1, "{results:?}");
    for result in &results {
        assert!(
            matches!(result, Ok(_) | Err(LandingError::Locked { .. })),
            "{result:?}"
        );
    }
    checked.is_sound();
}
