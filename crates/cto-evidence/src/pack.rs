//! A pack on disk, read by directory descriptor: no link is followed, nothing special is opened, everything is capped.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use cto_contract::text;
use cto_contract::verify::{VerifyCode, VerifyError};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, openat, statat};

/// Most entries (files and directories) of a pack.
pub const ENTRIES_MAX: usize = 200_000;
/// Deepest nesting of directories.
pub const DEPTH_MAX: usize = 32;
/// Longest path inside a pack.
pub const PATH_BYTES_MAX: usize = 4096;
/// Largest single file.
pub const FILE_BYTES_MAX: u64 = 64 << 30;
/// Largest pack.
pub const PACK_BYTES_MAX: u64 = 1 << 40;

/// A regular file as the walk saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackFile {
    /// Relative to the pack, `/`-separated.
    pub path: String,
    pub size: u64,
    /// Wide enough for every platform's type of it.
    device: i128,
    inode: u64,
}

/// Everything in a pack.
#[derive(Debug, Default)]
pub struct Listing {
    /// Sorted by the bytes of their paths.
    pub files: Vec<PackFile>,
    /// Directories below the top, for the writer that must make them durable.
    pub directories: Vec<String>,
    pub bytes: u64,
    /// Links, special files, empty directories and whatever could not be read.
    pub problems: Vec<VerifyError>,
}

/// An open pack directory.
#[derive(Debug)]
pub struct PackDir {
    fd: OwnedFd,
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK);
const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// Whether a name may stand in a pack: relative UTF-8, no component that moves, nothing that `sha256sum` would escape.
pub fn is_pack_path(path: &str) -> bool {
    path.len() <= PATH_BYTES_MAX
        && path.split('/').count() <= DEPTH_MAX
        && path
            .split('/')
            .all(|c| !c.is_empty() && c != "." && c != "..")
        && !path.chars().any(|c| c.is_control() || c == '\\')
}

/// Makes a finding about a file of the pack.
pub(crate) fn finding(code: VerifyCode, file: &str, message: impl Into<String>) -> VerifyError {
    VerifyError {
        code,
        file: Some(text::shorten(file, 400)),
        message: message.into(),
    }
}

impl PackDir {
    /// Opens a directory; the last component of the path must not be a link.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            fd: openat(CWD, path, DIRECTORY, Mode::empty())?,
        })
    }

    /// Lists everything below, without opening a single file.
    pub fn walk(&self) -> Listing {
        let mut walk = Walk::default();
        match openat(&self.fd, c".", DIRECTORY, Mode::empty()) {
            Ok(top) => walk.directory(top, "", 1),
            Err(e) => walk.problem(
                VerifyCode::FileUnreadable,
                ".",
                io::Error::from(e).to_string(),
            ),
        }
        walk.listing
            .files
            .sort_by(|a, b| a.path.as_bytes().cmp(b.path.as_bytes()));
        walk.listing
    }

    /// Opens a file by its path, every component by descriptor.
    pub fn open_path(&self, path: &str) -> io::Result<File> {
        open_below(self.fd.as_fd(), path, FILE, Mode::empty()).map(File::from)
    }

    /// Opens a file of the listing and makes sure that it is still that very file.
    pub fn open_listed(&self, file: &PackFile) -> Result<File, VerifyError> {
        let unreadable = |why: String| finding(VerifyCode::FileUnreadable, &file.path, why);
        let opened = self
            .open_path(&file.path)
            .map_err(|e| unreadable(e.to_string()))?;
        let stat = fstat(&opened).map_err(|e| unreadable(io::Error::from(e).to_string()))?;
        let same = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && (i128::from(stat.st_dev), stat.st_ino) == (file.device, file.inode)
            && u64::try_from(stat.st_size) == Ok(file.size);
        if same {
            Ok(opened)
        } else {
            Err(unreadable(
                "the file changed while the pack was read".to_owned(),
            ))
        }
    }
}

impl AsFd for PackDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Opens `path` below `top`, following no link in any component.
pub(crate) fn open_below(
    top: BorrowedFd<'_>,
    path: &str,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let Some((parents, name)) = path.rsplit_once('/') else {
        return Ok(openat(top, path, flags, mode)?);
    };
    let mut components = parents.split('/');
    let first = components.next().unwrap_or(parents);
    let mut at = openat(top, first, DIRECTORY, Mode::empty())?;
    for component in components {
        at = openat(&at, component, DIRECTORY, Mode::empty())?;
    }
    Ok(openat(&at, name, flags, mode)?)
}

#[derive(Default)]
struct Walk {
    listing: Listing,
    entries: usize,
    stopped: bool,
}

impl Walk {
    fn problem(&mut self, code: VerifyCode, path: &str, message: impl Into<String>) {
        self.listing.problems.push(finding(
            code,
            if path.is_empty() { "." } else { path },
            message,
        ));
    }

    fn directory(&mut self, fd: OwnedFd, prefix: &str, depth: usize) {
        let mut dir = match Dir::read_from(&fd) {
            Ok(dir) => dir,
            Err(e) => {
                return self.problem(
                    VerifyCode::FileUnreadable,
                    prefix,
                    io::Error::from(e).to_string(),
                );
            }
        };
        let mut is_empty = true;
        while let Some(entry) = dir.read() {
            if self.stopped {
                return;
            }
            let entry = match entry {
                Ok(entry) => entry,
                Err(e) => {
                    return self.problem(
                        VerifyCode::FileUnreadable,
                        prefix,
                        io::Error::from(e).to_string(),
                    );
                }
            };
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            is_empty = false;
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                self.stopped = true;
                return self.problem(
                    VerifyCode::FileOversized,
                    ".",
                    format!("the pack has more than {ENTRIES_MAX} entries"),
                );
            }
            self.entry(&fd, name, prefix, depth);
        }
        if is_empty && !prefix.is_empty() {
            self.problem(
                VerifyCode::FileExtra,
                prefix,
                "an empty directory, which no pack holds",
            );
        }
    }

    fn entry(&mut self, at: &OwnedFd, name: &CStr, prefix: &str, depth: usize) {
        let join = |name: &str| {
            if prefix.is_empty() {
                name.to_owned()
            } else {
                format!("{prefix}/{name}")
            }
        };
        let Some(path) = name.to_str().ok().map(join).filter(|p| is_pack_path(p)) else {
            let shown = join(&text::path_text(name.to_bytes()));
            return self.problem(
                VerifyCode::FileExtra,
                &shown,
                "a name that no pack holds: too long, too deep, or with forbidden characters",
            );
        };
        let stat = match statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(e) => {
                return self.problem(
                    VerifyCode::FileUnreadable,
                    &path,
                    io::Error::from(e).to_string(),
                );
            }
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
                if stat.st_nlink != 1 {
                    self.problem(
                        VerifyCode::FileLinked,
                        &path,
                        "a file with a second name (hard link)",
                    );
                }
                if size > FILE_BYTES_MAX {
                    return self.problem(
                        VerifyCode::FileOversized,
                        &path,
                        format!("{size} bytes, more than {FILE_BYTES_MAX}"),
                    );
                }
                self.listing.bytes = self.listing.bytes.saturating_add(size);
                if self.listing.bytes > PACK_BYTES_MAX {
                    self.stopped = true;
                    return self.problem(
                        VerifyCode::FileOversized,
                        ".",
                        format!("the pack has more than {PACK_BYTES_MAX} bytes"),
                    );
                }
                self.listing.files.push(PackFile {
                    path,
                    size,
                    device: i128::from(stat.st_dev),
                    inode: stat.st_ino,
                });
            }
            FileType::Directory => match openat(at, name, DIRECTORY, Mode::empty()) {
                Ok(fd) if depth < DEPTH_MAX => {
                    self.directory(fd, &path, depth + 1);
                    self.listing.directories.push(path);
                }
                Ok(_) => self.problem(
                    VerifyCode::FileOversized,
                    &path,
                    format!("directories nest deeper than {DEPTH_MAX}"),
                ),
                Err(e) => self.problem(
                    VerifyCode::FileUnreadable,
                    &path,
                    io::Error::from(e).to_string(),
                ),
            },
            FileType::Symlink => self.problem(VerifyCode::FileLinked, &path, "a symbolic link"),
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => {
                self.problem(
                    VerifyCode::FileSpecial,
                    &path,
                    "neither a regular file nor a directory",
                );
            }
        }
    }
}
