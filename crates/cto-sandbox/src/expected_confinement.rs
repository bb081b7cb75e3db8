//! What a launch will be held by, known before it: the plan of a run is made from it, and must come true.
//!
//! For the native means nothing is launched: the kernel is asked for namespaces in a child that does nothing else, and
//! what can be refused beyond them is tried in this process. Other providers are only known by trying: one small launch.

use std::path::Path;

use crate::error::LaunchError;
use crate::facts::{Applied, Facts};
use crate::launcher::Launcher;
use crate::layers::{self, Asked};
use crate::outcome::{Class, Confinement, Proof, Survivors};
use crate::request::LaunchRequest;

/// What will be in force, for any request by the same launcher in the same place.
#[derive(Clone, Debug)]
pub struct ExpectedConfinement {
    facts: Facts,
    #[cfg(target_os = "linux")]
    launcher: linux::Known,
}

impl ExpectedConfinement {
    /// Returns the class of launches that name a root of their own.
    #[must_use]
    pub fn class(&self) -> Class {
        self.before_a_request().class
    }

    /// Returns what is known before there is a request.
    #[must_use]
    pub fn before_a_request(&self) -> Confinement {
        layers::confinement(&self.facts, None, nothing_yet())
    }

    /// Whether the command is another user than the caller, so that no mode of the caller's files lets it in.
    #[must_use]
    pub fn changes_user(&self) -> bool {
        self.facts.inner.dropped == Applied::Yes
    }

    /// Returns what a launch of this request will be held by, if it comes to its command at all.
    #[must_use]
    pub fn of(&self, request: &LaunchRequest) -> Confinement {
        #[cfg(target_os = "linux")]
        let facts = linux::for_request(&self.facts, request, &self.launcher);
        #[cfg(not(target_os = "linux"))]
        let facts = self.facts.clone();
        layers::confinement(&facts, Some(Asked::of(request)), nothing_yet())
    }
}

impl Launcher {
    /// Finds out what launches with a root of their own and a workspace on the file system of `folder` will be held by.
    ///
    /// An error says why these means cannot be had here at all.
    #[cfg(target_os = "linux")]
    pub fn foresee(&self, folder: &Path) -> Result<ExpectedConfinement, LaunchError> {
        let launcher = linux::Known::of(self);
        Ok(ExpectedConfinement {
            facts: linux::foresee(self, folder, launcher.owners.as_deref())?,
            launcher,
        })
    }

    /// On Linux only.
    #[cfg(not(target_os = "linux"))]
    pub fn foresee(&self, _folder: &Path) -> Result<ExpectedConfinement, LaunchError> {
        Err(LaunchError::Unavailable {
            reason: "it needs Linux".to_owned(),
        })
    }

    /// Returns the number that the command's user has inside.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn id_inside(&self) -> u32 {
        use crate::provider::{Engine, Means};
        let me = rustix::process::geteuid().as_raw();
        match &self.means {
            Means::Container(container) => match container.engine {
                // The caller is root in podman's namespace.
                Engine::Podman => 0,
                Engine::Docker => me,
            },
            Means::Weak | Means::None => me,
            Means::Native | Means::Bwrap { .. } if me == 0 => crate::request::UNPRIVILEGED_ID,
            Means::Native | Means::Bwrap { .. } => me,
        }
    }

    /// Returns the number that the command's user has inside.
    #[cfg(not(target_os = "linux"))]
    #[must_use]
    pub fn id_inside(&self) -> u32 {
        crate::request::UNPRIVILEGED_ID
    }
}

fn nothing_yet() -> Survivors {
    Survivors::None {
        proof: Proof::NothingStarted,
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use std::time::Duration;

    use crate::attempt::Recorder;
    use crate::error::LaunchError;
    use crate::facts::{Applied, Confiner, Facts, Fallback, LandlockFact, RootFacts};
    use crate::launcher::Launcher;
    use crate::memory_group::MemoryGroup;
    use crate::outcome::{Class, Provider};
    use crate::probe;
    use crate::provider::{Means, Way};
    use crate::request::{
        Access, Bind, LaunchRequest, Limits, Network, Stdin, TreeLimits, UNPRIVILEGED_ID,
    };
    use crate::root::{BuiltRoot, Root};
    use crate::stop::StopToken;
    use crate::sys;
    use crate::unprivileged::{self, Owners};
    use crate::wire::Policy;

    /// A launch that only shows what its provider does.
    const TRIAL_WALL: Duration = Duration::from_secs(120);

    /// What of a launcher decides about its launches.
    #[derive(Clone, Debug)]
    pub(super) struct Known {
        forced: bool,
        means: Means,
        /// For root: made once, because this process is large and forking it dear.
        pub(super) owners: Option<Arc<Owners>>,
    }

    impl Known {
        pub(super) fn of(launcher: &Launcher) -> Self {
            let is_needed = launcher.means == Means::Native && unprivileged::is_root();
            let owners = is_needed.then(|| Owners::of(UNPRIVILEGED_ID).ok());
            Self {
                forced: launcher.force_group,
                means: launcher.means.clone(),
                owners: owners.flatten().map(Arc::new),
            }
        }
    }

    pub(super) fn foresee(
        launcher: &Launcher,
        folder: &Path,
        owners: Option<&Owners>,
    ) -> Result<Facts, LaunchError> {
        let uid = rustix::process::geteuid().as_raw();
        match &launcher.means {
            Means::Native if launcher.force_group => {
                Ok(Facts::group(Some(Fallback::Forced), uid, Applied::Yes))
            }
            Means::Native => Ok(native(folder, owners)),
            Means::Weak => weak(uid),
            Means::None => Ok(Facts {
                class: Class::None,
                by: Confiner {
                    provider: Provider::None,
                    own_users: false,
                },
                ..Facts::group(Some(Fallback::Unconfined), uid, probe::no_capabilities(uid))
            }),
            Means::Bwrap { .. } | Means::Container(_) => trial(launcher, folder),
        }
    }

    fn native(folder: &Path, owners: Option<&Owners>) -> Facts {
        let base = probe::try_here();
        if !base.class.has_init() {
            return base;
        }
        with_owners(
            Facts {
                inner: RootFacts {
                    root: Applied::Yes,
                    landlock: landlock(),
                    // A launch that cannot have it comes to no command.
                    seccomp: Applied::Yes,
                    dropped: Applied::NotAsked,
                    recorder: probe::recorder(),
                },
                ..base
            },
            &request(folder),
            owners,
        )
    }

    /// The rest depends on the request only for root: whether all that it binds can be shown to another user.
    pub(super) fn for_request(facts: &Facts, request: &LaunchRequest, launcher: &Known) -> Facts {
        let mut facts = facts.clone();
        facts.memory_group = match MemoryGroup::of(request, &launcher.means) {
            Some(_) => Applied::Yes,
            None => Applied::NotAsked,
        };
        facts.inner.recorder = match request.recorder {
            Recorder::On => facts.inner.recorder,
            Recorder::Off => Applied::NotAsked,
        };
        facts.endpoint = match request.endpoint {
            Some(_) => facts.network,
            None => Applied::NotAsked,
        };
        let native =
            facts.by.provider == Provider::Native && facts.class.has_init() && !launcher.forced;
        match (&request.root, native) {
            (Root::Built(_), true) => with_owners(facts, request, launcher.owners.as_deref()),
            (Root::Host, true) => Facts {
                inner: RootFacts::NOT_ASKED,
                uid: rustix::process::geteuid().as_raw(),
                ..facts
            },
            (Root::Built(_) | Root::Host, false) => facts,
        }
    }

    fn with_owners(mut facts: Facts, request: &LaunchRequest, owners: Option<&Owners>) -> Facts {
        if !unprivileged::is_root() {
            return facts;
        }
        let policy = Policy::of(request, false, Way::Native);
        let opened = policy
            .root
            .as_ref()
            .map(|root| unprivileged::open_for(&policy, root, owners));
        (facts.inner.dropped, facts.uid) = match opened {
            None => (Applied::NotAsked, 0),
            Some(Ok(sources)) => {
                // The kernel takes its time to let go of mounts that nobody attached; without a thread we wait for it.
                std::thread::Builder::new().spawn(|| drop(sources)).ok();
                (Applied::Yes, policy.run_as)
            }
            Some(Err(failure)) => (
                Applied::Refused {
                    errno: failure.errno,
                },
                0,
            ),
        };
        facts
    }

    fn landlock() -> LandlockFact {
        match sys::landlock_abi() {
            Ok(abi) => LandlockFact {
                applied: Applied::Yes,
                abi,
            },
            Err(error) => LandlockFact {
                applied: Applied::Refused {
                    errno: error.raw_os_error().unwrap_or(libc::ENOSYS),
                },
                abi: 0,
            },
        }
    }

    fn weak(uid: u32) -> Result<Facts, LaunchError> {
        let landlock = landlock();
        if landlock.applied != Applied::Yes {
            return Err(LaunchError::Unavailable {
                reason: "the weak mode needs Landlock, which this kernel has not".to_owned(),
            });
        }
        Ok(Facts {
            class: Class::Weak,
            read_only: Applied::Yes,
            inner: RootFacts {
                landlock,
                seccomp: Applied::Yes,
                ..RootFacts::NOT_ASKED
            },
            by: Confiner {
                provider: Provider::Native,
                own_users: false,
            },
            ..Facts::group(Some(Fallback::Weak), uid, probe::no_capabilities(uid))
        })
    }

    fn trial(launcher: &Launcher, folder: &Path) -> Result<Facts, LaunchError> {
        let stop = StopToken::new().map_err(|source| LaunchError::Io {
            what: "make a stop token",
            source,
        })?;
        let outcome = launcher.launch(&request(folder), &stop, &mut |_, _| {})?;
        outcome.facts.ok_or_else(|| LaunchError::Unavailable {
            reason: "the trial did not come to its command".to_owned(),
        })
    }

    /// The smallest request with a root and a workspace.
    fn request(folder: &Path) -> LaunchRequest {
        let at = PathBuf::from("/.cto/trial");
        LaunchRequest {
            argv: ["/bin/sh", "-c", ":"].map(OsString::from).to_vec(),
            env: BTreeMap::new(),
            cwd: at.clone(),
            stdin: Stdin::Closed,
            binds: vec![Bind {
                from: folder.to_owned(),
                at,
                access: Access::Writable,
            }],
            overlay: None,
            limits: Limits {
                wall: TRIAL_WALL,
                output_bytes: 4096,
                cpu_seconds: None,
                file_bytes: None,
                open_files: None,
                processes: None,
            },
            network: Network::None,
            grace: TRIAL_WALL,
            root: Root::Built(BuiltRoot::system()),
            tree: TreeLimits::default(),
            run_as: Some(UNPRIVILEGED_ID),
            recorder: Recorder::Off,
            endpoint: None,
        }
    }
}
