//! The file that a lane starts: its digest, and whether it is still that file when it starts.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use cto_contract::ids::Digest;
use cto_evidence::canonical::{hash_reader, sha256};
use cto_rules::admission::ProgramSeen;

use crate::installed::InstalledProgram;

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
        Self::at(&candidates.into_iter().find(|p| p.is_file())?)
    }

    /// Takes the digest of a file.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        let path = path.to_owned();
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

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file as the rules look at it; none where its real place can't be told.
    pub(crate) fn seen(&self) -> Option<ProgramSeen> {
        let real = std::fs::canonicalize(&self.path).ok()?;
        let meta = std::fs::metadata(&real).ok()?;
        let path = real.to_str()?.to_owned();
        Some(ProgramSeen {
            is_executable: meta.mode() & 0o111 != 0,
            is_temporary: is_temporary(&real),
            digest: self.digest.clone(),
            path,
            package: None,
            interpreter: None,
        })
    }

    /// Whether the path still leads to that very file, untouched.
    pub(crate) fn is_unchanged(&self) -> bool {
        let now = File::open(&self.path).and_then(|file| State::of(&file));
        now.is_ok_and(|now| now == self.state)
    }
}

/// What of an installed program runs besides its own file.
#[derive(Debug, Default)]
pub(crate) struct ProgramsBeside {
    pub(crate) is_installed: bool,
    pub(crate) interpreter: Option<ProgramFile>,
    /// The package that it loads from, and one digest over all of it.
    pub(crate) tree: Option<(PathBuf, Digest)>,
}

impl ProgramsBeside {
    pub(crate) fn of(installed: &InstalledProgram) -> io::Result<Self> {
        let tree = installed.tree.as_ref();
        let tree = tree.map(|root| Ok::<_, io::Error>((root.clone(), tree_digest(root)?)));
        Ok(Self {
            is_installed: true,
            interpreter: installed.interpreter.as_deref().and_then(ProgramFile::at),
            tree: tree.transpose()?,
        })
    }
}

/// Most files of a package, and how deep they lie.
const TREE_ENTRIES_MAX: usize = 200_000;
const TREE_DEPTH_MAX: usize = 64;

/// One digest over a tree: path, mode and bytes of every file, and where each link leads. No link is followed.
pub(crate) fn tree_digest(root: &Path) -> io::Result<Digest> {
    let mut lines = Vec::new();
    let mut left = vec![(root.to_owned(), 0)];
    while let Some((directory, depth)) = left.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let path = entry?.path();
            let meta = std::fs::symlink_metadata(&path)?;
            let kind = meta.file_type();
            let what = if kind.is_dir() {
                left.push((path.clone(), depth + 1));
                "directory".to_owned()
            } else if kind.is_symlink() {
                let target = std::fs::read_link(&path)?;
                format!("link {}", sha256(target.as_os_str().as_encoded_bytes()))
            } else if kind.is_file() {
                let hashed = hash_reader(File::open(&path)?).map_err(io::Error::other)?;
                format!("file {:o} {}", meta.mode() & 0o777, hashed.0)
            } else {
                "other".to_owned()
            };
            let below = path.strip_prefix(root).map_err(io::Error::other)?;
            let mut line = below.as_os_str().as_encoded_bytes().to_vec();
            line.push(0);
            line.extend_from_slice(what.as_bytes());
            lines.push(line);
            if lines.len() > TREE_ENTRIES_MAX || depth > TREE_DEPTH_MAX {
                return Err(io::Error::other("it holds too much to be looked at"));
            }
        }
    }
    lines.sort_unstable();
    Ok(sha256(&lines.join(&b'\n')))
}

/// Whether anybody may put files somewhere above a path.
fn is_temporary(real: &Path) -> bool {
    let shared = ["/tmp", "/var/tmp", "/dev/shm"];
    let is_writable = |dir: &Path| {
        let meta = std::fs::metadata(dir);
        meta.is_ok_and(|meta| meta.mode() & 0o002 != 0)
    };
    shared.iter().any(|dir| real.starts_with(dir)) || real.ancestors().skip(1).any(is_writable)
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
