//! Tries the finished sandbox from within, in the very process that becomes the command, just before it does.

use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::building::Built;
use crate::proof::{Canary, CanaryAct, Expected, InsideProof, MOUNTS_BYTES_MAX};
use crate::request::Network;
use crate::sys;
use crate::wire::{Policy, Raw, RootPolicy};

/// Most paths that are tried, so that a request with many binds does not start slowly.
const PATHS_MAX: usize = 12;
/// An address of documentation: nobody has it, and only a host with a way out would try to reach it.
const NOBODY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 9);

/// What to try, made before the fork.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Paths of the host that must not exist inside.
    outside: Vec<PathBuf>,
    /// Where nothing may be created.
    frozen: Vec<PathBuf>,
    /// Where something must be writable.
    control: PathBuf,
    network: Network,
    mounts: MountTable,
}

/// Whose mounts a process sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MountTable {
    /// Those of the root that was built.
    Own,
    /// The host's, which prove nothing and are nobody's business.
    Hosts,
}

impl Plan {
    pub(crate) fn of(
        policy: &Policy,
        root: &RootPolicy,
        built: &Built,
        mounts: MountTable,
    ) -> Self {
        let overlay = policy.overlay.iter();
        let overlay = overlay.flat_map(|o| o.lowers.iter().chain([&o.upper, &o.work]));
        let sources = policy.binds.iter().map(|bind| &bind.from);
        let shown = root.read_only.iter().map(|(from, _)| from);
        let fixed = ["/etc/shadow", "/root", "/home", "/var/run", "/sys/kernel"].map(Raw::from);
        let empty: Vec<&Path> = root.tmpfs.iter().map(|tmpfs| tmpfs.at.path()).collect();
        let links = root.links.iter().map(|(at, _)| at);
        let all = built.readable.iter().chain(&built.writable);
        let places: Vec<&Path> = all
            .chain(&built.files)
            .chain(links)
            .map(Raw::path)
            .collect();
        // What lies above a place exists as well; what lies below one does unless the place begins empty.
        let is_inside = |path: &Path| {
            let below = |at: &Path| path.starts_with(at) && (!empty.contains(&at) || path == at);
            places.iter().any(|at| below(at) || at.starts_with(path))
        };
        let mut outside: Vec<PathBuf> = overlay
            .chain(sources)
            .chain(&fixed)
            .chain(shown)
            .map(|path| path.path().to_path_buf())
            .filter(|path| !is_inside(path))
            .take(PATHS_MAX)
            .collect();
        outside.push(PathBuf::from("/proc/1/root"));
        let folder = built.readable.iter().find(|at| at.path().is_dir());
        let frozen = [Path::new("/")].into_iter().chain(folder.map(Raw::path));
        let home = built.writable.iter().map(Raw::path);
        let mut home = home.filter(|at| policy.cwd.path().starts_with(at) && at.is_dir());
        Self {
            outside,
            frozen: frozen.map(|folder| folder.join("cto-canary")).collect(),
            control: home.next().unwrap_or(Path::new("/dev/shm")).to_path_buf(),
            network: policy.network,
            mounts,
        }
    }
}

/// Tries what mounts, network and Landlock decide; in the weak mode, the filter too.
pub(crate) fn try_places(plan: &Plan) -> InsideProof {
    let (mounts, mounts_cut) = match plan.mounts {
        MountTable::Own => mounts(),
        MountTable::Hosts => (Vec::new(), false),
    };
    InsideProof {
        mounts,
        mounts_cut,
        canaries: places(plan),
    }
}

/// Tries what the filter decides, once it is on.
pub(crate) fn try_filter() -> Canary {
    let seen = sys::unshare(libc::CLONE_NEWUSER);
    Canary {
        act: CanaryAct::Unshare,
        target: "user namespace".to_owned(),
        expected: Expected::Refused,
        errno: seen
            .err()
            .map(|error| error.raw_os_error().unwrap_or(libc::EIO)),
    }
}

fn mounts() -> (Vec<String>, bool) {
    let mut table = Vec::with_capacity(MOUNTS_BYTES_MAX);
    if let Ok(mut file) = File::open("/proc/self/mountinfo") {
        file.read_to_end(&mut table).ok();
    }
    let mut lines: Vec<String> = Vec::new();
    let mut bytes = 0;
    for line in String::from_utf8_lossy(&table).lines() {
        bytes += line.len();
        if bytes > MOUNTS_BYTES_MAX {
            return (lines, true);
        }
        lines.push(line.to_owned());
    }
    (lines, false)
}

fn places(plan: &Plan) -> Vec<Canary> {
    let mut list = Vec::new();
    let mut tried = |act, target: String, expected, result: rustix::io::Result<()>| {
        list.push(Canary {
            act,
            target,
            expected,
            errno: result.err().map(Errno::raw_os_error),
        });
    };
    let shown = |path: &Path| path.display().to_string();
    for path in &plan.outside {
        let seen = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        tried(
            CanaryAct::Read,
            shown(path),
            Expected::Refused,
            seen.map(drop),
        );
    }
    for path in &plan.frozen {
        let made = create(path);
        if made.is_ok() {
            rustix::fs::unlink(path).ok();
        }
        tried(CanaryAct::Create, shown(path), Expected::Refused, made);
    }
    match plan.network {
        Network::None => {
            let seen = sys::connect_now(NOBODY);
            tried(
                CanaryAct::Connect,
                NOBODY.to_string(),
                Expected::Refused,
                seen,
            );
        }
        Network::Host => {}
    }
    let control = write_in(&plan.control);
    tried(
        CanaryAct::Write,
        shown(&plan.control),
        Expected::Allowed,
        control,
    );
    list
}

fn create(path: &Path) -> rustix::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map(drop)
}

/// Writes a file without a name, so that not even the time of the directory changes; where that cannot be, one with a name.
fn write_in(folder: &Path) -> rustix::io::Result<()> {
    let mode = Mode::RUSR | Mode::WUSR;
    let nameless = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    let file = match rustix::fs::open(folder, nameless, mode) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
            let path = folder.join(format!(".cto-canary-{}", std::process::id()));
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = rustix::fs::open(&path, flags, mode)?;
            rustix::fs::unlink(&path)?;
            file
        }
        opened => opened?,
    };
    rustix::io::write(&file, b"canary").map(drop)
}
