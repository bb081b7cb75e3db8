//! What the tree sees as `/`: the host's root, or one that is built from nothing and holds only what is named here.

use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use crate::error::LaunchError;
use crate::request::{UNPRIVILEGED_ID, check_path};

/// Room of a `/dev/shm` that nobody asked for in another size.
const SHM_BYTES: u64 = 256 * 1024 * 1024;
/// Settings up to this size are copied; larger ones are mounted.
const SMALL_BYTES_MAX: u64 = 4 * 1024;

/// The root directory of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Root {
    /// The host's; binds and overlay are laid over it.
    #[default]
    Host,
    /// An own one. Nothing of the host is in it but what the request names.
    Built(BuiltRoot),
}

/// The content of a root that is built from nothing, besides overlay and binds of the request.
///
/// `/proc` and a small `/dev` are always there. A place below an overlay, a bind or a shown directory must exist in it, and
/// no place may lead through a symbolic link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuiltRoot {
    pub read_only: Vec<Shown>,
    /// Symbolic links: where, and what they say.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Small files made fresh: where, and what they hold. Nobody can write them.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    pub tmpfs: Vec<Tmpfs>,
    pub shm_bytes: u64,
}

/// A file or directory of the host that is seen inside and cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub from: PathBuf,
    pub at: PathBuf,
}

/// An empty writable directory in memory, gone with the tree. Its bounds are hard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tmpfs {
    pub at: PathBuf,
    pub bytes: u64,
    pub files: u64,
}

impl Shown {
    /// The path at its own place.
    pub fn here(path: impl Into<PathBuf>) -> Self {
        let from = path.into();
        Self {
            at: from.clone(),
            from,
        }
    }
}

/// Directories of programs: where they are links into `/usr`, the links are made; else they are shown.
const PROGRAM_FOLDERS: &[&str] = &["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// What programs look up in `/etc` and what says nothing about this machine or its users.
const ETC: &[&str] = &[
    "alternatives",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "fonts",
    "gai.conf",
    "host.conf",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "localtime",
    "magic",
    "magic.mime",
    "mime.types",
    "networks",
    "nsswitch.conf",
    "os-release",
    "pki/ca-trust",
    "pki/tls/certs",
    "protocols",
    "python3",
    "rpc",
    "services",
    "shells",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
];

const HOSTS: &str = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";

impl BuiltRoot {
    /// The programs and the few settings that the usual tools need, as this machine has them; one user, no name server.
    #[must_use]
    pub fn system() -> Self {
        Self::system_for(id_inside())
    }

    /// The same for a launch with [`run_as`](crate::LaunchRequest::run_as).
    #[must_use]
    pub fn system_for(id: u32) -> Self {
        let mut root = Self {
            read_only: vec![Shown::here("/usr")],
            shm_bytes: SHM_BYTES,
            ..Self::default()
        };
        for folder in PROGRAM_FOLDERS.iter().map(Path::new) {
            match std::fs::read_link(folder) {
                Ok(target) => root.links.push((folder.to_owned(), target)),
                Err(_) if folder.is_dir() => root.read_only.push(Shown::here(folder)),
                Err(_) => {}
            }
        }
        let fresh = [
            ("/etc/hosts", HOSTS.to_owned()),
            ("/etc/resolv.conf", String::new()),
            (
                "/etc/passwd",
                format!("user:x:{id}:{id}:user:/tmp:/bin/sh\n"),
            ),
            ("/etc/group", format!("user:x:{id}:\n")),
        ]
        .map(|(at, text)| (PathBuf::from(at), text.into_bytes()));
        root.files.extend(fresh);
        for path in ETC.iter().map(|name| Path::new("/etc").join(name)) {
            // A mount for each would take longer than all the rest of a start.
            match small_text(&path) {
                Some(bytes) => root.files.push((path, bytes)),
                None if path.exists() => root.read_only.push(Shown::here(path)),
                None => {}
            }
        }
        root
    }

    /// Refuses places that could not be made, or that would take the new root itself away.
    pub(crate) fn check(&self) -> Result<(), LaunchError> {
        let sources = self.read_only.iter().map(|shown| &shown.from);
        for path in sources {
            check_path(path)?;
        }
        let shown = self.read_only.iter().map(|shown| &shown.at);
        let links = self.links.iter().map(|(at, _)| at);
        let files = self.files.iter().map(|(at, _)| at);
        let tmpfs = self.tmpfs.iter().map(|tmpfs| &tmpfs.at);
        for at in shown.chain(links).chain(files).chain(tmpfs) {
            check_path(at)?;
            check_place(at)?;
        }
        Ok(())
    }
}

/// Returns what a small file of text holds.
fn small_text(path: &Path) -> Option<Vec<u8>> {
    let file = std::fs::File::open(path).ok()?;
    let meta = file.metadata().ok()?;
    if !meta.is_file() || meta.len() > SMALL_BYTES_MAX {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(SMALL_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .ok()?;
    let is_whole = bytes.len() as u64 <= SMALL_BYTES_MAX;
    (is_whole && std::str::from_utf8(&bytes).is_ok()).then_some(bytes)
}

/// Returns as whom a launch of this process will run.
fn id_inside() -> u32 {
    #[cfg(target_os = "linux")]
    {
        match rustix::process::geteuid().as_raw() {
            0 => UNPRIVILEGED_ID,
            id => id,
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        UNPRIVILEGED_ID
    }
}

/// Refuses what cannot be a place inside: the root itself, and names that lead back.
pub(crate) fn check_place(at: &Path) -> Result<(), LaunchError> {
    let mut components = at.components();
    let rooted = components.next() == Some(Component::RootDir);
    let mut below = components.peekable();
    let named = below.peek().is_some() && below.all(|c| matches!(c, Component::Normal(_)));
    if rooted && named {
        return Ok(());
    }
    Err(LaunchError::Invalid {
        what: format!("`{}` is no place inside a root", at.display()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_path_below_the_root_is_a_place() {
        let place = |at: &str| check_place(Path::new(at)).is_ok();
        assert_eq!(
            ["/a", "/a/b/", "/", "/a/../b", "a", "", "/.."].map(place),
            [true, true, false, false, false, false, false]
        );
    }

    #[test]
    fn the_usual_root_has_programs_and_one_user_and_no_name_server() {
        let root = BuiltRoot::system_for(1234);
        assert!(root.check().is_ok());
        let text = |at: &str| {
            let found = root.files.iter().find(|(path, _)| path == Path::new(at));
            found.map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned())
        };
        assert_eq!(
            text("/etc/passwd").as_deref(),
            Some("user:x:1234:1234:user:/tmp:/bin/sh\n")
        );
        assert_eq!(text("/etc/resolv.conf").as_deref(), Some(""));
        assert!(root.read_only.contains(&Shown::here("/usr")));
        let secret = ["/etc/shadow", "/etc/ssh", "/etc/ssl/private", "/etc/ssl"];
        let shows = |path: &&str| root.read_only.iter().any(|s| s.at == Path::new(path));
        assert!(!secret.iter().any(shows));
    }
}
