//! A repository with pipes, sockets and links where git would read files: it is refused by name, and nothing waits.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use cto_checkout::{RepositoryError, UnsupportedKind};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::repository_stage::{Owner, refusal};

fn pipe(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::remove_file(path).ok();
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// Reads all that a run reads of its source.
fn read_all(owner: &Owner) -> Result<(), RepositoryError> {
    let (repository, _) = owner.try_baseline()?;
    repository.fingerprint().map(drop)
}

fn object(owner: &Owner, rev: &str) -> PathBuf {
    let id = owner.git(&["rev-parse", rev]);
    let (first, rest) = id.trim().split_at(2);
    owner.repo.join(".git/objects").join(first).join(rest)
}

fn packed(owner: &Owner, ending: &str) -> PathBuf {
    owner.git(&["repack", "-adq"]);
    let packs = owner.repo.join(".git/objects/pack");
    let mut names = fs::read_dir(packs).unwrap().map(|e| e.unwrap().path());
    names
        .find(|path| path.extension().is_some_and(|e| e == ending))
        .unwrap()
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_refused_and_never_waited_for() {
    type Finder = fn(&Owner) -> PathBuf;
    let places: [(&str, Finder); 14] = [
        ("packed-refs", |o| o.repo.join(".git/packed-refs")),
        ("index", |o| o.repo.join(".git/index")),
        ("config", |o| o.repo.join(".git/config")),
        ("a reference", |o| o.repo.join(".git/refs/heads/main")),
        ("exclude", |o| o.repo.join(".git/info/exclude")),
        ("attributes", |o| o.repo.join(".git/info/attributes")),
        ("alternates", |o| {
            o.repo.join(".git/objects/info/alternates")
        }),
        ("a commit", |o| object(o, "HEAD")),
        ("a blob", |o| object(o, "HEAD:a")),
        ("a pack", |o| packed(o, "pack")),
        ("the index of a pack", |o| packed(o, "idx")),
        ("an index of packs", |o| {
            o.repo.join(".git/objects/pack/multi-pack-index")
        }),
        ("a commit graph", |o| {
            o.repo
                .join(".git/objects/info/commit-graphs/commit-graph-chain")
        }),
        ("ignore rules", |o| o.repo.join("d/.gitignore")),
    ];
    for (name, at) in places {
        let owner = Owner::with(&[("a", "1\n"), ("d/b", "2\n")]);
        let at = at(&owner);
        pipe(&at);
        let (kind, detail) = refusal(read_all(&owner));
        assert_eq!(kind, UnsupportedKind::SpecialFile, "{name}: {detail}");
        let shown = fs::canonicalize(&at).unwrap().display().to_string();
        assert!(
            detail.contains(&shown) && detail.contains("remove it"),
            "{name}: {detail}"
        );
    }
}

#[test]
fn so_is_a_socket_and_what_another_repository_lends() {
    let owner = Owner::with(&[("a", "1\n")]);
    fs::remove_file(owner.repo.join(".git/packed-refs")).ok();
    let socket = UnixListener::bind(owner.repo.join(".git/packed-refs")).unwrap();
    assert_eq!(refusal(read_all(&owner)).0, UnsupportedKind::SpecialFile);
    drop(socket);
    let owner = Owner::with(&[("a", "1\n")]);
    let lent = owner.dir.path().join("lent");
    pipe(&lent.join("info/alternates"));
    owner.put(".git/objects/info/alternates", lent.to_str().unwrap());
    assert_eq!(refusal(read_all(&owner)).0, UnsupportedKind::SpecialFile);
}

#[test]
fn a_link_in_the_place_of_an_object_is_not_followed() {
    for target in ["pipe", "gone"] {
        let owner = Owner::with(&[("a", "1\n")]);
        pipe(&owner.dir.path().join("pipe"));
        let at = object(&owner, "HEAD:a");
        fs::remove_file(&at).unwrap();
        symlink(owner.dir.path().join(target), &at).unwrap();
        assert_eq!(
            refusal(read_all(&owner)).0,
            UnsupportedKind::LinkInGitDirectory
        );
    }
}

#[test]
fn a_file_that_only_seems_large_is_never_read_to_its_end() {
    let terabyte = |path: &Path| {
        let file = fs::File::create(path).unwrap();
        file.set_len(1 << 40).unwrap();
    };
    // Its own bytes are looked at by nobody: it is untracked, or its change of size says enough.
    for name in ["a", "new"] {
        let owner = Owner::with(&[("a", "1\n")]);
        terabyte(&owner.repo.join(name));
        read_all(&owner).unwrap();
    }
    // Git reads ignore rules whole, so it is git that must not have the memory for it.
    let owner = Owner::with(&[("a", "1\n"), ("d/b", "2\n")]);
    let file = fs::File::create(owner.repo.join("d/.gitignore")).unwrap();
    file.set_len((4 << 30) + 1).unwrap();
    let error = read_all(&owner).unwrap_err();
    assert!(matches!(error, RepositoryError::Git(_)), "{error:?}");
    assert!(format!("{error:?}").contains("Out of memory"), "{error:?}");
    let owner = Owner::with(&[("a", "1\n")]);
    terabyte(&owner.repo.join(".git/packed-refs"));
    let error = read_all(&owner).unwrap_err();
    assert!(matches!(error, RepositoryError::Read { .. }), "{error:?}");
}
