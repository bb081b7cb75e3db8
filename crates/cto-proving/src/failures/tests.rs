use std::collections::BTreeSet;
use std::fs;

use cto_contract::artifact::{PATCH, REPORT_JSON};
use cto_sandbox::Launcher;
use tempfile::TempDir;

use super::*;

fn named(name: &str) -> &'static Fixture {
    fixtures()
        .find(|f| f.name() == name)
        .unwrap_or_else(|| panic!("{name}"))
}

/// A real pack of a fixture that needs no process, and where it lies.
fn seen(name: &str) -> (TempDir, Seen) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        directory: dir.path().to_owned(),
        env: Environment::default(),
        launcher: Launcher::current_exe(),
        jobs: 1,
        only: Vec::new(),
    };
    let fixture = named(name);
    let site = FixtureSite::make(fixture, name, dir.path(), &options).unwrap();
    let seen = site.run(fixture, &StopToken::new().unwrap()).unwrap();
    (dir, seen)
}

/// The checks that do not hold, by name.
fn broken(name: &str, seen: &Seen) -> String {
    let judged = judge(named(name), seen);
    let checks = judged.checks.named();
    let names: Vec<&str> = checks.iter().filter(|(_, h)| !h).map(|(n, _)| *n).collect();
    assert_eq!(
        names.is_empty(),
        judged.errors.is_empty(),
        "{:?}",
        judged.errors
    );
    names.join(" ")
}

#[test]
fn every_blocker_is_triggered_or_has_a_reason_not_to_be() {
    assert_eq!(uncovered(), []);
    for (code, reason) in NOT_COVERED {
        assert!(!reason.is_empty(), "{code}");
        assert!(
            !fixtures().any(|f| f.blocker == *code),
            "{code} is triggered, so its excuse must go"
        );
    }
}

#[test]
fn fixtures_have_names_of_their_own_and_the_first_of_a_row_has_that_of_the_row() {
    let names: Vec<String> = fixtures().map(Fixture::name).collect();
    let distinct: BTreeSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    for fixture in fixtures() {
        assert!(!fixture.trigger.is_empty(), "{}", fixture.name());
        assert!(names.iter().any(|n| n == fixture.row().fixture));
    }
}

#[test]
fn one_may_choose_a_fixture_or_a_row_but_nothing_else() {
    let chosen = |only: &str| choose(&[only.to_owned()]).map(|f| f.len());
    assert_eq!(chosen("timeout-verification").unwrap(), 1);
    assert!(chosen("timeout").unwrap() > 1);
    assert_eq!(choose(&[]).unwrap().len(), fixtures().count());
    assert!(matches!(
        chosen("nothing"),
        Err(ValidateError::UnknownFixture(_))
    ));
}

#[test]
fn the_page_says_what_the_tables_say() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/failures.md");
    assert!(
        fs::read_to_string(path).unwrap_or_default() == document(),
        "docs/failures.md is not what the tables say: cargo run -p cto-proving --example failures-page > docs/failures.md"
    );
}

#[test]
fn a_pack_that_is_what_it_must_be_passes_all_eight_checks() {
    let (_dir, seen) = seen("gate-missing");
    assert_eq!(broken("gate-missing", &seen), "");
}

#[test]
fn a_pack_of_another_blocker_does_not_pass_for_a_row() {
    let (_dir, seen) = seen("gate-missing");
    assert_eq!(
        broken("stage-gate-missing", &seen),
        "blocker event artifacts"
    );
    assert_eq!(broken("timeout", &seen), "blocker event artifacts");
    assert_eq!(
        broken("no-diff", &seen),
        "blocker event status exit_code artifacts"
    );
    assert_eq!(
        broken("source-changed-during-run", &seen),
        "blocker event artifacts outside"
    );
}

#[test]
fn what_is_not_as_it_was_sealed_is_found() {
    let (_dir, seen) = seen("gate-missing");
    let edit = |name: &str, from: &str, to: &str| {
        let path = seen.pack.join(name);
        let text = fs::read_to_string(&path).unwrap();
        let new = text.replace(from, to);
        assert_ne!(text, new);
        fs::remove_file(&path).unwrap();
        std::io::Write::write_all(&mut fs::File::create(&path).unwrap(), new.as_bytes()).unwrap();
        let found = broken("gate-missing", &seen);
        fs::remove_file(&path).unwrap();
        std::io::Write::write_all(&mut fs::File::create(&path).unwrap(), text.as_bytes()).unwrap();
        assert_eq!(broken("gate-missing", &seen), "");
        found
    };
    assert_eq!(edit("test.log", "No", "Some"), "digests");
    assert_eq!(edit("eligibility.json", "1", "2"), "digests");
    assert!(edit(REPORT_JSON, "\"written\"", "\"checked\"").contains("freshness"));
    assert!(edit(REPORT_JSON, "\"blocked\"", "\"pass\"").contains("status exit_code"));
    assert!(edit(REPORT_JSON, "\"gate_missing\"", "\"timeout\"").contains("blocker"));
}

#[test]
fn a_file_that_is_missing_or_a_neighbour_that_changed_is_found() {
    let (_dir, mut seen) = seen("gate-missing");
    seen.outside.push("beside/keep.txt".to_owned());
    assert_eq!(broken("gate-missing", &seen), "outside");
    seen.outside.clear();
    fs::remove_file(seen.pack.join("backend/command-gate.log")).unwrap();
    assert_eq!(broken("gate-missing", &seen), "artifacts digests freshness");
    fs::remove_file(seen.pack.join(PATCH)).unwrap();
    assert!(broken("gate-missing", &seen).contains("artifacts"));
    fs::remove_file(seen.pack.join(REPORT_JSON)).unwrap();
    assert_eq!(
        broken("gate-missing", &seen),
        "blocker event status exit_code artifacts digests freshness"
    );
}
