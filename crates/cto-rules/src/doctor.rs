//! Whether a machine can run: the judgement over facts that somebody else gathered.

use cto_contract::ids::Digest;
use cto_contract::outputs::{DoctorCheck, DoctorOutput, DoctorTag, Health};
use cto_contract::plan::Layer;
use cto_contract::time::Utc;
use cto_contract::trust::{Origin, TrustedKey};
use cto_contract::words::{SandboxChoice, SandboxClass};

use crate::sandbox_choice::{APPARMOR_REMEDY, Wishes, choose};

/// Less free space than this and no run comes to its end.
const DISK_EMPTY_BYTES: u64 = 64 << 20;
/// Less than this and it may not.
const DISK_LOW_BYTES: u64 = 1 << 30;

/// Something that can't be used: why, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    pub detail: String,
    pub remedy: Option<String>,
}

/// Everything that is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineFacts {
    pub now: Utc,
    pub config: Result<ConfigFacts, Trouble>,
    pub home: HomeFacts,
    /// Its version, or why there is none.
    pub git: Result<String, String>,
    /// Where it is.
    pub python3: Option<String>,
    /// What would hold a process here.
    pub class: SandboxClass,
    pub layers: Vec<Layer>,
    pub providers: ProviderFacts,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFacts {
    pub directory: String,
    /// `harness.yaml` is there.
    pub has_file: bool,
    pub sandbox: Option<SandboxChoice>,
    pub trusted: Vec<TrustedKey>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HomeFacts {
    Unusable(Trouble),
    /// The first run makes it.
    NotMade {
        place: String,
        disk: DiskFacts,
    },
    Open {
        place: String,
        disk: DiskFacts,
        key: KeyFacts,
        database: DatabaseFacts,
        /// Runs that a living process works on.
        live: usize,
        /// Work directories whose process is gone.
        crashed: usize,
    },
}

/// Bytes that are free, or why that is not known.
pub type DiskFacts = Result<u64, String>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyFacts {
    NotMade,
    Unusable(Trouble),
    There { keyid: Digest },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseFacts {
    NotMade,
    Unusable(Trouble),
    /// A record of the ledger does not follow from the one before.
    Broken,
    Holds {
        records: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderFacts {
    /// What the environment names.
    pub environment: Option<String>,
    /// Those that are a program, and where each is.
    pub programs: Vec<(SandboxChoice, Option<String>)>,
}

/// Judges each fact, and says what to do about what is wrong.
pub fn diagnose(facts: &MachineFacts) -> DoctorOutput {
    let mut checks = vec![config(facts)];
    checks.extend(home(facts));
    checks.extend([git(facts), python(facts), sandbox(facts), providers(facts)]);
    DoctorOutput {
        schema_version: DoctorTag,
        ok: checks.iter().all(|check| check.state != Health::Fail),
        checks,
    }
}

fn check(name: &str, state: Health, detail: impl Into<String>, remedy: &str) -> DoctorCheck {
    DoctorCheck {
        name: name.to_owned(),
        state,
        detail: detail.into(),
        remedy: Some(remedy.to_owned()).filter(|r| !r.is_empty()),
    }
}

fn ok(name: &str, detail: impl Into<String>) -> DoctorCheck {
    check(name, Health::Ok, detail, "")
}

fn unusable(name: &str, trouble: &Trouble) -> DoctorCheck {
    let remedy = trouble.remedy.as_deref().unwrap_or_default();
    check(name, Health::Fail, trouble.detail.clone(), remedy)
}

fn config(facts: &MachineFacts) -> DoctorCheck {
    match &facts.config {
        Ok(config) if config.has_file => ok("config", config.directory.clone()),
        Ok(config) => {
            let detail = format!("{} (no harness.yaml: defaults)", config.directory);
            ok("config", detail)
        }
        Err(trouble) => unusable("config", trouble),
    }
}

fn home(facts: &MachineFacts) -> Vec<DoctorCheck> {
    match &facts.home {
        HomeFacts::Unusable(trouble) => vec![unusable("home", trouble)],
        HomeFacts::NotMade { place, disk: free } => {
            vec![
                ok("home", format!("{place} (made by the first run)")),
                disk(free),
            ]
        }
        HomeFacts::Open {
            place,
            disk: free,
            key: held,
            database: kept,
            live,
            crashed,
        } => {
            let mut checks = vec![ok("home", place.clone()), disk(free)];
            // Which keys are trusted stands in the config.
            checks.extend(facts.config.as_ref().ok().map(|c| key(held, c, facts.now)));
            checks.extend([database(kept), runs(*live, *crashed)]);
            checks
        }
    }
}

fn disk(free: &DiskFacts) -> DoctorCheck {
    let remedy = "free some space, or choose another home with --home";
    match free {
        Err(why) => check("disk", Health::Warn, format!("unknown: {why}"), ""),
        Ok(free) => {
            let detail = format!("{} MiB free", free >> 20);
            match free {
                0..DISK_EMPTY_BYTES => check("disk", Health::Fail, detail, remedy),
                DISK_EMPTY_BYTES..DISK_LOW_BYTES => check("disk", Health::Warn, detail, remedy),
                DISK_LOW_BYTES.. => ok("disk", detail),
            }
        }
    }
}

fn key(held: &KeyFacts, config: &ConfigFacts, now: Utc) -> DoctorCheck {
    let keyid = match held {
        KeyFacts::NotMade => return ok("key", "none yet (made by the first run)"),
        KeyFacts::Unusable(trouble) => return unusable("key", trouble),
        KeyFacts::There { keyid } => keyid,
    };
    let counts = |k: &TrustedKey| k.keyid == *keyid && k.judge(now) == Origin::Known;
    if config.trusted.iter().any(counts) {
        return ok("key", format!("{} (trusted here)", keyid.short()));
    }
    check(
        "key",
        Health::Warn,
        format!(
            "{} is not trusted here: its packs have an unknown origin",
            keyid.short()
        ),
        "`cto trust add` its public half (`cto key show`), or `cto key rotate`",
    )
}

fn database(kept: &DatabaseFacts) -> DoctorCheck {
    match kept {
        DatabaseFacts::NotMade => ok("database", "none yet (made by the first run)"),
        DatabaseFacts::Unusable(trouble) => unusable("database", trouble),
        DatabaseFacts::Broken => check(
            "database",
            Health::Fail,
            "the ledger's chain is broken",
            "restore a backup; the ledger can't be rebuilt",
        ),
        DatabaseFacts::Holds { records } => {
            ok("database", format!("ledger holds, {records} records"))
        }
    }
}

fn runs(live: usize, crashed: usize) -> DoctorCheck {
    if crashed == 0 {
        return ok("runs", format!("{live} live, none crashed"));
    }
    check(
        "runs",
        Health::Warn,
        format!("{live} live, {crashed} crashed"),
        "`cto recover` seals them as interrupted",
    )
}

fn git(facts: &MachineFacts) -> DoctorCheck {
    match &facts.git {
        Ok(version) => ok("git", version.clone()),
        Err(why) => check("git", Health::Fail, why.clone(), "install git"),
    }
}

fn python(facts: &MachineFacts) -> DoctorCheck {
    match &facts.python3 {
        Some(path) => ok("python3", path.clone()),
        None => check(
            "python3",
            Health::Warn,
            "not found",
            "install python3: the checks of the shipped cases need it",
        ),
    }
}

fn sandbox(facts: &MachineFacts) -> DoctorCheck {
    let names = |in_force: bool| {
        let layers = facts.layers.iter().filter(|l| l.in_force == in_force);
        let names: Vec<&str> = layers.map(|l| l.name.as_str()).collect();
        names.join(", ")
    };
    let detail = format!(
        "class {}; in force: {}; not: {}",
        facts.class,
        names(true),
        names(false)
    );
    match facts.class {
        SandboxClass::Process | SandboxClass::Full => ok("sandbox", detail),
        SandboxClass::None | SandboxClass::Group | SandboxClass::Weak => {
            let remedy = format!(
                "without namespaces no run starts. {APPARMOR_REMEDY}; or `--sandbox podman`; or `--weak`"
            );
            check("sandbox", Health::Fail, detail, &remedy)
        }
    }
}

/// Which other providers are to be had, and whether the one that runs get without a flag is among them.
fn providers(facts: &MachineFacts) -> DoctorCheck {
    const NAME: &str = "sandbox providers";
    let programs = &facts.providers.programs;
    let list: Vec<String> = programs
        .iter()
        .map(|(choice, found)| match found {
            Some(path) => format!("{choice}: {path}"),
            None => format!("{choice}: not on PATH"),
        })
        .collect();
    let list = list.join(", ");
    let Ok(config) = &facts.config else {
        return ok(NAME, list);
    };
    let chosen = choose(Wishes {
        environment: facts.providers.environment.as_deref(),
        config: config.sandbox,
        ..Wishes::default()
    });
    let chosen = match chosen {
        Ok(chosen) => chosen,
        Err(error) => {
            let remedy = "name a provider with --sandbox, or change the setting";
            return check(NAME, Health::Fail, error.to_string(), remedy);
        }
    };
    let lacks = |(choice, found): &(SandboxChoice, Option<String>)| {
        *choice == chosen.provider && found.is_none()
    };
    let provider = chosen.provider;
    let from = chosen.from;
    if programs.iter().any(lacks) {
        return check(
            NAME,
            Health::Fail,
            format!("{provider} is the default (from: {from}) and is not on PATH"),
            "install it, or change the setting",
        );
    }
    ok(NAME, format!("default {provider} (from: {from}); {list}"))
}

#[cfg(test)]
mod tests;
