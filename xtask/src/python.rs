//! A Python of our own for tests that check our evidence with tools we did not write.
//!
//! Nothing is installed outside the target directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::process::output_of;
use crate::workspace::Workspace;

/// What the tests import, and what pip is asked for. Ed25519 and PEM keys read alike in all of these.
const MODULE: &str = "cryptography";
const REQUIREMENT: &str = "cryptography>=42";

/// Returns a Python that can import what the tests need, making one below `tools` if there is none yet.
pub(crate) fn prepare(tools: &Path) -> anyhow::Result<PathBuf> {
    let venv = tools.join("venv");
    let python = venv.join("bin/python");
    if has_module(&python) {
        return Ok(python);
    }
    match install(&venv, &python) {
        Ok(()) => Ok(python),
        // Without a package index the system's own copy is as good a judge.
        Err(_) if has_module(Path::new("python3")) => Ok(PathBuf::from("python3")),
        Err(error) => Err(error),
    }
}

/// Returns a program from a package of the index, installed into a place of its own below the target directory.
pub(crate) fn tool(workspace: &Workspace, package: &str, program: &str) -> anyhow::Result<PathBuf> {
    let venv = workspace.tools().join(package);
    let found = venv.join("bin").join(program);
    if !found.exists() {
        output_of(
            Command::new("python3")
                .args(["-m", "venv", "--clear"])
                .arg(&venv),
        )?;
        let pip = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
            package,
        ];
        output_of(Command::new(venv.join("bin/python")).args(pip))?;
    }
    Ok(found)
}

fn has_module(python: &Path) -> bool {
    output_of(Command::new(python).args(["-c", &format!("import {MODULE}")])).is_ok()
}

fn install(venv: &Path, python: &Path) -> anyhow::Result<()> {
    println!("installing {MODULE} for the tests into {}", venv.display());
    let quiet = [
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        REQUIREMENT,
    ];
    let with_pip = output_of(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(venv),
    );
    if with_pip.is_ok() {
        output_of(Command::new(python).args(["-m", "pip"]).args(quiet))?;
    } else {
        // Some distributions cut `ensurepip` out of Python; the system's pip can fill a bare environment.
        let bare = ["-m", "venv", "--clear", "--without-pip"];
        output_of(Command::new("python3").args(bare).arg(venv))?;
        output_of(
            Command::new("python3")
                .args(["-m", "pip", "--python"])
                .arg(python)
                .args(quiet),
        )
        .context("python3 has neither a working `venv` nor `pip`")?;
    }
    output_of(Command::new(python).args(["-c", &format!("import {MODULE}")]))?;
    Ok(())
}
