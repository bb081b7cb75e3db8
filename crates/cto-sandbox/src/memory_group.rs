//! A control group that bounds the memory of a tree, where this user may make one.
//!
//! The looks at a tree come too late for a burst, and cannot see who has made himself unreadable; the kernel does neither.
//! The group holds all that is charged to the tree: its processes, their supervisors and what they write in memory.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Pid;

use crate::limit_hit::{LimitHit, LimitName};
use crate::provider::Means;
use crate::request::{LaunchRequest, MemoryHold};
use crate::root::Root;

/// Room for the supervisors of a tree, which are charged with it.
const SUPERVISORS_BYTES: u64 = 64 << 20;
/// How often a group is tried to be removed, and how long between.
const REMOVALS_MAX: u32 = 400;
const REMOVAL_PAUSE: Duration = Duration::from_micros(50);
/// Begins the name of each group; the number of the process that made it follows.
const PREFIX: &str = "cto-";

/// The two interfaces that a kernel may offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interface {
    Unified,
    Legacy,
}

/// A directory in which groups could be made.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    interface: Interface,
    folder: PathBuf,
}

/// Removed when it is dropped; by then everything in it must have been waited for.
#[derive(Debug)]
pub(crate) struct MemoryGroup {
    interface: Interface,
    folder: PathBuf,
    /// What the tree was allowed.
    allowed: u64,
}

impl MemoryGroup {
    /// Makes a group for a request that asks for one. `None`: it does not, or none can be made here.
    pub(crate) fn of(request: &LaunchRequest, means: &Means) -> Option<Self> {
        let allowed = match request.tree.memory_hold {
            MemoryHold::Looks => return None,
            MemoryHold::Group => request.tree.memory_bytes?,
        };
        match means {
            Means::Native | Means::Bwrap { .. } => {}
            // The engine makes its own; the others promise no bound.
            Means::Container(_) | Means::Weak | Means::None => return None,
        }
        let in_memory = match &request.root {
            Root::Host => 0,
            Root::Built(root) => {
                let tmpfs = root.tmpfs.iter().map(|tmpfs| tmpfs.bytes);
                tmpfs.fold(root.shm_bytes, u64::saturating_add)
            }
        };
        let bytes = allowed
            .saturating_add(in_memory)
            .saturating_add(SUPERVISORS_BYTES);
        places_here()
            .into_iter()
            .find_map(|place| Self::make(place, bytes, allowed).ok())
    }

    fn make(place: Place, bytes: u64, allowed: u64) -> io::Result<Self> {
        if place.interface == Interface::Unified {
            let handed_down = fs::read_to_string(place.folder.join("cgroup.subtree_control"))?;
            if !handed_down.split_whitespace().any(|name| name == "memory") {
                return Err(io::ErrorKind::Unsupported.into());
            }
        }
        let random = &mut [0; 8];
        rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty())?;
        let name = format!(
            "{PREFIX}{}-{:016x}",
            std::process::id(),
            u64::from_le_bytes(*random)
        );
        let folder = place.folder.join(name);
        fs::create_dir(&folder)?;
        let group = Self {
            interface: place.interface,
            folder,
            allowed,
        };
        let limit = bytes.to_string();
        match group.interface {
            Interface::Unified => {
                group.write("memory.max", &limit)?;
                // A kernel without swap has no such file, and nothing to bound.
                group.write("memory.swap.max", "0").ok();
            }
            Interface::Legacy => {
                group.write("memory.limit_in_bytes", &limit)?;
                // Memory and swap together, as far as the kernel counts that.
                group.write("memory.memsw.limit_in_bytes", &limit).ok();
            }
        }
        Ok(group)
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let mut file = File::options().write(true).open(self.folder.join(file))?;
        file.write_all(text.as_bytes())
    }

    /// Moves a process in, and with it all that it will start.
    pub(crate) fn take_in(&self, process: Pid) -> io::Result<()> {
        self.write("cgroup.procs", &process.as_raw_nonzero().to_string())
    }

    /// Returns the bound, if the kernel had to kill somebody for it.
    pub(crate) fn hit(&self) -> Option<LimitHit> {
        let (events, peak) = match self.interface {
            Interface::Unified => ("memory.events", "memory.peak"),
            Interface::Legacy => ("memory.oom_control", "memory.max_usage_in_bytes"),
        };
        let read = |file: &str| fs::read_to_string(self.folder.join(file)).ok();
        if killed(&read(events)?) == 0 {
            return None;
        }
        let peak = read(peak).and_then(|text| text.trim().parse().ok());
        Some(LimitHit {
            limit: LimitName::MemoryBytes,
            allowed: self.allowed,
            seen: peak.unwrap_or(self.allowed),
        })
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A process that was waited for may be in it for a moment yet. Who stays longer is left to the next sweep.
        for _ in 0..REMOVALS_MAX {
            match fs::remove_dir(&self.folder) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    std::thread::sleep(REMOVAL_PAUSE);
                }
                Ok(()) | Err(_) => break,
            }
        }
    }
}

/// Removes empty groups whose makers were killed. One that is in use cannot be removed.
pub(crate) fn sweep() {
    let folders = places_here().into_iter().map(|place| place.folder);
    let entries = folders.filter_map(|folder| fs::read_dir(folder).ok());
    for entry in entries.flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(maker_of);
        if maker.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            fs::remove_dir(entry.path()).ok();
        }
    }
}

fn maker_of(name: &str) -> Option<u32> {
    let (pid, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
    pid.parse().ok()
}

fn killed(events: &str) -> u64 {
    let count = events
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "));
    count
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

fn places_here() -> Vec<Place> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    places(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"))
}

/// Returns where groups could be made: beside this process's own group, or in it where it is the uppermost.
fn places(own: &str, mounts: &str) -> Vec<Place> {
    let mounted = mounts.lines().filter_map(hierarchy);
    let mut list = Vec::new();
    for (interface, root, point) in mounted {
        let group = own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            let is_this = match interface {
                Interface::Unified => controllers.is_empty(),
                Interface::Legacy => controllers.split(',').any(|name| name == "memory"),
            };
            is_this.then_some(path)
        });
        let below = group.and_then(|group| Path::new(group).strip_prefix(root).ok());
        let below = below.filter(|below| !below.as_os_str().is_empty());
        let folder = below.map_or_else(|| point.to_owned(), |below| point.join(below));
        let above = folder.parent().filter(|above| above.starts_with(point));
        let mut add = |folder: &Path| {
            list.push(Place {
                interface,
                folder: folder.to_owned(),
            });
        };
        // Beside first: the unified interface has no group with both processes and groups in it.
        above.into_iter().for_each(&mut add);
        add(&folder);
    }
    list
}

/// Returns the root and the mount point of a line of the mount table that shows the memory controller.
fn hierarchy(line: &str) -> Option<(Interface, &Path, &Path)> {
    let (mount, system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, point) = (mount.next()?, mount.next()?);
    let mut system = system.split(' ');
    let interface = match system.next()? {
        "cgroup2" => Interface::Unified,
        "cgroup" if system.nth(1)?.split(',').any(|name| name == "memory") => Interface::Legacy,
        _ => return None,
    };
    // A space or a tab in them is escaped; such a place is not looked for.
    (!point.contains('\\') && !root.contains('\\'))
        .then(|| (interface, Path::new(root), Path::new(point)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(own: &str, mounts: &str) -> String {
        let list = places(own, mounts);
        let list = list
            .iter()
            .map(|place| format!("{:?} {}", place.interface, place.folder.display()));
        list.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_group_is_made_beside_the_own_one_or_in_the_uppermost() {
        let unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        assert_eq!(
            found("0::/user.slice/app.slice/x.scope\n", unified),
            "Unified /sys/fs/cgroup/user.slice/app.slice, Unified /sys/fs/cgroup/user.slice/app.slice/x.scope"
        );
        assert_eq!(found("0::/\n", unified), "Unified /sys/fs/cgroup");
        // In a container the mount shows only the part below its own group.
        let part = "30 23 0:26 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(
            found("0::/box/job\n", part),
            "Unified /sys/fs/cgroup, Unified /sys/fs/cgroup/job"
        );
        let legacy = "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      32 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        assert_eq!(
            found("4:memory:/job\n1:cpu:/\n0::/\n", legacy),
            "Legacy /sys/fs/cgroup/memory, Legacy /sys/fs/cgroup/memory/job"
        );
        assert_eq!(found("", ""), "");
    }

    #[test]
    fn only_groups_of_the_kind_made_here_name_a_maker() {
        let names = ["cto-17-00ff", "cto-x-00ff", "cto-17", "other-17-00ff", ""];
        assert_eq!(names.map(maker_of), [Some(17), None, None, None, None]);
    }

    #[test]
    fn kills_are_counted_in_both_forms() {
        assert_eq!(killed("low 0\nhigh 0\nmax 9\noom 2\noom_kill 3\n"), 3);
        assert_eq!(killed("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"), 1);
        assert_eq!(killed(""), 0);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(own in ".{0,80}", mounts in ".{0,120}") {
            places(&own, &mounts);
            killed(&own);
            maker_of(&own);
        }
    }
}
