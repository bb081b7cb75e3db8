//! Looks at one call: what it wants, of what, and whether that is likely to be refused.

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use rustix::fs::AtFlags;
use rustix::process::Pid;

use crate::attempt::{AttemptKind, TARGET_BYTES_MAX};
use crate::calls::{self, At, Links, Look, Watched};
use crate::request::Network;
use crate::seccomp;
use crate::sys::notifying::Asked;

use super::address::Address;
use super::memory::{Memory, lossy};
use super::moving::{Movers, Rename};
use super::notes::{EXECUTION, Observation};
use super::places::{Place, Places, Reach, Use};
use super::process::{self, Who};
use super::refused;

/// Sockets that the C library itself asks before it does without.
const QUIET_SOCKETS: [&[u8]; 2] = [b"/var/run/nscd/socket", b"/run/nscd/socket"];
/// Programs that were not found yet and may be, at the next place of a search path.
const MISSES_MAX: usize = 64;
/// Most of the list of local sockets that is searched.
const SOCKETS_BYTES_MAX: usize = 1024 * 1024;
const INIT: i32 = 1;
const CLONE3: &str = "clone3";

#[derive(Debug)]
pub(super) struct Observer {
    places: Places,
    network: Network,
    /// Numbers of processes outside that somebody inside may have heard of.
    outside: Vec<i32>,
    /// The highest number inside that was seen.
    highest: u32,
    misses: BTreeMap<u32, Observation>,
    /// What the last call was, if the kernel may not be able to do it.
    rename: Option<Rename>,
    first: Vec<u8>,
    second: Vec<u8>,
}

impl Observer {
    pub(super) fn new(places: Places, network: Network, harness: Option<Pid>) -> Self {
        let me = rustix::process::getpid();
        let outside = harness.into_iter().chain([me]);
        Self {
            places,
            network,
            outside: outside.map(|pid| pid.as_raw_nonzero().get()).collect(),
            highest: 0,
            misses: BTreeMap::new(),
            rename: None,
            first: Vec::new(),
            second: Vec::new(),
        }
    }

    /// Looks at a call that goes on in any case. `None`: there is nothing to say about it. An error: it could not be looked at.
    pub(super) fn attempt(&mut self, asked: &Asked) -> io::Result<Option<Observation>> {
        let Some(watched) = calls::watch_of(c_long::from(asked.call.number)) else {
            return Ok(None);
        };
        let mut first = std::mem::take(&mut self.first);
        let mut second = std::mem::take(&mut self.second);
        let found = self.look(asked, watched, &mut first, &mut second);
        (self.first, self.second) = (first, second);
        found
    }

    /// Describes a call that is refused.
    pub(super) fn denied(&self, asked: &Asked) -> Observation {
        let call = c_long::from(asked.call.number);
        let name = calls::refused_name(call).unwrap_or("unknown call");
        self.observation(asked, AttemptKind::Denied, name, refused::target(asked))
    }

    /// Looks at a `clone3`, which is refused in any case. `None`: it wants no namespace, and is only told to use `clone`, of
    /// which the registers say all. An error: its flags could not be read.
    pub(super) fn cloning(&self, asked: &Asked) -> io::Result<Option<Observation>> {
        if !seccomp::has_flags(&asked.call) {
            return Ok(None);
        }
        let memory = Memory {
            thread: asked.thread,
        };
        let flags = memory.number(asked.call.arguments[0])?;
        Ok(seccomp::wants_namespace(flags).then(|| {
            let target = format!("flags {flags:#x}");
            self.observation(asked, AttemptKind::Denied, CLONE3, target)
        }))
    }

    /// Describes a call of another architecture.
    pub(super) fn killed(&self, asked: &Asked) -> Observation {
        let (number, arch) = (asked.call.number, asked.call.architecture);
        let target = format!("call {number:#x} of architecture {arch:#x}");
        self.observation(asked, AttemptKind::Killed, "foreign call", target)
    }

    /// Describes a call whose words could not be read.
    pub(super) fn unreadable(&self, asked: &Asked) -> Observation {
        let call = c_long::from(asked.call.number);
        let (kind, what) = match calls::watch_of(call) {
            Some(watched) => (AttemptKind::Attempt, watched.what),
            // Whoever does not go on is refused.
            None => (
                AttemptKind::Denied,
                calls::refused_name(call).unwrap_or("unknown call"),
            ),
        };
        self.observation(asked, kind, what, "(could not be read)".to_owned())
    }

    /// Hands the last call to the mover, if it is one for it. `false`: it is still to be answered.
    pub(super) fn hand_on(&mut self, movers: Option<&mut Movers>) -> bool {
        match (self.rename.take(), movers) {
            (Some(rename), Some(movers)) => movers.take(&self.places, &rename),
            (Some(_), None) | (None, _) => false,
        }
    }

    /// Returns what has been held back until now.
    pub(super) fn rest(&mut self) -> impl Iterator<Item = Observation> {
        std::mem::take(&mut self.misses).into_values()
    }

    fn observation(
        &self,
        asked: &Asked,
        kind: AttemptKind,
        what: &'static str,
        target: String,
    ) -> Observation {
        let Who { name, pid } = Who::of(self.places.proc(), asked.thread);
        Observation {
            kind,
            what,
            target,
            argv: Vec::new(),
            name,
            pid,
        }
    }

    fn likely(&self, asked: &Asked, watched: &Watched, target: String) -> Option<Observation> {
        Some(self.observation(asked, AttemptKind::Attempt, watched.what, target))
    }

    fn look(
        &mut self,
        asked: &Asked,
        watched: &Watched,
        first: &mut Vec<u8>,
        second: &mut Vec<u8>,
    ) -> io::Result<Option<Observation>> {
        let memory = Memory {
            thread: asked.thread,
        };
        let arguments = asked.call.arguments;
        match watched.look {
            Look::Open(at, flags) => {
                let creat = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                let flags = flags.map_or(creat, |index| number(arguments[index]));
                self.open(asked, watched, read_place(asked, at, first)?, flags)
            }
            Look::OpenHow(at, how) => {
                let how = memory.number(arguments[how])?;
                let flags = number(how);
                let writes = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
                match flags & writes {
                    0 => Ok(None),
                    _ => self.open(asked, watched, read_place(asked, at, first)?, flags),
                }
            }
            Look::Entry(at) => {
                let place = read_place(asked, at, first)?;
                let reach = self.places.entry(place);
                self.judge(asked, watched, reach, |places| places.spell(place))
            }
            Look::NewEntry(at) => {
                let place = read_place(asked, at, first)?;
                match self.places.entry(place) {
                    Reach::Outside if self.places.exists(place) => Ok(None),
                    reach @ (Reach::Inside | Reach::Outside | Reach::Unknown) => {
                        self.judge(asked, watched, reach, |places| places.spell(place))
                    }
                }
            }
            Look::Entries(from, to) => {
                let from = read_place(asked, from, first)?;
                let to = read_place(asked, to, second)?;
                self.entries(asked, watched, from, to)
            }
            Look::Rename(from, to, flags) => {
                let from = read_place(asked, from, first)?;
                let to = read_place(asked, to, second)?;
                let found = self.entries(asked, watched, from, to)?;
                if found.is_none() && self.places.is_overlaid(from) {
                    let flags = flags.map_or(0, |index| number(arguments[index]));
                    let flags = flags.cast_unsigned();
                    self.rename = Some(Rename::of(asked.id, from, to, flags));
                }
                Ok(found)
            }
            Look::File(at, links) => {
                if arguments[at.1] == 0 {
                    return self.descriptor(asked, watched, at.0);
                }
                let place = read_place(asked, at, first)?;
                let flags = match links {
                    Links::Followed => 0,
                    Links::Kept => libc::AT_SYMLINK_NOFOLLOW,
                    Links::Flags(index) => number(arguments[index]),
                };
                if place.path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
                    return self.descriptor(asked, watched, at.0);
                }
                let links = match flags & libc::AT_SYMLINK_NOFOLLOW {
                    0 => AtFlags::empty(),
                    _ => AtFlags::SYMLINK_NOFOLLOW,
                };
                let reach = self.places.file(place, Use::Change, links);
                self.judge(asked, watched, reach, |places| places.spell(place))
            }
            Look::Descriptor(index) => self.descriptor(asked, watched, Some(index)),
            Look::Address(pointer, length) => {
                let address = memory.address(arguments[pointer], arguments[length])?;
                Ok(self.address(asked, watched, &address))
            }
            Look::Message(header) => {
                let address = memory.message_address(arguments[header])?;
                Ok(self.address(asked, watched, &address))
            }
            Look::Messages(list) => {
                let count = arguments[list + 1];
                let all = memory.message_addresses(arguments[list], count)?;
                let mut found = all.iter().map(|to| self.address(asked, watched, to));
                Ok(found.find_map(|observation| observation))
            }
            Look::Exec(at, argv) => {
                let place = read_place(asked, at, first)?;
                Ok(self.execution(asked, place, memory.arguments(arguments[argv])))
            }
            Look::Itself => Ok(self.likely(asked, watched, String::new())),
            Look::Signal(index) => Ok(self.signal(asked, watched, number(arguments[index]))),
        }
    }

    fn entries(
        &self,
        asked: &Asked,
        watched: &Watched,
        from: Place<'_>,
        to: Place<'_>,
    ) -> io::Result<Option<Observation>> {
        let reach = match self.places.entry(from) {
            Reach::Inside if is_beside(from, to) => Reach::Inside,
            Reach::Inside => self.places.entry(to),
            reach @ (Reach::Outside | Reach::Unknown) => reach,
        };
        self.judge(asked, watched, reach, |places| {
            let [from, to] = [from, to].map(|place| places.spell(place));
            [&from[..], b" -> ", &to].concat()
        })
    }

    fn judge(
        &self,
        asked: &Asked,
        watched: &Watched,
        reach: Reach,
        target: impl FnOnce(&Places) -> Vec<u8>,
    ) -> io::Result<Option<Observation>> {
        match reach {
            Reach::Inside => Ok(None),
            Reach::Outside => {
                let target = lossy(&target(&self.places), TARGET_BYTES_MAX);
                Ok(self.likely(asked, watched, target))
            }
            Reach::Unknown => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn open(
        &self,
        asked: &Asked,
        watched: &Watched,
        place: Place<'_>,
        flags: i32,
    ) -> io::Result<Option<Observation>> {
        if flags & libc::O_PATH != 0 || place.path.is_empty() {
            return Ok(None);
        }
        let reach = if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 {
            self.places.entry(place)
        } else if flags & libc::O_NOFOLLOW != 0 {
            self.places
                .file(place, Use::Write, AtFlags::SYMLINK_NOFOLLOW)
        } else {
            self.places.file(place, Use::Write, AtFlags::empty())
        };
        self.judge(asked, watched, reach, |places| places.spell(place))
    }

    fn descriptor(
        &self,
        asked: &Asked,
        watched: &Watched,
        index: Option<usize>,
    ) -> io::Result<Option<Observation>> {
        let fd = index.map_or(libc::AT_FDCWD, |index| number(asked.call.arguments[index]));
        let place = Place {
            thread: asked.thread,
            folder: folder(fd),
            path: b"",
        };
        let reach = self.places.opened(place);
        self.judge(asked, watched, reach, |places| places.spell(place))
    }

    fn address(&self, asked: &Asked, watched: &Watched, address: &Address) -> Option<Observation> {
        let is_bind = watched.call == libc::SYS_bind;
        let outside = match address {
            Address::Internet(_) => {
                !is_bind && self.network == Network::None && address.is_outside()
            }
            Address::Local(path) => {
                let place = Place {
                    thread: asked.thread,
                    folder: None,
                    path,
                };
                let quiet = QUIET_SOCKETS.contains(&path.as_slice());
                !quiet
                    && (is_bind || !self.places.exists(place))
                    && self.places.entry(place) == Reach::Outside
            }
            Address::Abstract(name) => !is_bind && !self.has_abstract(asked.thread, name),
            Address::Other => false,
        };
        match outside {
            true => self.likely(
                asked,
                watched,
                lossy(address.to_string().as_bytes(), TARGET_BYTES_MAX),
            ),
            false => None,
        }
    }

    /// Returns whether somebody inside listens on such a name.
    fn has_abstract(&self, thread: u32, name: &[u8]) -> bool {
        let file = format!("{thread}/net/unix");
        let list = process::read(self.places.proc(), &file, SOCKETS_BYTES_MAX);
        // The kernel writes a NUL of a name as `@`.
        let shown: Vec<u8> = name
            .iter()
            .map(|&b| if b == 0 { b'@' } else { b })
            .collect();
        let wanted = [b" @", shown.as_slice()].concat();
        list.is_some_and(|list| {
            list.split(|&byte| byte == b'\n')
                .any(|line| line.ends_with(&wanted))
        })
    }

    /// Notes every execution; one that is not found yet only when it is not found later either.
    fn execution(
        &mut self,
        asked: &Asked,
        place: Place<'_>,
        argv: Vec<String>,
    ) -> Option<Observation> {
        let found = self.places.resolve(place);
        let target = found.clone().unwrap_or_else(|| self.places.spell(place));
        let mut observation = self.observation(
            asked,
            AttemptKind::Attempt,
            EXECUTION,
            lossy(&target, TARGET_BYTES_MAX),
        );
        observation.argv = argv;
        self.highest = self.highest.max(observation.pid);
        let before = self.misses.remove(&asked.thread);
        let before = before.filter(|miss| miss.argv != observation.argv);
        if found.is_some() {
            return Some(match before {
                None => observation,
                // Two at once, and one can be told: the other waits.
                Some(miss) => {
                    self.misses.insert(asked.thread, miss);
                    observation
                }
            });
        }
        let overdue = match self.misses.len() < MISSES_MAX {
            true => before,
            false => before.or_else(|| self.misses.pop_first().map(|(_, miss)| miss)),
        };
        self.misses.insert(asked.thread, observation);
        overdue
    }

    /// Signals reach only those inside, so one to anybody else is meant for the outside.
    fn signal(&self, asked: &Asked, watched: &Watched, to: i32) -> Option<Observation> {
        let is_inside = |pid: i32| {
            let path = format!("/proc/{pid}");
            self.places.exists(Place {
                thread: asked.thread,
                folder: None,
                path: path.as_bytes(),
            })
        };
        let never_was = u32::try_from(to).is_ok_and(|to| to > self.highest);
        let outside =
            to > 0 && (never_was || self.outside.contains(&to)) && !is_inside(to) || to == INIT;
        match outside {
            true => self.likely(asked, watched, format!("process {to}")),
            false => None,
        }
    }
}

/// Returns the lower half of an argument, as the kernel takes it.
fn number(argument: u64) -> i32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "only the lower half counts"
    )]
    let low = argument as u32;
    low.cast_signed()
}

fn folder(fd: i32) -> Option<i32> {
    (fd != libc::AT_FDCWD).then_some(fd)
}

fn read_place<'a>(asked: &Asked, at: At, into: &'a mut Vec<u8>) -> io::Result<Place<'a>> {
    let memory = Memory {
        thread: asked.thread,
    };
    memory.path(asked.call.arguments[at.1], into)?;
    Ok(Place {
        thread: asked.thread,
        folder: at
            .0
            .and_then(|index| folder(number(asked.call.arguments[index]))),
        path: into,
    })
}

/// Returns whether both are spelled as names in the same directory.
fn is_beside(one: Place<'_>, other: Place<'_>) -> bool {
    let folder_of = |path: &[u8]| {
        let slash = path.iter().rposition(|&byte| byte == b'/');
        (slash, slash.map(|slash| path[..slash].to_vec()))
    };
    let is_name = |path: &[u8]| !path.ends_with(b"/") && !path.ends_with(b".");
    one.folder == other.folder
        && is_name(one.path)
        && is_name(other.path)
        && folder_of(one.path) == folder_of(other.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beside_each_other_are_told_by_their_spelling() {
        let beside = |one: &[u8], other: &[u8]| {
            let place = |path| Place {
                thread: 1,
                folder: None,
                path,
            };
            is_beside(place(one), place(other))
        };
        assert!(beside(b"a/x.lock", b"a/x") && beside(b"x", b"y") && beside(b"/x", b"/y"));
        assert!(!beside(b"a/x", b"b/x") && !beside(b"x", b"/x") && !beside(b"a/x", b"a/.."));
        assert!(!beside(b"a/x", b"a/y/"));
    }

    #[test]
    fn only_the_lower_half_of_an_argument_is_a_number() {
        assert_eq!(number(0xffff_ff9c), libc::AT_FDCWD);
        assert_eq!(number(0x1_0000_0007), 7);
    }
}
