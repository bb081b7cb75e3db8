//! The harness's own git directory: made without git, so that no template, hook or setting of the machine gets in.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use flate2::{Compression, write::ZlibEncoder};

use crate::oid::Oid;

const HEAD: &[u8] = b"ref: refs/heads/none\n";
const CONFIG: &[u8] = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n\tsymlinks = true\n\tignorecase = false\n\tprecomposeunicode = false\n";
/// Outranks every `.gitattributes` of a working tree: bytes are compared and written as they are.
const ATTRIBUTES: &[u8] =
    b"* -text -ident -filter -working-tree-encoding !eol !diff !merge !whitespace !export-subst\n";

/// Why the git directory could not be written.
#[derive(Debug, thiserror::Error)]
#[error("could not write `{path}`")]
pub struct GitDirError {
    path: PathBuf,
    source: io::Error,
}

/// A bare git directory that belongs to one run.
#[derive(Debug)]
pub struct GitDir {
    path: PathBuf,
}

impl GitDir {
    /// Makes the directory, which must not exist yet.
    pub fn create(path: &Path) -> Result<Self, GitDirError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| GitDirError { path, source }
        };
        for directory in [
            "",
            "objects",
            "objects/info",
            "objects/pack",
            "refs",
            "refs/heads",
            "info",
        ] {
            let directory = path.join(directory);
            DirBuilder::new()
                .mode(0o700)
                .create(&directory)
                .map_err(failed(&directory))?;
        }
        for (name, content) in [
            ("HEAD", HEAD),
            ("config", CONFIG),
            ("info/attributes", ATTRIBUTES),
        ] {
            let file = path.join(name);
            create(&file)
                .and_then(|mut file| file.write_all(content))
                .map_err(failed(&file))?;
        }
        Ok(Self {
            path: path.to_owned(),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts a file of the directory in place of what [`Self::create`] wrote, if it wrote one.
    pub(crate) fn replace(&self, name: &str, content: &[u8]) -> Result<(), GitDirError> {
        let path = self.path.join(name);
        let write = || {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
            create(&path)?.write_all(content)
        };
        write().map_err(|source| GitDirError {
            path: path.clone(),
            source,
        })
    }

    /// Writes a loose object whose id is known and has been checked; one that is there already is left.
    pub(crate) fn write_object(
        &self,
        kind: ObjectKind,
        oid: &Oid,
        content: &[u8],
    ) -> Result<(), GitDirError> {
        let name = oid.to_string();
        let directory = self.path.join("objects").join(&name[..2]);
        let path = directory.join(&name[2..]);
        let write = || -> io::Result<()> {
            match DirBuilder::new().mode(0o700).create(&directory) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
            let file = match create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
                file => file?,
            };
            let mut encoder = ZlibEncoder::new(file, Compression::fast());
            write!(encoder, "{} {}\0", kind.name(), content.len())?;
            encoder.write_all(content)?;
            encoder.finish().map(drop)
        };
        write().map_err(|source| GitDirError {
            path: path.clone(),
            source,
        })
    }
}

#[derive(Clone, Copy)]
pub(crate) enum ObjectKind {
    Blob,
    Tree,
    Commit,
}

impl ObjectKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Blob => "blob",
            Self::Tree => "tree",
            Self::Commit => "commit",
        }
    }
}

pub(crate) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)
}
