//! What a stranger's tree may hold, and by which name the rest is refused.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use cto_checkout::{EntryMode, ImportCaps, ImportError, import, write_entries};

use crate::stage::{chmod, entries, file, has_root, put};

fn taken(prepare: impl FnOnce(&Path)) -> Result<Vec<String>, ImportError> {
    taken_with(&ImportCaps::default(), prepare)
}

fn taken_with(caps: &ImportCaps, prepare: impl FnOnce(&Path)) -> Result<Vec<String>, ImportError> {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    put(&source.join("a"), b"1\n");
    prepare(&source);
    let manifest = import(&source, &dir.path().join("dest"), caps)?;
    let row = |(path, entry): (&cto_checkout::TreePath, &cto_checkout::Entry)| {
        format!("{} {path}", entry.mode.as_octal())
    };
    Ok(manifest.iter().map(row).collect())
}

fn refused(prepare: impl FnOnce(&Path)) -> String {
    taken(prepare).unwrap_err().to_string()
}

#[test]
fn files_directories_and_inner_links_are_taken() {
    let taken = taken(|source| {
        put(&source.join("d/e/f"), b"");
        chmod(&source.join("d/e/f"), 0o4711);
        symlink("../a", source.join("d/link")).unwrap();
        fs::create_dir(source.join("empty")).unwrap();
    });
    assert_eq!(
        taken.unwrap(),
        ["100644 a", "100755 d/e/f", "120000 d/link"]
    );
}

#[test]
fn only_the_owners_x_bit_survives() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    for (name, mode) in [("x", 0o6755), ("y", 0o666), ("z", 0o411)] {
        put(&source.join(name), b"1");
        chmod(&source.join(name), mode);
    }
    import(&source, &dir.path().join("dest"), &ImportCaps::default()).unwrap();
    let mode = |name: &str| {
        fs::metadata(dir.path().join("dest").join(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777
    };
    assert_eq!([mode("x"), mode("y"), mode("z")], [0o755, 0o644, 0o644]);
}

#[test]
fn links_out_are_refused() {
    for (target, why) in [
        (
            "/etc/passwd",
            "`l` is a symbolic link with an absolute target",
        ),
        ("../x", "`l` is a symbolic link that leaves the tree"),
        ("d/../../x", "`l` is a symbolic link that leaves the tree"),
        (".git/config", "`l` is a symbolic link into `.git`"),
    ] {
        assert_eq!(
            refused(|source| symlink(target, source.join("l")).unwrap()),
            why
        );
    }
    let chained = refused(|source| {
        symlink(".", source.join("here")).unwrap();
        symlink("here/..", source.join("l")).unwrap();
    });
    assert_eq!(chained, "`l` is a symbolic link that leaves the tree");
}

#[test]
fn every_spelling_of_dot_git_is_refused() {
    for name in [
        ".git",
        ".GIT",
        "git~1",
        ".git.",
        ".git ",
        ".git::$INDEX_ALLOCATION",
        ".g\u{200c}it",
    ] {
        let why = refused(|source| put(&source.join("d").join(name).join("config"), b""));
        assert!(
            why.ends_with("has a component that is `.git` on some file system"),
            "{why}"
        );
        let rows = entries(&[(name.as_bytes(), EntryMode::Regular, b"")]).to_vec();
        let dir = tempfile::tempdir().unwrap();
        let error = write_entries(&dir.path().join("dest"), &rows, &ImportCaps::default());
        assert!(matches!(error, Err(ImportError::GitName { .. })));
        assert!(!dir.path().join("dest").exists());
    }
}

#[test]
fn special_files_are_refused() {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    assert_eq!(
        refused(|source| rustix::fs::mkfifoat(rustix::fs::CWD, source.join("f"), mode).unwrap()),
        "`f` is a fifo"
    );
    assert_eq!(
        refused(|source| drop(UnixListener::bind(source.join("s")).unwrap())),
        "`s` is a socket"
    );
    if has_root() {
        let device = refused(|source| {
            let kind = rustix::fs::FileType::CharacterDevice;
            rustix::fs::mknodat(
                rustix::fs::CWD,
                source.join("d"),
                kind,
                mode,
                rustix::fs::makedev(1, 3),
            )
            .unwrap();
        });
        assert_eq!(device, "`d` is a device");
    }
}

#[test]
fn every_cap_of_an_import_holds() {
    let caps = ImportCaps {
        entries: 4,
        depth: 2,
        path_bytes: 10,
        file_bytes: 8,
        total_bytes: 12,
    };
    let refused = |prepare: fn(&Path)| taken_with(&caps, prepare).unwrap_err().to_string();
    assert!(
        refused(|s| ["b", "c", "d", "e"]
            .iter()
            .for_each(|name| put(&s.join(name), b"")))
        .starts_with("the tree has more than 4 entries")
    );
    assert_eq!(
        refused(|s| put(&s.join("b/c/d"), b"")),
        "`b/c/d` lies deeper than 2 directories"
    );
    assert_eq!(
        refused(|s| put(&s.join("elevenbytes"), b"")),
        "the path `elevenbytes` is longer than 10 bytes"
    );
    assert_eq!(
        refused(|s| put(&s.join("b"), b"nine byte")),
        "`b` has 9 bytes, more than the 8 a file may have"
    );
    assert_eq!(
        refused(|s| ["b", "c"]
            .iter()
            .for_each(|name| put(&s.join(name), b"12345678"))),
        "the tree has more than 12 bytes; `c` goes over"
    );
}

#[test]
fn entries_in_memory_meet_the_same_checks() {
    let refused = |rows: &[crate::stage::Row<'_>]| {
        let dir = tempfile::tempdir().unwrap();
        let dest = dir.path().join("dest");
        let error = write_entries(&dest, &entries(rows), &ImportCaps::default()).unwrap_err();
        assert!(!dest.exists());
        if let ImportError::NotATree(why) = &error {
            why.to_string()
        } else {
            error.to_string()
        }
    };
    assert_eq!(
        refused(&[file("../a", "")]),
        "`../a` cannot be the path of a tree entry"
    );
    assert_eq!(
        refused(&[file("/a", "")]),
        "`/a` cannot be the path of a tree entry"
    );
    assert_eq!(
        refused(&[file("a//b", "")]),
        "`a//b` cannot be the path of a tree entry"
    );
    assert_eq!(
        refused(&[file("", "")]),
        "`.` cannot be the path of a tree entry"
    );
    assert_eq!(
        refused(&[file("a", ""), file("a", "")]),
        "`a` is there twice"
    );
    assert_eq!(
        refused(&[file("a", ""), file("a-b", ""), file("a/b", "")]),
        "`a` is a file and a directory at once"
    );
    assert_eq!(
        refused(&[(b"a", EntryMode::Symlink, b"/etc")]),
        "`a` is a symbolic link with an absolute target"
    );
    assert_eq!(
        refused(&[(b"a", EntryMode::Symlink, b"")]),
        "`a` is a symbolic link with an unusable target"
    );
}

#[test]
fn a_tree_written_and_a_tree_imported_have_one_manifest() {
    let rows = [
        file("a", "1\n"),
        (b"d/x", EntryMode::Executable, b"2"),
        (b"d/l", EntryMode::Symlink, b"x"),
        (b"\xff\n", EntryMode::Regular, b"3"),
    ];
    let dir = tempfile::tempdir().unwrap();
    let written = write_entries(
        &dir.path().join("one"),
        &entries(&rows),
        &ImportCaps::default(),
    )
    .unwrap();
    let imported = import(
        &dir.path().join("one"),
        &dir.path().join("two"),
        &ImportCaps::default(),
    )
    .unwrap();
    assert_eq!(written, imported);
}

#[test]
fn a_place_with_something_in_it_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    put(&dir.path().join("dest/precious"), b"1");
    put(&dir.path().join("source/a"), b"1");
    let error = import(
        &dir.path().join("source"),
        &dir.path().join("dest"),
        &ImportCaps::default(),
    );
    assert!(matches!(error, Err(ImportError::Destination { .. })));
}
