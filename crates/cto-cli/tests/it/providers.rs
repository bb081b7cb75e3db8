//! Providers of this machine in which an agent can have a model.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// One that works here, and what its program must find in the environment.
pub(crate) struct Provider {
    pub(crate) name: &'static str,
    pub(crate) env: Vec<(&'static str, PathBuf)>,
    /// The whole state of an engine.
    folder: Option<TempDir>,
}

impl Provider {
    pub(crate) fn native() -> Self {
        Self::without_state("native")
    }

    fn without_state(name: &'static str) -> Self {
        Self {
            name,
            env: Vec::new(),
            folder: None,
        }
    }

    fn bwrap() -> Option<Self> {
        let is_there = Path::new("/usr/bin/bwrap").is_file();
        cto_testkit::has("bwrap", is_there).then(|| Self::without_state("bwrap"))
    }

    /// Rootless only, and with a runtime that copes with groups of both versions.
    fn podman() -> Option<Self> {
        if rustix::process::geteuid().is_root() {
            cto_testkit::skipped("podman is for an ordinary user");
            return None;
        }
        if !cto_testkit::has("podman", Path::new("/usr/bin/podman").is_file()) {
            return None;
        }
        let folder = TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["run", "tmp"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        let runtime = match Path::new("/sys/fs/cgroup/unified").exists() {
            true => "[engine]\nruntime = \"runc\"\n",
            false => "",
        };
        std::fs::write(at("containers.conf"), runtime).unwrap();
        let env = vec![
            ("HOME", folder.path().to_owned()),
            ("TMPDIR", at("tmp")),
            ("XDG_RUNTIME_DIR", at("run")),
            ("XDG_DATA_HOME", at("data")),
            ("CONTAINERS_CONF", at("containers.conf")),
        ];
        Some(Self {
            name: "podman",
            env,
            folder: Some(folder),
        })
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let more = [Self::bwrap(), Self::podman()];
        std::iter::once(Self::native()).chain(more.into_iter().flatten())
    }

    /// Whether it has a recorder, which notes attempts.
    pub(crate) fn notes_attempts(&self) -> bool {
        self.name == "native"
    }
}

impl Drop for Provider {
    /// Podman keeps a process for its user namespace, and images that only it can remove.
    fn drop(&mut self) {
        let Some(folder) = &self.folder else { return };
        let mut podman = Command::new("/usr/bin/podman");
        podman.args(["rmi", "--all", "--force"]).env_clear();
        podman
            .envs(self.env.iter().cloned())
            .env("PATH", "/usr/bin:/bin");
        podman.output().ok();
        let pid = std::fs::read_to_string(folder.path().join("run/libpod/tmp/pause.pid")).ok();
        let pid = pid.and_then(|text| rustix::process::Pid::from_raw(text.trim().parse().ok()?));
        if let Some(pid) = pid {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
        }
    }
}
