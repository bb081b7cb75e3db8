//! Tries the finished sandbox from within, in a process that is held exactly as the command will be.

use std::io::{self, PipeWriter, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::WaitOptions;
use serde::{Deserialize, Serialize};

use crate::building::Built;
use crate::facts::Applied;
use crate::mounts::failure;
use crate::namespaces;
use crate::payload::{self, Armour, Image};
use crate::proof::{Canary, CanaryAct, Expected, InsideProof, MOUNTS_BYTES_MAX};
use crate::request::Network;
use crate::seccomp;
use crate::sys;
use crate::wire::{Failure, Policy, Raw, RootPolicy, Step};

/// Most paths that are tried, so that a request with many binds does not start slowly.
const PATHS_MAX: usize = 12;
/// An address of documentation: nobody has it, and only a host with a way out would try to reach it.
const NOBODY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 9);
const REPORT_BYTES_MAX: u64 = 256 * 1024;

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
}

impl Plan {
    pub(crate) fn of(policy: &Policy, root: &RootPolicy, built: &Built) -> Self {
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
        }
    }
}

#[derive(Serialize, Deserialize)]
enum Report {
    Trouble(Failure),
    Proof(InsideProof, Applied),
}

/// Tries everything and returns what came out, and whether a recorder is possible. An attempt that should have failed, or a
/// control that should not, is an error.
pub(crate) fn prove(
    plan: &Plan,
    image: &Image,
    armour: &Armour,
) -> Result<(InsideProof, Applied), Failure> {
    let trouble = |error: io::Error| failure(Step::Prove("nothing was heard".to_owned()), &error);
    let (reader, writer) = io::pipe().map_err(trouble)?;
    let child =
        sys::fork_into(0, move || try_inside(plan, image, armour, writer)).map_err(trouble)?;
    let mut bytes = Vec::new();
    let read = reader.take(REPORT_BYTES_MAX).read_to_end(&mut bytes);
    rustix::process::waitpid(Some(child), WaitOptions::empty()).ok();
    read.map_err(trouble)?;
    match serde_json::from_slice(&bytes).map_err(|error| trouble(error.into()))? {
        Report::Trouble(failure) => Err(failure),
        Report::Proof(proof, recorder) => match proof.canaries.iter().find(|c| !c.holds()) {
            None => Ok((proof, recorder)),
            Some(canary) => Err(Failure {
                step: Step::Prove(canary.to_string()),
                errno: canary.errno.unwrap_or(0),
            }),
        },
    }
}

fn try_inside(plan: &Plan, image: &Image, armour: &Armour, mut writer: PipeWriter) -> u8 {
    let report = match payload::put_on(image, Some(armour)) {
        Err(failure) => Report::Trouble(failure),
        Ok(()) => {
            let (mounts, mounts_cut) = mounts();
            let proof = InsideProof {
                mounts,
                mounts_cut,
                canaries: canaries(plan),
            };
            Report::Proof(proof, recorder(armour))
        }
    };
    let sent = serde_json::to_vec(&report).map(|bytes| writer.write_all(&bytes));
    u8::from(!matches!(sent, Ok(Ok(()))))
}

/// Tries whether the kernel gives a listener: an old one does not, nor one that has given one to somebody around this process.
fn recorder(armour: &Armour) -> Applied {
    match &armour.asking {
        None => Applied::NotAsked,
        Some(_) => {
            let listener = sys::notifying::install(&seccomp::allowing_filter());
            namespaces::applied(listener.map(drop))
        }
    }
}

fn mounts() -> (Vec<String>, bool) {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
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

fn canaries(plan: &Plan) -> Vec<Canary> {
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
    let seen = sys::unshare(libc::CLONE_NEWUSER)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
    tried(
        CanaryAct::Unshare,
        "user namespace".to_owned(),
        Expected::Refused,
        seen,
    );
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
