//! A database that lost its last commits, held against the packs.

use std::path::Path;

use cto_store::{LedgerInit, LedgerPage, Store};
use serde_json::Value;

use crate::place::{Place, sh, write};

fn id(pack: &Path) -> String {
    pack.file_name().unwrap().to_str().unwrap().to_owned()
}

fn kinds(place: &Place) -> Vec<String> {
    let init = LedgerInit {
        random: [0; 32],
        at: "2026-06-01T00:00:00Z".parse().unwrap(),
    };
    let store = Store::open(&place.home().join("cto.db"), init).unwrap();
    let page = LedgerPage {
        kind: None,
        after: 0,
        limit: 100,
    };
    assert_eq!(store.verify_ledger().unwrap().broken, None);
    let entries = store.ledger_entries(page).unwrap().entries;
    entries.into_iter().map(|e| e.kind).collect()
}

fn sql(place: &Place, statements: &str) {
    write(&place.path("statements.sql"), statements);
    sh(
        &place.home(),
        r#"python3 -c "import sqlite3; sqlite3.connect('cto.db').executescript(open('../statements.sql').read())""#,
    );
}

fn rows(place: &Place) -> Vec<(String, String, bool)> {
    let rows = place.cto(&["runs", "--json"]).expect(0).json();
    let text = |v: &Value| v.as_str().unwrap_or("running").to_owned();
    let rows = rows["rows"].as_array().unwrap().iter();
    rows.map(|r| {
        (
            text(&r["run_id"]),
            text(&r["status"]),
            r["of_this_home"] == true,
        )
    })
    .collect()
}

const KEEP: &str = "mkdir kept && cp -a cto.db* kept/";
const PUT_BACK: &str = "rm -f cto.db* && cp -a kept/cto.db* .";

#[test]
fn a_run_that_ledger_and_index_lost_is_taken_up_again_on_the_evidence_of_its_pack() {
    let place = Place::new().with_key();
    let first = id(&place.passed());
    sh(&place.home(), KEEP);
    let second = id(&place.passed());
    sh(&place.home(), PUT_BACK);
    let said = place.cto(&["show", "latest", "--json"]).expect(0);
    assert_eq!(said.json()["run_id"], second.as_str());
    assert!(said.err.contains("lost at least 2 entries"), "{}", said.err);
    assert!(said.err.contains(&second), "{}", said.err);
    assert_eq!(
        rows(&place),
        [
            (second, "pass".to_owned(), true),
            (first, "pass".to_owned(), true)
        ]
    );
    assert_eq!(
        kinds(&place)[3..],
        ["ledger.lost", "run.created", "run.sealed", "run.taken_up"]
    );
    // Once is enough.
    let again = place.cto(&["show", "latest"]).expect(0);
    assert!(
        !again.err.contains("recovered") && !again.err.contains("lost"),
        "{}",
        again.err
    );
}

#[test]
fn a_good_run_whose_seal_was_lost_does_not_stay_crashed() {
    let place = Place::new().with_key();
    let run = id(&place.passed());
    // As it stood between creation and seal.
    sql(
        &place,
        "DROP TRIGGER ledger_no_delete; DELETE FROM ledger WHERE kind = 'run.sealed'; UPDATE runs SET status = NULL; \
         CREATE TRIGGER ledger_no_delete BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'no'); END;",
    );
    assert_eq!(rows(&place), [(run.clone(), "pass".to_owned(), true)]);
    place.cto(&["verify", &run]).expect(0);
    assert_eq!(
        kinds(&place),
        [
            "genesis",
            "run.created",
            "ledger.lost",
            "run.sealed",
            "run.taken_up"
        ]
    );
}

#[test]
fn after_a_start_of_the_machine_the_index_is_held_against_the_packs() {
    let place = Place::new().with_key();
    let run = id(&place.passed());
    sql(&place, "DELETE FROM runs");
    assert_eq!(rows(&place), [], "nobody has reason to look");
    sh(
        &place.home(),
        r#"sed -i 's/"boot_id":"[^"]*"/"boot_id":"before"/' ledger-mark"#,
    );
    assert_eq!(rows(&place), [(run, "pass".to_owned(), true)]);
    assert_eq!(kinds(&place), ["genesis", "run.created", "run.sealed"]);
}

#[test]
fn a_database_that_is_gone_begins_a_new_ledger_that_says_so() {
    let place = Place::new().with_key();
    let run = id(&place.passed());
    sh(&place.home(), "rm cto.db*");
    let said = place.cto(&["show", "latest", "--json"]).expect(0);
    assert_eq!(said.json()["run_id"], run.as_str());
    assert!(
        said.err.contains("another ledger") && said.err.contains("at least 3 entries"),
        "{}",
        said.err
    );
    assert_eq!(
        kinds(&place),
        [
            "genesis",
            "ledger.lost",
            "run.created",
            "run.sealed",
            "run.taken_up"
        ]
    );
}

#[test]
fn nothing_is_taken_up_that_was_not_sealed_here_or_does_not_verify() {
    let (place, guest) = (Place::new().with_key(), Place::new().with_key());
    place.passed();
    sh(&place.home(), KEEP);
    let spoiled = place.passed();
    sh(&spoiled, "printf x >> test.log");
    let theirs = guest.passed();
    let runs = place.home().join("harness-runs");
    sh(&runs, &format!("cp -a {} .", theirs.display()));
    // An own pack under another name, and a link to one.
    sh(
        &runs,
        &format!(
            "cp -a {} 20200101T000000Z-r1-string-slugify-aaaaaa && ln -s {} 20200101T000000Z-r1-string-slugify-bbbbbb",
            spoiled.display(),
            theirs.display()
        ),
    );
    sh(&place.home(), PUT_BACK);
    assert_eq!(rows(&place).len(), 1);
    assert_eq!(kinds(&place)[3..], ["ledger.lost"]);
    assert_eq!(
        place
            .cto(&["show", &id(&spoiled), "--json"])
            .expect(0)
            .json()["of_this_home"],
        false
    );
}

#[test]
fn the_database_of_another_home_is_named_as_another_and_loses_no_run() {
    let (place, other) = (Place::new().with_key(), Place::new().with_key());
    let run = id(&place.passed());
    let theirs = id(&other.passed());
    sh(
        &place.home(),
        &format!("rm cto.db* && cp {}/cto.db* .", other.home().display()),
    );
    let said = place.cto(&["show", "latest", "--json"]).expect(0);
    assert_eq!(said.json()["run_id"], run.as_str());
    assert!(said.err.contains("another ledger"), "{}", said.err);
    place.cto(&["verify", &run]).expect(0);
    // What was run elsewhere is neither here nor shown as if it were.
    let listed = place.cto(&["runs", "--json"]).expect(0).json();
    assert_eq!(listed["missing"], serde_json::json!([theirs]));
    let shown = place.cto(&["show", &theirs, "--json"]);
    assert_eq!(shown.error(), "5 run_lost");
}

#[test]
fn a_run_that_was_sealed_while_the_clock_stood_before_the_key_is_taken_up_too() {
    let place = Place::new().with_key();
    // As if the clock had been ahead when the key was made, and was set right since.
    sh(
        &place.path("config/cto/trust/harness"),
        r#"sed -i 's/"valid_from": "[^"]*"/"valid_from": "2999-01-01T00:00:00Z"/' *.json"#,
    );
    let told = place.cto(&["run", "r1-string-slugify", "--json"]).expect(3);
    let run = told.json()["run_id"].clone();
    sh(&place.home(), "rm cto.db*");
    let shown = place.cto(&["show", "latest", "--json"]).expect(0).json();
    assert_eq!(
        (&shown["run_id"], &shown["of_this_home"]),
        (&run, &Value::Bool(true))
    );
}
