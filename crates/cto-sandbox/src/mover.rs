//! Renames directories of an overlay: makes a new one, renames the children into it, and removes the old.
//!
//! A directory that lies in a lower layer cannot be renamed without privileges: the kernel says EXDEV, and git and many build
//! tools give up. The recorder hands such a call to this process. It is held exactly as the command is, so that it can do
//! nothing that the command could not do step by step; it works by directory descriptor, and follows no link below the two
//! directories that the call names.

use std::ffi::CString;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, StatxFlags, Timespec, Timestamps,
};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use crate::payload::{self, Image, Restrictions};
use crate::sys;

/// Most files and directories that are moved for one call; a larger tree stays where it is.
const ENTRIES_MAX: usize = 200_000;
const DEPTH_MAX: usize = 256;
/// How often the old directory is emptied again, when somebody fills it meanwhile.
const ROUNDS_MAX: usize = 3;
const PATH_BYTES_MAX: usize = 4096;
/// Both paths and what comes before them.
const REQUEST_BYTES_MAX: usize = 2 * PATH_BYTES_MAX + HEAD_BYTES;
const HEAD_BYTES: usize = 14;
pub(crate) const REPLY_BYTES: usize = 12;
/// What is needed in a directory to empty it.
const EMPTYING: Mode = Mode::RWXU;

/// A call to be done. The directories in which its paths begin come with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) flags: u32,
    pub(crate) old: Vec<u8>,
    pub(crate) new: Vec<u8>,
}

impl Request {
    fn encode(&self) -> Option<Vec<u8>> {
        let length = u16::try_from(self.old.len()).ok()?;
        let mut bytes = self.id.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.flags.to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&self.old);
        bytes.extend_from_slice(&self.new);
        (bytes.len() <= REQUEST_BYTES_MAX).then_some(bytes)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (id, rest) = bytes.split_first_chunk()?;
        let (flags, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (old, new) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        Some(Self {
            id: u64::from_le_bytes(*id),
            flags: u32::from_le_bytes(*flags),
            old: old.to_vec(),
            new: new.to_vec(),
        })
    }

    /// Sends the call. Fails also where it would have to wait.
    pub(crate) fn send(
        &self,
        to: BorrowedFd<'_>,
        folders: [BorrowedFd<'_>; 2],
    ) -> rustix::io::Result<()> {
        let bytes = self.encode().ok_or(Errno::NAMETOOLONG)?;
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut rights = SendAncillaryBuffer::new(&mut room);
        rights.push(SendAncillaryMessage::ScmRights(&folders));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        rustix::net::sendmsg(to, &[IoSlice::new(&bytes)], &mut rights, flags).map(drop)
    }
}

/// What became of a call: 0, or an error number.
pub(crate) struct Reply {
    pub(crate) id: u64,
    pub(crate) errno: i32,
}

impl Reply {
    fn encode(&self) -> [u8; REPLY_BYTES] {
        let mut bytes = [0; REPLY_BYTES];
        bytes[..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8..].copy_from_slice(&self.errno.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (id, errno) = bytes.split_first_chunk()?;
        Some(Self {
            id: u64::from_le_bytes(*id),
            errno: i32::from_le_bytes(errno.try_into().ok()?),
        })
    }
}

/// Serves until the other side is gone. Runs in a child of the init, and returns its exit code.
pub(crate) fn serve(image: &Image, restrictions: &Restrictions, socket: &OwnedFd) -> u8 {
    rustix::thread::set_name(c"cto-mover").ok();
    // What it has inherited is not for a process that the command can reach.
    let ready = payload::restrict_plainly(image, restrictions).is_ok()
        && sys::become_stdin(socket.as_fd()).is_ok()
        && sys::close_all_but(None).is_ok();
    if !ready {
        return 1;
    }
    while let Some((request, [old, new])) = receive(sys::stdin()) {
        let done = rename(&request, old.as_fd(), new.as_fd());
        let reply = Reply {
            id: request.id,
            errno: done.err().map_or(0, Errno::raw_os_error),
        };
        if rustix::net::send(sys::stdin(), &reply.encode(), SendFlags::NOSIGNAL).is_err() {
            break;
        }
    }
    0
}

fn receive(from: BorrowedFd<'_>) -> Option<(Request, [OwnedFd; 2])> {
    let mut bytes = vec![0; REQUEST_BYTES_MAX];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut rights = RecvAncillaryBuffer::new(&mut room);
    let mut data = [IoSliceMut::new(&mut bytes)];
    let received = rustix::net::recvmsg(from, &mut data, &mut rights, RecvFlags::CMSG_CLOEXEC);
    let count = received.ok()?.bytes;
    let mut fds = Vec::new();
    for message in rights.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    let request = Request::decode(bytes.get(..count)?)?;
    Some((request, fds.try_into().ok()?))
}

/// Renames like the kernel does, and by hand where it does not. What cannot be done is undone, and EXDEV again.
fn rename(
    request: &Request,
    old_folder: BorrowedFd<'_>,
    new_folder: BorrowedFd<'_>,
) -> Result<(), Errno> {
    let flags = RenameFlags::from_bits_retain(request.flags);
    let (old, new) = (request.old.as_slice(), request.new.as_slice());
    match rustix::fs::renameat_with(old_folder, old, new_folder, new, flags) {
        Err(Errno::XDEV) if (flags - RenameFlags::NOREPLACE).is_empty() => {}
        done => return done,
    }
    let old = Name::of(old_folder, old)?;
    let new = Name::of(new_folder, new)?;
    if mount(&old.folder)? != mount(&new.folder)? {
        return Err(Errno::XDEV);
    }
    check_target(&new, flags)?;
    Move::begin(old, new)
        .map_err(|_| Errno::XDEV)?
        .finish(flags)
}

fn mount(folder: &OwnedFd) -> Result<u64, Errno> {
    let seen = rustix::fs::statx(folder, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    Ok(seen.stx_mnt_id)
}

/// A directory and a name in it.
struct Name {
    folder: OwnedFd,
    name: CString,
}

impl Name {
    fn of(start: BorrowedFd<'_>, path: &[u8]) -> Result<Self, Errno> {
        let end = path.iter().rposition(|&byte| byte != b'/');
        let path = end.and_then(|end| path.get(..=end)).ok_or(Errno::XDEV)?;
        let (above, name) = match path.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => path.split_at(slash + 1),
            None => (&b"."[..], path),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            folder: rustix::fs::openat(start, above, flags, Mode::empty())?,
            name: CString::new(name).map_err(|_| Errno::XDEV)?,
        })
    }

    fn open(&self) -> Result<OwnedFd, Errno> {
        open_folder(&self.folder, &self.name)
    }

    fn remove(&self) -> Result<(), Errno> {
        rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::REMOVEDIR)
    }
}

fn open_folder(folder: &OwnedFd, name: &CString) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty())
}

/// A directory may take the place of an empty one, if that is not forbidden, and of nothing else.
fn check_target(new: &Name, flags: RenameFlags) -> Result<(), Errno> {
    match new.open() {
        Err(Errno::NOENT) => Ok(()),
        Err(Errno::LOOP | Errno::NOTDIR) if flags.is_empty() => Err(Errno::NOTDIR),
        Ok(_) | Err(_) if !flags.is_empty() => Err(Errno::EXIST),
        Ok(folder) if names(&folder, 1)?.is_empty() => Ok(()),
        Ok(_) => Err(Errno::NOTEMPTY),
        Err(_) => Err(Errno::XDEV),
    }
}

/// What a directory has besides its entries.
#[derive(Clone, Copy)]
struct Look {
    mode: Mode,
    accessed: Timespec,
    modified: Timespec,
}

impl Look {
    fn of(folder: &OwnedFd) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(folder)?;
        let time = |tv_sec: i64, tv_nsec: u64| Timespec {
            tv_sec,
            tv_nsec: i64::try_from(tv_nsec).unwrap_or(0),
        };
        Ok(Self {
            mode: Mode::from_raw_mode(stat.st_mode),
            accessed: time(stat.st_atime, stat.st_atime_nsec),
            modified: time(stat.st_mtime, stat.st_mtime_nsec),
        })
    }

    fn put_on(self, folder: &OwnedFd) -> Result<(), Errno> {
        let times = Timestamps {
            last_access: self.accessed,
            last_modification: self.modified,
        };
        rustix::fs::futimens(folder, &times)?;
        rustix::fs::fchmod(folder, self.mode)
    }
}

/// A directory on its way.
struct Move {
    old: Name,
    new: Name,
    source: OwnedFd,
    look: Look,
    /// Beside the new name, until all is in it.
    stage: Name,
    target: OwnedFd,
}

impl Move {
    fn begin(old: Name, new: Name) -> Result<Self, Errno> {
        let (source, look) = open_to_empty(&old.folder, &old.name)?;
        let name = format!(".cto-rename-{}", std::process::id());
        let stage = Name {
            folder: rustix::io::fcntl_dupfd_cloexec(&new.folder, 3)?,
            name: CString::new(name).map_err(|_| Errno::INVAL)?,
        };
        rustix::fs::mkdirat(&stage.folder, &stage.name, EMPTYING)?;
        let target = stage.open()?;
        Ok(Self {
            old,
            new,
            source,
            look,
            stage,
            target,
        })
    }

    fn finish(self, flags: RenameFlags) -> Result<(), Errno> {
        let mut budget = ENTRIES_MAX;
        let moved = empty(&self.source, &self.target, 0, &mut budget)
            .and_then(|()| self.look.put_on(&self.target))
            .and_then(|()| {
                let (stage, new) = (&self.stage, &self.new);
                rustix::fs::renameat_with(&stage.folder, &stage.name, &new.folder, &new.name, flags)
            });
        if moved.is_err() {
            self.undo();
            return Err(Errno::XDEV);
        }
        // It has its new name. What somebody puts under the old one meanwhile is brought along, or else stays there.
        for _ in 0..ROUNDS_MAX {
            if self.old.remove() != Err(Errno::NOTEMPTY) {
                break;
            }
            if empty(&self.source, &self.target, 0, &mut budget).is_err() {
                break;
            }
        }
        self.look.put_on(&self.target).ok();
        Ok(())
    }

    fn undo(&self) {
        let mut budget = usize::MAX;
        rustix::fs::fchmod(&self.target, EMPTYING).ok();
        empty(&self.target, &self.source, 0, &mut budget).ok();
        self.look.put_on(&self.source).ok();
        self.stage.remove().ok();
    }
}

/// Opens a directory such that it can be emptied, and returns what it looked like.
fn open_to_empty(folder: &OwnedFd, name: &CString) -> Result<(OwnedFd, Look), Errno> {
    let opened = match open_folder(folder, name) {
        Err(Errno::ACCESS) => {
            // Only its owner may do this, and it is a directory: else the kernel had renamed it, or not said EXDEV.
            let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                return Err(Errno::NOTDIR);
            }
            let mode = Mode::from_raw_mode(stat.st_mode);
            rustix::fs::chmodat(folder, name, mode | EMPTYING, AtFlags::empty())?;
            let opened = open_folder(folder, name)?;
            let look = Look::of(&opened)?;
            return Ok((opened, Look { mode, ..look }));
        }
        opened => opened?,
    };
    let look = Look::of(&opened)?;
    if !look.mode.contains(EMPTYING) {
        rustix::fs::fchmod(&opened, look.mode | EMPTYING)?;
    }
    Ok((opened, look))
}

/// Moves everything from one directory into another, in which directories of the same names may be.
fn empty(from: &OwnedFd, to: &OwnedFd, depth: usize, budget: &mut usize) -> Result<(), Errno> {
    if depth > DEPTH_MAX {
        return Err(Errno::XDEV);
    }
    for name in names(from, *budget)? {
        *budget = budget.checked_sub(1).ok_or(Errno::XDEV)?;
        match rustix::fs::renameat(from, &name, to, &name) {
            Ok(()) => {}
            // The kernel wants a directory that gets another parent to be writable; this one only goes along.
            Err(Errno::XDEV | Errno::NOTEMPTY | Errno::EXIST | Errno::ACCESS) => {
                empty_one(from, to, &name, depth, budget)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn empty_one(
    from: &OwnedFd,
    to: &OwnedFd,
    name: &CString,
    depth: usize,
    budget: &mut usize,
) -> Result<(), Errno> {
    let (source, look) = open_to_empty(from, name)?;
    match rustix::fs::mkdirat(to, name, EMPTYING) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    let (target, _) = open_to_empty(to, name)?;
    empty(&source, &target, depth + 1, budget)?;
    look.put_on(&target)?;
    rustix::fs::unlinkat(from, name, AtFlags::REMOVEDIR)
}

/// Returns what is in a directory; more than `most` is too much.
fn names(folder: &OwnedFd, most: usize) -> Result<Vec<CString>, Errno> {
    let mut list = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        list.push(name.to_owned());
        if list.len() > most {
            return Err(Errno::XDEV);
        }
    }
    Ok(list)
}

#[cfg(test)]
mod tests;
