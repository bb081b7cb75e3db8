use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn a_request_survives_the_way(
        id in any::<u64>(),
        flags in any::<u32>(),
        old in proptest::collection::vec(any::<u8>(), 0..80),
        new in proptest::collection::vec(any::<u8>(), 0..80),
    ) {
        let request = Request { id, flags, old, new };
        prop_assert_eq!(Request::decode(&request.encode().unwrap()), Some(request));
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        Request::decode(&bytes);
        Reply::decode(&bytes);
    }
}

fn folder(path: &Path) -> OwnedFd {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).unwrap()
}

/// A directory with a file and a directory in it, none of which its owner may change.
fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    let old = tree.path().join("old");
    fs::create_dir_all(old.join("sub")).unwrap();
    fs::File::create(old.join("sub/file")).unwrap();
    fs::File::create(old.join("other")).unwrap();
    fs::set_permissions(&old, fs::Permissions::from_mode(0o555)).unwrap();
    tree
}

fn begin(tree: &Path) -> Move {
    let start = folder(tree);
    let name = |path: &[u8]| Name::of(start.as_fd(), path).unwrap();
    Move::begin(name(b"old/"), name(b"./new")).unwrap()
}

#[test]
fn a_directory_moves_with_its_mode_and_time() {
    let tree = tree();
    let before = fs::metadata(tree.path().join("old")).unwrap();
    begin(tree.path()).finish(RenameFlags::empty()).unwrap();
    let after = fs::metadata(tree.path().join("new")).unwrap();
    assert_eq!(
        (after.mode(), after.mtime_nsec()),
        (before.mode(), before.mtime_nsec())
    );
    assert!(tree.path().join("new/sub/file").exists());
    assert_eq!(fs::read_dir(tree.path()).unwrap().count(), 1);
}

#[test]
fn what_cannot_be_finished_is_as_it_was() {
    let tree = tree();
    let before = fs::metadata(tree.path().join("old")).unwrap();
    let moving = begin(tree.path());
    // Somebody takes the name meanwhile.
    fs::create_dir_all(tree.path().join("new/full")).unwrap();
    assert_eq!(moving.finish(RenameFlags::empty()), Err(Errno::XDEV));
    let after = fs::metadata(tree.path().join("old")).unwrap();
    assert_eq!(
        (after.mode(), after.mtime_nsec()),
        (before.mode(), before.mtime_nsec())
    );
    assert!(tree.path().join("old/sub/file").exists());
    assert!(tree.path().join("old/other").exists());
    assert_eq!(fs::read_dir(tree.path()).unwrap().count(), 2);
}

#[test]
fn only_nothing_or_an_empty_directory_is_replaced() {
    let tree = tempfile::tempdir().unwrap();
    for name in ["empty", "full", "full/in"] {
        fs::create_dir(tree.path().join(name)).unwrap();
    }
    fs::File::create(tree.path().join("file")).unwrap();
    std::os::unix::fs::symlink("empty", tree.path().join("link")).unwrap();
    let start = folder(tree.path());
    let check =
        |name: &str, flags| check_target(&Name::of(start.as_fd(), name.as_bytes()).unwrap(), flags);
    let any = RenameFlags::empty();
    assert_eq!(check("none", any), Ok(()));
    assert_eq!(check("empty", any), Ok(()));
    assert_eq!(check("full", any), Err(Errno::NOTEMPTY));
    assert_eq!(check("file", any), Err(Errno::NOTDIR));
    assert_eq!(check("link", any), Err(Errno::NOTDIR));
    assert_eq!(check("none", RenameFlags::NOREPLACE), Ok(()));
    for name in ["empty", "file", "link"] {
        assert_eq!(check(name, RenameFlags::NOREPLACE), Err(Errno::EXIST));
    }
}
