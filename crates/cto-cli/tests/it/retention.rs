//! `cto gc`: what goes, what never goes, and what is left of it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::place::{GOOD_REST, Place, sh, write};

fn configure(place: &Place, retention: &str) {
    write(
        &place.path("config/cto/harness.yaml"),
        &format!("schema: cto.harness/v1\nretention: {{{retention}}}\n"),
    );
}

/// Dry run and real run: the same list, and only the second changes anything. Gives what went.
#[track_caller]
fn collect(place: &Place) -> Value {
    let before = tree(&place.home());
    let dry = place.cto(&["gc", "--dry-run", "--json"]).expect(0).json();
    assert_eq!(dry["dry_run"], true);
    let after = tree(&place.home());
    let gone: Vec<&String> = before.iter().filter(|p| !after.contains(p)).collect();
    assert!(gone.is_empty(), "a dry run removes nothing: {gone:?}");
    let done = place.cto(&["gc", "--json"]).expect(0).json();
    for part in ["items", "bytes", "kept"] {
        assert_eq!(dry[part], done[part], "{part}");
    }
    assert_eq!(done["problems"], json!([]));
    for item in done["items"].as_array().unwrap() {
        let path = place.home().join(item["path"].as_str().unwrap());
        assert!(!path.exists(), "{}", path.display());
    }
    let again = place.cto(&["gc", "--json"]).expect(0).json();
    assert_eq!(again["items"], json!([]), "nothing is left to do");
    done
}

/// Every path of home but the database's own files, and those of the run that goes on in one test.
fn tree(dir: &Path) -> Vec<String> {
    let listed = std::process::Command::new("find")
        .arg(dir)
        .args(["-not", "-name", "cto.db*", "-not", "-path", "*Z-slow-*"])
        .output()
        .unwrap();
    let mut paths: Vec<String> = String::from_utf8(listed.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    paths.sort();
    paths
}

/// A process that does not outlive its test, however that ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().ok();
    }
}

fn kinds(done: &Value) -> Vec<&str> {
    let items = done["items"].as_array().unwrap();
    items.iter().map(|i| i["kind"].as_str().unwrap()).collect()
}

fn run_id(pack: &Path) -> String {
    pack.file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn without_settings_no_pack_and_nothing_in_use_goes() {
    let place = Place::new().with_key();
    let pack = place.passed();
    assert_eq!(collect(&place)["items"], json!([]));
    assert!(pack.exists());
    place.cto(&["verify", "latest"]).expect(0);
}

#[test]
fn a_removed_pack_leaves_a_signed_tombstone_and_its_run_stays_known() {
    let place = Place::new().with_key();
    let pack = place.passed();
    let id = run_id(&pack);
    let verified = place.cto(&["verify", &id, "--json"]).expect(0).json();
    configure(&place, "packs_days: 0");
    let done = collect(&place);
    assert_eq!(kinds(&done), ["pack", "request"]);
    assert_eq!(done["items"][0]["run_id"], id.as_str());
    let left = place
        .home()
        .join(format!("harness-runs/{id}.tombstone.dsse.json"));
    assert!(left.is_file());

    let told = place.cto(&["verify", &id, "--json"]);
    assert_eq!(told.error(), "5 run_removed");
    let error = told.json()["error"].clone();
    assert!(
        error["cause"].as_str().unwrap().contains("packs_days: 0"),
        "{error}"
    );
    assert!(
        error["cause"].as_str().unwrap().contains("origin: known"),
        "{error}"
    );
    let digest = verified["pack_digest"].as_str().unwrap();
    assert!(error["cause"].as_str().unwrap().contains(digest), "{error}");
    // By a prefix, and for every command that needs the pack.
    assert_eq!(
        place.cto(&["show", &id[..20], "--json"]).error(),
        "5 run_removed"
    );
    assert_eq!(
        place.cto(&["show", "latest", "--json"]).error(),
        "2 run_unknown"
    );

    let listed = place.cto(&["runs", "--json"]).expect(0).json();
    assert_eq!(listed["rows"][0]["run_id"], id.as_str());
    assert_eq!(listed["rows"][0]["status"], "pass");
    assert_eq!(listed["removed"], json!([id]));
    assert!(place.cto(&["runs"]).expect(0).out.contains("pass, removed"));
    // The index comes back from the tombstone: nothing is missing.
    let rebuilt = place.cto(&["index", "rebuild", "--json"]).expect(0).json();
    assert_eq!(rebuilt["rebuilt"]["missing"], 0);
    assert_eq!(place.cto(&["runs", "--json"]).json(), listed);

    let good = std::fs::read(&left).unwrap();
    let mut bad = good.clone();
    bad[40] ^= 1;
    std::fs::write(&left, &bad).unwrap();
    assert_eq!(
        place.cto(&["verify", &id, "--json"]).error(),
        "5 tombstone_invalid"
    );
    place.cto(&["index", "rebuild"]).expect(5);
    std::fs::remove_file(&left).unwrap();
    assert_eq!(
        place.cto(&["verify", &id, "--json"]).error(),
        "2 run_unknown"
    );
    let rebuilt = place.cto(&["index", "rebuild", "--json"]).expect(5).json();
    assert_eq!(rebuilt["rebuilt"]["missing"], 1, "the ledger misses it");
}

#[test]
fn a_tombstone_fits_its_schema_and_an_archive_brings_the_pack_back() {
    let place = Place::new().with_key();
    let id = run_id(&place.passed());
    place.cto(&["export", "latest", "--tar", "a.tar"]).expect(0);
    configure(&place, "packs_days: 0");
    collect(&place);
    let left = place
        .home()
        .join(format!("harness-runs/{id}.tombstone.dsse.json"));
    let envelope: Value = serde_json::from_slice(&std::fs::read(left).unwrap()).unwrap();
    sh(
        &place.path(""),
        &format!(
            "printf %s {} | base64 -d > payload",
            envelope["payload"].as_str().unwrap()
        ),
    );
    let payload: Value =
        serde_json::from_slice(&std::fs::read(place.path("payload")).unwrap()).unwrap();
    let schema = place.cto(&["schema", "tombstone"]).expect(0).json();
    assert!(
        jsonschema::validator_for(&schema)
            .unwrap()
            .is_valid(&payload)
    );
    assert_eq!(payload["run_id"], id.as_str());
    place.cto(&["import", "a.tar"]).expect(0);
    place.cto(&["verify", &id]).expect(0);
    assert_eq!(place.cto(&["runs", "--json"]).json()["removed"], json!([]));
}

#[test]
fn a_pack_that_something_rests_on_stays() {
    let place = Place::new().with_key();
    let ids: Vec<String> = (0..4).map(|_| run_id(&place.passed())).collect();
    let [addended, parent, broken, changed] = ids.as_slice() else {
        panic!()
    };
    std::fs::create_dir(
        place
            .home()
            .join(format!("harness-runs/{addended}.addenda")),
    )
    .unwrap();
    sh(&place.pack(broken), "printf x >> test.log");
    // The same run sealed anew would have another digest than the ledger has.
    let db = place.home().join("cto.db");
    let other = Place::new().with_key();
    let imported = run_id(&other.passed());
    other.cto(&["export", "latest", "--tar", "b.tar"]).expect(0);
    let archive = other.path("b.tar");
    place.cto(&["import", archive.to_str().unwrap()]).expect(0);
    assert!(db.exists());
    place
        .cto(&["rerun", parent, "--note", "Again.", "-q"])
        .expect(0);
    // The new attempt can't go because something rests on it; so its parent can't either.
    let child = place.cto(&["runs", "--json", "--limit", "1"]).json()["rows"][0]["run_id"]
        .as_str()
        .unwrap()
        .to_owned();
    std::fs::create_dir(place.home().join(format!("harness-runs/{child}.addenda"))).unwrap();
    configure(&place, "packs_days: 0");
    let done = collect(&place);
    let gone: Vec<&str> = done["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|i| i["kind"] == "pack")
        .map(|i| i["run_id"].as_str().unwrap())
        .collect();
    assert_eq!(gone, [changed.as_str()]);
    let why = |id: &str| {
        let kept = done["kept"].as_array().unwrap();
        let found = kept.iter().find(|k| k["run_id"] == id);
        found
            .map_or("not kept", |k| k["reason"].as_str().unwrap())
            .to_owned()
    };
    assert_eq!(why(addended), "it has addenda");
    assert_eq!(why(&child), "it has addenda");
    assert_eq!(why(parent), format!("run {child} is a new attempt of it"));
    assert_eq!(why(&imported), "the ledger does not know it");
    assert!(why(broken).contains("does not verify"), "{}", why(broken));
}

#[test]
fn packs_younger_than_the_setting_stay() {
    let place = Place::new().with_key();
    place.passed();
    configure(&place, "packs_days: 1");
    let done = collect(&place);
    assert_eq!((&done["items"], &done["kept"]), (&json!([]), &json!([])));
}

#[test]
fn a_baseline_goes_when_nobody_used_it_for_long_and_never_while_a_run_does() {
    let place = Place::new().with_key();
    place.passed();
    let baselines = place.home().join("baselines");
    let trees = || {
        let names = std::fs::read_dir(&baselines).unwrap();
        names
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .filter(|n| n.len() == 40)
            .collect::<Vec<_>>()
    };
    let first = trees();
    assert_eq!(first.len(), 1);
    let age = |days: u32| {
        sh(
            &baselines,
            &format!("for d in */; do touch -d '{days} days ago' $d/used; done"),
        );
    };
    age(29);
    assert_eq!(collect(&place)["items"], json!([]));
    age(31);
    // A run of the case in between makes it young again.
    place.passed();
    assert_eq!(collect(&place)["items"], json!([]));
    age(31);
    let done = collect(&place);
    assert_eq!(kinds(&done), ["baseline"]);
    assert!(trees().is_empty());
    place.passed();
    assert_eq!(trees(), first, "it is made anew");

    // A run that goes on holds its own, however old the settings make it.
    configure(&place, "baselines_days: 0");
    place.case(
        "slow",
        "allowed_paths: [a.txt]\nverification_commands: [\"sleep 600\"]\n",
    );
    let child = place
        .command(&["run", "slow", "--cases", "cases", "--events", "-q"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Killed(child);
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let checking = lines.by_ref().map(Result::unwrap).find(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        event["type"] == "step.started" && event["data"]["step"] == "verification"
    });
    assert!(checking.is_some());
    assert_eq!(trees().len(), 2);
    let done = collect(&place);
    assert_eq!(kinds(&done), ["baseline"], "the other one only");
    assert_eq!(done["items"][0]["path"], format!("baselines/{}", first[0]));
    place.cto(&["stop", "latest"]).expect(0);
    assert!(lines.count() > 0, "it told of its end");
    assert_eq!(child.0.wait().unwrap().code(), Some(143));
    place.cto(&["verify", "latest"]).expect(0);
    assert_eq!(kinds(&collect(&place)), ["baseline"]);
}

#[test]
fn scratch_of_the_dead_validations_and_lost_requests_go() {
    let place = Place::new().with_key();
    let pack = place.passed();
    let id = run_id(&pack);
    let home = place.home();
    let mut gone = std::process::Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let holder = json!({"boot_id": "x", "pid": gone.id(), "start_time": 1, "started_boot_ns": 1});
    write(&home.join(format!("work/{id}/lock")), &holder.to_string());
    write(&home.join(format!("work/{id}/copy/a")), "12345");
    write(&home.join(format!("work/.look-{}-00/x", gone.id())), "1");
    write(
        &home.join(format!("work/.plan-{}-00/x", std::process::id())),
        "1",
    );
    write(&home.join("validation/old/a/report.json"), "{}");
    write(&home.join("validation/young/a/report.json"), "{}");
    let me = std::fs::read_to_string("/proc/self/stat").unwrap();
    let start = me
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .nth(19)
        .unwrap()
        .to_owned();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let alive = json!({"boot_id": boot.trim(), "pid": std::process::id(), "start_time": start.parse::<u64>().unwrap(), "started_boot_ns": 1});
    write(
        &home.join("validation/busy/fixture/home/work/20260601T105222Z-a-aaaaaa/lock"),
        &alive.to_string(),
    );
    sh(
        &home.join("validation"),
        "touch -d '8 days ago' old busy; touch -d '6 days ago' young",
    );
    write(&home.join("requests/20260601T105222Z-a-aaaaaa.json"), "{}");
    write(
        &home.join("harness-runs/.gone-20260601T105222Z-a-aaaaaa/report.md"),
        "123",
    );
    let done = collect(&place);
    assert_eq!(
        kinds(&done),
        ["work", "work", "leftover", "validation", "request"]
    );
    let bytes = holder.to_string().len() as u64 + 5 + 1 + 3 + 2 + 2;
    assert_eq!(done["bytes"], bytes);
    assert!(home.join("validation/young").exists() && home.join("validation/busy").exists());
    assert!(
        home.join(format!("work/.plan-{}-00", std::process::id()))
            .exists()
    );
    assert!(home.join(format!("requests/{id}.json")).exists());
    place.cto(&["verify", &id]).expect(0);
}

#[test]
fn a_run_that_crashed_is_left_to_recovery() {
    let place = Place::new().with_key();
    place.case("a", GOOD_REST);
    let id = run_id(&place.passed());
    std::fs::remove_file(place.pack(&id).join("attestation.dsse.json")).unwrap();
    write(
        &place.home().join(format!("work/{id}/lock")),
        &json!({"boot_id": "x", "pid": 1, "start_time": 1, "started_boot_ns": 1}).to_string(),
    );
    configure(&place, "packs_days: 0");
    let done = collect(&place);
    assert_eq!((&done["items"], &done["kept"]), (&json!([]), &json!([])));
}

#[test]
fn a_ledger_that_does_not_hold_stops_the_removal_of_packs() {
    let place = Place::new().with_key();
    let pack = place.passed();
    configure(&place, "packs_days: 0");
    let script = "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.execute('drop trigger ledger_no_update'); c.execute(\"update ledger set record=replace(record,'pass','fail') where kind='run.sealed'\"); c.commit()";
    let done = std::process::Command::new("python3")
        .args(["-c", script])
        .arg(place.home().join("cto.db"))
        .status()
        .unwrap();
    assert!(done.success());
    assert_eq!(place.cto(&["gc", "--json"]).error(), "5 ledger_broken");
    assert!(pack.exists());
}

#[test]
fn settings_that_can_not_be_meant_are_refused_by_line() {
    let place = Place::new().with_key();
    configure(&place, "packs_weeks: 1");
    let ran = place.cto(&["gc", "--json"]);
    assert_eq!(ran.error(), "2 config_invalid");
    assert!(ran.out.contains("harness.yaml:2:"), "{}", ran.out);
}
