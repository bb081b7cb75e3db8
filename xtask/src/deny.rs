//! Licences, bans and sources of all dependencies by cargo-deny, and advisories where their database can be had.
//!
//! A cargo-deny on the path is used as it is; else one is built once below the target directory.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use crate::process::{cargo, output_before, output_of, status_of};
use crate::workspace::Workspace;

/// The series whose configuration format `deny.toml` is written in.
const VERSION: &str = "^0.20";
/// A network that swallows packets must not hold up the checks that need none.
const ADVISORIES_SECONDS_MAX: Duration = Duration::from_secs(90);

pub(crate) fn run(args: &[String]) -> anyhow::Result<ExitCode> {
    if let Some(extra) = args.first() {
        bail!("`cargo xtask deny` takes no arguments, not `{extra}`");
    }
    let workspace = Workspace::load()?;
    let program = find_or_install(&workspace)?;
    let deny = || {
        let mut command = Command::new(&program);
        command.current_dir(&workspace.root).arg("--workspace");
        command
    };

    let offline = status_of(deny().args([
        "check",
        "--hide-inclusion-graph",
        "licenses",
        "bans",
        "sources",
    ]))?;
    let advisories = output_before(deny().args(["check", "advisories"]), ADVISORIES_SECONDS_MAX)?;
    let advised = match advisories.filter(|output| !database_failed(&output.stderr)) {
        Some(output) => {
            std::io::stdout().write_all(&output.stdout)?;
            std::io::stderr().write_all(&output.stderr)?;
            output.status.success()
        }
        None => {
            println!("skipped: advisories (their database cannot be fetched from here)");
            true
        }
    };
    Ok(if offline.success() && advised {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A fetch that failed is told apart from a finding by its words: both end with an exit code of 1.
fn database_failed(talk: &[u8]) -> bool {
    String::from_utf8_lossy(talk).contains("failed to fetch advisory database")
}

fn find_or_install(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let tools = workspace.tools();
    let own = tools.join("bin/cargo-deny");
    for program in [PathBuf::from("cargo-deny"), own.clone()] {
        if output_of(Command::new(&program).arg("--version"))
            .is_ok_and(|version| is_known(&version))
        {
            return Ok(program);
        }
    }
    println!(
        "building cargo-deny {VERSION} into {} (once, some minutes)",
        tools.display()
    );
    // It reads a few manifests: unoptimised is fast enough, and builds in a fraction of the time.
    let install = [
        "install",
        "cargo-deny",
        "--version",
        VERSION,
        "--locked",
        "--no-default-features",
        "--debug",
        "--quiet",
    ];
    let status = status_of(
        cargo()
            .args(install)
            .arg("--root")
            .arg(&tools)
            .env("CARGO_TARGET_DIR", tools.join("build"))
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .current_dir(&workspace.root),
    )?;
    ensure!(status.success(), "cargo-deny could not be built ({status})");
    output_of(Command::new(&own).arg("--version"))
        .context("the cargo-deny just built does not start")?;
    Ok(own)
}

/// Older ones do not understand the package ids of today's cargo and panic.
fn is_known(version: &str) -> bool {
    let mut numbers = version
        .trim()
        .trim_start_matches("cargo-deny ")
        .split('.')
        .map(|part| part.parse::<u64>());
    matches!(
        (numbers.next(), numbers.next()),
        (Some(Ok(0)), Some(Ok(18..))) | (Some(Ok(1..)), Some(Ok(_)))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cargo_deny_too_old_for_this_cargo_is_not_used() {
        assert!(
            is_known("cargo-deny 0.20.2\n")
                && is_known("cargo-deny 0.18.0")
                && is_known("cargo-deny 1.0.0")
        );
        assert!(!is_known("cargo-deny 0.14.2") && !is_known("") && !is_known("cargo-deny"));
    }

    #[test]
    fn only_a_failed_fetch_excuses_the_advisories() {
        assert!(database_failed(
            b"[ERROR] failed to fetch advisory database X with cli"
        ));
        assert!(!database_failed(b"error[vulnerability]: a bad thing"));
    }
}
