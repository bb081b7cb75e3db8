//! What a machine has for a run: looked at, not judged. Nothing is made, and nothing is signed.

use std::error::Error;
use std::path::{Path, PathBuf};

use cto_contract::plan::Layer;
use cto_contract::words::SandboxChoice;
use cto_rules::doctor::{
    ConfigFacts, DatabaseFacts, DiskFacts, HomeFacts, KeyFacts, MachineFacts, ProviderFacts,
    Trouble,
};
use cto_rules::sandbox_choice::PROVIDER_VARIABLE;
use cto_store::{LedgerInit, Store};

use crate::clock;
use crate::config::{Config, ConfigError};
use crate::environment::Environment;
use crate::home::{Home, HomeError, resolve_config, resolve_home};
use crate::keyring::{KeyringError, show_key};
use crate::recover::live_runs;
use crate::sandbox::{class_word, find_program};

/// Gathers the facts. Home and config are where a flag says, else where the environment says.
pub fn machine_facts(
    home: Option<&Path>,
    config: Option<&Path>,
    env: &Environment,
) -> MachineFacts {
    let probe = cto_sandbox::probe();
    let layers = probe.layers.into_iter().map(|layer| Layer {
        name: layer.name.as_str().to_owned(),
        in_force: layer.in_force,
        detail: layer.detail,
    });
    let shown = |path: PathBuf| path.display().to_string();
    let programs = [
        SandboxChoice::Bwrap,
        SandboxChoice::Podman,
        SandboxChoice::Docker,
    ];
    MachineFacts {
        now: clock::now(),
        config: config_facts(config, env),
        home: home_facts(home, env),
        git: cto_checkout::git_version().map_err(|e| e.to_string()),
        python3: find_program(env, "python3").map(shown),
        class: class_word(probe.class),
        layers: layers.collect(),
        providers: ProviderFacts {
            environment: env.get(PROVIDER_VARIABLE).map(str::to_owned),
            programs: programs
                .map(|choice| (choice, find_program(env, choice.as_str()).map(shown)))
                .into(),
        },
    }
}

/// The innermost reason is what a person can do something about.
fn trouble(error: &dyn Error, remedy: Option<String>) -> Trouble {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    Trouble {
        detail: innermost.to_string(),
        remedy,
    }
}

fn of_home(error: &HomeError) -> Trouble {
    trouble(error, Some(error.hint()))
}

fn config_facts(flag: Option<&Path>, env: &Environment) -> Result<ConfigFacts, Trouble> {
    let (directory, _) = resolve_config(flag, env).map_err(|e| of_home(&e))?;
    let config = Config::load(&directory).map_err(|e: ConfigError| trouble(&e, e.hint()))?;
    Ok(ConfigFacts {
        directory: config.dir.display().to_string(),
        has_file: config.has_file,
        sandbox: config.harness.sandbox,
        trusted: config.trusted,
    })
}

fn home_facts(flag: Option<&Path>, env: &Environment) -> HomeFacts {
    let root = match resolve_home(flag, env) {
        Ok((root, _)) => root,
        Err(error) => return HomeFacts::Unusable(of_home(&error)),
    };
    let place = root.display().to_string();
    let disk = free_bytes(&root);
    if !root.exists() {
        return HomeFacts::NotMade { place, disk };
    }
    let home = match Home::open(&root) {
        Ok(home) => home,
        Err(error) => return HomeFacts::Unusable(of_home(&error)),
    };
    let live = live_runs(&home);
    let entries = std::fs::read_dir(home.work())
        .into_iter()
        .flatten()
        .flatten();
    let is_live = |name: &std::ffi::OsStr| live.iter().any(|(id, _)| name == id.as_str());
    HomeFacts::Open {
        place,
        disk,
        key: key_facts(&home),
        database: database_facts(&home),
        crashed: entries.filter(|e| !is_live(&e.file_name())).count(),
        live: live.len(),
    }
}

/// Of the file system that a place is on, or will be.
fn free_bytes(place: &Path) -> DiskFacts {
    let existing = place.ancestors().find(|p| p.exists());
    let stat = rustix::fs::statvfs(existing.unwrap_or(Path::new("/")));
    stat.map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize))
        .map_err(|errno| errno.to_string())
}

fn key_facts(home: &Home) -> KeyFacts {
    match show_key(home) {
        Ok(key) => KeyFacts::There { keyid: key.keyid },
        Err(KeyringError::Missing { .. }) => KeyFacts::NotMade,
        Err(error) => KeyFacts::Unusable(trouble(&error, error.hint())),
    }
}

fn database_facts(home: &Home) -> DatabaseFacts {
    if !home.database().exists() {
        return DatabaseFacts::NotMade;
    }
    let unusable = |error: &dyn Error| DatabaseFacts::Unusable(trouble(error, None));
    // Only a database that is not there would be begun with these.
    let init = match clock::random() {
        Ok(random) => LedgerInit {
            random,
            at: clock::now(),
        },
        Err(error) => return unusable(&error),
    };
    let checked = Store::open(&home.database(), init).and_then(|store| store.verify_ledger());
    match checked {
        Err(error) => unusable(&error),
        Ok(check) if check.broken.is_some() => DatabaseFacts::Broken,
        Ok(check) => DatabaseFacts::Holds {
            records: check.head.map_or(0, |head| head.seq),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_makes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (home, config) = (dir.path().join("home"), dir.path().join("config"));
        let look = || machine_facts(Some(&home), Some(&config), &Environment::default());
        assert!(matches!(look().home, HomeFacts::NotMade { .. }));
        assert!(!home.exists() && !config.exists());
        Home::open(&home).unwrap();
        let HomeFacts::Open { key, database, .. } = look().home else {
            panic!("it is open");
        };
        assert_eq!(key, KeyFacts::NotMade);
        assert_eq!(database, DatabaseFacts::NotMade);
        assert!(!home.join("keys").exists() && !home.join("cto.db").exists());
    }
}
