//! What a pack shows of the sandbox that held its backend.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::place::Place;
use crate::repositories::plain;

fn proof(pack: &std::path::Path) -> Value {
    serde_json::from_slice(&fs::read(pack.join("backend/sandbox.json")).unwrap()).unwrap()
}

#[test]
fn a_pack_shows_by_itself_what_held_the_backend() {
    let source = plain();
    let (_, blockers, report) = source.work("echo new > src/a.txt");
    assert_eq!(blockers, [""; 0]);
    let pack = source.pack(&report);
    let proof = proof(&pack);
    let schema = source
        .place
        .cto(&["schema", "sandbox-proof"])
        .expect(0)
        .json();
    assert!(jsonschema::is_valid(&schema, &proof), "{proof:#}");
    assert_eq!(proof["class"], report["sandbox"]["class"]);
    let tried = proof["tried"].as_array().unwrap();
    assert!(tried.iter().all(|t| t["held"] == true), "{tried:#?}");
    let outcomes: BTreeSet<&str> = tried
        .iter()
        .filter_map(|t| t["expected"].as_str())
        .collect();
    assert_eq!(outcomes, BTreeSet::from(["allowed", "refused"]));
    let writable = |list: &Value, at: &str, yes: &dyn Fn(&Value) -> bool| {
        let all: Vec<&str> = list
            .as_array()
            .unwrap()
            .iter()
            .filter(|entry| yes(entry))
            .map(|entry| entry[at].as_str().unwrap())
            .collect();
        all.join(" ")
    };
    assert_eq!(
        writable(&proof["policy"]["places"], "at", &|p| p["writable"] == true),
        "$SCRATCH $WORKSPACE /tmp",
        "two roots, one of them seen twice"
    );
    let seen = writable(&proof["mounts"], "at", &|m| {
        m["options"][0] == "rw" && !m["at"].as_str().unwrap().starts_with("/dev")
    });
    assert_eq!(seen, "$SCRATCH /tmp $WORKSPACE /proc");
    let text = fs::read_to_string(pack.join("backend/sandbox.json")).unwrap();
    for place in [source.place.path(""), source.repo()] {
        assert!(!text.contains(place.to_str().unwrap()));
    }
}

#[test]
fn the_upper_directory_of_an_overlay_is_listed_beside_the_change() {
    let place = Place::new();
    place.cto(&["run", "c-many-files", "-q"]).expect(0);
    let report = place.cto(&["show", "latest", "--json"]).expect(0).json();
    let pack = place.pack(report["run_id"].as_str().unwrap());
    let lines = fs::read_to_string(pack.join("backend/upper-directory.jsonl")).unwrap();
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (total, entries) = lines.split_last().unwrap();
    assert_eq!(total["entries"], entries.len());
    let listed: BTreeSet<&str> = entries.iter().filter_map(|e| e["path"].as_str()).collect();
    for changed in report["changed_files"].as_array().unwrap() {
        assert!(listed.contains(changed.as_str().unwrap()), "{lines:#?}");
    }
}
