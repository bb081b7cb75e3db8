//! A harness of its own process, killed while its agent works: the agent must die too, and the run be sealed.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::machine::Machine;
use super::site::{SceneSite, variables};
use super::task::contract_text;
use super::{Options, scenes};
use crate::failures::check::Seen;
use crate::failures::site::{SiteError, put};

/// What the agent locks whose harness is killed.
const HELD: &str = "rt66-held";
const KILL_WAIT: Duration = Duration::from_secs(30);
const KILL_LOOK: Duration = Duration::from_millis(5);

/// Kills a harness of its own process while its agent works, lets another recover the run, and gives its pack.
pub(crate) fn kill_supervisor(
    directory: &Path,
    options: &Options,
    machine: &Machine,
) -> Result<Seen, SiteError> {
    let scene = &scenes::SUPERVISOR_KILLED;
    let site = SceneSite::make(scene, directory, options, machine)?;
    let contract = site.place.join("contract.yaml");
    put(&contract, &contract_text(scene), 0o644)?;
    let look = |source| SiteError::Look {
        path: site.place.clone(),
        source,
    };
    let mut troubles = Vec::new();
    let mut harness = site
        .start_harness(&options.program, &contract)
        .map_err(look)?;
    let deadline = Instant::now() + KILL_WAIT;
    let held = wait_for(deadline, || match harness.try_wait() {
        Ok(None) => held_lock(&site.harness.home.rooms()),
        // It ended by itself: nobody will hold anything.
        Ok(Some(_)) | Err(_) => None,
    });
    harness.kill().map_err(look)?;
    harness.wait().map_err(look)?;
    match held {
        None => troubles.push("control: the agent never held its lock".to_owned()),
        Some(lock) => {
            let freed = wait_for(deadline, || lock.try_lock().is_ok().then_some(()));
            if freed.is_none() {
                troubles.push("the agent still holds its lock: it outlived its harness".to_owned());
            }
        }
    }
    let recovered = cto_runner::recover_all(&site.harness, cto_runner::Search::All)
        .map_err(|e| look(io::Error::other(cto_runner::error_chain(&e))))?;
    let pack = recovered
        .iter()
        .find_map(|one| match one {
            cto_runner::Recovered::Sealed { run_id, .. } => Some(site.harness.home.pack(run_id)),
            cto_runner::Recovered::Live { .. }
            | cto_runner::Recovered::Cleared { .. }
            | cto_runner::Recovered::Discarded { .. }
            | cto_runner::Recovered::Landed { .. }
            | cto_runner::Recovered::NotLanded { .. }
            | cto_runner::Recovered::Failed { .. } => None,
        })
        .ok_or_else(|| {
            look(io::Error::other(format!(
                "nothing was recovered: {troubles:?}"
            )))
        })?;
    troubles.extend(site.left_behind().map_err(look)?);
    Ok(Seen {
        pack,
        trusted: site.harness.config.trusted.clone(),
        outside: Vec::new(),
        troubles,
    })
}

impl SceneSite<'_> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a harness as its operator starts it: in a sandbox of ours it could make none of its own"
    )]
    fn start_harness(&self, program: &Path, contract: &Path) -> io::Result<Child> {
        Command::new(program)
            // The key of the home counts by this configuration alone.
            .arg("--config")
            .arg(&self.harness.config.dir)
            .args(["run", "-q", "--engine", "command", "--stage", "3", "--repo"])
            .arg(self.place.join("repo"))
            .arg("--contract")
            .arg(contract)
            .arg("--")
            .args(&self.request.argv)
            .env_clear()
            .envs(variables(
                self.scene,
                &self.place,
                &self.path,
                &self.planted,
            ))
            .env("CTO_HOME", self.harness.home.root())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    }
}

fn wait_for<T>(deadline: Instant, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() > deadline {
            return None;
        }
        std::thread::sleep(KILL_LOOK);
    }
}

/// The file that the agent has locked, wherever in its tree it lies.
fn held_lock(work: &Path) -> Option<fs::File> {
    let mut dirs = vec![work.to_owned()];
    while let Some(dir) = dirs.pop() {
        // What an overlay keeps for itself is closed, also to its owner; the lock is elsewhere then.
        let Ok(entries) = fs::read_dir(dir) else {
            continue;
        };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() {
                dirs.push(entry.path());
            } else if kind.is_file() && entry.file_name() == HELD {
                let Ok(file) = fs::File::open(entry.path()) else {
                    continue;
                };
                if matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock)) {
                    return Some(file);
                }
            }
        }
    }
    None
}
