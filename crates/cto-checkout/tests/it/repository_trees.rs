//! What a commit may hold: taken byte by byte, or refused by name.

use std::fs;
use std::os::unix::fs::symlink;

use cto_checkout::{Freshness, ImportCaps, RepositoryError, TreePath, UnsupportedKind};

use crate::repository_stage::{Owner, nothing, refusal, tree_entry};

#[test]
fn submodules_are_named() {
    let owner = Owner::with(&[("a", "1\n")]);
    let id = owner.git(&["rev-parse", "HEAD"]);
    let link = format!("160000,{id},lib/sub");
    owner.git(&["update-index", "--add", "--cacheinfo", &link]);
    owner.commit_index();
    let (kind, detail) = owner.refusal();
    assert_eq!(kind, UnsupportedKind::Submodules);
    assert_eq!(detail, "`lib/sub` is a submodule");
}

#[test]
fn names_and_trees_that_git_refuses_are_refused() {
    let owner = Owner::empty();
    let blob = owner.store("blob", b"x\n");
    for (mode, name, expected) in [
        ("100644", ".GIT", UnsupportedKind::NameRefusedByGit),
        ("100644", "git~1", UnsupportedKind::NameRefusedByGit),
        ("100644", "..", UnsupportedKind::NameRefusedByGit),
        ("100664", "a", UnsupportedKind::IrregularTree),
    ] {
        owner.commit_tree(&tree_entry(mode, name, &blob));
        assert_eq!(owner.refusal().0, expected, "{mode} {name}");
    }
    let twice = [
        tree_entry("100644", "a", &blob),
        tree_entry("100644", "a", &blob),
    ]
    .concat();
    owner.commit_tree(&twice);
    assert_eq!(owner.refusal().0, UnsupportedKind::IrregularTree);
}

#[test]
fn links_inside_are_taken_and_others_are_named() {
    let owner = Owner::with(&[("d/a", "1\n")]);
    symlink("../d/a", owner.repo.join("d/link")).unwrap();
    owner.commit(&[]);
    let (_, source) = owner.baseline();
    let target = fs::read_link(source.baseline.root.join("d/link")).unwrap();
    assert_eq!(target.to_str(), Some("../d/a"));
    for (target, expected) in [
        ("/etc/passwd", UnsupportedKind::LinkIsAbsolute),
        ("../x", UnsupportedKind::LinkLeavesRepository),
        (".git/config", UnsupportedKind::LinkIntoGit),
    ] {
        let owner = Owner::with(&[("a", "1\n")]);
        symlink(target, owner.repo.join("link")).unwrap();
        owner.commit(&[]);
        let (kind, detail) = owner.refusal();
        assert_eq!(kind, expected);
        assert!(detail.starts_with("the link `link` "), "{detail}");
        // Nothing is left of what was begun.
        let home = owner.dir.path().join("home/baselines");
        let left: Vec<_> = fs::read_dir(home)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert!(
            left.iter()
                .all(|name| !name.to_string_lossy().starts_with(".new")),
            "{left:?}"
        );
    }
}

#[test]
fn bounds_are_named() {
    let owner = Owner::with(&[("d/e/large", "0123456789"), ("small", "1")]);
    let usual = ImportCaps::default();
    for (caps, expected) in [
        (
            ImportCaps {
                file_bytes: 9,
                ..usual
            },
            UnsupportedKind::FileTooLarge,
        ),
        (
            ImportCaps {
                total_bytes: 10,
                ..usual
            },
            UnsupportedKind::TreeTooLarge,
        ),
        (
            ImportCaps {
                entries: 1,
                ..usual
            },
            UnsupportedKind::TooManyFiles,
        ),
        (
            ImportCaps {
                path_bytes: 8,
                ..usual
            },
            UnsupportedKind::PathTooLong,
        ),
        (
            ImportCaps { depth: 2, ..usual },
            UnsupportedKind::PathTooLong,
        ),
    ] {
        let repository = owner.open().with_caps(caps);
        let commit = repository.resolve(None).unwrap();
        let taken = repository.baseline(&commit, &owner.cache, &nothing);
        assert_eq!(refusal(taken.map(drop)).0, expected);
    }
    let repository = owner.open().with_caps(ImportCaps {
        file_bytes: 10,
        total_bytes: 11,
        ..usual
    });
    let commit = repository.resolve(None).unwrap();
    repository
        .baseline(&commit, &owner.cache, &nothing)
        .unwrap();
}

#[test]
fn a_file_of_many_megabytes_is_streamed() {
    let owner = Owner::empty();
    let large: Vec<u8> = (0..20_000_000_u32).map(|n| (n / 7 % 251) as u8).collect();
    owner.put("large.bin", &large);
    owner.commit(&[("a", "1\n")]);
    let (_, source) = owner.baseline();
    assert!(fs::read(source.baseline.root.join("large.bin")).unwrap() == large);
}

#[test]
fn thousands_of_files_are_read_by_more_than_one_git() {
    let owner = Owner::empty();
    for number in 0..3_000 {
        let path = format!("d{}/f{number}", number % 37);
        owner.put(&path, format!("content {number}\n"));
    }
    owner.commit(&[("empty", "")]);
    owner.git(&["gc", "-q"]);
    let (repository, source) = owner.baseline();
    assert_eq!(source.baseline.freshness, Freshness::Written);
    assert_eq!(source.baseline.manifest.len(), 3_001);
    assert!(repository.fingerprint().unwrap().clean);
    assert_eq!(owner.baseline().1.baseline.freshness, Freshness::Checked);
}

#[test]
fn nothing_is_converted_on_the_way_out() {
    let owner = Owner::empty();
    owner.commit(&[("dos", "a\r\nb\r\n"), ("unix", "a\nb\n"), ("id", "$Id$\n")]);
    owner.put(
        ".gitattributes",
        "[a-z]* text=auto eol=crlf ident working-tree-encoding=UTF-16\n",
    );
    owner.git(&["add", ".gitattributes"]);
    owner.commit_index();
    let (_, source) = owner.baseline();
    for (path, content) in [("dos", "a\r\nb\r\n"), ("unix", "a\nb\n"), ("id", "$Id$\n")] {
        assert_eq!(
            fs::read(source.baseline.root.join(path)).unwrap(),
            content.as_bytes()
        );
    }
}

#[test]
fn an_object_that_does_not_hold_what_its_id_says_is_found() {
    let owner = Owner::with(&[("a", "1\n")]);
    let id = owner.git(&["rev-parse", "HEAD:a"]);
    let other = owner.store("blob", b"2\n");
    let place = |id: &str| {
        owner
            .repo
            .join(format!(".git/objects/{}/{}", &id[..2], &id[2..]))
    };
    fs::remove_file(place(&id)).unwrap();
    fs::copy(place(&other), place(&id)).unwrap();
    let error = owner.try_baseline().map(drop).unwrap_err();
    assert!(
        matches!(
            error,
            RepositoryError::Corrupt { .. } | RepositoryError::Git(_)
        ),
        "{error:?}"
    );
}

#[test]
fn withheld_paths_are_absent_and_listed() {
    let owner = Owner::with(&[("a", "1\n"), (".env", "SECRET\n"), ("d/.env", "SECRET\n")]);
    let repository = owner.open();
    let commit = repository.resolve(None).unwrap();
    let secret = |path: &TreePath| path.to_str().is_some_and(|path| path.ends_with(".env"));
    for expected in [Freshness::Written, Freshness::Checked] {
        let source = repository.baseline(&commit, &owner.cache, &secret).unwrap();
        assert_eq!(source.withheld, [".env", "d/.env"].map(TreePath::from));
        assert_eq!(source.baseline.freshness, expected);
        assert_ne!(source.tree_id(), commit.tree);
        assert_eq!(source.commit, commit);
        assert!(!source.baseline.root.join(".env").exists());
        assert!(!source.baseline.root.join("d").exists());
    }
    // With the whole tree in the cache too, both stay apart.
    let whole = repository
        .baseline(&commit, &owner.cache, &nothing)
        .unwrap();
    assert_eq!(whole.tree_id(), commit.tree);
    let again = repository.baseline(&commit, &owner.cache, &secret).unwrap();
    assert_eq!(again.withheld.len(), 2);
}
