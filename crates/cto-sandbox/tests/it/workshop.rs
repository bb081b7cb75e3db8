//! A root from nothing with a workspace in it, and something outside that must stay as it is.

use std::fs;
use std::path::{Path, PathBuf};

use cto_sandbox::{Access, Bind, BuiltRoot, LaunchRequest, Recorder, Root, Tmpfs};
use tempfile::TempDir;

use crate::support::{Ran, launcher, request, run, try_run};

/// Where the workspace is seen inside.
pub(crate) const WORKSPACE: &str = "/case/space";
const TMP_BYTES: u64 = 256 * 1024 * 1024;

pub(crate) struct Workshop {
    folder: TempDir,
    recorder: Recorder,
}

impl Workshop {
    #[expect(
        clippy::disallowed_methods,
        reason = "test data needs no atomic writer"
    )]
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["space", "outside"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("outside/secret"), "untouched").unwrap();
        Self {
            folder,
            recorder: Recorder::Off,
        }
    }

    /// One without a recorder and one with it.
    pub(crate) fn both() -> [Self; 2] {
        [Self::new(), Self::recorded()]
    }

    pub(crate) fn recorded() -> Self {
        Self {
            recorder: Recorder::On,
            ..Self::new()
        }
    }

    pub(crate) fn space(&self) -> PathBuf {
        self.folder.path().join("space")
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A command in the workspace; `OUTSIDE` names the folder that does not exist inside.
    pub(crate) fn request(&self, argv: &[&str]) -> LaunchRequest {
        let mut request = request(argv);
        request.recorder = self.recorder;
        let mut root = BuiltRoot::system();
        root.tmpfs.push(Tmpfs {
            at: "/tmp".into(),
            bytes: TMP_BYTES,
            files: 100_000,
        });
        request.root = Root::Built(root);
        request.binds.push(Bind {
            from: self.space(),
            at: WORKSPACE.into(),
            access: Access::Writable,
        });
        request.cwd = WORKSPACE.into();
        for (name, value) in [
            ("HOME", Path::new("/tmp")),
            ("OUTSIDE", &self.outside()),
            ("LC_ALL", Path::new("C.UTF-8")),
        ] {
            request.env.insert(name.into(), value.into());
        }
        request
    }

    pub(crate) fn script(&self, text: &str) -> LaunchRequest {
        self.request(&["/bin/sh", "-c", text])
    }

    pub(crate) fn run_script(&self, text: &str) -> Ran {
        run(&self.script(text))
    }

    /// Runs and returns what went wrong, in a line.
    pub(crate) fn error(&self, request: &LaunchRequest) -> String {
        try_run(&launcher(), request).unwrap_err().to_string()
    }
}
