//! Homes in which somebody put links, pipes and other runs where a run's own files belong: recovery closes nothing that is not
//! the run itself, touches nothing elsewhere, waits for nobody, and what it says to do is enough.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;

use crate::homes::{recovered, sealed_and_verified, with_a_dead_run};
use crate::place::sh;
use crate::test_home::TestHome;

const OTHER: &str = "20260101T000000Z-tiny-bbbbbb";

/// Recovery fails by name, twice alike, and says this.
#[track_caller]
fn refused(test_home: &TestHome, says: &[&str]) {
    for _ in 0..2 {
        let (code, row) = recovered(test_home);
        assert_eq!(
            (code, &row["outcome"]),
            (1, &Value::from("failed")),
            "{row}"
        );
        let detail = row["detail"].as_str().unwrap();
        for text in says {
            assert!(detail.contains(text), "{detail}");
        }
    }
}

#[track_caller]
fn nothing_to_recover(test_home: &TestHome) {
    let (code, answer) = test_home.json(&["recover"]);
    assert_eq!(
        (code, &answer["runs"]),
        (0, &Value::Array(Vec::new())),
        "{answer}"
    );
}

fn is_sealed(pack: &Path) -> bool {
    pack.join("attestation.dsse.json").exists()
}

#[test]
fn a_run_under_another_name_is_not_closed_as_that_one() {
    let (test_home, run_id) = with_a_dead_run();
    let (own, other) = (test_home.pack(&run_id), test_home.pack(OTHER));
    std::fs::rename(&own, &other).unwrap();
    let (code, answer) = test_home.json(&["recover"]);
    assert_eq!(code, 1, "{answer}");
    let rows = answer["runs"].as_array().unwrap();
    let detail = |name: &str| {
        let row = rows.iter().find(|row| row["name"] == name).unwrap();
        row["detail"].as_str().unwrap_or_default().to_owned()
    };
    assert!(detail(OTHER).contains(&run_id), "{answer}");
    assert!(
        detail(&run_id).contains("its directory is gone"),
        "{answer}"
    );
    assert!(!is_sealed(&other));
    let (_, listed) = test_home.json(&["runs"]);
    assert!(!listed.to_string().contains(OTHER), "{listed}");
    // With its own name it is the run that the ledger knows.
    std::fs::rename(&other, &own).unwrap();
    let (code, answer) = test_home.json(&["recover"]);
    assert_eq!(code, 0, "{answer}");
    assert!(is_sealed(&own));
    assert_eq!(test_home.json(&["verify", &run_id]).0, 0);
    nothing_to_recover(&test_home);
}

#[test]
fn a_link_in_the_place_of_a_run_or_of_its_work_leads_nowhere() {
    let (test_home, run_id) = with_a_dead_run();
    let (pack, elsewhere) = (test_home.pack(&run_id), test_home.path().join("elsewhere"));
    std::fs::rename(&pack, &elsewhere).unwrap();
    symlink(&elsewhere, &pack).unwrap();
    refused(&test_home, &["is not a directory", "left alone"]);
    assert!(!is_sealed(&elsewhere));
    std::fs::remove_file(&pack).unwrap();
    std::fs::rename(&elsewhere, &pack).unwrap();
    sealed_and_verified(&test_home, &run_id);

    let precious = test_home.path().join("precious");
    sh(
        &test_home.path(),
        "mkdir -p precious/below && echo kept > precious/below/file && echo kept > precious/lock",
    );
    let work = test_home.home().join("work").join(OTHER);
    symlink(&precious, &work).unwrap();
    refused(&test_home, &["is not a directory", "remove it"]);
    for file in ["below/file", "lock"] {
        let text = std::fs::read_to_string(precious.join(file)).unwrap();
        assert_eq!(text, "kept\n", "{file}");
    }
    // Neither does what clears scratch follow it, nor what a run does before it starts.
    assert_eq!(test_home.json(&["gc"]).0, 0);
    assert_eq!(test_home.run_tiny().0, 0);
    assert!(precious.join("below/file").exists());
    std::fs::remove_file(&work).unwrap();
    nothing_to_recover(&test_home);
}

#[test]
fn a_link_or_a_pipe_in_the_place_of_a_file_is_neither_followed_nor_waited_for() {
    let put = [
        "ln -s ../../../aside FILE",
        "mkfifo FILE",
        "mkdir FILE",
        "ln -s /dev/zero FILE",
    ];
    for file in ["events.normalized.jsonl", "task-contract.json", "lock"] {
        for put in put {
            let (test_home, run_id) = with_a_dead_run();
            let dir = match file {
                "lock" => test_home.home().join("work").join(&run_id),
                _ => test_home.pack(&run_id),
            };
            let aside = test_home.path().join("aside");
            std::fs::rename(dir.join(file), &aside).unwrap();
            let before = std::fs::read(&aside).unwrap();
            sh(&dir, &put.replace("FILE", file));
            let (code, row) = recovered(&test_home);
            assert_eq!(
                (code, &row["outcome"]),
                (1, &Value::from("failed")),
                "{file}, {put}: {row}"
            );
            assert!(!is_sealed(&test_home.pack(&run_id)), "{file}, {put}");
            assert_eq!(std::fs::read(&aside).unwrap(), before, "{file}, {put}");
            sh(
                &dir,
                &format!("rm -rf {file} && mv '{}' {file}", aside.display()),
            );
            sealed_and_verified(&test_home, &run_id);
        }
    }
}

#[test]
fn the_seal_of_another_run_closes_nothing() {
    let (test_home, dead) = with_a_dead_run();
    let (pack, aside) = (test_home.pack(&dead), test_home.path().join("aside"));
    std::fs::rename(&pack, &aside).unwrap();
    let (code, report) = test_home.run_tiny();
    assert_eq!(code, 0, "{report}");
    std::fs::rename(&aside, &pack).unwrap();
    let sealed = test_home.pack(report["run_id"].as_str().unwrap());
    let seal = pack.join("attestation.dsse.json");
    std::fs::copy(sealed.join("attestation.dsse.json"), &seal).unwrap();
    refused(&test_home, &["does not verify", "do not rely on it"]);
    std::fs::remove_file(&seal).unwrap();
    sealed_and_verified(&test_home, &dead);
}

#[test]
fn scratch_of_a_process_whose_number_another_has_by_now_is_cleared() {
    let (test_home, run_id) = with_a_dead_run();
    sealed_and_verified(&test_home, &run_id);
    let work = test_home.home().join("work");
    // The first process of the machine is always there; none of ours began when it did.
    for name in [
        ".plan-1.99999999-aa",
        ".look-1.99999999-bb",
        ".new-1.99999999-cc",
    ] {
        std::fs::create_dir(work.join(name)).unwrap();
    }
    let living = format!(".plan-{}-dd", std::process::id());
    std::fs::create_dir(work.join(&living)).unwrap();
    assert_eq!(recovered(&test_home).0, 0);
    let left: Vec<_> = std::fs::read_dir(&work)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(left, [living.as_str()]);
}

#[test]
fn a_lock_whose_number_another_process_has_by_now_is_nobodys() {
    let (test_home, run_id) = with_a_dead_run();
    let lock = test_home.home().join("work").join(&run_id).join("lock");
    let mut holder: Value = serde_json::from_slice(&std::fs::read(&lock).unwrap()).unwrap();
    holder["pid"] = Value::from(std::process::id());
    std::fs::write(&lock, holder.to_string()).unwrap();
    sealed_and_verified(&test_home, &run_id);
}

#[test]
fn what_collects_garbage_and_what_recovers_take_nothing_from_runs_beside_them() {
    let test_home = TestHome::new();
    test_home.tiny();
    test_home.configure("retention: {packs_days: 0, baselines_days: 0, validation_days: 0}\n");
    let cases = test_home.cases();
    let run = ["run", "tiny", "--cases", cases.to_str().unwrap()];
    std::thread::scope(|scope| {
        for args in [&run[..], &run, &["gc"], &["recover"]] {
            let test_home = &test_home;
            scope.spawn(move || {
                for _ in 0..4 {
                    let (code, answer) = test_home.json(args);
                    // What a run chooses just now stays, and that is said.
                    let is_put_off = args[0] == "gc" && answer.to_string().contains("try again");
                    assert!(code == 0 || is_put_off, "{args:?}: {code} {answer}");
                }
            });
        }
    });
    nothing_to_recover(&test_home);
    let (code, listed) = test_home.json(&["runs"]);
    assert_eq!(code, 0, "{listed}");
    let kept = listed["rows"].as_array().unwrap().len();
    let removed = listed["removed"].as_array().unwrap().len();
    assert_eq!((kept.max(8), removed <= 8), (8, true), "{listed}");
    assert_eq!(listed["missing"], Value::Array(Vec::new()), "{listed}");
    for name in ["work", "rooms"] {
        let left = std::fs::read_dir(test_home.home().join(name)).unwrap();
        assert_eq!(left.count(), 0, "{name}");
    }
}
