//! The command line of a container engine for a request, and the image that every container begins with (pure).
//!
//! The image holds links and empty directories: what is in the root comes by mounts, as in a native launch. It is made
//! here and imported, so no registry is asked for anything.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{CONTROL_INSIDE, Engine, LAUNCHER_INSIDE};
use crate::error::LaunchError;
use crate::request::{Access, LaunchRequest, Network};
use crate::root::{BuiltRoot, Root};

/// Processes of the engine and of the launcher inside, besides those that the request allows.
const MORE_PROCESSES: u64 = 8;
const BLOCK: usize = 512;
/// Longest name and link that the oldest form of the archive holds.
const NAME_MAX: usize = 99;

/// What the harness made for one container.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) launcher: PathBuf,
    pub(crate) control: PathBuf,
    /// The root's files, in their order.
    pub(crate) files: Vec<PathBuf>,
    /// As whom to run, where the engine would take another user.
    pub(crate) user: (u32, u32),
}

/// Returns all arguments after the engine's name.
pub(crate) fn arguments(
    engine: Engine,
    request: &LaunchRequest,
    made: &Made,
) -> Result<Vec<OsString>, LaunchError> {
    let root = root_of(request)?;
    let mut line = Line(Vec::new());
    line.words(&["run", "--rm", "--pull", "never", "--name", &made.name]);
    match request.network {
        Network::None => line.words(&["--network", "none"]),
        Network::Host => line.words(&["--network", "host"]),
    }
    line.words(&["--read-only", "--cap-drop", "all"]);
    line.words(&["--security-opt", "no-new-privileges"]);
    line.words(&["--security-opt", "label=disable"]);
    line.words(&["--hostname", "localhost", "--log-driver", "none"]);
    match engine {
        // Its users are already a namespace's own, where the caller is root; a launch by root has no other.
        Engine::Podman => line.words(&["--read-only-tmpfs=false", "--userns", "host"]),
        Engine::Docker => {
            let (user, group) = made.user;
            line.words(&["--user", &format!("{user}:{group}")]);
        }
    }
    if let Some(processes) = request.limits.processes {
        let most = processes.saturating_add(MORE_PROCESSES).to_string();
        line.words(&["--pids-limit", &most]);
    }
    if let Some(bytes) = request.tree.memory_bytes {
        line.words(&["--memory", &bytes.to_string()]);
    }
    line.words(&["--shm-size", &root.shm_bytes.to_string()]);
    // What the engine would show of the machine there is nobody's business.
    line.words(&["--tmpfs", "/sys:ro,size=4k"]);
    for (from, at, access) in mounts(request, root, made) {
        line.bind(from, at, access)?;
    }
    for tmpfs in &root.tmpfs {
        line.tmpfs(&tmpfs.at, tmpfs.bytes)?;
    }
    line.words(&["--workdir", "/", &made.image, LAUNCHER_INSIDE]);
    Ok(line.0)
}

pub(crate) fn root_of(request: &LaunchRequest) -> Result<&BuiltRoot, LaunchError> {
    match &request.root {
        Root::Built(root) => Ok(root),
        Root::Host => Err(LaunchError::Invalid {
            what: "a container needs a root that is named".to_owned(),
        }),
    }
}

/// Returns all binds, each after those that it lies in.
fn mounts<'a>(
    request: &'a LaunchRequest,
    root: &'a BuiltRoot,
    made: &'a Made,
) -> Vec<(&'a Path, &'a Path, Access)> {
    let frozen = |from: &'a Path, at: &'a Path| (from, at, Access::ReadOnly);
    let shown = root
        .read_only
        .iter()
        .map(|shown| frozen(&shown.from, &shown.at));
    let files = root.files.iter().zip(&made.files);
    let files = files.map(|((at, _), from)| frozen(from, at));
    let own = [
        frozen(&made.launcher, Path::new(LAUNCHER_INSIDE)),
        frozen(&made.control, Path::new(CONTROL_INSIDE)),
    ];
    let binds = request.binds.iter();
    let binds = binds.map(|bind| (bind.from.as_path(), bind.at.as_path(), bind.access));
    let mut list: Vec<_> = shown.chain(files).chain(own).chain(binds).collect();
    list.sort_by_key(|&(_, at, _)| at);
    list
}

struct Line(Vec<OsString>);

impl Line {
    fn words(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    fn bind(&mut self, from: &Path, at: &Path, access: Access) -> Result<(), LaunchError> {
        let mut value = OsString::from("type=bind,src=");
        value.push(plain(from)?);
        value.push(",dst=");
        value.push(plain(at)?);
        if access == Access::ReadOnly {
            value.push(",readonly");
        }
        self.words(&["--mount"]);
        self.0.push(value);
        Ok(())
    }

    fn tmpfs(&mut self, at: &Path, bytes: u64) -> Result<(), LaunchError> {
        let mut value = OsString::from("type=tmpfs,dst=");
        value.push(plain(at)?);
        value.push(format!(",tmpfs-size={bytes},tmpfs-mode=1777"));
        self.words(&["--mount"]);
        self.0.push(value);
        Ok(())
    }
}

/// Refuses a path that the engine would read as something else.
fn plain(path: &Path) -> Result<&OsStr, LaunchError> {
    let text = path.as_os_str();
    let odd = |byte: &u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    if text.as_bytes().iter().any(odd) {
        return Err(LaunchError::Invalid {
            what: format!(
                "path `{}` can't be named to a container engine: it holds a comma, a quote or a line break",
                path.display().to_string().escape_debug()
            ),
        });
    }
    Ok(text)
}

/// Returns the archive of the image: the root's links, and the directories that engines expect.
pub(crate) fn image(root: &BuiltRoot) -> Result<Vec<u8>, LaunchError> {
    let mut archive = Vec::new();
    for name in ["dev", "etc", "proc", "run", "sys", "tmp", "usr"] {
        archive.extend(header(format!("{name}/").as_bytes(), b"", b'5')?);
    }
    for (at, target) in &root.links {
        let name = at.strip_prefix("/").unwrap_or(at);
        let (name, target) = (name.as_os_str().as_bytes(), target.as_os_str().as_bytes());
        archive.extend(header(name, target, b'2')?);
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    Ok(archive)
}

/// Returns the name under which an image with this content is kept.
pub(crate) fn image_name(archive: &[u8]) -> String {
    // Only told apart from other content of ours: who can tag images of this user is this user.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for &byte in archive {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    format!("localhost/cto-root:{hash:016x}")
}

fn header(name: &[u8], link: &[u8], kind: u8) -> Result<[u8; BLOCK], LaunchError> {
    if name.len() > NAME_MAX || link.len() > NAME_MAX {
        return Err(LaunchError::Invalid {
            what: format!(
                "link `{}` is too long for an image",
                String::from_utf8_lossy(name).escape_debug()
            ),
        });
    }
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name);
    put(100, b"0000755\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, b"00000000000\0");
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, &[kind]);
    put(157, link);
    put(257, b"ustar\0");
    put(263, b"00");
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    let mut text = String::new();
    write!(text, "{sum:06o}\0 ").unwrap_or_default();
    block[148..156].copy_from_slice(text.as_bytes());
    Ok(block)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::attempt::Recorder;
    use crate::request::{Bind, Limits, Stdin, TreeLimits};
    use crate::root::{Shown, Tmpfs};

    fn request() -> LaunchRequest {
        LaunchRequest {
            argv: vec!["true".into()],
            env: BTreeMap::from([("SECRET".into(), "value".into())]),
            cwd: "/w".into(),
            stdin: Stdin::Closed,
            binds: vec![
                Bind {
                    from: "/host/w".into(),
                    at: "/w".into(),
                    access: Access::Writable,
                },
                Bind {
                    from: "/host/in".into(),
                    at: "/w/in".into(),
                    access: Access::ReadOnly,
                },
            ],
            overlay: None,
            limits: Limits {
                wall: Duration::from_secs(1),
                output_bytes: 1,
                cpu_seconds: None,
                file_bytes: None,
                open_files: None,
                processes: Some(100),
            },
            network: Network::None,
            grace: Duration::from_secs(1),
            root: Root::Built(BuiltRoot {
                read_only: vec![Shown::here("/usr")],
                links: vec![("/bin".into(), "usr/bin".into())],
                files: vec![("/etc/hosts".into(), b"x".to_vec())],
                tmpfs: vec![Tmpfs {
                    at: "/tmp".into(),
                    bytes: 7,
                    files: 8,
                }],
                shm_bytes: 9,
            }),
            tree: TreeLimits {
                memory_bytes: Some(1024),
                ..TreeLimits::default()
            },
            run_as: None,
            recorder: Recorder::Off,
            endpoint: None,
        }
    }

    fn made() -> Made {
        Made {
            name: "cto-1".to_owned(),
            image: "localhost/cto-root:1".to_owned(),
            launcher: "/host/cto".into(),
            control: "/host/control".into(),
            files: vec!["/host/0".into()],
            user: (1000, 1001),
        }
    }

    fn line(engine: Engine, request: &LaunchRequest) -> String {
        let line = arguments(engine, request, &made()).unwrap();
        line.join(OsStr::new(" ")).into_string().unwrap()
    }

    const AFTER: &str = "--pids-limit 108 --memory 1024 --shm-size 9 --tmpfs /sys:ro,size=4k \
        --mount type=bind,src=/host/control,dst=/.cto/control,readonly \
        --mount type=bind,src=/host/cto,dst=/.cto/cto-launcher,readonly \
        --mount type=bind,src=/host/0,dst=/etc/hosts,readonly --mount type=bind,src=/usr,dst=/usr,readonly \
        --mount type=bind,src=/host/w,dst=/w --mount type=bind,src=/host/in,dst=/w/in,readonly \
        --mount type=tmpfs,dst=/tmp,tmpfs-size=7,tmpfs-mode=1777 \
        --workdir / localhost/cto-root:1 /.cto/cto-launcher";
    const BEFORE: &str = "run --rm --pull never --name cto-1 --network none --read-only --cap-drop all \
        --security-opt no-new-privileges --security-opt label=disable --hostname localhost --log-driver none";

    #[test]
    fn an_engine_gets_a_closed_container_and_no_environment() {
        assert_eq!(
            line(Engine::Docker, &request()),
            format!("{BEFORE} --user 1000:1001 {AFTER}")
        );
        assert_eq!(
            line(Engine::Podman, &request()),
            format!("{BEFORE} --read-only-tmpfs=false --userns host {AFTER}")
        );
    }

    #[test]
    fn the_image_is_an_archive_of_directories_and_links() {
        let Root::Built(root) = request().root else {
            unreachable!("it is built")
        };
        let archive = image(&root).unwrap();
        assert_eq!(archive.len(), (7 + 1 + 2) * BLOCK);
        let link = &archive[7 * BLOCK..8 * BLOCK];
        assert_eq!(
            (&link[..4], link[156], &link[157..165]),
            (&b"bin\0"[..], b'2', &b"usr/bin\0"[..])
        );
        let other = BuiltRoot::default();
        assert_ne!(image_name(&archive), image_name(&image(&other).unwrap()));
    }

    proptest! {
        #[test]
        fn no_path_adds_a_mount_option(path in "/[a-z,=\"\\n:]{0,12}") {
            let mut request = request();
            request.binds[0].from = PathBuf::from(&path);
            let odd = path.contains([',', '"', '\n']);
            match arguments(Engine::Docker, &request, &made()) {
                Err(error) => prop_assert!(odd, "{error}"),
                Ok(line) => {
                    prop_assert!(!odd);
                    let value = OsString::from(format!("type=bind,src={path},dst=/w"));
                    prop_assert!(line.contains(&value));
                }
            }
        }
    }
}
