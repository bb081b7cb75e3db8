//! Where a path of another process leads, and whether anything can be written there.
//!
//! The launcher stands in the same root as the command, but has the `/proc` of the host in hand: so the kernel itself walks
//! a path from the directory of any process inside, through its links, in a single call. That walk is repeated by the kernel
//! when the call goes on, and may end elsewhere by then.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags};

use crate::request::Access;
use crate::wire::Policy;

/// Links in a row that are followed by hand, because they lead to nothing yet.
const LINKS_MAX: usize = 8;
const PATH_BYTES_MAX: usize = 4096;
const INIT: &[u8] = b"/proc/1/";

/// A path of a thread: absolute, or from a directory that it has open, or from its working directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) thread: u32,
    pub(super) folder: Option<i32>,
    pub(super) path: &'a [u8],
}

/// Whether something at a place can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Inside,
    Outside,
    /// Nothing could be seen, not even the directory in which the path begins.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    mount: u64,
    kind: FileType,
    names: u32,
}

/// What of a place is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Writing to a file: devices, pipes and sockets are no places.
    Write,
    /// Changing a file's attributes.
    Change,
}

#[derive(Debug)]
pub(super) struct Places {
    /// The host's, in which every process inside has its entry.
    proc: OwnedFd,
    host_proc: u64,
    inner_proc: Option<u64>,
    writable: Vec<u64>,
    overlay: Option<u64>,
}

impl Places {
    /// Looks at the root that this process has entered.
    pub(super) fn of(policy: &Policy, proc: OwnedFd) -> io::Result<Self> {
        let mount = |folder: BorrowedFd<'_>, path: &[u8]| see(folder, path, AtFlags::empty());
        let host_proc = mount(proc.as_fd(), b".\0")?.mount;
        let inner_proc = mount(CWD, b"/proc\0").ok().map(|seen| seen.mount);
        let binds = policy.binds.iter();
        let binds = binds.filter(|bind| bind.access == Access::Writable);
        let tmpfs = policy.root.iter().flat_map(|root| &root.tmpfs);
        let list = binds
            .map(|bind| &bind.at)
            .chain(tmpfs.map(|tmpfs| &tmpfs.at))
            .chain(policy.overlay.iter().map(|overlay| &overlay.at));
        let mut writable = Vec::new();
        for place in list {
            writable.push(mount(CWD, place.c_string()?.as_bytes_with_nul())?.mount);
        }
        for own in [&b"/dev/shm\0"[..], b"/dev/pts\0"] {
            writable.extend(mount(CWD, own).map(|seen| seen.mount));
        }
        let overlay = policy.overlay.as_ref().map(|overlay| overlay.at.c_string());
        let overlay = match overlay {
            Some(at) => Some(mount(CWD, at?.as_bytes_with_nul())?.mount),
            None => None,
        };
        Ok(Self {
            proc,
            host_proc,
            inner_proc,
            writable,
            overlay,
        })
    }

    pub(super) fn proc(&self) -> BorrowedFd<'_> {
        self.proc.as_fd()
    }

    /// Returns where a file lies, or where it would.
    pub(super) fn file(&self, place: Place<'_>, wanted: Use, links: AtFlags) -> Reach {
        let mut spelled = Spelled::of(place);
        match self.see(&spelled, links) {
            Ok(seen) => match self.is_inside(seen, wanted, place.path) {
                true => Reach::Inside,
                false => Reach::Outside,
            },
            Err(_) => self.above(&mut spelled),
        }
    }

    /// Returns where the directory of a name lies.
    pub(super) fn entry(&self, place: Place<'_>) -> Reach {
        let mut spelled = Spelled::of(place);
        // A name that is none, such as `..`, stands for the directory itself.
        if spelled.has_name() && !spelled.shorten() {
            return Reach::Unknown;
        }
        match self.see(&spelled, AtFlags::empty()) {
            Ok(seen) if self.writable.contains(&seen.mount) => Reach::Inside,
            Ok(_) => Reach::Outside,
            Err(_) => self.above(&mut spelled),
        }
    }

    /// Returns where an open file lies.
    pub(super) fn opened(&self, place: Place<'_>) -> Reach {
        match self.see(&Spelled::of(place), AtFlags::empty()) {
            Ok(seen) if is_special(seen.kind) => Reach::Inside,
            Ok(seen) if self.is_inside(seen, Use::Change, b"") => Reach::Inside,
            Ok(_) => Reach::Outside,
            // No such descriptor: the call will fail by itself.
            Err(_) => Reach::Inside,
        }
    }

    /// Returns whether a directory of the overlay is there, which the kernel may not rename. One that is named through the
    /// caller's own entry of `/proc` is left to it: it would be somebody else's for who renames.
    pub(super) fn is_overlaid(&self, place: Place<'_>) -> bool {
        self.overlay.is_some()
            && own_entry(place.path).is_none()
            && self
                .see(&Spelled::of(place), AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|seen| {
                    seen.kind == FileType::Directory && Some(seen.mount) == self.overlay
                })
    }

    /// Opens the directory in which a path of a thread begins.
    pub(super) fn open_folder(&self, thread: u32, folder: Option<i32>) -> Option<OwnedFd> {
        let name = match folder {
            Some(folder) => format!("{thread}/fd/{folder}"),
            None => format!("{thread}/cwd"),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.proc, name, flags, Mode::empty()).ok()
    }

    pub(super) fn exists(&self, place: Place<'_>) -> bool {
        self.see(&Spelled::of(place), AtFlags::empty()).is_ok()
    }

    /// Returns a path as somebody inside would write it in full; no link is followed.
    pub(super) fn spell(&self, place: Place<'_>) -> Vec<u8> {
        if place.path.starts_with(b"/") {
            return place.path.to_vec();
        }
        let thread = place.thread;
        let link = match place.folder {
            Some(folder) => format!("{thread}/fd/{folder}"),
            None => format!("{thread}/cwd"),
        };
        let folder = rustix::fs::readlinkat(&self.proc, link, Vec::new());
        let mut path = folder.map_or_else(|_| b"?".to_vec(), std::ffi::CString::into_bytes);
        if !place.path.is_empty() {
            if !path.ends_with(b"/") {
                path.push(b'/');
            }
            path.extend_from_slice(place.path);
        }
        path
    }

    /// Returns the full path of a file inside, with all links followed.
    pub(super) fn resolve(&self, place: Place<'_>) -> Option<Vec<u8>> {
        let spelled = Spelled::of(place);
        let (folder, path) = self.start(&spelled);
        let path = CStr::from_bytes_with_nul(path).ok()?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let file = rustix::fs::openat(folder, path, flags, Mode::empty()).ok()?;
        let name = format!("self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let path = rustix::fs::readlinkat(&self.proc, name, Vec::new()).ok()?;
        Some(path.into_bytes())
    }

    /// Judges something that is not there by the nearest thing above it that is.
    fn above(&self, spelled: &mut Spelled) -> Reach {
        let mut followed = 0;
        loop {
            if followed < LINKS_MAX && self.follow(spelled) {
                followed += 1;
            } else if !spelled.shorten() {
                return Reach::Unknown;
            }
            match self.see(spelled, AtFlags::empty()) {
                Ok(seen) if self.writable.contains(&seen.mount) => return Reach::Inside,
                Ok(_) => return Reach::Outside,
                Err(_) => {}
            }
        }
    }

    /// Replaces a link that leads to nothing by what it says.
    fn follow(&self, spelled: &mut Spelled) -> bool {
        let (folder, path) = self.start(spelled);
        let Ok(path) = CStr::from_bytes_with_nul(path) else {
            return false;
        };
        match rustix::fs::readlinkat(folder, path, Vec::new()) {
            Ok(target) => spelled.lead_to(target.as_bytes()),
            Err(_) => false,
        }
    }

    fn is_inside(&self, seen: Seen, wanted: Use, path: &[u8]) -> bool {
        let special = wanted == Use::Write && is_special(seen.kind);
        // A file without a name, in memory or removed, is no place of anybody's.
        let nameless = seen.kind == FileType::RegularFile && seen.names == 0;
        let own_process = seen.mount == self.host_proc
            || (Some(seen.mount) == self.inner_proc && !path.starts_with(INIT));
        special || nameless || own_process || self.writable.contains(&seen.mount)
    }

    fn see(&self, spelled: &Spelled, links: AtFlags) -> rustix::io::Result<Seen> {
        let (folder, path) = self.start(spelled);
        see(folder, path, links)
    }

    fn start<'a>(&'a self, spelled: &'a Spelled) -> (BorrowedFd<'a>, &'a [u8]) {
        let folder = match spelled.from_proc {
            true => self.proc.as_fd(),
            false => CWD,
        };
        (folder, &spelled.bytes)
    }
}

fn is_special(kind: FileType) -> bool {
    !matches!(kind, FileType::RegularFile | FileType::Directory)
}

fn see(folder: BorrowedFd<'_>, path: &[u8], links: AtFlags) -> rustix::io::Result<Seen> {
    let path = CStr::from_bytes_with_nul(path).map_err(|_| rustix::io::Errno::INVAL)?;
    let wanted = StatxFlags::TYPE | StatxFlags::NLINK | StatxFlags::MNT_ID;
    let seen = rustix::fs::statx(folder, path, links | AtFlags::STATX_DONT_SYNC, wanted)?;
    Ok(Seen {
        mount: seen.stx_mnt_id,
        kind: FileType::from_raw_mode(u32::from(seen.stx_mode)),
        names: seen.stx_nlink,
    })
}

/// A path as the launcher must spell it to have it walked from the process's own directory. Ends with NUL.
#[derive(Debug)]
struct Spelled {
    bytes: Vec<u8>,
    from_proc: bool,
    /// Shorter than this it is no path of the process any more.
    least: usize,
}

impl Spelled {
    fn of(place: Place<'_>) -> Self {
        let Place {
            thread,
            folder,
            path,
        } = place;
        // These name whoever looks, so they must be spelled out.
        let own = own_entry(path).map(|rest| (thread.to_string(), rest));
        let (start, rest) = match (own, path.first(), folder) {
            (Some((start, rest)), _, _) => (start, rest),
            (None, Some(b'/'), _) => {
                let bytes = [path, b"\0"].concat();
                return Self {
                    bytes,
                    from_proc: false,
                    least: 2,
                };
            }
            (None, _, Some(folder)) => (format!("{thread}/fd/{folder}"), path.to_vec()),
            (None, _, None) => (format!("{thread}/cwd"), path.to_vec()),
        };
        let mut bytes = start.into_bytes();
        let least = bytes.len() + 1;
        if !rest.is_empty() {
            bytes.push(b'/');
            bytes.extend_from_slice(&rest);
        }
        bytes.push(0);
        Self {
            bytes,
            from_proc: true,
            least,
        }
    }

    fn text(&self) -> &[u8] {
        self.bytes.strip_suffix(&[0]).unwrap_or(&self.bytes)
    }

    /// Returns where the last name begins, and where it ends.
    fn last_name(&self) -> (usize, usize) {
        let text = self.text();
        let end = text.iter().rposition(|&byte| byte != b'/');
        let end = end.map_or(0, |last| last + 1);
        let start = text[..end].iter().rposition(|&byte| byte == b'/');
        (start.map_or(0, |slash| slash + 1), end)
    }

    fn has_name(&self) -> bool {
        let (start, end) = self.last_name();
        let name = self.bytes.get(start..end).unwrap_or_default();
        self.bytes.len() > self.least && !matches!(name, b"" | b"." | b"..")
    }

    /// Takes the last name away. `false`: nothing of the path is left.
    fn shorten(&mut self) -> bool {
        let (start, end) = self.last_name();
        if end == 0 || self.bytes.len() <= self.least {
            return false;
        }
        let least = self.least - 1;
        self.bytes.truncate(start.max(least));
        while self.bytes.len() > least && self.bytes.ends_with(b"/") {
            self.bytes.pop();
        }
        self.bytes.push(0);
        true
    }

    /// Puts what a link says in the place of the last name.
    fn lead_to(&mut self, target: &[u8]) -> bool {
        let (start, _) = self.last_name();
        if target.first() == Some(&b'/') {
            self.bytes.clear();
            (self.from_proc, self.least) = (false, 2);
        } else {
            self.bytes.truncate(start);
        }
        self.bytes.extend_from_slice(target);
        self.bytes.push(0);
        self.bytes.len() <= PATH_BYTES_MAX
    }
}

/// Returns what follows the caller's own entry of `/proc`, for the names that lead there.
fn own_entry(path: &[u8]) -> Option<Vec<u8>> {
    let fd = |number: &[u8]| Some([b"fd/", number].concat());
    match path {
        b"/dev/stdin" => return fd(b"0"),
        b"/dev/stdout" => return fd(b"1"),
        b"/dev/stderr" => return fd(b"2"),
        _ => {}
    }
    if let Some(number) = path.strip_prefix(b"/dev/fd/") {
        return fd(number);
    }
    let starts: [&[u8]; 2] = [b"/proc/self/", b"/proc/thread-self/"];
    let rest = starts.iter().find_map(|start| path.strip_prefix(*start));
    rest.map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spelled(folder: Option<i32>, path: &[u8]) -> Spelled {
        Spelled::of(Place {
            thread: 7,
            folder,
            path,
        })
    }

    fn shown(spelled: &Spelled) -> String {
        String::from_utf8_lossy(spelled.text()).into_owned()
    }

    /// Returns the path and all that is above it.
    fn chain(folder: Option<i32>, path: &str) -> String {
        let mut spelled = spelled(folder, path.as_bytes());
        let mut all = vec![shown(&spelled)];
        while spelled.shorten() {
            all.push(shown(&spelled));
        }
        all.join(" ")
    }

    #[test]
    fn a_path_is_walked_up_to_where_the_process_stands_and_no_further() {
        assert_eq!(chain(None, "a/b"), "7/cwd/a/b 7/cwd/a 7/cwd");
        assert_eq!(chain(Some(4), "a"), "7/fd/4/a 7/fd/4");
        assert_eq!(chain(None, "/x/y"), "/x/y /x /");
        assert_eq!(chain(None, "/"), "/");
        assert_eq!(chain(None, ""), "7/cwd");
        assert_eq!(chain(None, "a//"), "7/cwd/a// 7/cwd");
        assert_eq!(chain(None, "/proc/self/root/x"), "7/root/x 7/root 7");
        assert_eq!(chain(Some(4), "/dev/stdout"), "7/fd/1 7/fd 7");
    }

    #[test]
    fn a_link_leads_from_where_it_stands() {
        let lead = |path: &[u8], target: &[u8]| {
            let mut spelled = spelled(None, path);
            spelled.lead_to(target);
            shown(&spelled)
        };
        assert_eq!(lead(b"a/link", b"b/c"), "7/cwd/a/b/c");
        assert_eq!(lead(b"a/link/", b"/usr/x"), "/usr/x");
        assert_eq!(lead(b"/a/link", b"../x"), "/a/../x");
    }

    proptest! {
        #[test]
        fn any_path_can_be_walked_up(path in proptest::collection::vec(1_u8.., 0..60), folder in proptest::option::of(any::<i32>())) {
            let mut spelled = spelled(folder, &path);
            let mut steps = 0;
            spelled.has_name();
            while spelled.shorten() {
                steps += 1;
                prop_assert!(steps <= 70 && spelled.bytes.ends_with(&[0]));
            }
        }
    }
}
