//! The seam for new kinds of record: kinds that no part of the store knows go every way that the product's own go.

use cto_contract::ids::Digest;
use cto_contract::ledger::{Header, LedgerRecord, OnceKey, Subject};
use cto_contract::time::Utc;
use cto_store::{Appended, Found, LedgerHead, LedgerPage, Store, StoreError};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use crate::sample::{created, home, store, time};

/// A made-up kind is this enum and this one `impl`; nothing in the store has to know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", deny_unknown_fields)]
pub(crate) enum Dummy {
    /// May be entered as often as one likes.
    #[serde(rename = "dummy.admitted")]
    Admitted { target: String, at: Utc },
    #[serde(rename = "dummy.granted")]
    Granted {
        grant: String,
        target: String,
        /// The admission that it rests on.
        admitted: LedgerHead,
        until: Utc,
        at: Utc,
    },
    #[serde(rename = "dummy.consumed")]
    Consumed {
        grant: String,
        by: String,
        epoch: u64,
        at: Utc,
    },
}

impl LedgerRecord for Dummy {
    fn kind(&self) -> &'static str {
        match self {
            Self::Admitted { .. } => "dummy.admitted",
            Self::Granted { .. } => "dummy.granted",
            Self::Consumed { .. } => "dummy.consumed",
        }
    }

    fn header(&self) -> Header {
        match self {
            Self::Admitted { target, at } => Header {
                subject: subject(target),
                once: None,
                after: None,
                at: *at,
            },
            Self::Granted { grant, at, .. } => Header {
                subject: subject(grant),
                once: Some(granted(grant)),
                after: None,
                at: *at,
            },
            Self::Consumed { grant, at, .. } => Header {
                subject: subject(grant),
                once: Some(consumed(grant)),
                after: Some(granted(grant)),
                at: *at,
            },
        }
    }
}

pub(crate) fn subject(text: &str) -> Subject {
    text.parse().unwrap()
}

pub(crate) fn granted(grant: &str) -> OnceKey {
    format!("dummy.granted:{grant}").parse().unwrap()
}

pub(crate) fn consumed(grant: &str) -> OnceKey {
    format!("dummy.consumed:{grant}").parse().unwrap()
}

pub(crate) fn admit(store: &Store) -> LedgerHead {
    let record = Dummy::Admitted {
        target: "t".to_owned(),
        at: time(0),
    };
    store.append(&record).unwrap().place()
}

/// Grants one use of the target, resting on its admission.
pub(crate) fn grant(store: &Store, grant: &str, admitted: &LedgerHead) -> LedgerHead {
    let record = Dummy::Granted {
        grant: grant.to_owned(),
        target: "t".to_owned(),
        admitted: admitted.clone(),
        until: time(60),
        at: time(1),
    };
    store.append(&record).unwrap().place()
}

#[derive(Debug)]
pub(crate) enum Refused {
    Unknown,
    Expired,
    AdmissionChanged,
    Store(StoreError),
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Consumes a grant as a run would: every binding is checked in the transaction that appends.
pub(crate) fn consume(store: &Store, grant: &str, by: &str, now: Utc) -> Result<Appended, Refused> {
    store.transact(|ledger| {
        let Some(Found {
            record:
                Dummy::Granted {
                    target,
                    admitted,
                    until,
                    ..
                },
            ..
        }) = ledger.find(&granted(grant))?
        else {
            return Err(Refused::Unknown);
        };
        if now > until {
            return Err(Refused::Expired);
        }
        let last = ledger.last::<Dummy>("dummy.admitted", &subject(&target))?;
        if last.is_none_or(|last| last.place != admitted) {
            return Err(Refused::AdmissionChanged);
        }
        Ok(ledger.append(&Dummy::Consumed {
            grant: grant.to_owned(),
            by: by.to_owned(),
            epoch: 1,
            at: now,
        })?)
    })
}

#[test]
fn a_kind_that_the_store_does_not_know_is_appended_found_listed_and_walked() {
    let (_dir, path) = home();
    let store = store(&path);
    let admitted = admit(&store);
    let place = grant(&store, "g1", &admitted);
    let found: Found<Dummy> = store.find(&granted("g1")).unwrap().unwrap();
    assert_eq!(found.place, place);
    assert!(matches!(found.record, Dummy::Granted { grant, .. } if grant == "g1"));
    assert_eq!(store.find::<Dummy>(&granted("g2")).unwrap(), None);

    let page = LedgerPage {
        kind: None,
        after: 2,
        limit: 10,
    };
    let listed = store.ledger_entries(page).unwrap().entries;
    assert_eq!(
        (listed[0].kind.as_str(), &listed[0].subject, &listed[0].once),
        ("dummy.granted", &subject("g1"), &Some(granted("g1")))
    );
    assert_eq!(listed[0].record["until"], time(60).to_string());

    let walk = store.verify_ledger().unwrap();
    assert_eq!((walk.entries, walk.unknown, walk.broken), (3, 2, None));
    assert_eq!(walk.head, Some(place));
}

#[test]
fn a_grant_is_consumed_once_and_only_while_all_that_it_rests_on_is_unchanged() {
    let (_dir, path) = home();
    let store = store(&path);
    grant(&store, "g1", &admit(&store));
    let refused = |grant, by, now| consume(&store, grant, by, now).unwrap_err();
    assert!(matches!(refused("g2", "r1", time(2)), Refused::Unknown));
    assert!(matches!(refused("g1", "r1", time(61)), Refused::Expired));

    let first = consume(&store, "g1", "r1", time(2)).unwrap();
    assert!(matches!(first, Appended::New(_)));
    let again = consume(&store, "g1", "r1", time(2)).unwrap();
    assert_eq!(again, Appended::Earlier(first.place()));
    assert!(matches!(
        refused("g1", "r2", time(2)),
        Refused::Store(StoreError::Conflict { once, seq: 4 }) if once == consumed("g1")
    ));

    admit(&store);
    assert!(matches!(
        refused("g1", "r1", time(2)),
        Refused::AdmissionChanged
    ));
    assert_eq!(store.verify_ledger().unwrap().entries, 5);
}

#[test]
fn what_has_to_follow_waits_for_what_it_follows() {
    let (_dir, path) = home();
    let store = store(&path);
    let early = Dummy::Consumed {
        grant: "g1".to_owned(),
        by: "r1".to_owned(),
        epoch: 1,
        at: time(2),
    };
    assert!(matches!(
        store.append(&early),
        Err(StoreError::TooEarly { kind: "dummy.consumed", after, .. }) if after == granted("g1")
    ));
    grant(&store, "g1", &admit(&store));
    store.append(&early).unwrap();
}

#[test]
fn a_transaction_that_fails_leaves_nothing() {
    let (_dir, path) = home();
    let (ours, other) = (store(&path), store(&path));
    let before = ours.ledger_head().unwrap();
    let failed: Result<(), Refused> = ours.transact(|ledger| {
        ledger.append(&Dummy::Admitted {
            target: "t".to_owned(),
            at: time(0),
        })?;
        Err(Refused::Expired)
    });
    assert!(matches!(failed, Err(Refused::Expired)));
    assert_eq!(ours.ledger_head().unwrap(), before);
    // And lets go of the lock at once.
    other.run_created(&created(1, 0)).unwrap();

    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        ours.transact::<(), Refused>(|ledger| {
            ledger.append(&Dummy::Admitted {
                target: "t".to_owned(),
                at: time(0),
            })?;
            panic!("in the middle")
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(
        ours.run_created(&created(2, 0)).unwrap().seq,
        before.seq + 2
    );
}

/// A record whose JSON leaves out what it says of itself.
#[derive(Debug, Serialize, Deserialize)]
struct Forgetful {
    kind: String,
    #[serde(skip)]
    target: String,
}

impl LedgerRecord for Forgetful {
    fn kind(&self) -> &'static str {
        "dummy.forgetful"
    }
    fn header(&self) -> Header {
        Header {
            subject: subject(&format!("about-{}", self.target)),
            once: None,
            after: None,
            at: time(0),
        }
    }
}

#[test]
fn a_record_that_does_not_read_back_is_not_entered() {
    let (_dir, path) = home();
    let store = store(&path);
    let forgetful = |target: &str| Forgetful {
        kind: "dummy.forgetful".to_owned(),
        target: target.to_owned(),
    };
    assert!(matches!(
        store.append(&forgetful("t")),
        Err(StoreError::Malformed {
            kind: "dummy.forgetful",
            ..
        })
    ));
    assert_eq!(store.ledger_head().unwrap().seq, 1);
    store.append(&forgetful("")).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Against a list in memory: a key once, the same again at its place, another refused, no key always new.
    #[test]
    fn any_order_of_appends_keeps_the_first_of_each_key(
        appends in proptest::collection::vec((0_u8..4, 0_u8..3, 0_i64..2), 1..20),
    ) {
        let (_dir, path) = home();
        let store = store(&path);
        let mut entered: Vec<Dummy> = Vec::new();
        for (grant, by, at) in appends {
            let grant = format!("g{grant}");
            let record = match by {
                0 => Dummy::Admitted { target: grant, at: time(at) },
                1 => Dummy::Granted {
                    grant,
                    target: "t".to_owned(),
                    admitted: LedgerHead { seq: 1, digest: Digest::from_bytes(&[1; 32]) },
                    until: time(9),
                    at: time(at),
                },
                _ => Dummy::Consumed { grant, by: "r".to_owned(), epoch: 1, at: time(at) },
            };
            let Header { once, after, .. } = record.header();
            let standing = |key: &OnceKey| {
                entered.iter().position(|e| e.header().once.as_ref() == Some(key))
            };
            let expected = match once.as_ref().and_then(standing) {
                Some(i) if entered[i] == record => ("earlier", i as u64 + 2),
                Some(i) => ("conflict", i as u64 + 2),
                None if after.is_some_and(|key| standing(&key).is_none()) => ("too early", 0),
                None => ("new", entered.len() as u64 + 2),
            };
            let seen = match store.append(&record) {
                Ok(Appended::New(place)) => ("new", place.seq),
                Ok(Appended::Earlier(place)) => ("earlier", place.seq),
                Err(StoreError::Conflict { seq, .. }) => ("conflict", u64::try_from(seq).unwrap()),
                Err(StoreError::TooEarly { .. }) => ("too early", 0),
                Err(error) => panic!("{error}"),
            };
            prop_assert_eq!(seen, expected);
            if seen.0 == "new" {
                entered.push(record);
            }
        }
        let walk = store.verify_ledger().unwrap();
        prop_assert_eq!((walk.broken, walk.unknown), (None, entered.len() as u64));
    }
}
