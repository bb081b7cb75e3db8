//! A home with a ledger, a config directory beside it, and operators with keys in software.

use std::path::{Path, PathBuf};

use cto_contract::authority::{TrustStatement, TrustStatementSchema};
use cto_contract::ids::{Digest, Nonce};
use cto_contract::operator::{OperatorChange, OperatorSchema, OperatorStatement};
use cto_contract::time::Utc;
use cto_contract::trust::{TrustSchema, TrustedKey};
use cto_contract::words::Presence;
use cto_evidence::key::SigningKey;
use cto_evidence::sshsig::{NAMESPACE, SshSig};
use cto_ledger::{Asked, Entered, Ledger, LedgerError, SecondPlace, Slot};
use cto_store::{LedgerInit, Store};
use cto_testkit::authenticator::{SoftKey, UP_UV};

pub(crate) fn at(minute: i64) -> Utc {
    let begin: Utc = "2026-06-01T00:00:00Z".parse().unwrap();
    begin.plus_seconds(60 * minute)
}

pub(crate) struct TestHome {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) store: Store,
    key: SigningKey,
    pub(crate) second: Option<SecondPlace>,
}

pub(crate) const MINUTES: i64 = 300;

impl TestHome {
    pub(crate) fn new(seed: u8) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), seed);
        Self {
            dir,
            store,
            key: SigningKey::from_random(&[seed; 32]),
            second: None,
        }
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.dir.path().join("config")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.dir.path().join("cto.db")
    }

    pub(crate) fn ledger<T>(&self, work: impl FnOnce(&Ledger<'_>) -> T) -> T {
        let (config, trusted) = (self.config(), [self.harness_key()]);
        #[expect(clippy::disallowed_methods, reason = "where git is")]
        let path = std::env::var("PATH").unwrap();
        work(&Ledger {
            store: &self.store,
            key: &self.key,
            home: self.dir.path(),
            config: &config,
            trusted: &trusted,
            second: self.second.clone(),
            path,
        })
    }

    /// Puts the database back as it was: other bytes under the same name.
    pub(crate) fn reopen(self, seed: u8) -> Self {
        let Self {
            dir,
            store,
            key,
            second,
        } = self;
        store.close().unwrap();
        let store = open(dir.path(), seed);
        Self {
            dir,
            store,
            key,
            second,
        }
    }

    pub(crate) fn harness_key(&self) -> TrustedKey {
        trusted(&self.key)
    }

    /// The first operator, with a key that asks for a person.
    pub(crate) fn with_olga(seed: u8) -> (Self, SoftKey) {
        let home = Self::new(seed);
        let olga = SoftKey::sk_ed25519(seed);
        let entered = home.change(
            OperatorChange::Add,
            ("olga", &olga),
            ("olga", &olga),
            (UP_UV, 1),
        );
        entered.unwrap();
        (home, olga)
    }

    pub(crate) fn change(
        &self,
        change: OperatorChange,
        (name, key): (&str, &SoftKey),
        (signer, signing): (&str, &SoftKey),
        (flags, counter): (u8, u32),
    ) -> Result<Entered, LedgerError> {
        let asked = self.ask_change(change, (name, key), signer, 1)?;
        self.enter(asked, signing, (flags, counter), Presence::None, 2)
    }

    pub(crate) fn ask_change(
        &self,
        change: OperatorChange,
        (name, key): (&str, &SoftKey),
        signer: &str,
        minute: i64,
    ) -> Result<Asked<OperatorStatement>, LedgerError> {
        let takes_over = match self.ledger(|ledger| ledger.authority())?.is_governed() {
            true => Vec::new(),
            false => vec![self.harness_key()],
        };
        self.ask(minute, |slot| OperatorStatement {
            schema: OperatorSchema,
            ledger: slot.ledger,
            change,
            operator: name.parse().unwrap(),
            public_key: key.public_line(),
            claims_presence: false,
            takes_over,
            signer: signer.parse().unwrap(),
            slot: slot.nonce,
            at: slot.at,
        })
    }

    pub(crate) fn ask_trust(
        &self,
        signer: &str,
        keys: Vec<TrustedKey>,
        minute: i64,
    ) -> Result<Asked<TrustStatement>, LedgerError> {
        self.ask(minute, |slot| TrustStatement {
            schema: TrustStatementSchema,
            ledger: slot.ledger,
            keys,
            signer: signer.parse().unwrap(),
            slot: slot.nonce,
            at: slot.at,
        })
    }

    pub(crate) fn ask<T: cto_contract::operator::Statement>(
        &self,
        minute: i64,
        make: impl FnOnce(Slot) -> T,
    ) -> Result<Asked<T>, LedgerError> {
        let head = self.store.ledger_head().unwrap();
        // Another nonce for each slot: the digest of the head changes with every entry.
        let nonce: Nonce = head.digest.as_str().parse().unwrap();
        self.ledger(|ledger| ledger.ask("a test", nonce, (at(minute), MINUTES), make))
    }

    pub(crate) fn enter<T: cto_contract::operator::Statement>(
        &self,
        asked: Asked<T>,
        key: &SoftKey,
        (flags, counter): (u8, u32),
        floor: Presence,
        minute: i64,
    ) -> Result<Entered, LedgerError> {
        let armour = key.sign(NAMESPACE, &asked.message, flags, counter);
        let signature = SshSig::from_armour(&armour).unwrap();
        self.ledger(|ledger| {
            ledger.enter(asked.statement, &signature, (floor, at(minute)), |_, _| {
                Ok(())
            })
        })
    }
}

fn open(dir: &Path, seed: u8) -> Store {
    let init = LedgerInit {
        random: [seed; 32],
        at: at(0),
    };
    Store::open(&dir.join("cto.db"), init).unwrap()
}

pub(crate) fn trusted(key: &SigningKey) -> TrustedKey {
    TrustedKey {
        schema: TrustSchema,
        name: "a harness".to_owned(),
        keyid: key.keyid(),
        public_key: key.public_base64(),
        valid_from: at(0),
        valid_until: None,
        revoked_at: None,
    }
}

pub(crate) fn digest(n: u8) -> Digest {
    Digest::from_bytes(&[n; 32])
}
