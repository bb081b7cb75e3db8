//! What every command gets: environment, places and printer. Nothing is opened until a command asks.

use std::path::PathBuf;

use cto_contract::ids::RunId;
use cto_runner::{
    Config, Environment, Harness, Home, OpenOptions, OpenedPack, PackRef, Reconciled, Recovered,
    ReferenceError, RunsHome, Search, open_pack, recover_all, reference,
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
            let pairs = cto_runner::read_dotenv(&dir, &self.env).map_err(Failure::from)?;
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

    /// The home, if it is there and can't be written: then what only reads makes nothing in it.
    pub(crate) fn read_only_home(&self) -> Result<Option<Home>, Failure> {
        Home::read_only(&self.home_place()?.0)
            .map_err(|e| Failure::from(e).under("the home directory can't be used"))
    }

    /// Opens home to read packs in it.
    fn home_to_read(&self) -> Result<Home, Failure> {
        match self.read_only_home()? {
            Some(home) => Ok(home),
            None => self.home(),
        }
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
        self.tell_reconciled(&harness.reconciled);
        Ok(harness)
    }

    /// Tells what index or ledger had lost.
    fn tell_reconciled(&self, found: &Reconciled) {
        let lost = found.entries_lost;
        if found.is_another {
            self.printer.talk(&format!(
                "warning: the database holds another ledger than the one that was written here last; at least {lost} entries of that one are not in it"
            ));
        } else if lost > 0 {
            self.printer.talk(&format!(
                "warning: the ledger has lost at least {lost} entries at its end; what they said can't be known"
            ));
        }
        for run_id in &found.taken_up {
            self.printer.talk(&format!(
                "recovered: run {run_id} was not in ledger or index; its pack verifies and was sealed here, so it is again"
            ));
        }
    }

    /// Seals what crashed, and tells about it.
    pub(crate) fn recover(&self, harness: &Harness) -> Result<Vec<Recovered>, Failure> {
        let found = recover_all(harness, Search::Known)?;
        for item in &found {
            match item {
                Recovered::Live { .. }
                | Recovered::Cleared { .. }
                | Recovered::Discarded { .. } => {}
                Recovered::Sealed { run_id, .. } => self.printer.talk(&format!(
                    "recovered: run {run_id} had crashed and is sealed as interrupted"
                )),
                Recovered::Landed { run_id, commit } => self.printer.talk(&format!(
                    "recovered: the landing of run {run_id} is finished: commit {commit}"
                )),
                Recovered::NotLanded { run_id, reason } => self.printer.talk(&format!(
                    "recovered: the landing of run {run_id} is ended: {reason}"
                )),
                Recovered::Failed { name, reason } => self.printer.talk(&format!(
                    "warning: `{name}` could not be recovered: {reason}"
                )),
            }
        }
        Ok(found)
    }

    /// The home whose runs are looked at; one that can't be written is only read.
    pub(crate) fn runs_home(&self) -> Result<RunsHome, Failure> {
        Ok(match self.read_only_home()? {
            Some(home) => RunsHome::read_only(home, self.config()?)?,
            None => RunsHome::Open(Box::new(self.harness()?)),
        })
    }

    /// Finds the pack that a person means, and whose it is: a pack that passes itself off as one of this home is
    /// refused. A path needs no home.
    pub(crate) fn find(&self, text: &str) -> Result<OpenedPack, Failure> {
        let (found, place) = self.locate(text)?;
        self.open(found, place.as_ref())
    }

    /// The same for a pack that was located.
    pub(crate) fn open(
        &self,
        found: PackRef,
        place: Option<&RunsHome>,
    ) -> Result<OpenedPack, Failure> {
        Ok(match place {
            Some(place) => open_pack(found, place.trusted(), Some(place))?,
            None => open_pack(found, &self.config()?.trusted, None)?,
        })
    }

    /// Says whose a pack is, beside what is printed of it.
    pub(crate) fn tell_provenance(&self, pack: &OpenedPack) {
        self.printer
            .talk(&format!("origin: {}", pack.provenance.text()));
    }

    /// Finds the pack that a person means, and opens the home if there is one that has seen a run.
    pub(crate) fn locate(&self, text: &str) -> Result<(PackRef, Option<RunsHome>), Failure> {
        let is_path = reference::is_path(text);
        let home = match self.home_place() {
            Ok((place, _)) => Some(place),
            Err(_) if is_path => None,
            Err(failure) => return Err(failure),
        };
        let has_runs = home.is_some_and(|home| {
            ["cto.db", "ledger-mark"]
                .iter()
                .any(|f| home.join(f).exists())
        });
        let place = match has_runs {
            // A pack of elsewhere can be looked at whatever became of the home; it is then nobody's own.
            true if is_path => self.runs_home().ok(),
            true => Some(self.runs_home()?),
            false => None,
        };
        let found = match &place {
            _ if is_path => reference::resolve_path(std::path::Path::new(text))?,
            Some(place) => {
                let here = std::env::current_dir().ok();
                match reference::resolve(place, text, here.as_deref()) {
                    Err(ReferenceError::Removed { run_id }) => {
                        return Err(removed(place, &run_id)?);
                    }
                    found => found?,
                }
            }
            None => reference::resolve_without_runs(&self.home_to_read()?, text)?,
        };
        Ok((found, place))
    }
}

/// What to say of a run whose pack was removed: nothing else is known of it here.
fn removed(place: &RunsHome, run_id: &RunId) -> Result<Failure, Failure> {
    let buried = cto_runner::burial(place.home(), run_id, place.trusted());
    match buried {
        Ok(Some(buried)) => Ok(Failure::removed(&buried)),
        Ok(None) => Err(ReferenceError::Lost {
            run_id: run_id.clone(),
        }
        .into()),
        Err(error) => Ok(
            Failure::of(Exit::EVIDENCE, "tombstone_invalid", &error).under(format!(
                "run {run_id} has no pack here, and its tombstone does not hold"
            )),
        ),
    }
}
