//! `cto doctor`: is everything there that a run needs?

use std::path::{Path, PathBuf};

use cto_contract::outputs::{DoctorCheck, DoctorOutput, DoctorTag, Health};
use cto_contract::trust::Origin;
use cto_contract::words::SandboxChoice;
use cto_rules::sandbox_choice::{PROVIDER_VARIABLE, Wishes, choose};
use cto_runner::{APPARMOR_REMEDY, Config, Home, find_program, key_path, live_runs, show_key};
use cto_sandbox::Class;

use super::Outcome;
use crate::failure::{Exit, Failure};
use crate::printer::{BAD, FAINT, GOOD, WARN};
use crate::session::Session;

const DISK_LOW_BYTES: u64 = 1 << 30;
const DISK_EMPTY_BYTES: u64 = 64 << 20;

/// Check that this machine can run
///
/// Looks at home, config, key, database, disk, git, python3 and what the kernel allows for confinement. Each
/// finding says what to do. Exit 1 when something fails.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Example:
  cto doctor")]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, session: &Session) -> Outcome {
    let mut checks = Checks(Vec::new());
    let config = match session.config() {
        Ok(config) => {
            let detail = format!(
                "{}{}",
                config.dir.display(),
                if config.has_file {
                    ""
                } else {
                    " (no harness.yaml: defaults)"
                }
            );
            checks.ok("config", detail);
            Some(config)
        }
        Err(failure) => {
            checks.failed("config", &failure);
            None
        }
    };
    home(&mut checks, session, config.as_ref());
    programs(&mut checks, session);
    confinement(&mut checks);
    providers(&mut checks, session);
    let ok = checks.0.iter().all(|c| c.state != Health::Fail);
    if session.printer.json {
        session.printer.document(&DoctorOutput {
            schema_version: DoctorTag,
            ok,
            checks: checks.0,
        })?;
    } else {
        let mut page = session.printer.page();
        for check in &checks.0 {
            let style = match check.state {
                Health::Ok => GOOD,
                Health::Warn => WARN,
                Health::Fail => BAD,
            };
            page.styled(style, &format!("{:<5}", check.state))
                .text(&format!("{:<12} ", check.name))
                .line(&cto_contract::text::one_line(&check.detail));
            if let Some(remedy) = &check.remedy {
                page.text("                  ")
                    .styled(
                        FAINT,
                        &format!("→ {}", cto_contract::text::one_line(remedy)),
                    )
                    .end();
            }
        }
        session.printer.show(&page)?;
    }
    Ok(if ok { Exit::DONE } else { Exit::FAILED })
}

struct Checks(Vec<DoctorCheck>);

impl Checks {
    fn put(&mut self, name: &str, state: Health, detail: impl Into<String>, remedy: Option<&str>) {
        self.0.push(DoctorCheck {
            name: name.to_owned(),
            state,
            detail: detail.into(),
            remedy: remedy.map(str::to_owned),
        });
    }

    fn ok(&mut self, name: &str, detail: impl Into<String>) {
        self.put(name, Health::Ok, detail, None);
    }

    fn failed(&mut self, name: &str, failure: &Failure) {
        let detail = failure.causes.last().unwrap_or(&failure.message).clone();
        self.put(
            name,
            Health::Fail,
            detail,
            failure.hints.first().map(String::as_str),
        );
    }
}

fn home(checks: &mut Checks, session: &Session, config: Option<&Config>) {
    let place = match session.home_place() {
        Ok((place, _)) => place,
        Err(failure) => return checks.failed("home", &failure),
    };
    if !place.exists() {
        checks.ok(
            "home",
            format!("{} (made by the first run)", place.display()),
        );
        return disk(checks, &place);
    }
    let home = match session.home() {
        Ok(home) => home,
        Err(failure) => return checks.failed("home", &failure),
    };
    checks.ok("home", place.display().to_string());
    disk(checks, &place);
    if let Some(config) = config {
        key(checks, &home, config);
        database(checks, session, &home);
    }
    let live = live_runs(&home);
    let left = std::fs::read_dir(home.work())
        .into_iter()
        .flatten()
        .flatten()
        .filter(|e| !live.iter().any(|(id, _)| e.file_name() == *id.as_str()))
        .count();
    if left == 0 {
        checks.ok("runs", format!("{} live, none crashed", live.len()));
    } else {
        checks.put(
            "runs",
            Health::Warn,
            format!("{} live, {left} crashed", live.len()),
            Some("`cto recover` seals them as interrupted"),
        );
    }
}

fn disk(checks: &mut Checks, place: &Path) {
    let existing = place
        .ancestors()
        .find(|p| p.exists())
        .map_or_else(|| PathBuf::from("/"), Path::to_owned);
    match rustix::fs::statvfs(&existing) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let detail = format!("{} MiB free", free >> 20);
            let remedy = Some("free some space, or choose another home with --home");
            match free {
                0..DISK_EMPTY_BYTES => checks.put("disk", Health::Fail, detail, remedy),
                DISK_EMPTY_BYTES..DISK_LOW_BYTES => {
                    checks.put("disk", Health::Warn, detail, remedy)
                }
                DISK_LOW_BYTES.. => checks.ok("disk", detail),
            }
        }
        Err(errno) => checks.put("disk", Health::Warn, format!("unknown: {errno}"), None),
    }
}

fn key(checks: &mut Checks, home: &Home, config: &Config) {
    if key_path(home).symlink_metadata().is_err() {
        return checks.ok("key", "none yet (made by the first run)");
    }
    match show_key(home) {
        Ok(key) => {
            let keyid = key.keyid;
            let known = config
                .trusted
                .iter()
                .any(|k| k.keyid == keyid && k.judge(cto_runner::now()) == Origin::Known);
            if known {
                checks.ok("key", format!("{} (trusted here)", keyid.short()));
            } else {
                let remedy =
                    "`cto trust add` its public half (`cto key show`), or `cto key rotate`";
                checks.put(
                    "key",
                    Health::Warn,
                    format!(
                        "{} is not trusted here: its packs have an unknown origin",
                        keyid.short()
                    ),
                    Some(remedy),
                );
            }
        }
        Err(error) => checks.failed("key", &Failure::from(error)),
    }
}

fn database(checks: &mut Checks, session: &Session, home: &Home) {
    if !home.database().exists() {
        return checks.ok("database", "none yet (made by the first run)");
    }
    match session.harness() {
        Ok(harness) => match harness.store().verify_ledger() {
            Ok(check) if check.broken.is_none() => checks.ok(
                "database",
                format!("ledger holds, {} records", check.head.map_or(0, |h| h.seq)),
            ),
            Ok(_) => checks.put(
                "database",
                Health::Fail,
                "the ledger's chain is broken",
                Some("restore a backup; the ledger can't be rebuilt"),
            ),
            Err(error) => checks.failed("database", &error.into()),
        },
        Err(failure) => checks.failed("database", &failure),
    }
}

fn programs(checks: &mut Checks, session: &Session) {
    match cto_checkout::git_version() {
        Ok(version) => checks.ok("git", version),
        Err(error) => checks.put("git", Health::Fail, error.to_string(), Some("install git")),
    }
    let path = session.env.get("PATH").unwrap_or_default();
    let found = |name: &str| {
        std::env::split_paths(path)
            .map(|dir| dir.join(name))
            .find(|p| p.is_file())
    };
    match found("python3") {
        Some(python) => checks.ok("python3", python.display().to_string()),
        None => checks.put(
            "python3",
            Health::Warn,
            "not found",
            Some("install python3: the checks of the shipped cases need it"),
        ),
    }
}

fn confinement(checks: &mut Checks) {
    let probe = cto_sandbox::probe();
    let names = |in_force: bool| {
        probe
            .layers
            .iter()
            .filter(|l| l.in_force == in_force)
            .map(|l| l.name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let detail = format!(
        "class {}; in force: {}; not: {}",
        probe.class.as_str(),
        names(true),
        names(false)
    );
    match probe.class {
        Class::Process | Class::Full => checks.ok("sandbox", detail),
        Class::None | Class::Group | Class::Weak => {
            checks.put("sandbox", Health::Fail, detail, Some(&namespaces_hint()))
        }
    }
}

fn namespaces_hint() -> String {
    format!(
        "without namespaces no run starts. {APPARMOR_REMEDY}; or `--sandbox podman`; or `--weak`"
    )
}

/// Which other providers are to be had, and whether the one that runs get without a flag is among them.
fn providers(checks: &mut Checks, session: &Session) {
    let others = [
        SandboxChoice::Bwrap,
        SandboxChoice::Podman,
        SandboxChoice::Docker,
    ];
    let found = |choice: SandboxChoice| find_program(&session.env, choice.as_str());
    let list: Vec<String> = others
        .iter()
        .map(|&choice| match found(choice) {
            Some(path) => format!("{choice}: {}", path.display()),
            None => format!("{choice}: not on PATH"),
        })
        .collect();
    let list = list.join(", ");
    let Ok(config) = session.config() else {
        return checks.ok("sandbox providers", list);
    };
    let chosen = choose(Wishes {
        environment: session.env.get(PROVIDER_VARIABLE),
        config: config.harness.sandbox,
        ..Wishes::default()
    });
    match chosen {
        Err(error) => checks.put(
            "sandbox providers",
            Health::Fail,
            error.to_string(),
            Some("name a provider with --sandbox, or change the setting"),
        ),
        Ok(chosen) if others.contains(&chosen.provider) && found(chosen.provider).is_none() => {
            checks.put(
                "sandbox providers",
                Health::Fail,
                format!(
                    "{} is the default (from: {}) and is not on PATH",
                    chosen.provider, chosen.from
                ),
                Some("install it, or change the setting"),
            );
        }
        Ok(chosen) => checks.ok(
            "sandbox providers",
            format!(
                "default {} (from: {}); {list}",
                chosen.provider, chosen.from
            ),
        ),
    }
}
