//! What every command gets: environment, places and printer. Nothing is opened until a command asks.

use std::path::PathBuf;

use cto_runner::{
    Config, Environment, Harness, Home, OpenOptions, PackRef, Recovered, ReferenceError,
    recover_all, reference,
};
use cto_sandbox::Launcher;

use crate::failure::{Exit, Failure};
use crate::printer::Printer;

pub(crate) struct Session {
    pub(crate) env: Environment,
    pub(crate) home_flag: Option<PathBuf>,
    pub(crate) config_flag: Option<PathBuf>,
    pub(crate) printer: Printer,
}

impl Session {
    /// Adds what `.env` of the config directory says, for names that the environment leaves open.
    pub(crate) fn read_dotenv(&mut self) -> Result<(), Failure> {
        // Without a place for the config there is none to read; who needs one is told then.
        if let Ok((dir, _)) = self.config_place() {
            let pairs = cto_runner::read_dotenv(&dir).map_err(Failure::from)?;
            self.env = std::mem::take(&mut self.env).or_else(pairs);
        }
        Ok(())
    }

    /// Where home is, and what said so.
    pub(crate) fn home_place(&self) -> Result<(PathBuf, &'static str), Failure> {
        Ok(cto_runner::resolve_home(
            self.home_flag.as_deref(),
            &self.env,
        )?)
    }

    /// Where the config is, and what said so.
    pub(crate) fn config_place(&self) -> Result<(PathBuf, &'static str), Failure> {
        Ok(cto_runner::resolve_config(
            self.config_flag.as_deref(),
            &self.env,
        )?)
    }

    /// Opens home alone: no database, no key.
    pub(crate) fn home(&self) -> Result<Home, Failure> {
        Home::open(&self.home_place()?.0)
            .map_err(|e| Failure::from(e).under("the home directory can't be used"))
    }

    /// Reads the config.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        Config::load(&self.config_place()?.0)
            .map_err(|e| Failure::from(e).under("the configuration can't be used"))
    }

    /// Opens home, config, key and database.
    pub(crate) fn harness(&self) -> Result<Harness, Failure> {
        let harness = Harness::open(OpenOptions {
            home: self.home_place()?.0,
            config: self.config_place()?.0,
            env: self.env.clone(),
            launcher: Launcher::current_exe(),
        })?;
        if harness.key_created {
            self.printer.talk(&format!(
                "made a signing key: {} (trusted on this machine)",
                harness.public_key().keyid().short()
            ));
        }
        Ok(harness)
    }

    /// Seals what crashed, and tells about it.
    pub(crate) fn recover(&self, harness: &Harness) -> Result<Vec<Recovered>, Failure> {
        let found = recover_all(harness)?;
        for item in &found {
            match item {
                Recovered::Live { .. }
                | Recovered::Cleared { .. }
                | Recovered::Discarded { .. } => {}
                Recovered::Sealed { run_id, .. } => self.printer.talk(&format!(
                    "recovered: run {run_id} had crashed and is sealed as interrupted"
                )),
                Recovered::Failed { name, reason } => self.printer.talk(&format!(
                    "warning: `{name}` could not be recovered: {reason}"
                )),
            }
        }
        Ok(found)
    }

    /// Finds the pack that a person means. A path needs no home.
    pub(crate) fn find(&self, text: &str) -> Result<PackRef, Failure> {
        if reference::is_path(text) {
            return Ok(reference::resolve_path(std::path::Path::new(text))?);
        }
        let home = self.home()?;
        match reference::resolve(&home, text) {
            Err(error @ ReferenceError::Unknown { .. }) => {
                Err(self.removed(&home, text)?.unwrap_or_else(|| error.into()))
            }
            found => Ok(found?),
        }
    }

    /// What to say of a run whose pack was removed: nothing else is known of it here.
    fn removed(&self, home: &Home, text: &str) -> Result<Option<Failure>, Failure> {
        let mut named = cto_runner::buried(home)?;
        named.retain(|id| !text.is_empty() && id.as_str().starts_with(text));
        let [run_id] = named.as_slice() else {
            return Ok(None);
        };
        let trusted = self.config()?.trusted;
        Ok(match cto_runner::burial(home, run_id, &trusted) {
            Ok(buried) => buried.as_ref().map(Failure::removed),
            Err(error) => Some(
                Failure::of(Exit::EVIDENCE, "tombstone_invalid", &error).under(format!(
                    "run {run_id} has no pack here, and its tombstone does not hold"
                )),
            ),
        })
    }
}
