//! The words between harness and launcher: the policy in, single control bytes in, messages as JSON lines out.
//!
//! Everything goes over one socket, the launcher's standard input; so does the command's, as a descriptor. Its hang-up is the life-line: it means that the harness is gone.

use std::ffi::{CString, OsStr};
use std::fmt;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::activity::Activity;
use crate::attempt::{Attempt, Recorded, Recorder};
use crate::facts::{Facts, Refusal};
use crate::limit_hit::LimitHit;
use crate::outcome::End;
use crate::payload::Proved;
pub(crate) use crate::provider::Way;
use crate::request::{Access, LaunchRequest, Network, Stdin, UNPRIVILEGED_ID};
use crate::root::Root;
pub(crate) use crate::root_policy::{RootPolicy, TmpfsPolicy, TreePolicy};

/// Opens every policy, so that a launcher of another version is an error and not a guess.
const MAGIC: &[u8; 8] = b"cto-lch1";
/// Larger than what the kernel takes as arguments and environment in one execution.
const POLICY_BYTES_MAX: u32 = 32 * 1024 * 1024;
/// Longest message of the launcher; its longest holds a mount table.
pub(crate) const MESSAGE_BYTES_MAX: usize = 256 * 1024;

/// Control byte: send TERM to the command's process group.
pub(crate) const TERMINATE: u8 = b'T';
/// Control byte: kill the whole tree.
pub(crate) const KILL: u8 = b'K';
/// Asks what the tree does.
pub(crate) const LOOK: u8 = b'L';
/// Control byte: the listeners of the endpoint were taken over.
pub(crate) const HOSTED: u8 = b'H';

/// Control byte: the command's standard input comes with it. The first after [`Message::Ready`], if the policy says that
/// there is one and the harness wants no end.
pub(crate) const STDIN: u8 = b'I';

/// Exit code of a launcher that waited for an orderly end.
pub(crate) const EXIT_ORDERLY: u8 = 0;
/// Exit code of a launcher whose init died, and was waited for.
pub(crate) const EXIT_INIT_DIED: u8 = 3;
/// Exit code of bwrap, when the init inside was killed and waited for.
pub(crate) const EXIT_INIT_KILLED: u8 = 128 + 9;
/// Exit code of a launcher that could not read its policy.
pub(crate) const EXIT_NO_POLICY: u8 = 4;

/// Bytes that the kernel takes as they are: text where they are UTF-8, else a list of numbers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Raw(pub(crate) Vec<u8>);

impl Raw {
    pub(crate) fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// Returns the bytes for the kernel; the request was checked to hold no NUL.
    pub(crate) fn c_string(&self) -> io::Result<CString> {
        CString::new(self.0.clone()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
    }
}

impl<T: AsRef<OsStr> + ?Sized> From<&T> for Raw {
    fn from(text: &T) -> Self {
        Self(text.as_ref().as_bytes().to_vec())
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.collect_seq(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl<'de> Visitor<'de> for Bytes {
            type Value = Raw;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or a list of bytes")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Raw, E> {
                Ok(Raw(text.as_bytes().to_vec()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Raw, A::Error> {
                let mut bytes = Vec::new();
                while let Some(byte) = seq.next_element()? {
                    bytes.push(byte);
                }
                Ok(Raw(bytes))
            }
        }
        deserializer.deserialize_any(Bytes)
    }
}

/// All that the launcher enforces. It decides nothing that is not written here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Policy {
    pub(crate) argv: Vec<Raw>,
    pub(crate) env: Vec<(Raw, Raw)>,
    pub(crate) cwd: Raw,
    pub(crate) stdin: Stdin,
    pub(crate) binds: Vec<BindPolicy>,
    pub(crate) overlay: Option<OverlayPolicy>,
    pub(crate) limits: RlimitPolicy,
    pub(crate) network: Network,
    pub(crate) force_group: bool,
    /// `None`: the host's root.
    pub(crate) root: Option<RootPolicy>,
    pub(crate) tree: TreePolicy,
    pub(crate) run_as: u32,
    pub(crate) way: Way,
    pub(crate) record: bool,
    /// The port of the endpoint, if there is one.
    pub(crate) endpoint: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BindPolicy {
    pub(crate) from: Raw,
    pub(crate) at: Raw,
    pub(crate) access: Access,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OverlayPolicy {
    pub(crate) lowers: Vec<Raw>,
    pub(crate) upper: Raw,
    pub(crate) work: Raw,
    pub(crate) at: Raw,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RlimitPolicy {
    pub(crate) cpu_seconds: Option<u64>,
    pub(crate) file_bytes: Option<u64>,
    pub(crate) open_files: Option<u64>,
    pub(crate) processes: Option<u64>,
}

impl Policy {
    pub(crate) fn of(request: &LaunchRequest, force_group: bool, way: Way) -> Self {
        let limits = &request.limits;
        Self {
            argv: request.argv.iter().map(Raw::from).collect(),
            env: request
                .env
                .iter()
                .map(|(k, v)| (Raw::from(k), Raw::from(v)))
                .collect(),
            cwd: Raw::from(&request.cwd),
            stdin: request.stdin,
            binds: request
                .binds
                .iter()
                .map(|bind| BindPolicy {
                    from: Raw::from(&bind.from),
                    at: Raw::from(&bind.at),
                    access: bind.access,
                })
                .collect(),
            overlay: request.overlay.as_ref().map(|overlay| OverlayPolicy {
                lowers: overlay.lowers.iter().map(Raw::from).collect(),
                upper: Raw::from(&overlay.upper),
                work: Raw::from(&overlay.work),
                at: Raw::from(&overlay.at),
            }),
            limits: RlimitPolicy {
                cpu_seconds: limits.cpu_seconds,
                file_bytes: limits.file_bytes,
                open_files: limits.open_files,
                processes: limits.processes,
            },
            network: request.network,
            force_group,
            root: match &request.root {
                Root::Host => None,
                Root::Built(root) => Some(RootPolicy::of(root)),
            },
            tree: TreePolicy::of(request.tree),
            run_as: request.run_as.unwrap_or(UNPRIVILEGED_ID),
            way,
            record: request.recorder == Recorder::On,
            endpoint: request.endpoint.map(|endpoint| endpoint.port),
        }
    }

    /// Returns the policy as it goes over the socket.
    pub(crate) fn encode(&self) -> io::Result<Vec<u8>> {
        let json = serde_json::to_vec(self)?;
        let length = u32::try_from(json.len())
            .ok()
            .filter(|&length| length <= POLICY_BYTES_MAX)
            .ok_or(io::ErrorKind::InvalidInput)?;
        let mut frame = Vec::with_capacity(MAGIC.len() + 4 + json.len());
        frame.extend_from_slice(MAGIC);
        frame.extend_from_slice(&length.to_le_bytes());
        frame.extend_from_slice(&json);
        Ok(frame)
    }

    /// Reads exactly one policy and not a byte more: control bytes may follow at once.
    pub(crate) fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut magic = [0; MAGIC.len()];
        from.read_exact(&mut magic)?;
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length);
        if &magic != MAGIC || length > POLICY_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut json = Vec::with_capacity(length as usize);
        from.take(u64::from(length)).read_to_end(&mut json)?;
        Ok(serde_json::from_slice(&json)?)
    }
}

/// What the launcher and the init say, in this order: at most one `Refused`, then `Failed`, or `Ready` and what follows it.
/// Attempts come in between from `Ready` on, and their totals after everything else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    /// The namespaces were refused; the launcher goes on without.
    Refused(Refusal),
    /// The endpoint listens; its listeners come with these words. It is answered before anything else happens.
    Listening,
    /// Everything but the command itself stands.
    Ready(Facts),
    /// The command's process tried its sandbox from within, and it held.
    Proved(Proved),
    /// The command was executed.
    Started,
    /// The command was not executed, and will not be.
    Failed(Failure),
    /// What the tree did by then, where it was asked for.
    Activity(Activity),
    Ended(Ended),
    /// The recorder saw something new, or something more often.
    Attempted(Attempt),
    Recorded(Recorded),
}

impl Message {
    /// Returns the message as one line.
    pub(crate) fn encode(&self) -> io::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) end: End,
    /// Whether init signalled the command before it ended: a stop that came too late is none.
    pub(crate) told: bool,
    pub(crate) limit_hit: Option<LimitHit>,
    pub(crate) cpu_micros: u64,
    pub(crate) peak_rss_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) step: Step,
    pub(crate) errno: i32,
}

/// What could not be done for the command, with its subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    Prepare,
    OverlayNeedsNamespaces,
    OpenOverlayPart(Raw),
    MountOverlay(Raw),
    BindNeedsNamespaces(Raw),
    RootNeedsNamespaces,
    /// Started as the sandbox of this program, which could not be executed.
    BecomeProvider(Raw),
    /// The part of the new root that could not be made.
    BuildRoot(Raw),
    EnterRoot,
    Landlock,
    Seccomp,
    Recorder,
    /// What did not come out as it had to.
    Prove(String),
    OpenBind(Raw),
    Bind(Raw),
    /// The endpoint could not be made.
    Listen,
    EndpointNeedsNamespaces,
    Fork,
    Session,
    SetLimits,
    DropPrivileges,
    EnterDirectory,
    FindCommand,
    FindInterpreter,
    Execute,
}

impl Step {
    /// Returns the words for "could not …".
    pub(crate) fn words(&self) -> String {
        let shown = |path: &Raw| path.path().display().to_string();
        match self {
            Self::Prepare => "prepare the launch".to_owned(),
            Self::OverlayNeedsNamespaces => "mount an overlay without namespaces".to_owned(),
            Self::OpenOverlayPart(path) => format!("open overlay directory `{}`", shown(path)),
            Self::MountOverlay(path) => format!("mount the overlay at `{}`", shown(path)),
            Self::BindNeedsNamespaces(path) => {
                format!("show `{}` at another place without namespaces", shown(path))
            }
            Self::RootNeedsNamespaces => "build a root without namespaces".to_owned(),
            Self::BecomeProvider(path) => format!("execute `{}`", shown(path)),
            Self::BuildRoot(path) => format!("make `{}` in the new root", shown(path)),
            Self::EnterRoot => "enter the new root".to_owned(),
            Self::Landlock => "put Landlock in force".to_owned(),
            Self::Seccomp => "put the system call filter in force".to_owned(),
            Self::Recorder => "start the recorder".to_owned(),
            Self::Prove(what) => format!("prove the sandbox: {what}"),
            Self::OpenBind(path) => format!("open `{}` to show it inside", shown(path)),
            Self::Bind(path) => format!("mount `{}` inside", shown(path)),
            Self::Listen => "make the endpoint inside".to_owned(),
            Self::EndpointNeedsNamespaces => "make an endpoint without namespaces".to_owned(),
            Self::Fork => "fork the command".to_owned(),
            Self::Session => "start a session".to_owned(),
            Self::SetLimits => "set the resource limits".to_owned(),
            Self::DropPrivileges => "drop privileges".to_owned(),
            Self::EnterDirectory => "enter the working directory".to_owned(),
            Self::FindCommand => "find the command".to_owned(),
            Self::FindInterpreter => "find the command's interpreter".to_owned(),
            Self::Execute => "execute the command".to_owned(),
        }
    }
}

/// Returns where a command is looked for, in order. Empty elements of `PATH` (the working directory) are left out on purpose.
pub(crate) fn candidates(program: &Raw, env: &[(Raw, Raw)]) -> Vec<PathBuf> {
    if program.0.contains(&b'/') {
        return vec![program.path().to_path_buf()];
    }
    let path = env.iter().find(|(name, _)| name.0 == b"PATH");
    path.iter()
        .flat_map(|(_, value)| value.0.split(|&byte| byte == b':'))
        .filter(|folder| !folder.is_empty())
        .map(|folder| Path::new(OsStr::from_bytes(folder)).join(program.path()))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn policy() -> impl Strategy<Value = Policy> {
        let raw = || proptest::collection::vec(1_u8.., 0..24).prop_map(Raw);
        let lowers = proptest::collection::vec(raw(), 1..3);
        let bind = (raw(), raw(), any::<bool>()).prop_map(|(from, at, writable)| BindPolicy {
            from,
            at,
            access: if writable {
                Access::Writable
            } else {
                Access::ReadOnly
            },
        });
        let overlay =
            (lowers, raw(), raw(), raw()).prop_map(|(lowers, upper, work, at)| OverlayPolicy {
                lowers,
                upper,
                work,
                at,
            });
        (
            proptest::collection::vec(raw(), 1..4),
            proptest::collection::vec((raw(), raw()), 0..4),
            raw(),
            proptest::collection::vec(bind, 0..3),
            proptest::option::of(overlay),
            proptest::option::of(any::<u64>()),
            any::<bool>(),
        )
            .prop_map(|(argv, env, cwd, binds, overlay, limit, flag)| Policy {
                argv,
                env,
                cwd,
                stdin: if flag { Stdin::Written } else { Stdin::Closed },
                binds,
                overlay,
                limits: RlimitPolicy {
                    cpu_seconds: limit,
                    ..RlimitPolicy::default()
                },
                network: if flag { Network::None } else { Network::Host },
                force_group: flag,
                root: limit.map(|bytes| RootPolicy {
                    read_only: vec![(Raw::from("/usr"), Raw::from("/usr"))],
                    links: vec![(Raw::from("/bin"), Raw::from("usr/bin"))],
                    files: vec![(Raw::from("/etc/x"), Raw(vec![0, 255]))],
                    tmpfs: vec![TmpfsPolicy {
                        at: Raw::from("/tmp"),
                        bytes,
                        files: bytes,
                    }],
                    shm_bytes: bytes,
                }),
                tree: TreePolicy {
                    memory_bytes: limit,
                    ..TreePolicy::default()
                },
                run_as: 1,
                way: if flag { Way::Native } else { Way::Weak },
                record: flag,
                endpoint: limit.map(|_| 8471),
            })
    }

    proptest! {
        #[test]
        fn a_policy_survives_the_way_and_leaves_what_follows(policy in policy()) {
            let mut frame = policy.encode().unwrap();
            frame.push(KILL);
            let mut rest = frame.as_slice();
            prop_assert_eq!(Policy::read(&mut rest).unwrap(), policy);
            prop_assert_eq!(rest, [KILL]);
        }

        #[test]
        fn a_cut_policy_is_refused(policy in policy(), cut in any::<prop::sample::Index>()) {
            let frame = policy.encode().unwrap();
            prop_assert!(Policy::read(&mut &frame[..cut.index(frame.len())]).is_err());
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(Policy::read(&mut bytes.as_slice()).is_err());
        }
    }

    #[test]
    fn a_command_is_searched_in_the_given_path_only() {
        let env = |path: &str| {
            vec![
                (Raw::from("HOME"), Raw::from("/x")),
                (Raw::from("PATH"), Raw::from(path)),
            ]
        };
        let found = |program: &str, env: &[(Raw, Raw)]| {
            let list: Vec<_> = candidates(&Raw::from(program), env)
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            list.join(" ")
        };
        assert_eq!(found("sh", &env("/usr/bin:/bin")), "/usr/bin/sh /bin/sh");
        assert_eq!(found("sh", &env(":/bin::")), "/bin/sh");
        assert_eq!(found("sh", &env("")), "");
        assert_eq!(found("sh", &[]), "");
        assert_eq!(found("/opt/sh", &env("/bin")), "/opt/sh");
        assert_eq!(found("./sh", &env("/bin")), "./sh");
    }
}
