//! What would be in force here, found by trying it on a child that does nothing else.

use std::path::Path;

use crate::facts::{Applied, Facts, Fallback};
use crate::launcher::Launcher;
use crate::outcome::{Confinement, Proof, Survivors};

/// Returns what a native launch would be held by on this machine and as this user. Takes a few milliseconds.
#[must_use]
pub fn probe() -> Confinement {
    match Launcher::current_exe().foresee(Path::new("/usr")) {
        Ok(expected) => expected.before_a_request(),
        Err(_) => {
            let survivors = Survivors::None {
                proof: Proof::NothingStarted,
            };
            let nothing = Facts::group(Some(Fallback::WrongSystem), 0, Applied::NotAsked);
            crate::layers::confinement(&nothing, None, survivors)
        }
    }
}

#[cfg(target_os = "linux")]
pub(crate) use linux::{no_capabilities, recorder, try_here};

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{self, Read};
    use std::os::fd::AsFd;

    use rustix::process::{Pid, WaitOptions};

    use crate::facts::{Applied, BaseStep, Confiner, Facts, Fallback, Refusal, RootFacts};
    use crate::namespaces::{self, Extras, IdMaps};
    use crate::outcome::Class;
    use crate::request::Network;
    use crate::sys;

    /// One report of the child: seven numbers.
    const REPORT_LEN: usize = 7;
    const BASE_STEPS: [BaseStep; 5] = [
        BaseStep::Create,
        BaseStep::DenySetgroups,
        BaseStep::MapUser,
        BaseStep::MapGroup,
        BaseStep::PrivateMounts,
    ];

    pub(crate) fn try_here() -> Facts {
        let uid = rustix::process::geteuid().as_raw();
        match try_namespaces() {
            Ok(extras) => Facts {
                class: Class::Process,
                fallback: None,
                network: extras.network,
                loopback: extras.loopback,
                ipc: extras.ipc,
                uts: extras.uts,
                own_proc: extras.own_proc,
                read_only: Applied::Yes,
                no_capabilities: extras.no_capabilities,
                uid,
                inner: RootFacts::NOT_ASKED,
                by: Confiner::NATIVE,
                endpoint: Applied::NotAsked,
                memory_group: Applied::NotAsked,
            },
            Err(refusal) => {
                Facts::group(Some(Fallback::Refused(refusal)), uid, no_capabilities(uid))
            }
        }
    }

    /// Without namespaces, only root has anything to drop, and may lack the capability to do so.
    pub(crate) fn no_capabilities(uid: u32) -> Applied {
        if uid != 0 {
            return Applied::Yes;
        }
        let child = sys::fork_into(0, || u8::from(sys::empty_bounding_set().is_err()));
        match child.map(wait) {
            Ok(Some(0)) => Applied::Yes,
            Ok(_) | Err(_) => Applied::Refused { errno: libc::EPERM },
        }
    }

    /// Tries whether the kernel gives a listener, to a child that needs none.
    pub(crate) fn recorder() -> Applied {
        let filter = crate::seccomp::allowing_filter();
        let child = sys::fork_into(0, || {
            let installed = rustix::thread::set_no_new_privs(true)
                .map_err(io::Error::from)
                .and_then(|()| sys::notifying::install(&filter));
            let errno = installed.err().map(|error| error.raw_os_error());
            let errno = errno.map_or(0, |errno| errno.unwrap_or(libc::EIO));
            u8::try_from(errno).unwrap_or(u8::MAX)
        });
        match child.map(wait) {
            Ok(Some(0)) => Applied::Yes,
            Ok(Some(errno)) => Applied::Refused { errno },
            Ok(None) | Err(_) => Applied::Refused { errno: libc::EIO },
        }
    }

    fn wait(child: Pid) -> Option<i32> {
        loop {
            match rustix::process::waitpid(Some(child), WaitOptions::empty()) {
                Ok(ended) => return ended.and_then(|(_, status)| status.exit_status()),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }

    fn try_namespaces() -> Result<Extras, Refusal> {
        let refused = |error: io::Error| Refusal {
            step: BaseStep::Create,
            errno: error.raw_os_error().unwrap_or(libc::EIO),
        };
        let maps = IdMaps::identity();
        let (mut reader, writer) = io::pipe().map_err(refused)?;
        // The child neither allocates nor locks: this process may have threads.
        let child = sys::fork_into(sys::BASE_NAMESPACES, || {
            let report = encode(
                namespaces::complete_base(&maps).map(|()| namespaces::enter_extras(Network::None)),
            );
            match rustix::io::write(writer.as_fd(), &report) {
                Ok(_) => 0,
                Err(_) => 1,
            }
        })
        .map_err(refused)?;
        drop(writer);
        let mut report = [0; REPORT_LEN * 4];
        let read = reader.read_exact(&mut report);
        // All is said; that its namespaces are taken down is nothing to wait for.
        let reaper = std::thread::Builder::new().spawn(move || wait(child));
        if reaper.is_err() {
            wait(child);
        }
        read.map_err(refused)?;
        decode(&report)
    }

    fn encode(result: Result<Extras, Refusal>) -> [u8; REPORT_LEN * 4] {
        let number = |applied: Applied| match applied {
            Applied::Yes => 0,
            Applied::NotAsked => -1,
            Applied::Refused { errno } => errno,
        };
        let numbers = match result {
            Err(refusal) => {
                let step = BASE_STEPS
                    .iter()
                    .position(|&step| step == refusal.step)
                    .unwrap_or(0);
                [1 + step as i32, refusal.errno, 0, 0, 0, 0, 0]
            }
            Ok(extras) => [
                0,
                number(extras.network),
                number(extras.loopback),
                number(extras.ipc),
                number(extras.uts),
                number(extras.own_proc),
                number(extras.no_capabilities),
            ],
        };
        let mut bytes = [0; REPORT_LEN * 4];
        for (place, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8; REPORT_LEN * 4]) -> Result<Extras, Refusal> {
        let mut numbers = [0; REPORT_LEN];
        for (number, place) in numbers.iter_mut().zip(bytes.chunks_exact(4)) {
            *number = place.try_into().map_or(libc::EIO, i32::from_ne_bytes);
        }
        let [
            refused_at,
            network,
            loopback,
            ipc,
            uts,
            own_proc,
            no_capabilities,
        ] = numbers;
        if refused_at > 0 {
            let step = usize::try_from(refused_at - 1)
                .ok()
                .and_then(|index| BASE_STEPS.get(index));
            return Err(Refusal {
                step: step.copied().unwrap_or(BaseStep::Create),
                errno: network,
            });
        }
        let applied = |number| match number {
            0 => Applied::Yes,
            -1 => Applied::NotAsked,
            errno => Applied::Refused { errno },
        };
        Ok(Extras {
            network: applied(network),
            loopback: applied(loopback),
            ipc: applied(ipc),
            uts: applied(uts),
            own_proc: applied(own_proc),
            no_capabilities: applied(no_capabilities),
        })
    }
}
