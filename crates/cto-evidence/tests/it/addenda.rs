//! Signed records beside a pack.

use cto_contract::addendum::{
    Addendum, AddendumKind, AddendumSchema, Body, Bound, Closeout, Outcome, ProofFile,
};
use cto_contract::approval::OutcomeStatement;
use cto_contract::ids::Digest;
use cto_contract::operator::Signed;
use cto_contract::verify::VerifyCheck;
use cto_contract::words::Action;
use cto_evidence::addendum::{addendum_bytes, proof};
use cto_evidence::canonical::sha256;
use cto_evidence::key::SigningKey;
use cto_evidence::verify::{VerifyOptions, verify};
use cto_testkit::authenticator::UP_UV;
use serde_json::json;

use crate::forge::put;
use crate::grants;
use crate::sample::{self, Pack, at, key};
use crate::stranger::agree;
use crate::{check, codes, known};

/// Writes records one after another, each naming the one before it.
pub(crate) struct Records<'a> {
    pub(crate) pack: &'a Pack,
    last: Option<Digest>,
    number: u32,
}

impl<'a> Records<'a> {
    pub(crate) fn of(pack: &'a Pack) -> Self {
        Self {
            pack,
            last: None,
            number: 0,
        }
    }

    pub(crate) fn add(&mut self, body: Body) -> Bound {
        self.number += 1;
        let next = addendum(self.pack, self.number, self.last.take(), body);
        let bound = Bound {
            id: next.file_name(),
            digest: write(self.pack, next, &self.pack.key),
        };
        self.last = Some(bound.digest.clone());
        bound
    }

    fn prove(&mut self, file: ProofFile) -> Bound {
        let (body, plain) = proof(file, json!({"passed": true, "errors": []})).unwrap();
        put_beside(self.pack, file.as_str(), &plain);
        self.add(body)
    }
}

fn addendum(pack: &Pack, number: u32, previous: Option<Digest>, body: Body) -> Addendum {
    Addendum {
        schema: AddendumSchema,
        run_id: pack.sealed.report.run.run_id.clone(),
        pack_digest: pack.sealed.pack_digest.clone(),
        number,
        previous,
        at: at(60),
        harness_public_key: String::new(),
        body,
    }
}

fn put_beside(pack: &Pack, name: &str, bytes: &[u8]) {
    let run = &pack.sealed.report.run.run_id;
    let dir = pack.home.path().join(format!("{run}.addenda"));
    std::fs::create_dir_all(&dir).unwrap();
    put(&dir.join(name), bytes);
}

fn write(pack: &Pack, addendum: Addendum, key: &SigningKey) -> Digest {
    let name = addendum.file_name();
    let bytes = addendum_bytes(addendum, key).unwrap();
    put_beside(pack, &name, &bytes);
    sha256(&bytes)
}

fn landing(target_repository_ending_clean: bool) -> Body {
    Body::Landing {
        target_id: "calc".to_owned(),
        branch: "cto/calc".to_owned(),
        base_commit: "1".repeat(40).parse().unwrap(),
        landed_commit: "2".repeat(40).parse().unwrap(),
        tree_id: sample::TREE.parse().unwrap(),
        target_repository_ending_clean,
    }
}

fn outcome(pack: &Pack, outcome: Outcome) -> Body {
    body(grants::sign(
        grants::outcome(pack, outcome),
        &grants::olga(),
        (UP_UV, 9),
    ))
}

/// The record of what an operator signed.
pub(crate) fn body(signed: Signed<OutcomeStatement>) -> Body {
    let (statement, signature) = (&signed.statement, &signed.signature);
    Body::Outcome {
        outcome: statement.outcome,
        operator: statement.signer.to_string(),
        presence: signature.presence,
        custody: signature.custody,
        note: statement.note.clone(),
        signature: signature.armour.clone(),
        signed: Box::new(signed),
    }
}

fn rollback(landed: &str) -> Body {
    Body::Rollback {
        landed_commit: landed.repeat(40).parse().unwrap(),
        rollback_commit: "3".repeat(40).parse().unwrap(),
        tree_id: sample::TREE.parse().unwrap(),
    }
}

fn publication() -> Body {
    Body::Publication {
        action: Action::PrOpen,
        operator: "op".to_owned(),
        destination: "forge.example/calc".to_owned(),
        reference: Some("17".to_owned()),
    }
}

fn bound(id: &str) -> Option<Bound> {
    Some(Bound {
        id: id.to_owned(),
        digest: sha256(id.as_bytes()),
    })
}

/// A closeout that binds these records; what the ledger holds is taken on its word.
fn closeout(pack: &Pack, records: [Option<&Bound>; 3]) -> Body {
    let [landing, proof, outcome] = records.map(|r| r.cloned());
    Body::Closeout(Box::new(Closeout {
        request: None,
        grant: None,
        run: Bound {
            id: pack.sealed.report.run.run_id.to_string(),
            digest: pack.sealed.pack_digest.clone(),
        },
        landing,
        proof,
        outcome,
        validation: bound("val-1"),
    }))
}

/// A pack with these records beside it.
fn with(records: impl FnOnce(&mut Records<'_>)) -> Pack {
    let pack = sample::pass().seal();
    records(&mut Records::of(&pack));
    pack
}

fn messages(pack: &Pack) -> String {
    let report = check(pack);
    let invalid = |e: &cto_contract::verify::VerifyError| e.code.as_str() == "addendum_invalid";
    assert!(report.errors.iter().all(invalid), "{:?}", report.errors);
    let all = report.errors.iter().map(|e| e.message.clone());
    all.collect::<Vec<_>>().join("; ")
}

#[test]
fn every_kind_of_record_verifies_beside_its_pack_also_for_a_stranger() {
    let whole = with(|r| {
        let landed = r.add(landing(true));
        r.prove(ProofFile::DisposableSandbox);
        let decided = r.add(outcome(r.pack, Outcome::Accepted));
        let proven = r.prove(ProofFile::OwnedRepository);
        r.add(publication());
        r.add(closeout(
            r.pack,
            [Some(&landed), Some(&proven), Some(&decided)],
        ));
    });
    let undone = with(|r| {
        let landed = r.add(landing(false));
        let decided = r.add(outcome(r.pack, Outcome::Rejected));
        r.add(rollback("2"));
        r.add(closeout(r.pack, [Some(&landed), None, Some(&decided)]));
    });
    for pack in [&whole, &undone] {
        let report = check(pack);
        assert_eq!(report.errors, []);
        assert!(report.checked.contains(&VerifyCheck::Addenda));
    }
    agree(
        &[("whole".to_owned(), whole), ("undone".to_owned(), undone)],
        true,
    );
    let blocked = sample::blocked().seal();
    let mut records = Records::of(&blocked);
    records.add(closeout(&blocked, [None; 3]));
    agree(&[("nothing came of it".to_owned(), blocked)], true);
}

#[test]
fn a_kind_is_the_same_word_in_the_record_and_in_its_name() {
    let pack = sample::pass().seal();
    let (proof, _) = proof(ProofFile::OwnedRepository, json!({})).unwrap();
    let all = [
        landing(true),
        proof,
        outcome(&pack, Outcome::Accepted),
        rollback("2"),
        closeout(&pack, [None; 3]),
        publication(),
    ];
    let kinds = all.each_ref().map(Body::kind);
    assert_eq!(kinds, AddendumKind::ALL);
    for body in all {
        let word = serde_json::to_value(&body).unwrap()["kind"].clone();
        assert_eq!(word, body.kind().as_str());
    }
}

#[test]
fn a_record_that_is_cut_out_swapped_foreign_or_about_another_pack_is_found() {
    let after = |spoil: &dyn Fn(&Pack)| {
        let pack = sample::pass().seal();
        spoil(&pack);
        messages(&pack)
    };
    let decided = |p: &Pack| outcome(p, Outcome::Accepted);
    insta::assert_snapshot!(after(&|p| { write(p, addendum(p, 2, None, decided(p)), &p.key); }), @"expected addendum 1 under its own name, found 2 in this file");
    insta::assert_snapshot!(after(&|p| { write(p, addendum(p, 1, Some(sha256(b"")), decided(p)), &p.key); }), @"does not name the addendum before it");
    insta::assert_snapshot!(after(&|p| { write(p, Addendum { pack_digest: sha256(b""), ..addendum(p, 1, None, decided(p)) }, &p.key); }), @"is about another pack");
    insta::assert_snapshot!(after(&|p| { write(p, addendum(p, 1, None, decided(p)), &key(7)); }), @"signed by a key that is neither the pack's nor known");
    insta::assert_snapshot!(after(&|p| {
        write(p, addendum(p, 1, None, decided(p)), &p.key);
        let dir = p.home.path().join(format!("{}.addenda", sample::RUN));
        std::fs::rename(dir.join("0001-outcome.dsse.json"), dir.join("0001-closeout.dsse.json")).unwrap();
    }), @"expected addendum 1 under its own name, found 1 in this file");
    insta::assert_snapshot!(after(&|p| {
        write(p, addendum(p, 1, None, decided(p)), &p.key);
        put_beside(p, "notes.txt", b"x");
    }), @"not a DSSE envelope: expected value at line 1 column 1");
}

#[test]
fn a_record_out_of_its_place_is_found_also_by_a_stranger() {
    let stage4 = ProofFile::DisposableSandbox;
    let stage5 = ProofFile::OwnedRepository;
    let plain = |pack: &Pack, bytes: &[u8]| put_beside(pack, stage4.as_str(), bytes);
    let landed = |then: &dyn Fn(&mut Records<'_>)| {
        with(|r| {
            r.add(landing(true));
            then(r);
        })
    };
    let failed = sample::blocked().seal();
    Records::of(&failed).add(landing(true));
    let cases = [
        ("a landing of a run that did not pass", failed),
        (
            "a proof without a landing that left its target clean",
            with(|r| {
                r.add(landing(false));
                r.prove(stage4);
            }),
        ),
        (
            "a proof of a change that no operator has accepted",
            landed(&|r| {
                r.prove(stage5);
            }),
        ),
        (
            "a second proof of the same stage",
            landed(&|r| {
                r.prove(stage4);
                r.prove(stage4);
            }),
        ),
        (
            "payload_digest is not that of the payload",
            landed(&|r| {
                let (mut body, _) = proof(stage4, json!({"passed": false})).unwrap();
                if let Body::Proof { payload, .. } = &mut body {
                    *payload = json!({"passed": true});
                }
                r.add(body);
            }),
        ),
        (
            "is not the proof that its record holds",
            landed(&|r| {
                r.prove(stage4);
                plain(r.pack, b"{\"passed\":true }");
            }),
        ),
        (
            "a record holds this proof, but it is not there",
            landed(&|r| {
                let (body, _) = proof(stage4, json!({})).unwrap();
                r.add(body);
            }),
        ),
        (
            "no record holds this proof",
            landed(&|r| plain(r.pack, b"{}")),
        ),
        (
            "a rollback of another commit than the landed one",
            landed(&|r| {
                r.add(rollback("4"));
            }),
        ),
        (
            "binds another run or other records than those before it",
            landed(&|r| {
                r.add(closeout(r.pack, [None; 3]));
            }),
        ),
    ];
    let packs = cases.map(|(expected, pack)| {
        let found = messages(&pack);
        assert!(found.starts_with(expected), "{expected}: {found}");
        (expected.to_owned(), pack)
    });
    agree(&packs, false);
}

#[test]
fn a_directory_that_is_asked_for_by_name_must_be_there() {
    let pack = sample::pass().seal();
    let options = VerifyOptions {
        addenda_dir: Some(pack.home.path().join("absent")),
        ..known(&pack)
    };
    assert_eq!(codes(&verify(&pack.path, &options)), ["addendum_invalid"]);
}
