//! Every kind of repository an owner may have: taken as it is, or refused by name.

use std::fs;
use std::os::unix::fs::symlink;

use cto_checkout::{Head, History, RepositoryError, TreePath, UnsupportedKind};

use crate::repository_stage::{Owner, commit_in, refusal, resolve};
use crate::stage::{git, has_root, put};

fn paths(owner: &Owner) -> Vec<String> {
    let (_, source) = owner.baseline();
    let manifest = &source.baseline.manifest;
    manifest.iter().map(|(path, _)| path.to_string()).collect()
}

fn url(owner: &Owner) -> String {
    format!("file://{}", owner.repo.display())
}

#[test]
fn every_kind_has_a_name_of_its_own() {
    let names: std::collections::BTreeSet<&str> = UnsupportedKind::ALL
        .iter()
        .map(|kind| kind.as_str())
        .collect();
    assert_eq!(names.len(), UnsupportedKind::ALL.len());
}

#[test]
fn it_is_found_from_below_and_from_its_git_directory() {
    let owner = Owner::with(&[("d/e/a", "1\n")]);
    let top = fs::canonicalize(&owner.repo).unwrap();
    for inside in ["", "d/e", ".git"] {
        let repository = owner.open_at(&owner.repo.join(inside)).unwrap();
        assert_eq!(repository.work_tree(), Some(top.as_path()), "{inside}");
    }
}

#[test]
fn no_repository_is_said_to_be_none() {
    let owner = Owner::without_repository();
    assert!(matches!(
        owner.try_open(),
        Err(RepositoryError::NotFound { .. })
    ));
    assert!(matches!(
        owner.open_at(&owner.repo.join("absent")),
        Err(RepositoryError::Read { .. })
    ));
}

#[test]
fn one_of_another_user_is_refused() {
    if !has_root() {
        return;
    }
    let nobody = rustix::fs::Uid::from_raw(65_534);
    for part in ["", ".git"] {
        let owner = Owner::with(&[("a", "1\n")]);
        rustix::fs::chown(owner.repo.join(part), Some(nobody), None).unwrap();
        assert!(
            matches!(
                owner.try_open(),
                Err(RepositoryError::NotOwned { owner: 65_534, .. })
            ),
            "{part}"
        );
    }
    // Above, it ends the search.
    let owner = Owner::with(&[("d/a", "1\n")]);
    rustix::fs::chown(&owner.repo, Some(nobody), None).unwrap();
    assert!(matches!(
        owner.open_at(&owner.repo.join("d")),
        Err(RepositoryError::NotFound { .. })
    ));
}

#[test]
fn a_dirty_tree_does_not_get_into_the_baseline() {
    let owner = Owner::with(&[("a", "1\n"), ("gone", "x\n"), (".gitignore", "*.log\n")]);
    owner.put("a", "2\n");
    owner.put("staged", "3\n");
    owner.git(&["add", "staged"]);
    owner.put("new", "4\n");
    owner.put("x.log", "5\n");
    fs::remove_file(owner.repo.join("gone")).unwrap();
    let (_, source) = owner.baseline();
    assert_eq!(paths(&owner), [".gitignore", "a", "gone"]);
    assert_eq!(fs::read(source.baseline.root.join("a")).unwrap(), b"1\n");
    assert_eq!(
        source.tree_id().to_string(),
        owner.git(&["rev-parse", "HEAD^{tree}"])
    );
}

#[test]
fn a_detached_head_is_a_commit_like_any_other() {
    let owner = Owner::with(&[("a", "1\n")]);
    let first = owner.git(&["rev-parse", "HEAD"]);
    owner.commit(&[("b", "2\n")]);
    owner.git(&["checkout", "-q", &first]);
    let (repository, source) = owner.baseline();
    let id = first.parse().unwrap();
    assert_eq!(repository.head().unwrap(), Head::Detached { id });
    assert_eq!(
        (source.commit.id, paths(&owner)),
        (id, vec!["a".to_owned()])
    );
}

#[test]
fn a_bare_repository_has_a_tree_but_no_work_tree() {
    let owner = Owner::with(&[("a", "1\n")]);
    let bare = owner.dir.path().join("bare.git");
    owner.git(&["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    let owner = owner.at(bare);
    let (repository, _) = owner.baseline();
    assert!(repository.traits().unwrap().bare && repository.work_tree().is_none());
    assert_eq!(paths(&owner), ["a"]);
    let fingerprint = repository.fingerprint().unwrap();
    assert!(fingerprint.clean && fingerprint.path_count() == 0);
    // One that lies in a tree is content, and the search does not stop at it.
    fs::create_dir(owner.repo.join("sub")).unwrap();
    assert!(matches!(
        owner.open_at(&owner.repo.join("sub")),
        Err(RepositoryError::NotFound { .. })
    ));
}

#[test]
fn a_linked_work_tree_has_a_head_of_its_own() {
    let owner = Owner::with(&[("a", "1\n")]);
    owner.git(&["worktree", "add", "-q", "-b", "side", "../side"]);
    let owner = {
        let side = owner.dir.path().join("side");
        owner.at(side)
    };
    put(&owner.repo.join("b"), b"2\n");
    git(&owner.repo, &["add", "-A"]);
    commit_in(&owner.repo);
    let (repository, _) = owner.baseline();
    assert!(repository.traits().unwrap().linked_work_tree);
    assert_eq!(paths(&owner), ["a", "b"]);
    assert!(
        matches!(repository.head().unwrap(), Head::Branch { name, .. } if name == TreePath::from("refs/heads/side"))
    );
    assert!(repository.fingerprint().unwrap().clean);
}

#[test]
fn a_shallow_clone_has_a_baseline_but_no_history() {
    let owner = Owner::with(&[("a", "1\n")]);
    owner.commit(&[("a", "2\n")]);
    owner.git(&["clone", "-q", "--depth=1", &url(&owner), "../shallow"]);
    let owner = {
        let shallow = owner.dir.path().join("shallow");
        owner.at(shallow)
    };
    assert!(owner.open().traits().unwrap().shallow);
    owner.layer(History::None).unwrap();
    let (kind, _) = refusal(owner.layer(History::Ancestors).map(drop));
    assert_eq!(kind, UnsupportedKind::HistoryIsShallow);
}

#[test]
fn a_partial_clone_is_taken_when_all_of_the_tree_is_there() {
    let owner = Owner::with(&[("a", "1\n")]);
    owner.commit(&[("a", "2\n")]);
    owner.git(&["config", "uploadpack.allowFilter", "true"]);
    owner.git(&["clone", "-q", "--filter=blob:none", &url(&owner), "../full"]);
    owner.git(&[
        "clone",
        "-q",
        "-n",
        "--filter=blob:none",
        &url(&owner),
        "../less",
    ]);
    let home = owner.dir.path().to_owned();
    let owner = owner.at(home.join("less"));
    let (kind, detail) = owner.refusal();
    assert_eq!(kind, UnsupportedKind::MissingObjects);
    assert_eq!(detail, "the content of `a` is not there");
    let owner = owner.at(home.join("full"));
    assert!(owner.open().traits().unwrap().partial);
    owner.layer(History::None).unwrap();
    let (kind, _) = refusal(owner.layer(History::Ancestors).map(drop));
    assert_eq!(kind, UnsupportedKind::MissingObjects);
}

#[test]
fn a_clone_without_trees_lacks_objects() {
    let owner = Owner::with(&[("d/a", "1\n")]);
    owner.git(&["config", "uploadpack.allowFilter", "true"]);
    owner.git(&[
        "clone",
        "-q",
        "-n",
        "--filter=tree:0",
        &url(&owner),
        "../less",
    ]);
    let owner = {
        let less = owner.dir.path().join("less");
        owner.at(less)
    };
    assert_eq!(owner.refusal().0, UnsupportedKind::MissingObjects);
}

#[test]
fn a_sparse_checkout_gives_the_whole_tree_and_is_clean() {
    for index in ["--no-sparse-index", "--sparse-index"] {
        let owner = Owner::with(&[("top", "0\n"), ("in/a", "1\n"), ("out/b", "2\n")]);
        owner.git(&["sparse-checkout", "set", "--cone", index, "in"]);
        assert!(!owner.repo.join("out").exists());
        let (repository, _) = owner.baseline();
        assert!(repository.traits().unwrap().sparse);
        assert_eq!(paths(&owner), ["in/a", "out/b", "top"]);
        let fingerprint = repository.fingerprint().unwrap();
        assert!(fingerprint.clean, "{index}: {:?}", fingerprint.dirty);
        owner.put("in/a", "x\n");
        let after = repository.fingerprint_after(&fingerprint).unwrap();
        assert_eq!(
            fingerprint.differences(&after),
            ["path `in/a`: changed"],
            "{index}"
        );
    }
}

#[test]
fn pointers_of_lfs_stay_pointers_and_are_listed() {
    let pointer = format!(
        "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12345\n",
        "0".repeat(64)
    );
    let owner = Owner::with(&[
        (
            ".gitattributes",
            "*.bin filter=lfs diff=lfs merge=lfs -text\n",
        ),
        ("a.bin", &pointer),
        (
            "b.txt",
            "not one, but a text of about the same length as one of them would have, or so\n",
        ),
    ]);
    let (_, source) = owner.baseline();
    assert_eq!(source.lfs_pointers().unwrap(), [TreePath::from("a.bin")]);
    assert_eq!(
        fs::read(source.baseline.root.join("a.bin")).unwrap(),
        pointer.as_bytes()
    );
    let owner = Owner::with(&[("a.bin", &pointer)]);
    assert!(owner.baseline().1.lfs_pointers().unwrap().is_empty());
}

#[test]
fn formats_that_cannot_be_read_are_named() {
    let sha256 = Owner::without_repository();
    sha256.git(&["init", "-q", "--object-format=sha256"]);
    sha256.commit(&[("a", "1\n")]);
    assert_eq!(sha256.refusal().0, UnsupportedKind::Sha256Objects);
    let reftable = Owner::without_repository();
    reftable.git(&["init", "-q", "--ref-format=reftable"]);
    reftable.commit(&[("a", "1\n")]);
    assert_eq!(reftable.refusal().0, UnsupportedKind::Reftable);
    let (kind, detail) = Owner::empty().refusal();
    assert_eq!(kind, UnsupportedKind::NoCommits);
    assert_eq!(detail, "`HEAD` names a branch that has no commit yet");
    for (setting, expected) in [
        (
            "[core]\nrepositoryformatversion = 1\n[extensions]\nnew\n",
            UnsupportedKind::UnknownExtension,
        ),
        (
            "[core]\nrepositoryformatversion = 2\n",
            UnsupportedKind::UnknownExtension,
        ),
        ("[core]\nworktree = /\n", UnsupportedKind::SeparateWorkTree),
    ] {
        let owner = Owner::with(&[("a", "1\n")]);
        owner.put(".git/config", setting);
        assert_eq!(owner.refusal().0, expected, "{setting}");
    }
    let owner = Owner::with(&[("a", "1\n")]);
    owner.put(".git/config", "[core]\nworktree = ..\n");
    owner.baseline();
    owner.put(".git/config", "[core\n");
    assert!(matches!(
        owner.try_open(),
        Err(RepositoryError::Malformed { .. })
    ));
}

#[test]
fn links_in_the_git_directory_are_not_followed() {
    let owner = Owner::with(&[("a", "1\n")]);
    let away = owner.dir.path().join("away");
    fs::rename(owner.repo.join(".git/HEAD"), &away).unwrap();
    symlink(&away, owner.repo.join(".git/HEAD")).unwrap();
    assert_eq!(owner.refusal().0, UnsupportedKind::LinkInGitDirectory);
    let owner = Owner::with(&[("a", "1\n")]);
    let away = owner.dir.path().join("away");
    fs::rename(owner.repo.join(".git"), &away).unwrap();
    symlink(&away, owner.repo.join(".git")).unwrap();
    assert_eq!(owner.refusal().0, UnsupportedKind::LinkInGitDirectory);
}

#[test]
fn borrowed_objects_are_found() {
    for alternates in [None, Some("../../../repo/.git/objects\n")] {
        let owner = Owner::with(&[("a", "1\n")]);
        let shared = owner.dir.path().join("shared");
        owner.git(&["clone", "-q", "--shared", ".", shared.to_str().unwrap()]);
        // And one that borrows from that one.
        let second = owner.dir.path().join("second");
        git(
            &shared,
            &["clone", "-q", "--shared", ".", second.to_str().unwrap()],
        );
        if let Some(text) = alternates {
            put(
                &shared.join(".git/objects/info/alternates"),
                text.as_bytes(),
            );
            put(
                &second.join(".git/objects/info/alternates"),
                b"# from\n\"../../../shared/.git/objects\"\n",
            );
        }
        let owner = owner.at(second);
        assert_eq!(paths(&owner), ["a"]);
        owner.layer(History::Ancestors).unwrap();
    }
}

#[test]
fn revisions_are_found_by_every_name() {
    let owner = Owner::with(&[("a", "1\n")]);
    let first = owner.git(&["rev-parse", "HEAD"]);
    owner.git(&["branch", "topic/old"]);
    owner.git(&["tag", "light"]);
    let tag = [
        "-c",
        "user.name=o",
        "-c",
        "user.email=o@e",
        "tag",
        "-a",
        "v1",
        "-m",
        "x",
    ];
    owner.git(&tag);
    let second = owner.commit(&[("b", "2\n")]);
    for packed in [false, true] {
        if packed {
            owner.git(&["pack-refs", "--all"]);
        }
        let repository = owner.open();
        for (rev, expected) in [
            ("HEAD", &second),
            ("main", &second),
            ("refs/heads/main", &second),
            ("heads/main", &second),
            ("topic/old", &first),
            ("light", &first),
            ("v1", &first),
            ("HEAD~1", &first),
            ("main^", &first),
            (first.as_str(), &first),
            (&first[..10], &first),
            (&first[..10].to_uppercase(), &first),
        ] {
            assert_eq!(resolve(&repository, rev).id.to_string(), *expected, "{rev}");
        }
        for rev in [
            "nowhere",
            "HEAD~9",
            "0000000",
            "",
            "~1",
            "../../HEAD",
            "HEAD:a",
            "a b",
            "main@{1}",
            "--all",
            ":/x",
            "\n",
            "0123456789012345678901234567890123456789",
        ] {
            let error = repository.resolve(Some(rev)).unwrap_err();
            assert!(
                matches!(error, RepositoryError::NoSuchRevision { .. }),
                "{rev:?}: {error}"
            );
        }
    }
    let message = owner
        .open()
        .resolve(Some("nowhere"))
        .unwrap_err()
        .to_string();
    assert_eq!(message, "`nowhere` names no commit of the repository");
    let blob = owner.git(&["rev-parse", "HEAD:a"]);
    assert!(owner.open().resolve(Some(&blob)).is_err());
}
