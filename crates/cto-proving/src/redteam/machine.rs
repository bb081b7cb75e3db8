//! What this machine has for the attacks to be made of.

use std::path::Path;

use cto_sandbox::Launcher;

use super::Options;
use super::corpus::{Behaviour, Need};
use crate::failures::site::bare;

const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";
const PYTHON_SYSTEM: &str = "/usr/bin/python3";

#[derive(Debug, Clone)]
pub(crate) struct Machine {
    /// The interpreter itself, never a version manager's script.
    pub(crate) python: Option<String>,
    has_unshare: bool,
    /// With the interpreter's own directory first.
    pub(crate) path: String,
    /// Sockets of services that the operator's session names.
    pub(crate) sockets: Vec<String>,
}

impl Machine {
    pub(crate) fn look(options: &Options) -> Self {
        let path = options.env.get("PATH").unwrap_or(PATH_DEFAULT);
        let on_path = |name: &str| {
            path.split(':')
                .map(|dir| Path::new(dir).join(name))
                .find(|file| file.is_file())
        };
        let python = Some(PYTHON_SYSTEM.into())
            .filter(|file: &std::path::PathBuf| file.is_file())
            .or_else(|| on_path("python3"))
            .and_then(|file| {
                let script = "import sys; assert sys.version_info >= (3, 8); print(sys.executable)";
                let argv = vec![
                    file.into_os_string(),
                    "-I".into(),
                    "-c".into(),
                    script.into(),
                ];
                let launcher = Launcher {
                    force_group: true,
                    ..options.launcher.clone()
                };
                let said = bare(argv, Path::new("/"), path, &launcher).ok()?;
                let real = said.trim();
                Path::new(real).is_absolute().then(|| real.to_owned())
            });
        let own = python
            .as_deref()
            .and_then(|p| Path::new(p).parent())
            .map(|dir| format!("{}:", dir.display()))
            .unwrap_or_default();
        Self {
            has_unshare: on_path("unshare").is_some(),
            path: format!("{own}{path}"),
            sockets: ["SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS"]
                .iter()
                .filter_map(|name| options.env.get(name))
                .map(|value| value.trim_start_matches("unix:path=").to_owned())
                .filter(|value| value.starts_with('/'))
                .collect(),
            python,
        }
    }

    /// Why a behaviour can't be tried here: only what the attack is made of counts, never what should hold it.
    pub(crate) fn lacks(&self, behaviour: &Behaviour) -> Option<String> {
        let lacks = |need: Need| match need {
            Need::Python => self
                .python
                .is_none()
                .then_some("there is no python3 (3.8 or later) to try it with"),
            Need::Unshare => (!self.has_unshare).then_some("there is no unshare to try it with"),
            Need::X86 => {
                (!cfg!(target_arch = "x86_64")).then_some("this architecture has no such calls")
            }
            Need::UserNamespace
            | Need::MountNamespace
            | Need::PidNamespace
            | Need::NetworkNamespace
            | Need::IpcNamespace
            | Need::Seccomp => None,
        };
        behaviour
            .needs
            .iter()
            .find_map(|need| lacks(*need))
            .map(str::to_owned)
    }
}
