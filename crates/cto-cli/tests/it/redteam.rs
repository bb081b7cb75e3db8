//! `cto validate redteam` as a person calls it, and whether it could be fooled.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use cto_contract::outputs::BehaviourStatus;
use cto_proving::redteam::{self, CORPUS, Options};
use cto_runner::Environment;
use cto_sandbox::{Launcher, StopToken};
use serde_json::Value;

use crate::place::{CTO, Place, Ran, search_path};
use crate::schemas::fits_schema;

const NOBODY: u32 = 65534;

/// Behaviours that this machine cannot try, if any: only where it has no such calls.
fn left_out() -> Vec<u64> {
    if cfg!(target_arch = "x86_64") {
        Vec::new()
    } else {
        vec![33]
    }
}

#[test]
fn every_behaviour_of_the_corpus_comes_out_as_it_must() {
    let place = Place::elsewhere();
    let ran = place.cto(&["validate", "redteam", "--json", "-q"]);
    let output = ran.json();
    assert_eq!(output["errors"], serde_json::json!([]), "{output:#}");
    assert_eq!((ran.code, &output["ok"]), (Some(0), &Value::Bool(true)));

    let mut numbers = BTreeSet::new();
    let mut runs = BTreeSet::new();
    for row in output["checked"].as_array().unwrap() {
        let number = row["behaviour"].as_u64().unwrap();
        let known = CORPUS.iter().find(|b| u64::from(b.number) == number);
        let known = known.unwrap();
        assert_eq!(
            (row["name"].as_str(), row["expected"].as_str()),
            (Some(known.name), Some(known.expected))
        );
        if left_out().contains(&number) {
            assert_eq!(row["status"], "skipped", "{row}");
            assert_ne!(row["reason"], Value::Null, "{row}");
        } else {
            assert_eq!(
                (&row["status"], &row["reason"]),
                (&"pass".into(), &Value::Null)
            );
            assert_ne!(row["seen"], "", "{row}");
        }
        let tried_in = row["runs"].as_array().unwrap().iter();
        runs.extend(tried_in.map(|run| run.as_str().unwrap().to_owned()));
        assert!(numbers.insert(number), "{number} twice");
    }
    for entry in output["not_covered"].as_array().unwrap() {
        assert_ne!(entry["reason"], "");
        assert!(numbers.insert(entry["behaviour"].as_u64().unwrap()));
    }
    assert_eq!(numbers, (1..=66).collect());
    let directory = std::path::Path::new(output["directory"].as_str().unwrap());
    for run in runs {
        let packs = directory.join(&run).join("home/harness-runs");
        let packs: Vec<_> = packs.read_dir().unwrap().map(|p| p.unwrap()).collect();
        // A case is done by the fake lane too, to measure the agent by.
        assert!((1..=2).contains(&packs.len()), "{run}");
        for pack in packs {
            let pack = pack.path();
            let args = ["verify", pack.to_str().unwrap(), "--integrity-only"];
            place.cto(&args).expect(0);
        }
    }
    place.assert_no_runs();
    fits_schema(&place, "validate-redteam", &output);
}

/// The same by a user without any privilege, when these tests run as root.
#[test]
fn the_corpus_comes_out_as_it_must_for_an_ordinary_user_too() {
    if !cto_testkit::has("root", rustix::process::geteuid().is_root()) {
        return;
    }
    let place = Place::elsewhere();
    // A place and a program that this user can reach, wherever the build was made.
    let program = place.path("cto");
    fs::copy(CTO, &program).unwrap();
    let top = place.path("");
    std::os::unix::fs::chown(&top, Some(NOBODY), Some(NOBODY)).unwrap();
    let plain = place.command(&["validate", "redteam", "--json", "-q"]);
    let env = plain
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(program)
        .args(plain.get_args())
        .env_clear()
        .envs(env)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir(top);
    let ran = Ran::of(command.output().unwrap());
    let output = ran.json();
    assert_eq!(output["errors"], serde_json::json!([]), "{output:#}");
    assert_eq!((ran.code, &output["ok"]), (Some(0), &Value::Bool(true)));
    let rows = output["checked"].as_array().unwrap();
    let not_tried = rows.iter().filter(|row| row["status"] != "pass");
    assert_eq!(not_tried.count(), left_out().len(), "{output:#}");
    assert_eq!(rows.len(), CORPUS.len());
}

#[test]
fn a_behaviour_is_chosen_by_its_number_and_shown_to_a_person() {
    let place = Place::elsewhere();
    let ran = place
        .cto(&["validate", "redteam", "--only", "57"])
        .expect(0);
    assert!(
        ran.out.contains("1 of 1 behaviours come out as they must"),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains("Not tried yet"), "{}", ran.out);
    assert!(ran.err.contains("ok       liar"), "{}", ran.err);
    let below = Place::new().cto(&["validate", "redteam", "--json"]);
    assert_eq!(below.error(), "2 home_in_tmp");
    let wrong = place.cto(&["validate", "redteam", "--only", "67", "--json"]);
    assert_eq!(wrong.code, Some(2), "{}", wrong.out);
}

#[test]
fn nothing_passes_where_nothing_holds() {
    let place = Place::new();
    let options = Options {
        directory: place.path("validation"),
        env: Environment::new([("PATH".to_owned(), search_path())]),
        // As where the kernel refuses namespaces: every run is blocked, and what was never tried never passes.
        launcher: Launcher {
            force_group: true,
            ..Launcher::at(CTO)
        },
        program: CTO.into(),
        jobs: 2,
        only: vec![1, 13, 18, 27, 41, 43, 58, 59],
    };
    let team = redteam::validate(&options, &StopToken::new().unwrap(), &mut |_, _| {}).unwrap();
    assert!(!team.ok);
    assert_eq!(team.checked.len(), options.only.len());
    for row in &team.checked {
        assert_eq!(row.status, BehaviourStatus::Fail, "{row:?}");
        assert!(row.reason.is_some(), "{row:?}");
    }
    let honest = |error: &&String| error.starts_with("control: an honest run did not pass");
    assert!(team.errors.iter().any(|e| honest(&e)), "{:?}", team.errors);
}
