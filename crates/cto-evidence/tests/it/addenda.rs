//! Signed records beside a pack.

use cto_contract::addendum::{Addendum, AddendumSchema, Body, Outcome};
use cto_contract::ids::Digest;
use cto_contract::verify::VerifyCheck;
use cto_evidence::addendum::addendum_bytes;
use cto_evidence::canonical::sha256;
use cto_evidence::key::SigningKey;
use cto_evidence::verify::{VerifyOptions, verify};

use crate::forge::put;
use crate::sample::{self, Pack, at, key};
use crate::{check, codes, known};

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

fn write(pack: &Pack, addendum: Addendum, key: &SigningKey) -> Digest {
    let dir = pack
        .home
        .path()
        .join(format!("{}.addenda", pack.sealed.report.run.run_id));
    std::fs::create_dir_all(&dir).unwrap();
    let name = addendum.file_name();
    let bytes = addendum_bytes(addendum, key).unwrap();
    put(&dir.join(name), &bytes);
    sha256(&bytes)
}

fn outcome() -> Body {
    Body::Outcome {
        outcome: Outcome::Accepted,
        operator: "op".to_owned(),
        presence: "none".to_owned(),
        note: None,
        signature: "s".to_owned(),
    }
}

fn closeout() -> Body {
    Body::Closeout {
        note: "done".to_owned(),
    }
}

#[test]
fn a_chain_of_addenda_verifies_beside_its_pack() {
    let pack = sample::pass().seal();
    let first = write(&pack, addendum(&pack, 1, None, outcome()), &pack.key);
    write(
        &pack,
        addendum(&pack, 2, Some(first), closeout()),
        &pack.key,
    );
    let report = check(&pack);
    assert_eq!(report.errors, []);
    assert!(report.checked.contains(&VerifyCheck::Addenda));
}

#[test]
fn a_record_that_is_cut_out_swapped_foreign_or_about_another_pack_is_found() {
    let after = |spoil: &dyn Fn(&Pack)| {
        let pack = sample::pass().seal();
        spoil(&pack);
        let report = check(&pack);
        assert!(
            report
                .errors
                .iter()
                .all(|e| e.code.as_str() == "addendum_invalid"),
            "{:?}",
            report.errors
        );
        report
            .errors
            .iter()
            .map(|e| e.message.clone())
            .collect::<Vec<_>>()
            .join("; ")
    };
    insta::assert_snapshot!(after(&|p| { write(p, addendum(p, 2, None, closeout()), &p.key); }), @"expected addendum 1 under its own name, found 2 in this file");
    insta::assert_snapshot!(after(&|p| { write(p, addendum(p, 1, Some(sha256(b"")), closeout()), &p.key); }), @"does not name the addendum before it");
    insta::assert_snapshot!(after(&|p| { write(p, Addendum { pack_digest: sha256(b""), ..addendum(p, 1, None, closeout()) }, &p.key); }), @"is about another pack");
    insta::assert_snapshot!(after(&|p| { write(p, addendum(p, 1, None, closeout()), &key(7)); }), @"signed by a key that is neither the pack's nor known");
    insta::assert_snapshot!(after(&|p| {
        write(p, addendum(p, 1, None, closeout()), &p.key);
        let dir = p.home.path().join(format!("{}.addenda", sample::RUN));
        std::fs::rename(dir.join("0001-closeout.dsse.json"), dir.join("0001-outcome.dsse.json")).unwrap();
    }), @"expected addendum 1 under its own name, found 1 in this file");
    insta::assert_snapshot!(after(&|p| {
        write(p, addendum(p, 1, None, closeout()), &p.key);
        put(&p.home.path().join(format!("{}.addenda/notes.txt", sample::RUN)), b"x");
    }), @"not a DSSE envelope: expected value at line 1 column 1");
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
