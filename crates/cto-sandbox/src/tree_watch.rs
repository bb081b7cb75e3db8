//! Looks at the whole tree from its init: memory, processes and open files through `/proc`, and the disk by walking it.
//!
//! A look is bounded in time, and the next one waits many times as long as the last one took.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::building::Built;
use crate::disk_walk::DiskWalk;
use crate::hidden_memory::HiddenMemory;
use crate::limit_hit::{LimitHit, LimitName};
use crate::request::Access;
use crate::sys;
use crate::wire::{Policy, RlimitPolicy, TreePolicy};

/// Between two looks, at least.
const PAUSE_MIN: Duration = Duration::from_millis(25);
/// Looking takes at most one part in so many of the time.
const SHARE: u32 = 20;
const KIB: u64 = 1024;

#[derive(Debug)]
pub(crate) struct TreeWatch {
    proc: OwnedFd,
    limits: RlimitPolicy,
    tree: TreePolicy,
    /// Processes of the harness that the kernel counts as well.
    supervisors: u64,
    page_bytes: u64,
    hidden: HiddenMemory,
    disk: Option<DiskWalk>,
    next: Instant,
}

impl TreeWatch {
    /// Returns a watch over what the policy bounds; `None` if it bounds nothing that must be looked for.
    pub(crate) fn of(policy: &Policy, built: Built) -> io::Result<Option<Self>> {
        let (limits, tree) = (policy.limits, policy.tree);
        let on_disk = [tree.disk_bytes, tree.disk_files, limits.file_bytes];
        let in_memory = [tree.memory_bytes, limits.processes, limits.open_files];
        if on_disk.iter().chain(&in_memory).all(Option::is_none) {
            return Ok(None);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = rustix::fs::open(c"/proc", flags, Mode::empty())?;
        // Without an own `/proc` there is nothing to look at, and a bound that cannot hold must not be promised.
        rustix::fs::statat(&proc, "self", AtFlags::SYMLINK_NOFOLLOW)?;
        let disk = match on_disk.iter().any(Option::is_some) {
            false => None,
            true => Some(DiskWalk::below(writable(policy, built)?)),
        };
        Ok(Some(Self {
            proc,
            limits,
            tree,
            // The init, and the launcher once it stands in the same user namespace.
            supervisors: 1 + u64::from(policy.record),
            page_bytes: sys::page_bytes(),
            hidden: HiddenMemory::new()?,
            disk,
            next: Instant::now(),
        }))
    }

    /// Returns how long nothing needs to be looked at.
    pub(crate) fn pause(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Looks, if it is time to.
    pub(crate) fn look(&mut self) -> Option<LimitHit> {
        let start = Instant::now();
        if start < self.next {
            return None;
        }
        let hit = self.look_at_processes().or_else(|| self.look_at_disk());
        let now = Instant::now();
        let pause = now.duration_since(start).saturating_mul(SHARE);
        self.next = now + pause.max(PAUSE_MIN);
        hit
    }

    fn look_at_processes(&self) -> Option<LimitHit> {
        let processes = self.processes();
        let tasks = self.supervisors + processes.iter().map(|process| process.tasks).sum::<u64>();
        let open = self.limits.open_files;
        let open = open.and_then(|allowed| {
            let most = processes.iter().map(|p| self.open_files(p.pid)).max()?;
            reached(LimitName::OpenFiles, Some(allowed), most)
        });
        reached(LimitName::Processes, self.limits.processes, tasks)
            .or(open)
            .or_else(|| self.memory(&processes))
    }

    fn memory(&self, processes: &[Process]) -> Option<LimitHit> {
        let allowed = self.tree.memory_bytes?;
        let pages: u64 = processes.iter().map(|process| process.pages).sum();
        let resident = pages.saturating_mul(self.page_bytes);
        let pids = processes.iter().map(|process| process.pid);
        let hidden = self.hidden.bytes(&self.proc, pids);
        // Pages that are shared count many times here; only if that is too much, the exact number is worth its price.
        let most = resident.saturating_add(hidden);
        exceeded(LimitName::MemoryBytes, Some(allowed), most)?;
        let (mut own, mut shared) = (0_u64, 0_u64);
        for process in processes {
            let memory = self.memory_of(process);
            own = own.saturating_add(memory.all.saturating_sub(memory.shared));
            shared = shared.saturating_add(memory.shared);
        }
        // What is open may be mapped as well: the same bytes, seen from two sides.
        let exact = own.saturating_add(shared.max(hidden));
        exceeded(LimitName::MemoryBytes, Some(allowed), exact)
    }

    fn look_at_disk(&mut self) -> Option<LimitHit> {
        let allowed = self.limits.file_bytes;
        let (bytes, files) = (self.tree.disk_bytes, self.tree.disk_files);
        let seen = self.disk.as_mut()?.go_on(allowed);
        exceeded(LimitName::DiskBytes, bytes, seen.bytes)
            .or_else(|| exceeded(LimitName::DiskFiles, files, seen.files))
            .or_else(|| match (allowed, seen.at_limit) {
                (Some(allowed), true) => reached(LimitName::FileBytes, Some(allowed), allowed),
                (Some(_) | None, _) => None,
            })
            // A tree too deep to be measured is a way to hide from the measure.
            .or_else(|| match (bytes, seen.too_deep) {
                (Some(allowed), true) => reached(LimitName::DiskBytes, Some(allowed), u64::MAX),
                (Some(_) | None, _) => None,
            })
    }

    fn processes(&self) -> Vec<Process> {
        let Ok(folder) = rustix::fs::Dir::read_from(&self.proc) else {
            return Vec::new();
        };
        folder
            .flatten()
            .filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok())
            .filter(|&pid: &u32| pid != 1)
            .filter_map(|pid| parse_stat(pid, &self.read(pid, "stat")?))
            .collect()
    }

    /// Returns the memory of a process, each page shared out among those that have it.
    fn memory_of(&self, process: &Process) -> Memory {
        self.read(process.pid, "smaps_rollup")
            .and_then(|text| parse_rollup(&text))
            .unwrap_or(Memory {
                all: process.pages.saturating_mul(self.page_bytes),
                shared: 0,
            })
    }

    /// Kernels before 6.2 do not tell: 0.
    fn open_files(&self, pid: u32) -> u64 {
        let name = format!("{pid}/fd");
        rustix::fs::statat(&self.proc, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0))
    }

    fn read(&self, pid: u32, file: &str) -> Option<Vec<u8>> {
        let name = format!("{pid}/{file}");
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.proc, name, flags, Mode::empty()).ok()?;
        let mut bytes = vec![0; 4096];
        let count = rustix::io::read(&file, &mut bytes[..]).ok()?;
        bytes.truncate(count);
        Some(bytes)
    }
}

/// Returns the directories in which bytes of the command can pile up.
fn writable(policy: &Policy, built: Built) -> io::Result<Vec<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut list: Vec<_> = built.upper.into_iter().collect();
    for bind in &policy.binds {
        if bind.access == Access::Writable && bind.at.path().is_dir() {
            list.push(rustix::fs::open(bind.at.path(), flags, Mode::empty())?);
        }
    }
    Ok(list)
}

/// A bound that the kernel keeps: to reach it is to hit it.
fn reached(limit: LimitName, allowed: Option<u64>, seen: u64) -> Option<LimitHit> {
    let allowed = allowed?;
    (seen >= allowed).then_some(LimitHit {
        limit,
        allowed,
        seen,
    })
}

/// A bound that only these looks keep.
fn exceeded(limit: LimitName, allowed: Option<u64>, seen: u64) -> Option<LimitHit> {
    reached(limit, allowed, seen).filter(|hit| hit.seen > hit.allowed)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: u32,
    tasks: u64,
    pages: u64,
}

/// Reads a `stat` line, whose second field is the process's own choice.
fn parse_stat(pid: u32, stat: &[u8]) -> Option<Process> {
    let end_of_name = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end_of_name + 1..)?).ok()?;
    let fields: Vec<_> = rest.split_ascii_whitespace().collect();
    Some(Process {
        pid,
        tasks: fields.get(17)?.parse().ok()?,
        pages: fields.get(21)?.parse().unwrap_or(0),
    })
}

/// The share of a process in the memory that it has mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Memory {
    all: u64,
    /// Of that, what would stay if the process were gone.
    shared: u64,
}

fn parse_rollup(text: &[u8]) -> Option<Memory> {
    let text = std::str::from_utf8(text).ok()?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let number: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(number.saturating_mul(KIB))
    };
    Some(Memory {
        all: field("Pss:")?,
        shared: field("Pss_Shmem:").unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_stat_line_gives_tasks_and_pages_whatever_the_name_is() {
        let line = b"7 (a) 9 (b) S 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 5 0 100 4096 33 18446744073709551615 1";
        let process = Process {
            pid: 7,
            tasks: 5,
            pages: 33,
        };
        assert_eq!(parse_stat(7, line), Some(process));
        assert_eq!(parse_stat(7, b"7 (a) S 1"), None);
    }

    #[test]
    fn the_share_of_memory_is_read_in_bytes() {
        let text = b"55d0-7ffd ---p 00000000 00:00 0 [rollup]\nRss: 900 kB\nPss:       12 kB\nPss_Dirty: 1 kB\nPss_Shmem: 2 kB\n";
        let memory = Memory {
            all: 12 * 1024,
            shared: 2 * 1024,
        };
        assert_eq!(parse_rollup(text), Some(memory));
        assert_eq!(parse_rollup(b"Pss: x kB"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            parse_stat(1, &bytes);
            parse_rollup(&bytes);
        }

        #[test]
        fn more_is_never_less_of_a_hit(allowed in any::<u64>(), seen in any::<u64>(), more in any::<u64>()) {
            let hit = |seen| exceeded(LimitName::DiskBytes, Some(allowed), seen).is_some();
            prop_assert!(!hit(seen) || hit(seen.saturating_add(more)));
            prop_assert_eq!(hit(seen), seen > allowed);
        }
    }
}
