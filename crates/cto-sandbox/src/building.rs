//! Builds a root from nothing and makes it the only one there is.
//!
//! Everything is laid out below a fresh tmpfs while the host's root is still there; then the two change places, and the
//! host's is detached. What was not mounted by then cannot be named any more.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::facts::Applied;
use crate::mounts::{self, by_descriptor, failure};
use crate::request::Access;
use crate::sources::{OverlayParts, Source, Sources, attach, detach_at, open_directory};
use crate::sys::mounting::{Attributes, Reach, set_attributes};
use crate::wire::{Failure, OverlayPolicy, Policy, Raw, RootPolicy, Step, TmpfsPolicy};

/// Directories that some tmpfs can be put over for a moment; nothing below them is looked up after that.
const ROOT_PLACES: [&str; 5] = ["/tmp", "/run", "/var", "/mnt", "/usr"];
const ROOT_OPTIONS: &str = "mode=0755,size=64m,nr_inodes=65536";

/// Parts of `/proc` that speak of the whole machine: to be read only.
const PROC_READ_ONLY: [&str; 6] = ["sys", "sysrq-trigger", "irq", "bus", "fs", "asound"];
/// Parts of `/proc` that tell about the machine or its keys: nothing is there.
const PROC_HIDDEN: [&str; 13] = [
    "acpi",
    "config.gz",
    "driver",
    "kallsyms",
    "kcore",
    "keys",
    "key-users",
    "kmsg",
    "kpagecount",
    "kpageflags",
    "latency_stats",
    "scsi",
    "timer_list",
];
/// Kept above the process numbers that a namespace gives out again only after a full round.
const RESERVED_PIDS: u64 = 302;

/// What the later layers must know about the new root.
#[derive(Debug)]
pub(crate) struct Built {
    /// Places to be read and executed from.
    pub(crate) readable: Vec<Raw>,
    pub(crate) writable: Vec<Raw>,
    pub(crate) files: Vec<Raw>,
    /// Where written bytes lie that the places inside do not show alone.
    pub(crate) upper: Option<OwnedFd>,
}

/// Builds the root of the policy, and enters it.
pub(crate) fn build(
    policy: &Policy,
    root: &RootPolicy,
    sources: Sources,
    own_proc: Applied,
) -> Result<Built, Failure> {
    let at = |path: &Raw| {
        let step = Step::BuildRoot(path.clone());
        move |error: io::Error| failure(step, &error)
    };
    let mut new_root = NewRoot::mount_empty().map_err(at(&Raw::from("/")))?;
    for (place, target) in &root.links {
        new_root.link(place, target).map_err(at(place))?;
    }
    for (place, bytes) in &root.files {
        new_root.write(place, &bytes.0).map_err(at(place))?;
    }
    let dev = Raw::from("/dev");
    new_root
        .devices(&sources, root.shm_bytes)
        .map_err(at(&dev))?;
    let proc = Raw::from("/proc");
    new_root.proc(own_proc, policy).map_err(at(&proc))?;
    let mut upper = None;
    for entry in entries(policy, root, &sources) {
        let place = entry.at();
        let step = match &entry {
            Entry::Overlay(..) => Step::MountOverlay(place.clone()),
            Entry::Shown(_) => Step::Bind(place.clone()),
            Entry::Tmpfs(_) => Step::BuildRoot(place.clone()),
        };
        let done = match entry {
            Entry::Tmpfs(tmpfs) => new_root.tmpfs(tmpfs),
            Entry::Shown(source) => new_root.show(source),
            Entry::Overlay(overlay, parts) => new_root
                .overlay(overlay, parts)
                .map(|directory| upper = Some(directory)),
        };
        done.map_err(|error| failure(step, &error))?;
    }
    drop(sources.overlay);
    let is = |access| move |source: &&Source| source.access == access;
    let places = |access| {
        let list = sources.shown.iter().filter(is(access));
        list.map(|source| source.at.clone()).collect::<Vec<_>>()
    };
    let mut writable = places(Access::Writable);
    writable.extend(root.tmpfs.iter().map(|tmpfs| tmpfs.at.clone()));
    writable.extend(policy.overlay.iter().map(|overlay| overlay.at.clone()));
    let built = Built {
        readable: places(Access::ReadOnly),
        writable,
        files: root.files.iter().map(|(place, _)| place.clone()).collect(),
        upper,
    };
    new_root
        .enter()
        .map_err(|error| failure(Step::EnterRoot, &error))?;
    Ok(built)
}

enum Entry<'a> {
    Tmpfs(&'a TmpfsPolicy),
    Overlay(&'a OverlayPolicy, &'a OverlayParts),
    Shown(&'a Source),
}

impl Entry<'_> {
    fn at(&self) -> Raw {
        match self {
            Self::Tmpfs(tmpfs) => tmpfs.at.clone(),
            Self::Overlay(overlay, _) => overlay.at.clone(),
            Self::Shown(source) => source.at.clone(),
        }
    }
}

/// Returns all mounts, each after those that it lies in.
fn entries<'a>(policy: &'a Policy, root: &'a RootPolicy, sources: &'a Sources) -> Vec<Entry<'a>> {
    let tmpfs = root.tmpfs.iter().map(Entry::Tmpfs);
    let overlay = policy.overlay.iter().zip(&sources.overlay);
    let overlay = overlay.map(|(overlay, parts)| Entry::Overlay(overlay, parts));
    let shown = sources.shown.iter().map(Entry::Shown);
    let mut list: Vec<_> = tmpfs.chain(overlay).chain(shown).collect();
    list.sort_by_cached_key(|entry| entry.at().path().to_path_buf());
    list
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Directory,
    File,
}

/// The tmpfs that becomes the root.
struct NewRoot {
    base: OwnedFd,
    /// File systems made here: the only ones in which a missing mount point may be made.
    own: Vec<u64>,
}

impl NewRoot {
    fn mount_empty() -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        let options = CString::new(ROOT_OPTIONS)?;
        for place in ROOT_PLACES {
            let flags = MountFlags::NOSUID | MountFlags::NODEV;
            match rustix::mount::mount(c"root", place, c"tmpfs", flags, options.as_c_str()) {
                Ok(()) => {
                    let base = open_directory(Path::new(place))?;
                    let own = vec![rustix::fs::fstat(&base)?.st_dev];
                    return Ok(Self { base, own });
                }
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    }

    /// Opens a place, making what is missing of it where it is ours. No link is followed.
    fn point(&self, at: &Path, kind: Kind) -> io::Result<OwnedFd> {
        let inside = at.strip_prefix("/").unwrap_or(at);
        let whole = match inside.as_os_str().is_empty() {
            true => Path::new("."),
            false => inside,
        };
        // The kernel walks faster than we do, and most of a place is there already.
        let opened = match open_strictly(&self.base, whole) {
            Err(Errno::NOENT) => self.point_made(inside, kind)?,
            opened => opened?,
        };
        let found = FileType::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode);
        match (found, kind) {
            (FileType::Symlink, _) => Err(Errno::LOOP.into()),
            (FileType::Directory, Kind::File) => Err(Errno::ISDIR.into()),
            (FileType::Directory, Kind::Directory) => Ok(opened),
            (_, Kind::Directory) => Err(Errno::NOTDIR.into()),
            (_, Kind::File) => Ok(opened),
        }
    }

    /// Makes a place, and before it what it lies in.
    fn point_made(&self, inside: &Path, kind: Kind) -> io::Result<OwnedFd> {
        let (Some(above), Some(name)) = (inside.parent(), inside.file_name()) else {
            return Err(Errno::NOENT.into());
        };
        let folder = self.point(above, Kind::Directory)?;
        self.make(&folder, name.as_bytes(), kind)?;
        Ok(open_strictly(&folder, Path::new(name))?)
    }

    fn make(&self, folder: &OwnedFd, name: &[u8], kind: Kind) -> io::Result<()> {
        let device = rustix::fs::fstat(folder)?.st_dev;
        if !self.own.contains(&device) {
            return Err(Errno::NOENT.into());
        }
        match kind {
            Kind::Directory => rustix::fs::mkdirat(folder, name, Mode::from_raw_mode(0o755))?,
            Kind::File => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o644))?;
            }
        }
        Ok(())
    }

    /// Opens the directory above a place and returns it with the last name.
    fn above<'a>(&self, place: &'a Raw) -> io::Result<(OwnedFd, &'a [u8])> {
        let path = place.path();
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::INVAL.into());
        };
        Ok((self.point(above, Kind::Directory)?, name.as_bytes()))
    }

    fn link(&self, place: &Raw, target: &Raw) -> io::Result<()> {
        let (folder, name) = self.above(place)?;
        Ok(rustix::fs::symlinkat(target.path(), &folder, name)?)
    }

    fn write(&self, place: &Raw, bytes: &[u8]) -> io::Result<()> {
        let (folder, name) = self.above(place)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, name, flags, Mode::from_raw_mode(0o644))?;
        io::Write::write_all(&mut std::fs::File::from(file), bytes)
    }

    fn mount(&self, kind: &str, at: &Path, flags: MountFlags, options: &str) -> io::Result<()> {
        let point = self.point(at, Kind::Directory)?;
        let options = CString::new(options)?;
        let flags = flags | MountFlags::NOSUID;
        let at = by_descriptor(&point);
        Ok(rustix::mount::mount(
            kind,
            at.as_str(),
            kind,
            flags,
            options.as_c_str(),
        )?)
    }

    fn tmpfs(&mut self, tmpfs: &TmpfsPolicy) -> io::Result<()> {
        let (bytes, files) = (tmpfs.bytes, tmpfs.files);
        let options = format!("mode=1777,size={bytes},nr_inodes={files}");
        self.mount("tmpfs", tmpfs.at.path(), MountFlags::NODEV, &options)?;
        let made = self.point(tmpfs.at.path(), Kind::Directory)?;
        self.own.push(rustix::fs::fstat(&made)?.st_dev);
        Ok(())
    }

    fn show(&self, source: &Source) -> io::Result<()> {
        let kind = match source.is_directory {
            true => Kind::Directory,
            false => Kind::File,
        };
        let point = self.point(source.at.path(), kind)?;
        attach(source.tree.as_fd(), point.as_fd())
    }

    fn devices(&self, sources: &Sources, shm_bytes: u64) -> io::Result<()> {
        let dev = Path::new("/dev");
        for (name, tree) in &sources.devices {
            let point = self.point(&dev.join(name), Kind::File)?;
            attach(tree.as_fd(), point.as_fd())?;
        }
        for (name, target) in [
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
            ("ptmx", "pts/ptmx"),
        ] {
            self.link(&Raw::from(&dev.join(name)), &Raw::from(target))?;
        }
        let pts = "newinstance,ptmxmode=0666,mode=0600";
        self.mount("devpts", &dev.join("pts"), MountFlags::NOEXEC, pts)?;
        let shm = format!("mode=1777,size={shm_bytes},nr_inodes=65536");
        let flags = MountFlags::NODEV | MountFlags::NOEXEC;
        self.mount("tmpfs", &dev.join("shm"), flags, &shm)
    }

    /// Moves the own `/proc` inside; without one, the place stays empty: the host's would show the host.
    fn proc(&self, own: Applied, policy: &Policy) -> io::Result<()> {
        let proc = Path::new("/proc");
        let point = self.point(proc, Kind::Directory)?;
        if own != Applied::Yes {
            return Ok(());
        }
        if let Some(processes) = policy.limits.processes {
            bound_process_numbers(processes);
        }
        attach(
            detach_at(rustix::fs::CWD, proc, Reach::One)?.as_fd(),
            point.as_fd(),
        )?;
        let inside = self.point(proc, Kind::Directory)?;
        for name in PROC_READ_ONLY {
            match detach_at(inside.as_fd(), name, Reach::One) {
                Ok(tree) => {
                    freeze(&tree)?;
                    attach(tree.as_fd(), open_below(&inside, name)?.as_fd())?;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let null = self.point(Path::new("/dev/null"), Kind::File)?;
        for name in PROC_HIDDEN {
            match open_below(&inside, name) {
                Ok(point) => hide(&point, &null)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Mounts the overlay and returns its upper directory.
    fn overlay(&self, overlay: &OverlayPolicy, parts: &OverlayParts) -> io::Result<OwnedFd> {
        let point = self.point(overlay.at.path(), Kind::Directory)?;
        let target = CString::new(by_descriptor(&point))?;
        let Some(staged) = &parts.staged else {
            mounts::mount_overlay_at(&target, &parts.lowers, &parts.upper, &parts.work)?;
            return Ok(rustix::io::fcntl_dupfd_cloexec(&parts.upper, 3)?);
        };
        // The kernel takes only attached mounts as parts of an overlay.
        let stage = Path::new("/.stage");
        let mut lowers = Vec::new();
        for (index, tree) in parts.lowers.iter().enumerate() {
            lowers.push(self.attach_for_now(tree, &stage.join(format!("lower{index}")))?);
        }
        let above = self.attach_for_now(&staged.tree, &stage.join("above"))?;
        let upper = same(open_below(&above, staged.upper.path())?, &parts.upper)?;
        let work = same(open_below(&above, staged.work.path())?, &parts.work)?;
        mounts::mount_overlay_at(&target, &lowers, &upper, &work)?;
        for mount in lowers.iter().chain([&above]) {
            rustix::mount::unmount(by_descriptor(mount).as_str(), UnmountFlags::DETACH)?;
        }
        Ok(upper)
    }

    fn attach_for_now(&self, tree: &OwnedFd, at: &Path) -> io::Result<OwnedFd> {
        attach(tree.as_fd(), self.point(at, Kind::Directory)?.as_fd())?;
        self.point(at, Kind::Directory)
    }

    /// Makes this the root, detaches the old one, and lets nobody write in what is left of the tmpfs.
    fn enter(self) -> io::Result<()> {
        self.remove_stage()?;
        rustix::process::fchdir(&self.base)?;
        rustix::process::pivot_root(c".", c".")?;
        rustix::mount::unmount(c".", UnmountFlags::DETACH)?;
        rustix::process::chdir(c"/")?;
        freeze(&open_directory(Path::new("/"))?)
    }

    fn remove_stage(&self) -> io::Result<()> {
        let gone = rustix::fs::AtFlags::REMOVEDIR;
        let Ok(stage) = open_below(&self.base, ".stage") else {
            return Ok(());
        };
        let list = std::fs::read_dir(by_descriptor(&stage))?;
        for entry in list {
            rustix::fs::unlinkat(&stage, entry?.file_name(), gone)?;
        }
        Ok(rustix::fs::unlinkat(&self.base, ".stage", gone)?)
    }
}

fn freeze(mount: &OwnedFd) -> io::Result<()> {
    let change = Attributes {
        set: libc::MOUNT_ATTR_RDONLY,
        owners: None,
        reach: Reach::One,
    };
    set_attributes(mount.as_fd(), change)
}

/// Lays nothing over a place: an empty directory, or what nobody can read from.
fn hide(point: &OwnedFd, null: &OwnedFd) -> io::Result<()> {
    let found = FileType::from_raw_mode(rustix::fs::fstat(point)?.st_mode);
    if found == FileType::Directory {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::RDONLY;
        let options = c"mode=0555,size=4k,nr_inodes=1";
        let at = by_descriptor(point);
        rustix::mount::mount(c"tmpfs", at.as_str(), c"tmpfs", flags, options)?;
        return Ok(());
    }
    let tree = detach_at(null.as_fd(), c"", Reach::One)?;
    freeze(&tree)?;
    attach(tree.as_fd(), point.as_fd())
}

/// Opens what lies below, through no link, neither at its end nor on the way.
fn open_strictly(folder: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::BENEATH;
    rustix::fs::openat2(folder, path, flags, Mode::empty(), resolve)
}

fn open_below(folder: &OwnedFd, name: impl AsRef<Path>) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let name = name.as_ref();
    Ok(rustix::fs::openat(folder, name, flags, Mode::empty())?)
}

/// Returns `seen` if it is the directory that was meant.
fn same(seen: OwnedFd, meant: &OwnedFd) -> io::Result<OwnedFd> {
    let (a, b) = (rustix::fs::fstat(&seen)?, rustix::fs::fstat(meant)?);
    match (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino) {
        true => Ok(seen),
        false => Err(Errno::XDEV.into()),
    }
}

/// The first kernel that bounds process numbers for each namespace.
const OWN_PID_MAX: (u32, u32) = (6, 14);

/// Bounds the process numbers of the namespace, which binds uid 0 too.
fn bound_process_numbers(processes: u64) {
    // Before, this would be the bound of the whole machine, and root may write it.
    if kernel_version() < Some(OWN_PID_MAX) {
        return;
    }
    let text = processes.saturating_add(RESERVED_PIDS).to_string();
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::open(c"/proc/sys/kernel/pid_max", flags, Mode::empty()) {
        rustix::io::write(&file, text.as_bytes()).ok();
    }
}

fn kernel_version() -> Option<(u32, u32)> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    parse_version(&release)
}

fn parse_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next()?.parse().ok()?;
    Some((major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_kernel_is_taken_for_an_old_one() {
        let is_new = |release: &str| parse_version(release) >= Some(OWN_PID_MAX);
        let releases = [
            "6.14.0-1-amd64",
            "6.18",
            "7.0-rc1",
            "6.13.9",
            "5.99",
            "x",
            "6",
            "",
        ];
        assert_eq!(
            releases.map(is_new),
            [true, true, true, false, false, false, false, false]
        );
    }
}
