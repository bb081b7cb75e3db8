//! What only Linux can do, each next to what stands in for it elsewhere: as safe, but slower.

use std::ffi::CStr;
use std::fs::File;
use std::io;
#[cfg(target_os = "linux")]
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, RawMode, openat};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::tree_path::TreePath;

/// Opens a directory to start from, not to list.
#[cfg(target_os = "linux")]
pub(crate) const HANDLE: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
pub(crate) const HANDLE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);

/// Opens `path` in one call that follows no link and does not leave `root`; `NOSYS` if there is no such call.
#[cfg(target_os = "linux")]
pub(crate) fn open_inside(
    root: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::ResolveFlags;
    const INSIDE: ResolveFlags = ResolveFlags::BENEATH
        .union(ResolveFlags::NO_SYMLINKS)
        .union(ResolveFlags::NO_MAGICLINKS);
    rustix::fs::openat2(root, path, flags, mode, INSIDE)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn open_inside(
    _root: BorrowedFd<'_>,
    _path: &[u8],
    _flags: OFlags,
    _mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    Err(Errno::NOSYS)
}

/// Gives the owner of a file these bits; a link is never followed.
///
/// Goes through the descriptor, so that what is changed is what was looked at.
#[cfg(target_os = "linux")]
pub(crate) fn unlock(root: BorrowedFd<'_>, path: &TreePath, bits: u32) -> io::Result<()> {
    let handle = crate::beneath::open(root, path, OFlags::PATH, Mode::empty())?;
    Ok(unlock_handle(handle.as_fd(), bits)?)
}

/// A closed file cannot be opened here, so this goes by the name in its parent.
#[cfg(not(target_os = "linux"))]
pub(crate) fn unlock(root: BorrowedFd<'_>, path: &TreePath, bits: u32) -> io::Result<()> {
    if !path.is_well_formed() {
        return Err(Errno::XDEV.into());
    }
    crate::beneath::with_parent(root, path, |parent, name| {
        unlock_name(parent, name, bits, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
    })
}

/// Opens a handle of a directory after giving its owner all rights in it.
#[cfg(target_os = "linux")]
pub(crate) fn open_unlocked<P: Arg + Copy>(
    at: impl AsFd,
    path: P,
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let handle = openat(&at, path, flags | HANDLE, Mode::empty())?;
    if rustix::fs::fstat(&handle)?.st_mode & 0o700 != 0o700 {
        unlock_handle(handle.as_fd(), 0o700)?;
    }
    Ok(handle)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn open_unlocked<P: Arg + Copy>(
    at: impl AsFd,
    path: P,
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::AtFlags;
    let links = if flags.contains(OFlags::NOFOLLOW) {
        AtFlags::SYMLINK_NOFOLLOW
    } else {
        AtFlags::empty()
    };
    let mode = rustix::fs::statat(&at, path, links)?.st_mode;
    if FileType::from_raw_mode(mode) != FileType::Directory {
        return Err(Errno::NOTDIR);
    }
    if mode & 0o700 != 0o700 {
        unlock_name(at.as_fd(), path, 0o700, links)?;
    }
    openat(&at, path, flags | HANDLE, Mode::empty())
}

#[cfg(target_os = "linux")]
fn unlock_handle(handle: BorrowedFd<'_>, bits: u32) -> rustix::io::Result<()> {
    use std::os::fd::AsRawFd as _;
    let mode = rustix::fs::fstat(handle)?.st_mode & 0o7777;
    let own = format!("/proc/self/fd/{}", handle.as_raw_fd());
    rustix::fs::chmod(own, Mode::from_raw_mode(mode | bits))
}

#[cfg(not(target_os = "linux"))]
fn unlock_name<P: Arg + Copy>(
    at: BorrowedFd<'_>,
    name: P,
    bits: u32,
    links: rustix::fs::AtFlags,
) -> rustix::io::Result<()> {
    let mode = rustix::fs::statat(at, name, links)?.st_mode;
    if FileType::from_raw_mode(mode) == FileType::Symlink {
        return Err(Errno::LOOP);
    }
    let mode = mode & 0o7777 | raw_mode(bits);
    rustix::fs::chmodat(at, name, Mode::from_raw_mode(mode), links)
}

/// The entries of a directory, some at a time.
#[cfg(target_os = "linux")]
pub(crate) struct Listing<'a>(rustix::fs::RawDir<'a, BorrowedFd<'a>>);

#[cfg(target_os = "linux")]
pub(crate) type ListingBuffer = Vec<MaybeUninit<u8>>;

#[cfg(target_os = "linux")]
impl<'a> Listing<'a> {
    pub(crate) fn new(
        directory: BorrowedFd<'a>,
        buffer: &'a mut ListingBuffer,
    ) -> rustix::io::Result<Self> {
        const LISTING_BYTES: usize = 32 * 1024;
        buffer.resize(LISTING_BYTES, MaybeUninit::uninit());
        Ok(Self(rustix::fs::RawDir::new(directory, buffer)))
    }

    pub(crate) fn read(&mut self) -> Option<rustix::io::Result<rustix::fs::RawDirEntry<'_>>> {
        self.0.next()
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) struct Listing(rustix::fs::Dir);

/// Not needed: the system's own listing has a buffer.
#[cfg(not(target_os = "linux"))]
pub(crate) type ListingBuffer = [u8; 0];

#[cfg(not(target_os = "linux"))]
impl Listing {
    pub(crate) fn new(
        directory: BorrowedFd<'_>,
        _buffer: &mut ListingBuffer,
    ) -> rustix::io::Result<Self> {
        rustix::fs::Dir::read_from(directory).map(Self)
    }

    pub(crate) fn read(&mut self) -> Option<rustix::io::Result<rustix::fs::DirEntry>> {
        self.0.read()
    }
}

/// Shows every entry to `visit`, which may remove it.
#[cfg(target_os = "linux")]
pub(crate) fn each_removable(
    directory: BorrowedFd<'_>,
    mut visit: impl FnMut(&CStr, FileType) -> rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    let mut buffer = ListingBuffer::default();
    let mut listing = Listing::new(directory, &mut buffer)?;
    while let Some(entry) = listing.read() {
        let entry = entry?;
        visit(entry.file_name(), entry.file_type())?;
    }
    Ok(())
}

/// Lists to the end first: some file systems skip entries when others go away meanwhile.
#[cfg(not(target_os = "linux"))]
pub(crate) fn each_removable(
    directory: BorrowedFd<'_>,
    mut visit: impl FnMut(&CStr, FileType) -> rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    let mut buffer = ListingBuffer::default();
    let mut listing = Listing::new(directory, &mut buffer)?;
    let mut entries = Vec::new();
    while let Some(entry) = listing.read() {
        let entry = entry?;
        entries.push((entry.file_name().to_owned(), entry.file_type()));
    }
    entries
        .iter()
        .try_for_each(|(name, file_type)| visit(name, *file_type))
}

/// Makes a file without a name.
#[cfg(target_os = "linux")]
pub(crate) fn memory_file() -> io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};
    Ok(File::from(memfd_create("git", MemfdFlags::CLOEXEC)?))
}

/// It has a name for a moment: one that cannot be guessed, for its owner only, and never that of an existing file.
#[cfg(not(target_os = "linux"))]
pub(crate) fn memory_file() -> io::Result<File> {
    use std::hash::{BuildHasher as _, RandomState};
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let name = format!("/tmp/cto-git-{:016x}", RandomState::new().hash_one(0_u8));
    let file = rustix::fs::open(name.as_str(), flags, Mode::from_raw_mode(0o600))?;
    rustix::fs::unlink(name.as_str())?;
    Ok(File::from(file))
}

/// Waits until something can be read, or the other end is closed; false if that did not happen in time.
pub(crate) fn readable_by(
    descriptor: BorrowedFd<'_>,
    deadline: Instant,
) -> rustix::io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(
            &mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)],
            Some(&timeout),
        ) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(errno) => return Err(errno),
        }
    }
}

/// Waits until a child has ended; false if it had not in time.
#[cfg(target_os = "linux")]
pub(crate) fn ended_by(child: &mut Child, deadline: Instant) -> io::Result<bool> {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::NotFound)?;
    let exit = pidfd_open(pid, PidfdFlags::empty())?;
    Ok(readable_by(exit.as_fd(), deadline)?)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn ended_by(child: &mut Child, deadline: Instant) -> io::Result<bool> {
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(2);
    loop {
        if deadline <= Instant::now() {
            return Ok(false);
        }
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Tells file systems known to move the change time with every write, also through a shared mapping. On others (tmpfs,
/// FUSE, network) a page that was read first can be written through a mapping with no trace in the inode.
#[cfg(target_os = "linux")]
pub(crate) fn keeps_honest_times(root: BorrowedFd<'_>) -> bool {
    const HONEST_FILE_SYSTEMS: [u32; 3] = [0xEF53, 0x5846_5342, 0x9123_683E]; // ext2–4, XFS, btrfs
    // The magic numbers have 32 bits; the type of the field is wider and may be sign-extended.
    rustix::fs::fstatfs(root).is_ok_and(|fs| HONEST_FILE_SYSTEMS.contains(&(fs.f_type as u32)))
}

/// None is known to, so every file is read.
#[cfg(not(target_os = "linux"))]
pub(crate) fn keeps_honest_times(_root: BorrowedFd<'_>) -> bool {
    false
}

/// Makes a file in the file system of `root` that has no name there.
#[cfg(target_os = "linux")]
pub(crate) fn nameless_file(root: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    openat(root, ".", flags, Mode::from_raw_mode(0o600))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn nameless_file(_root: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    Err(Errno::NOSYS)
}

/// Lets `copy` share the blocks of `content`; false means that the bytes must be copied.
#[cfg(target_os = "linux")]
pub(crate) fn clone_blocks(content: &File, copy: &File) -> bool {
    rustix::fs::ioctl_ficlone(copy, content).is_ok()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn clone_blocks(_content: &File, _copy: &File) -> bool {
    false
}

/// What says that a file has no such attribute.
#[cfg(target_os = "linux")]
pub(crate) const NO_ATTRIBUTE: Errno = Errno::NODATA;
#[cfg(not(target_os = "linux"))]
pub(crate) const NO_ATTRIBUTE: Errno = Errno::NOATTR;

/// Numbers in a `stat` differ in width and sign; one that is negative must not become that of a whiteout.
pub(crate) fn wide(number: impl TryInto<u64>) -> u64 {
    number.try_into().unwrap_or(u64::MAX)
}

/// Type and permissions have 16 bits everywhere; their field may be wider.
pub(crate) fn mode_bits(raw: impl Into<u32>) -> u32 {
    raw.into()
}

/// The other way round.
pub(crate) fn raw_mode(bits: u32) -> RawMode {
    bits as RawMode
}

/// Makes the mark that hides a path of the trees below in an overlay. Nobody needs a privilege for this one device.
#[cfg(target_os = "linux")]
pub(crate) fn make_whiteout(root: BorrowedFd<'_>, path: &TreePath) -> io::Result<()> {
    if !path.is_well_formed() {
        return Err(Errno::XDEV.into());
    }
    crate::beneath::with_parent(root, path, |parent, name| {
        rustix::fs::mknodat(parent, name, FileType::CharacterDevice, Mode::empty(), 0)
    })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn make_whiteout(_root: BorrowedFd<'_>, _path: &TreePath) -> io::Result<()> {
    Err(Errno::NOSYS.into())
}
