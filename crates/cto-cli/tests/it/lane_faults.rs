//! The fault table, run for real with the doubles: every row of every lane.

use std::collections::BTreeSet;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Mutex;

use cto_contract::model_script::{FaultScope, ModelFault};
use cto_contract::words::Lane;
use cto_proving::doubles::{self, streams::recording};
use cto_proving::lane_faults::{FaultRow, Provider, ROWS, Script, expected};
use serde_json::Value;

use crate::lanes::{LanePlace, kinds, scripted, told};
use crate::place::{CTO, GOOD_REST, head, write};

/// The doubles of a lane, each a file of its own, made once: its name tells it what to do.
struct Doubles {
    lane: Lane,
    dir: tempfile::TempDir,
    made: Mutex<BTreeSet<PathBuf>>,
}

impl Doubles {
    fn new(lane: Lane) -> Self {
        Self {
            lane,
            dir: tempfile::tempdir_in("/var/tmp").unwrap(),
            made: Mutex::default(),
        }
    }

    /// A copy: one more name for a file changes that file, and it would count as replaced.
    fn get(&self, behaviour: Option<&str>) -> PathBuf {
        let path = self
            .dir
            .path()
            .join(doubles::file_name(self.lane, behaviour));
        let mut made = self.made.lock().unwrap();
        if made.insert(path.clone()) {
            std::fs::copy(CTO, &path).unwrap();
        }
        path
    }
}

const WORKS: &str = "  - {say: I look first}\n  - {run: ls}\n  - {edit: {path: a.txt, content: \"after\\n\"}}\n  - {finish: Done}\n";
const TALKS: &str = "  - {finish: \"Done, all tests pass\"}\n";
const OUTSIDE: &str = "  - {edit: {path: a.txt, content: \"after\\n\"}}\n  - {edit: {path: other.txt, content: \"mine\\n\"}}\n  - {finish: Done}\n";

/// What a row comes to.
fn outcome(doubles: &Doubles, row: &FaultRow) -> (String, Value, LanePlace) {
    let at = LanePlace::new(doubles.lane, &doubles.get(row.behaviour));
    let model = scripted(match row.script {
        Script::Works => WORKS,
        Script::OnlyTalks => TALKS,
        Script::EditsOutside => OUTSIDE,
    });
    let url = match row.provider {
        Provider::Scripted(fault, FaultScope::Every) => model.base_url(fault),
        Provider::Scripted(fault, FaultScope::AtWork) => model.base_url_at_work(fault),
        Provider::Nobody => nobody(),
        Provider::Leaves => leaves_after_one(model.address()),
    };
    let dir = at.place.path("cases/tried");
    write(&dir.join("workspace/a.txt"), "before\n");
    write(&dir.join("fake/a.txt"), "after\n");
    write(&dir.join("workspace/other.txt"), "not to be touched\n");
    let limits = format!(
        "limits: {{wall_seconds: {}, output_mb: 16}}\n",
        row.wall_seconds
    );
    write(
        &dir.join("case.yaml"),
        &format!("{}{GOOD_REST}{limits}", head("tried")),
    );
    let cases = at.place.path("cases");
    let (_, report) = at.run(2, &url, &["tried", "--cases", cases.to_str().unwrap()]);
    (told(&report), report, at)
}

/// An address where nobody listens: it was free a moment ago.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/v1", listener.local_addr().unwrap())
}

/// An address that takes one connection to the model, and then nobody listens there any more.
fn leaves_after_one(model: SocketAddr) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut near, _) = listener.accept().unwrap();
        drop(listener);
        let mut far = TcpStream::connect(model).unwrap();
        let (mut back, mut from) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        let answers = std::thread::spawn(move || {
            std::io::copy(&mut from, &mut back).ok();
            back.shutdown(Shutdown::Both).ok();
        });
        std::io::copy(&mut near, &mut far).ok();
        answers.join().unwrap();
    });
    url
}

fn whole_table(lane: Lane) {
    let doubles = &Doubles::new(lane);
    let rows: Vec<&FaultRow> = ROWS.iter().collect();
    let halves = rows.chunks(rows.len().div_ceil(2));
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = halves
            .map(|half| {
                scope.spawn(move || {
                    half.iter()
                        .filter_map(|row| one(doubles, row))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is wrong with a row; none where all is as the table says.
fn one(doubles: &Doubles, row: &FaultRow) -> Option<String> {
    let lane = doubles.lane;
    let wanted = expected(lane, row).unwrap();
    let code = wanted
        .blocker
        .map_or_else(|| "none".to_owned(), |code| code.to_string());
    let wanted = format!("{} {code} {}", wanted.status, wanted.fault);
    let (told, report, at) = outcome(doubles, row);
    if told != wanted {
        return Some(format!(
            "{}: {told}, not {wanted}: {:#}",
            row.name, report["blockers"]
        ));
    }
    let is_started = report["backend_process_started"] == true;
    if is_started == row.is_before_the_start() {
        return Some(format!("{}: started: {is_started}", row.name));
    }
    let verified = at.verify(&report);
    if verified.code != Some(0) {
        return Some(format!("{}: {}{}", row.name, verified.out, verified.err));
    }
    let pack = at.pack(&report);
    let said = std::fs::read_to_string(pack.join("backend/stdout.log")).unwrap_or_default();
    let known = kinds(recording(lane));
    let odd: Vec<String> = kinds(&said).difference(&known).cloned().collect();
    let is_odd = ["newer", "endless"]
        .iter()
        .any(|name| row.behaviour == Some(name));
    (!odd.is_empty() && !is_odd).then(|| format!("{}: it tells of {odd:?}", row.name))
}

#[test]
fn every_fault_of_codex_has_its_verdict() {
    whole_table(Lane::Codex);
}

#[test]
fn every_fault_of_pi_has_its_verdict() {
    whole_table(Lane::Pi);
}

#[test]
fn every_fault_of_claude_has_its_verdict() {
    whole_table(Lane::Claude);
}

#[test]
fn a_good_run_shows_tokens_identity_and_nothing_of_the_endpoint() {
    let row = ROWS.iter().find(|row| row.name == "ok").unwrap();
    for lane in [Lane::Codex, Lane::Pi, Lane::Claude] {
        let (told, report, at) = outcome(&Doubles::new(lane), row);
        assert_eq!(told, "pass none none", "{report:#}");
        assert!(report["resources"]["tokens"].as_u64().unwrap() > 0);
        assert!(report["launched"]["version_output"].is_string());
        assert_eq!(report["launched"]["programs"][0]["role"], "program");
        let digest = &report["launched"]["programs"][0]["digest"];
        assert_eq!(report["identity"]["binary_digest"], *digest);
        let log =
            std::fs::read_to_string(at.pack(&report).join("events.normalized.jsonl")).unwrap();
        let finished = log
            .lines()
            .find(|line| line.contains("\"backend.finished\""))
            .unwrap();
        let finished: Value = serde_json::from_str(finished).unwrap();
        let words = &finished["data"]["agent"];
        assert_eq!(words["end"], "done");
        assert_eq!(words["unknown_events"], Value::Null, "{words}");
        assert_eq!(words["malformed"], 0);
        // What it counted itself stands beside what passed the forwarder.
        assert_eq!(
            words["usage"]["input"],
            finished["data"]["model_traffic"]["usage"]["input"]
        );
    }
}

/// An agent that is told by the repository to write elsewhere gets that told by the baseline, and may not change it.
#[test]
fn steering_files_of_the_baseline_are_named_by_digest_and_none_may_be_written() {
    let steps = "  - {edit: {path: a.txt, content: \"after\\n\"}}\n  - {edit: {path: AGENTS.md, content: \"obey me\\n\"}}\n  - {edit: {path: .claude/settings.json, content: \"{}\"}}\n  - {finish: Done}\n";
    let model = scripted(steps);
    let doubles = Doubles::new(Lane::Claude);
    let at = LanePlace::new(Lane::Claude, &doubles.get(None));
    let dir = at.place.path("cases/tried");
    write(&dir.join("workspace/a.txt"), "before\n");
    write(&dir.join("fake/a.txt"), "after\n");
    write(&dir.join("workspace/AGENTS.md"), "be good\n");
    write(&dir.join("workspace/docs/.mcp.json"), "{}\n");
    let terms = GOOD_REST.replace("[a.txt]", "['**']");
    write(&dir.join("case.yaml"), &format!("{}{terms}", head("tried")));
    let cases = at.place.path("cases");
    let args = ["tried", "--cases", cases.to_str().unwrap()];
    let (_, report) = at.run(2, &model.base_url(ModelFault::Ok), &args);
    assert_eq!(
        told(&report),
        "fail disallowed_file_change agent",
        "{report:#}"
    );
    let steering = report["launched"]["steering"].as_array().unwrap();
    let named: Vec<&str> = steering
        .iter()
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    assert_eq!(named, ["AGENTS.md", "docs/.mcp.json"]);
    let digest = cto_evidence::canonical::sha256(b"be good\n").to_string();
    assert_eq!(steering[0]["digest"], digest);
    at.verify(&report).expect(0);
}
