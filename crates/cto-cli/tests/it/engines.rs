//! `cto engines allow|deny`: what is installed is shown, then let in by gates and records, and a run goes by them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use cto_contract::model_script::ModelFault;
use cto_contract::words::Lane;
use cto_proving::doubles;
use serde_json::{Value, json};

use crate::lanes::{model_record, scripted};
use crate::place::{CTO, Place, Ran, sh, write};
use crate::schemas::fits_schema;
use crate::source::{ACTIONS, GIT};

const HASH: &str = "sha512-aB3/aB3/aB3/aB3/aB3/aB3/aB3/aB3/aB3/aB3/aB3/aB3/aB3/aB3/aB3/aB3/aB3/aB3/aB3/aB3/aB3/aA==";

/// A double, installed as npm installs the program, where programs are admitted.
struct Installed {
    place: Place,
    dir: tempfile::TempDir,
    program: PathBuf,
    lane: Lane,
}

impl Installed {
    fn new(lane: Lane, package: &str) -> Self {
        // Below a temporary directory no program is admitted.
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let root = dir.path().join("node_modules").join(package);
        let program = root.join("bin").join(doubles::file_name(lane, None));
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::copy(CTO, &program).unwrap();
        let manifest = json!({"name": package, "version": "1.2.3", "license": "MIT"});
        write(&root.join("package.json"), &manifest.to_string());
        let lock = json!({"packages": {format!("node_modules/{package}"): {"version": "1.2.3", "integrity": HASH}}});
        write(
            &dir.path().join("node_modules/.package-lock.json"),
            &lock.to_string(),
        );
        let place = Place::elsewhere().with_key();
        write(&place.path("config/cto/model.yaml"), &model_record());
        Self {
            place,
            dir,
            program,
            lane,
        }
    }

    fn cto(&self, args: &[&str]) -> Ran {
        self.with(args, &[])
    }

    fn with(&self, args: &[&str], env: &[(&str, &str)]) -> Ran {
        let name = self.lane.as_str().to_ascii_uppercase();
        let mut command = self.place.command(args);
        command.env(format!("CTO_HARNESS_{name}_BIN"), &self.program);
        for (variable, value) in env {
            command.env(format!("CTO_HARNESS_{name}_{variable}"), value);
        }
        Ran::of(command.output().unwrap())
    }

    fn row(&self) -> Value {
        let output = self.cto(&["engines", "--json"]).expect(0).json();
        fits_schema(&self.place, "engines", &output);
        let rows = output["engines"].as_array().unwrap().clone();
        rows.into_iter()
            .find(|row| row["lane"] == self.lane.as_str())
            .unwrap()
    }

    fn config(&self) -> String {
        fs::read_to_string(self.place.path("config/cto/harness.yaml")).unwrap_or_default()
    }
}

fn repository(place: &Place) {
    let repo = place.path("repo");
    write(&repo.join("a.txt"), "before\n");
    sh(
        &repo,
        &format!("{GIT}git init -q -b main . && git add -A && git commit -qm first"),
    );
    let contract = format!(
        "schema: cto.contract/v1\ntask_id: task\ntitle: Task\ninstruction: Do it.\nrisk_class: copied\nmutation_mode: copied-fixture\nforbidden_actions: {ACTIONS}\nallowed_paths: [a.txt]\nverification_commands: [{{run: grep -q after a.txt, must_fail_before: true}}]\nlimits: {{wall_seconds: 60}}\n"
    );
    write(&place.path("task.yaml"), &contract);
}

#[test]
fn a_lane_is_shown_then_let_in_runs_applies_and_is_closed_again() {
    let codex = Installed::new(Lane::Codex, "@openai/codex");
    let before = codex.row();
    assert_eq!(before["program"]["version"], "1.2.3");
    assert_eq!(before["wires"], json!(["responses"]));
    assert_eq!(
        (&before["gate_open"], &before["binary_admitted"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(before["next"], "cto engines allow codex");
    // Nobody is there to agree: it is shown, and nothing is written.
    let shown = codex
        .cto(&["engines", "allow", "codex", "--json"])
        .expect(4)
        .json();
    fits_schema(&codex.place, "engine-change", &shown);
    assert_eq!(
        (&shown["written"], &shown["gates_change"]),
        (&json!(false), &json!(true))
    );
    let page = codex.cto(&["engines", "allow", "codex"]).expect(4);
    assert!(
        page.out.contains("codex: {allow: true, stage: 3}") && page.out.contains(HASH),
        "{}",
        page.out
    );
    assert_eq!(codex.config(), "");
    assert!(!codex.place.path("config/cto/admissions").exists());
    let done = codex
        .cto(&["engines", "allow", "codex", "--write", "--json"])
        .expect(0)
        .json();
    fits_schema(&codex.place, "engine-change", &done);
    let records = done["records"].as_array().unwrap();
    let of = |kind: &str| &records.iter().find(|r| r["kind"] == kind).unwrap()["record"];
    assert_eq!(of("source")["integrity"], HASH);
    assert_eq!(of("source")["package"], "@openai/codex");
    assert!(
        of("source")["licence_note"]
            .as_str()
            .unwrap()
            .starts_with("unresolved")
    );
    assert_eq!(of("binary")["sha256"], before["program"]["digest"]);
    assert_eq!(
        codex.config(),
        "schema: cto.harness/v1\ngates:\n  codex: {allow: true, stage: 3}\n"
    );
    let after = codex.row();
    for name in [
        "gate_open",
        "source_admitted",
        "binary_admitted",
        "model_admitted",
    ] {
        assert_eq!(after[name], true, "{name}: {after:#}");
    }
    assert_eq!(after["next"], Value::Null);
    // By these alone a run goes, and its patch is applied.
    repository(&codex.place);
    let model = scripted("  - {edit: {path: a.txt, content: \"after\\n\"}}\n  - {finish: Done}\n");
    let url = model.base_url(ModelFault::Ok);
    let env = [
        ("MODEL_PROVIDER", "scripted"),
        ("MODEL", "scripted"),
        ("LOCAL_BASE_URL", url.as_str()),
    ];
    let run = [
        "run",
        "--repo",
        "repo",
        "--contract",
        "task.yaml",
        "--engine",
        "codex",
        "--json",
    ];
    let report = codex.with(&run, &env).expect(0).json();
    assert_eq!(
        (&report["status"], &report["stage"]),
        (&json!("pass"), &json!(3)),
        "{report:#}"
    );
    assert_eq!(report["admission"], "unsigned");
    codex.cto(&["apply", "latest", "--repo", "repo"]).expect(0);
    assert_eq!(
        fs::read(codex.place.path("repo/a.txt")).unwrap(),
        b"after\n"
    );
    codex
        .cto(&["engines", "deny", "codex", "--write"])
        .expect(0);
    assert_eq!(codex.config(), "schema: cto.harness/v1\n");
    assert_eq!(codex.row()["gate_open"], false);
    let blocked = codex.with(&run[..7], &env).expect(3);
    assert!(
        blocked.out.contains("gate_missing") && blocked.out.contains("cto engines allow codex"),
        "{}",
        blocked.out
    );
}

#[test]
fn a_program_or_package_that_changed_is_another_until_it_is_let_in_anew() {
    let pi = Installed::new(Lane::Pi, "@earendil-works/pi-coding-agent");
    let allow = ["engines", "allow", "pi", "--write", "--json"];
    pi.cto(&allow).expect(0);
    assert_eq!(pi.row()["binary_admitted"], true);
    pi.cto(&allow).expect(0);
    let mut bytes = fs::read(&pi.program).unwrap();
    bytes.push(0);
    fs::remove_file(&pi.program).unwrap();
    fs::write(&pi.program, bytes).unwrap();
    fs::set_permissions(&pi.program, fs::Permissions::from_mode(0o755)).unwrap();
    let row = pi.row();
    assert_eq!(
        (&row["binary_admitted"], &row["next"]),
        (&json!(false), &json!("cto engines allow pi"))
    );
    assert!(
        row["reasons"].to_string().contains("digest changed"),
        "{row:#}"
    );
    let refused = pi.cto(&allow).expect(2).json();
    assert!(
        refused["error"]["hint"]
            .as_str()
            .unwrap()
            .contains("--replace"),
        "{refused:#}"
    );
    assert_eq!(pi.row()["binary_admitted"], false);
    pi.cto(&["engines", "allow", "pi", "--write", "--replace"])
        .expect(0);
    assert_eq!(pi.row()["binary_admitted"], true);
}

#[test]
fn without_a_hash_of_the_registry_the_tree_stands_in_and_the_record_says_so() {
    let claude = Installed::new(Lane::Claude, "@anthropic-ai/claude-code");
    fs::remove_file(claude.dir.path().join("node_modules/.package-lock.json")).unwrap();
    let shown = claude
        .cto(&["engines", "allow", "claude", "--json"])
        .expect(4)
        .json();
    let source = &shown["records"][0]["record"];
    assert!(
        source["integrity"]
            .as_str()
            .unwrap()
            .starts_with("tree-sha256:"),
        "{source:#}"
    );
    assert!(
        source["integrity_reference"]
            .as_str()
            .unwrap()
            .contains("stands in")
    );
    assert!(
        shown["notes"].to_string().contains("dist.integrity"),
        "{shown:#}"
    );
    let given = ["engines", "allow", "claude", "--json", "--integrity", HASH];
    let shown = claude.cto(&given).expect(4).json();
    assert_eq!(shown["records"][0]["record"]["integrity"], HASH);
    let bad = claude
        .cto(&["engines", "allow", "claude", "--integrity", "a b"])
        .expect(2);
    assert!(bad.err.contains("--integrity"), "{}", bad.err);
}

fn refusal(installed: &Installed, program: &Path, lane: &str) -> String {
    let name = lane.to_ascii_uppercase();
    let mut command = installed
        .place
        .command(&["engines", "allow", lane, "--write", "--json"]);
    command.env(format!("CTO_HARNESS_{name}_BIN"), program);
    let ran = Ran::of(command.output().unwrap()).expect(2);
    assert!(ran.json()["error"]["hint"].is_string(), "{}", ran.out);
    assert_eq!(installed.config(), "");
    ran.json()["error"]["code"].as_str().unwrap().to_owned()
}

#[test]
fn what_is_no_such_program_or_opened_otherwise_is_refused_and_nothing_is_written() {
    let codex = Installed::new(Lane::Codex, "@openai/codex");
    let at = |name: &str| codex.dir.path().join(name);
    let put = |name: &str, text: &str, mode: u32| {
        write(&at(name), text);
        fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        at(name)
    };
    let script = put("codex.sh", "#!/bin/sh\nexec true\n", 0o755);
    let text = put("notes", "no program", 0o755);
    std::os::unix::fs::symlink(at("b"), at("a")).unwrap();
    std::os::unix::fs::symlink(at("a"), at("b")).unwrap();
    let closed = at("closed");
    fs::copy(CTO, &closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    for program in [script, text, at("a"), closed, at("nowhere")] {
        let code = refusal(&codex, &program, "codex");
        assert_eq!(code, "engine_program_unusable", "{}", program.display());
    }
    let other = at(&doubles::file_name(Lane::Claude, None));
    fs::copy(CTO, &other).unwrap();
    assert_eq!(refusal(&codex, &other, "codex"), "engine_program_other");
    let temporary = codex.place.path(&doubles::file_name(Lane::Codex, None));
    fs::copy(CTO, &temporary).unwrap();
    assert_eq!(
        refusal(&codex, &temporary, "codex"),
        "engine_program_unusable"
    );
    for lane in ["case", "fake", "acp"] {
        assert_eq!(
            refusal(&codex, &codex.program, lane),
            "engine_not_by_config",
            "{lane}"
        );
    }
    assert!(!codex.place.path("config/cto/admissions").exists());
}

#[test]
fn settings_that_can_not_be_changed_in_place_stay_and_the_lines_are_told() {
    let codex = Installed::new(Lane::Codex, "@openai/codex");
    let path = codex.place.path("config/cto/harness.yaml");
    let text = "{schema: cto.harness/v1, limits: {tokens: 5}}\n";
    write(&path, text);
    let ran = codex
        .cto(&["engines", "allow", "codex", "--write", "--json"])
        .expect(2);
    let hint = ran.json()["error"]["hint"].as_str().unwrap().to_owned();
    assert!(hint.contains("codex: {allow: true, stage: 3}"), "{hint}");
    assert_eq!(codex.config(), text);
    let kept = "# mine\nschema: cto.harness/v1\nlimits: {tokens: 5}   # few\n";
    write(&path, kept);
    codex
        .cto(&["engines", "allow", "codex", "--write", "--stage", "2"])
        .expect(0);
    assert_eq!(
        codex.config(),
        format!("{kept}gates:\n  codex: {{allow: true, stage: 2}}\n")
    );
}
