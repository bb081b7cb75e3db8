//! The command line of bwrap for a policy (pure).

use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::LAUNCHER_INSIDE;
use crate::request::{Access, Network};
use crate::wire::{Policy, Raw, RootPolicy};

/// Something of the host that is to be seen inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) from: PathBuf,
    pub(crate) at: Raw,
    pub(crate) access: Access,
}

/// Returns all arguments after the program's name. `files` are open descriptors of the root's files, in their order.
pub(crate) fn arguments(
    policy: &Policy,
    root: &RootPolicy,
    shown: &[Shown],
    files: &[RawFd],
    id: u32,
) -> Vec<OsString> {
    let mut line = Line(Vec::new());
    line.words(&["--unshare-user", "--unshare-ipc", "--unshare-pid"]);
    match policy.network {
        Network::None => drop(line.words(&["--unshare-net"])),
        Network::Host => {}
    }
    line.words(&["--unshare-uts", "--unshare-cgroup-try"]);
    line.words(&["--hostname", "localhost"]);
    let id = id.to_string();
    line.words(&["--uid", &id, "--gid", &id]);
    // The launcher must be the namespace's init: with it all others die, and bwrap waits for it.
    line.words(&["--as-pid-1", "--die-with-parent", "--new-session"]);
    line.words(&["--cap-drop", "ALL", "--clearenv"]);
    for (place, target) in &root.links {
        line.words(&["--symlink"]).raw(target).raw(place);
    }
    for ((place, _), file) in root.files.iter().zip(files) {
        line.words(&["--perms", "0444", "--file", &file.to_string()])
            .raw(place);
    }
    line.words(&["--proc", "/proc", "--dev", "/dev"]);
    let shm = root.shm_bytes.to_string();
    line.words(&["--perms", "1777", "--size", &shm, "--tmpfs", "/dev/shm"]);
    // Each after those that it lies in.
    let tmpfs = root.tmpfs.iter().map(|tmpfs| (&tmpfs.at, None));
    let mut entries: Vec<_> = shown
        .iter()
        .map(|shown| (&shown.at, Some(shown)))
        .chain(tmpfs)
        .collect();
    entries.sort_by_key(|(at, _)| at.path().to_path_buf());
    for (at, entry) in entries {
        match entry {
            Some(shown) => {
                let flag = match shown.access {
                    Access::ReadOnly => "--ro-bind",
                    Access::Writable => "--bind",
                };
                line.words(&[flag]).raw(&Raw::from(&shown.from)).raw(at);
            }
            None => {
                let bytes = root.tmpfs.iter().find(|tmpfs| &tmpfs.at == at);
                let bytes = bytes.map_or(0, |tmpfs| tmpfs.bytes).to_string();
                line.words(&["--perms", "1777", "--size", &bytes, "--tmpfs"])
                    .raw(at);
            }
        }
    }
    line.words(&["--chdir", "/", "--remount-ro", "/"]);
    line.words(&["--", LAUNCHER_INSIDE]);
    line.0
}

struct Line(Vec<OsString>);

impl Line {
    fn words(&mut self, words: &[&str]) -> &mut Self {
        self.0.extend(words.iter().map(OsString::from));
        self
    }

    fn raw(&mut self, bytes: &Raw) -> &mut Self {
        self.0.push(OsStr::from_bytes(&bytes.0).to_owned());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Way;
    use crate::request::Stdin;
    use crate::wire::{RlimitPolicy, TmpfsPolicy, TreePolicy};

    fn policy(network: Network) -> Policy {
        Policy {
            argv: vec![Raw::from("true")],
            env: vec![(Raw::from("A"), Raw::from("b"))],
            cwd: Raw::from("/w"),
            stdin: Stdin::Closed,
            binds: Vec::new(),
            overlay: None,
            limits: RlimitPolicy::default(),
            network,
            force_group: false,
            root: None,
            tree: TreePolicy::default(),
            run_as: 1,
            record: false,
            endpoint: None,
            way: Way::Native,
        }
    }

    #[test]
    fn the_root_comes_from_nothing_and_parents_come_first() {
        let root = RootPolicy {
            read_only: Vec::new(),
            links: vec![(Raw::from("/bin"), Raw::from("usr/bin"))],
            files: vec![(Raw::from("/etc/hosts"), Raw::from("x"))],
            tmpfs: vec![TmpfsPolicy {
                at: Raw::from("/tmp"),
                bytes: 7,
                files: 8,
            }],
            shm_bytes: 9,
        };
        let shown = |from: &str, at: &str, access| Shown {
            from: from.into(),
            at: Raw::from(at),
            access,
        };
        let shown = [
            shown("/host/deep", "/w/deep", Access::ReadOnly),
            shown("/host/w", "/w", Access::Writable),
            shown("/usr", "/usr", Access::ReadOnly),
        ];
        let line = |network| {
            let line = arguments(&policy(network), &root, &shown, &[5], 1000);
            line.join(OsStr::new(" ")).into_string().unwrap()
        };
        assert_eq!(
            line(Network::None),
            "--unshare-user --unshare-ipc --unshare-pid --unshare-net --unshare-uts --unshare-cgroup-try \
             --hostname localhost --uid 1000 --gid 1000 --as-pid-1 --die-with-parent --new-session --cap-drop ALL --clearenv \
             --symlink usr/bin /bin --perms 0444 --file 5 /etc/hosts --proc /proc --dev /dev \
             --perms 1777 --size 9 --tmpfs /dev/shm --perms 1777 --size 7 --tmpfs /tmp --ro-bind /usr /usr \
             --bind /host/w /w --ro-bind /host/deep /w/deep --chdir / --remount-ro / -- /.cto/cto-launcher"
        );
        assert!(!line(Network::Host).contains("--unshare-net"));
    }
}
