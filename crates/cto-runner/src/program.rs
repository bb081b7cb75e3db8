//! The file that a lane starts: its digest, and whether it is still that file when it starts.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use cto_contract::ids::Digest;
use cto_evidence::canonical::hash_reader;

/// A file as it was when its digest was taken.
#[derive(Debug)]
pub(crate) struct ProgramFile {
    path: PathBuf,
    pub(crate) digest: Digest,
    state: State,
}

/// What no write and no replacement leaves as it was: the kernel sets the time of change, and nobody else can.
#[derive(Debug, PartialEq, Eq)]
struct State {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl State {
    fn of(file: &File) -> io::Result<Self> {
        let meta = file.metadata()?;
        Ok(Self {
            device: meta.dev(),
            inode: meta.ino(),
            bytes: meta.len(),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }
}

impl ProgramFile {
    /// Takes the digest of the program that `PATH` gives for a name.
    pub(crate) fn find(program: &str, path: &str) -> Option<Self> {
        let candidates: Vec<PathBuf> = if program.contains('/') {
            vec![program.into()]
        } else {
            path.split(':')
                .map(|d| Path::new(d).join(program))
                .collect()
        };
        let path = candidates.into_iter().find(|p| p.is_file())?;
        let file = File::open(&path).ok()?;
        // Before the bytes: a write during the reading is a difference later.
        let state = State::of(&file).ok()?;
        let (digest, _) = hash_reader(file).ok()?;
        Some(Self {
            path,
            digest,
            state,
        })
    }

    /// Whether the path still leads to that very file, untouched.
    pub(crate) fn is_unchanged(&self) -> bool {
        let now = File::open(&self.path).and_then(|file| State::of(&file));
        now.is_ok_and(|now| now == self.state)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_program_that_was_replaced_or_written_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("tool"), dir.path().join("other"));
        let make = |path: &Path, text: &str| {
            File::create(path)
                .unwrap()
                .write_all(text.as_bytes())
                .unwrap();
        };
        make(&path, "one");
        let found = || ProgramFile::find("tool", &format!("/nothing:{}", dir.path().display()));
        let first = found().unwrap();
        assert!(first.is_unchanged());
        make(&other, "one");
        std::fs::rename(&other, &path).unwrap();
        assert!(!first.is_unchanged(), "the same bytes in another file");
        let second = found().unwrap();
        assert_eq!(first.digest, second.digest);
        File::options()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(b"more")
            .unwrap();
        assert!(!second.is_unchanged());
        std::fs::remove_file(&path).unwrap();
        assert!(!second.is_unchanged());
        assert!(found().is_none());
    }
}
