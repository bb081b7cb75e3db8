//! What operators have decided about keys and records: a fold over signed statements, the last word on each thing.
//!
//! Whether the signatures hold was checked before; here stands what a decision may say.

use std::collections::BTreeMap;

use cto_contract::admission::AdmissionKind;
use cto_contract::authority::AdmissionStatement;
use cto_contract::ids::Digest;
use cto_contract::operator::{OperatorSignature, Signed};
use cto_contract::trust::TrustedKey;
use cto_contract::words::{AdmissionSeal, Custody, Presence};

use crate::operators::meets;

/// Why a change of the trusted keys does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrustFault {
    #[error("it changes no key")]
    Nothing,
    #[error("key {} was revoked, and a revoked key stays revoked", .0.short())]
    Revoked(Digest),
    #[error("key {} would end before it begins to count", .0.short())]
    PeriodEmpty(Digest),
    #[error("key {} is named twice", .0.short())]
    Twice(Digest),
}

/// The harness keys that count, as the ledger has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustBook {
    keys: BTreeMap<Digest, TrustedKey>,
}

impl TrustBook {
    /// Every key that ever counted, by its id.
    pub fn keys(&self) -> impl Iterator<Item = &TrustedKey> {
        self.keys.values()
    }

    pub fn get(&self, keyid: &Digest) -> Option<&TrustedKey> {
        self.keys.get(keyid)
    }

    /// Takes over what counted before there was anybody to sign.
    pub fn take_over(&mut self, keys: &[TrustedKey]) {
        for key in keys {
            self.keys.insert(key.keyid.clone(), key.clone());
        }
    }

    /// Takes a signed change: all of it or nothing.
    pub fn apply(&mut self, changed: &[TrustedKey]) -> Result<(), TrustFault> {
        if changed.is_empty() {
            return Err(TrustFault::Nothing);
        }
        for (n, key) in changed.iter().enumerate() {
            let keyid = || key.keyid.clone();
            if changed.iter().take(n).any(|other| other.keyid == key.keyid) {
                return Err(TrustFault::Twice(keyid()));
            }
            if key.valid_until.is_some_and(|until| until <= key.valid_from) {
                return Err(TrustFault::PeriodEmpty(keyid()));
            }
            // Whoever holds a stolen key can write any date, so nothing brings it back.
            let known = self.keys.get(&key.keyid).and_then(|known| known.revoked_at);
            if known.is_some() && known != key.revoked_at {
                return Err(TrustFault::Revoked(keyid()));
            }
        }
        self.take_over(changed);
        Ok(())
    }
}

/// A record that an operator stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedAdmission {
    /// Where the ledger has it.
    pub seq: u64,
    pub statement: AdmissionStatement,
    /// What its signature shows.
    pub presence: Presence,
    pub custody: Custody,
    /// The key that signed it.
    pub public_key: String,
    /// The key was revoked since.
    pub is_revoked: bool,
}

impl SignedAdmission {
    /// Whether somebody stands for it now, with more than a plain file.
    pub fn seal(&self) -> AdmissionSeal {
        if !self.is_revoked && meets(self.presence, Presence::Claimed) {
            AdmissionSeal::Signed
        } else {
            AdmissionSeal::Unsigned
        }
    }
}

/// What a signature for a record has to show at least. A target's counts for nothing without a person; the others count
/// unsigned up to stage 3, and so do they with a signature that shows nobody.
pub fn admission_floor(kind: AdmissionKind) -> Presence {
    match kind {
        AdmissionKind::Target => Presence::Claimed,
        AdmissionKind::Source
        | AdmissionKind::Binary
        | AdmissionKind::Model
        | AdmissionKind::Decision => Presence::None,
    }
}

/// Why a signed record is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionFault {
    #[error(
        "a person who was there signed the record that it would replace, and this signature shows nobody"
    )]
    SignerTooWeak,
}

/// The last signed record for each thing that was let in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdmissionBook {
    last: BTreeMap<(AdmissionKind, String), SignedAdmission>,
}

impl AdmissionBook {
    /// Takes a signed record: from now on it is the one for what it is about.
    pub fn apply(
        &mut self,
        seq: u64,
        signed: &Signed<AdmissionStatement>,
    ) -> Result<(), AdmissionFault> {
        let Signed {
            statement,
            signature,
        } = signed;
        let OperatorSignature {
            presence, custody, ..
        } = *signature;
        let about = (statement.admission, statement.about.clone());
        let held = self.last.get(&about).map(SignedAdmission::seal);
        if held == Some(AdmissionSeal::Signed) && !meets(presence, Presence::Claimed) {
            return Err(AdmissionFault::SignerTooWeak);
        }
        let entry = SignedAdmission {
            seq,
            statement: statement.clone(),
            presence,
            custody,
            public_key: signature.public_key.clone(),
            is_revoked: false,
        };
        self.last.insert(about, entry);
        Ok(())
    }

    /// Nobody stands any more for what a revoked key signed. It stays the last word: an older record does not come back.
    pub fn revoke(&mut self, public_key: &str) {
        let signed_by = self.last.values_mut();
        for entry in signed_by.filter(|entry| entry.public_key == public_key) {
            entry.is_revoked = true;
        }
    }

    /// The signed record with this digest, if it is still the last word on what it is about.
    pub fn find(&self, kind: AdmissionKind, digest: &Digest) -> Option<&SignedAdmission> {
        let of_kind = |entry: &&SignedAdmission| entry.statement.admission == kind;
        let mut records = self.last.values().filter(of_kind);
        records.find(|entry| entry.statement.digest == *digest)
    }

    /// Whether an operator stands for this record with more than a plain file: from where a signature is asked for, nothing
    /// less counts.
    pub fn seal(&self, kind: AdmissionKind, digest: &Digest) -> AdmissionSeal {
        let signed = self.find(kind, digest);
        signed.map_or(AdmissionSeal::Unsigned, SignedAdmission::seal)
    }

    /// The last word on one thing.
    pub fn about(&self, kind: AdmissionKind, about: &str) -> Option<&SignedAdmission> {
        self.last.get(&(kind, about.to_owned()))
    }

    pub fn all(&self) -> impl Iterator<Item = &SignedAdmission> {
        self.last.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cto_contract::authority::AdmissionStatementSchema;
    use cto_contract::ids::Nonce;
    use cto_contract::time::Utc;
    use cto_contract::trust::TrustSchema;
    use proptest::prelude::*;

    fn day(n: u8) -> Utc {
        format!("2026-01-{n:02}T00:00:00Z").parse().unwrap()
    }

    fn key(id: u8, until: Option<u8>, revoked: Option<u8>) -> TrustedKey {
        TrustedKey {
            schema: TrustSchema,
            name: "somebody".to_owned(),
            keyid: Digest::from_bytes(&[id; 32]),
            public_key: String::new(),
            valid_from: day(2),
            valid_until: until.map(day),
            revoked_at: revoked.map(day),
        }
    }

    #[test]
    fn a_change_of_keys_counts_whole_or_not_at_all() {
        let mut book = TrustBook::default();
        assert_eq!(book.apply(&[]), Err(TrustFault::Nothing));
        assert_eq!(
            book.apply(&[key(1, None, None), key(2, None, None)]),
            Ok(())
        );
        let before = book.clone();
        let bad = [
            vec![key(3, None, None), key(4, Some(2), None)],
            vec![key(3, None, None), key(3, None, None)],
        ];
        for changed in bad {
            assert!(book.apply(&changed).is_err());
            assert_eq!(book, before);
        }
    }

    #[test]
    fn a_revoked_key_stays_revoked_since_then() {
        let mut book = TrustBook::default();
        book.apply(&[key(1, None, Some(3))]).unwrap();
        for again in [key(1, None, None), key(1, None, Some(4))] {
            assert!(matches!(book.apply(&[again]), Err(TrustFault::Revoked(_))));
        }
        assert_eq!(book.apply(&[key(1, Some(9), Some(3))]), Ok(()));
    }

    proptest! {
        #[test]
        fn no_change_brings_a_revoked_key_back(
            changes in proptest::collection::vec((0_u8..3, proptest::option::of(1_u8..9), proptest::option::of(1_u8..9)), 0..20),
        ) {
            let mut book = TrustBook::default();
            let mut revoked = std::collections::BTreeSet::new();
            for (id, until, at) in changes {
                let _kept = book.apply(&[key(id, until, at)]);
                revoked.extend(book.keys().filter(|k| k.revoked_at.is_some()).map(|k| k.keyid.clone()));
                for keyid in &revoked {
                    prop_assert!(book.get(keyid).is_some_and(|k| k.revoked_at.is_some()));
                }
            }
        }
    }

    #[test]
    fn the_last_signed_record_about_a_thing_is_the_one_that_counts() {
        let mut book = AdmissionBook::default();
        for (seq, about, digest) in [(5, "a/b", 1), (7, "a/c", 2), (9, "a/b", 3)] {
            book.apply(seq, &signed(about, digest, Presence::Up))
                .unwrap();
        }
        let found = |digest: u8| {
            let digest = Digest::from_bytes(&[digest; 32]);
            book.find(AdmissionKind::Model, &digest).map(|e| e.seq)
        };
        assert_eq!((found(1), found(2), found(3)), (None, Some(7), Some(9)));
        let seal = |digest: u8| book.seal(AdmissionKind::Model, &Digest::from_bytes(&[digest; 32]));
        assert_eq!(
            (seal(1), seal(3)),
            (AdmissionSeal::Unsigned, AdmissionSeal::Signed)
        );
        let mut weak = AdmissionBook::default();
        weak.apply(5, &signed("a/b", 1, Presence::None)).unwrap();
        let weak = weak.seal(AdmissionKind::Model, &Digest::from_bytes(&[1; 32]));
        assert_eq!(weak, AdmissionSeal::Unsigned);
        let other = book.find(AdmissionKind::Target, &Digest::from_bytes(&[3; 32]));
        assert_eq!(other, None);
        assert_eq!(
            book.about(AdmissionKind::Model, "a/b").map(|e| e.seq),
            Some(9)
        );
    }

    fn signed(about: &str, digest: u8, presence: Presence) -> Signed<AdmissionStatement> {
        Signed {
            statement: AdmissionStatement {
                schema: AdmissionStatementSchema,
                ledger: Digest::from_bytes(&[9; 32]),
                admission: AdmissionKind::Model,
                about: about.to_owned(),
                digest: Digest::from_bytes(&[digest; 32]),
                record: serde_json::json!({}),
                signer: "olga".parse().unwrap(),
                slot: Nonce::from_bytes(&[2; 32]),
                at: day(3),
            },
            signature: OperatorSignature {
                public_key: format!("key of {presence}"),
                presence,
                custody: Custody::File,
                counter: None,
                armour: String::new(),
            },
        }
    }

    #[test]
    fn a_signature_that_shows_nobody_replaces_nothing_that_a_person_signed() {
        let of = |presence| signed("a/b", 1, presence);
        for (before, after, is_taken) in [
            (Presence::None, Presence::None, true),
            (Presence::None, Presence::Uv, true),
            (Presence::Claimed, Presence::None, false),
            (Presence::Uv, Presence::None, false),
            (Presence::Uv, Presence::Claimed, true),
        ] {
            let mut book = AdmissionBook::default();
            book.apply(1, &of(before)).unwrap();
            let taken = book.apply(2, &of(after));
            assert_eq!(taken.is_ok(), is_taken, "{before} then {after}");
        }
    }

    #[test]
    fn what_a_revoked_key_signed_counts_as_unsigned_and_stays_the_last_word() {
        let mut book = AdmissionBook::default();
        book.apply(1, &signed("a/b", 1, Presence::Uv)).unwrap();
        book.revoke("another key");
        let digest = Digest::from_bytes(&[1; 32]);
        let seal = |book: &AdmissionBook| book.seal(AdmissionKind::Model, &digest);
        assert_eq!(seal(&book), AdmissionSeal::Signed);
        book.revoke("key of uv");
        assert_eq!(seal(&book), AdmissionSeal::Unsigned);
        assert!(book.about(AdmissionKind::Model, "a/b").is_some());
        book.apply(2, &signed("a/b", 1, Presence::None)).unwrap();
    }
}
