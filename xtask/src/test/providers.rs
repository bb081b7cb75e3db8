//! Other sandbox providers for the tests: taken from the system, else installed where that can be done.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{in_ci, output_of};

/// The setting that names a provider, its program, and the packages that bring it.
const PROVIDERS: [(&str, &str, &[&str]); 2] = [
    ("CTO_TEST_BWRAP", "bwrap", &["bubblewrap"]),
    // The second runtime copes with machines whose groups are of both versions.
    ("CTO_TEST_PODMAN", "podman", &["podman", "runc"]),
];

/// Settings of the providers that are there, and a line for each that is not.
#[derive(Default)]
pub(super) struct Prepared {
    pub(super) settings: Vec<(&'static str, String)>,
    pub(super) skipped: Vec<String>,
}

pub(super) fn prepare() -> anyhow::Result<Prepared> {
    let mut prepared = Prepared::default();
    for (setting, program, packages) in PROVIDERS {
        let installed = match find(program) {
            Some(found) => Ok(found),
            None => install(program, packages),
        };
        match installed {
            Ok(found) => prepared
                .settings
                .push((setting, found.display().to_string())),
            Err(error) if in_ci() && can_install() => {
                return Err(error.context(format!("could not install {program} for the tests")));
            }
            Err(error) => {
                let reason = format!("{error:#}").replace('\n', " ");
                let line = format!("skipped: sandboxes by a real {program} ({reason})");
                prepared.skipped.push(line);
            }
        }
    }
    Ok(prepared)
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Only where nobody else's machine is changed: in CI, as root, with the system's own packages.
fn can_install() -> bool {
    let is_root = output_of(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    is_root && Path::new("/usr/bin/apt-get").is_file()
}

fn install(program: &str, packages: &[&str]) -> anyhow::Result<PathBuf> {
    anyhow::ensure!(
        in_ci() && can_install(),
        "it is not on PATH; install {}",
        packages.join(" and ")
    );
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    let install = ["install", "-y"];
    if output_of(apt().args(install).args(packages)).is_err() {
        output_of(apt().arg("update"))?;
        output_of(apt().args(install).args(packages))?;
    }
    find(program).ok_or_else(|| anyhow::anyhow!("it is not on PATH although it was installed"))
}
