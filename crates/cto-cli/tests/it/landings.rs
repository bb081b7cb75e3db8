//! Changes that land: in a disposable repository at stage 4, in the owner's at stage 5, or nowhere at all.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::operators::{Governed, olga};
use crate::place::{Ran, sh, write};
use crate::schemas::fits_schema;
use crate::source::{ACTIONS, GIT};

const CHANGE: &str = "printf 'new\\n' > a.txt; printf 'made\\n' > sub/made.txt";

/// A home with an operator, and a repository with history of its own.
struct Site {
    here: Governed,
    stage: u8,
}

impl Site {
    fn new(stage: u8, terms: &str) -> Self {
        let here = Governed::new();
        admit_shell(&here);
        let (risk, mode) = match stage {
            4 => ("disposable", "sandbox-repo"),
            _ => ("low_risk_noncritical", "owned-noncritical-repo"),
        };
        write(
            &here.place.path("task.yaml"),
            &format!(
                "schema: cto.contract/v1\ntask_id: task\ntitle: Make it new\ninstruction: Do it.\ntarget_id: app\nrisk_class: {risk}\nmutation_mode: {mode}\nforbidden_actions: {ACTIONS}\nallowed_paths: [a.txt, sub/]\nverification_commands: [{{run: grep -q new a.txt, must_fail_before: true}}]\n{terms}"
            ),
        );
        let site = Self { here, stage };
        for (path, text) in [("a.txt", "old\n"), ("sub/b.txt", "b\n")] {
            write(&site.repo().join(path), text);
        }
        site.owner("git init -q -b main . && git add -A && git commit -qm first && echo more > c.txt && git add -A && git commit -qm second && git branch other");
        site
    }

    fn repo(&self) -> PathBuf {
        self.here.place.path("repo")
    }

    fn owner(&self, script: &str) {
        sh(&self.repo(), &format!("{GIT}{script}"));
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.here.place.command(args);
        command
            .env("CTO_HARNESS_ALLOW_COMMAND", "1")
            .env("CTO_HARNESS_COMMAND_STAGE", self.stage.to_string());
        command
    }

    fn cto(&self, args: &[&str]) -> Ran {
        let all = [args, &["--json", "-q"]].concat();
        Ran::of(self.command(&all).output().unwrap())
    }

    fn ask(&self, flags: &[&str], script: &str) -> Ran {
        let stage = self.stage.to_string();
        let work = [
            "request",
            "--json",
            "-q",
            "--repo",
            "repo",
            "--contract",
            "task.yaml",
            "--engine",
            "command",
            "--stage",
            &stage,
        ];
        let agent = ["--", "sh", "-ec", script];
        let all = [&work[..], flags, &agent].concat();
        Ran::of(self.command(&all).output().unwrap())
    }
}

/// Records that let the shell in as a `command`, signed by an operator.
fn admit_shell(here: &Governed) {
    let sh = std::env::split_paths(&crate::place::search_path())
        .map(|dir| dir.join("sh"))
        .find(|path| path.is_file());
    let sh = fs::canonicalize(sh.unwrap()).unwrap();
    let digest = cto_evidence::canonical::sha256(&fs::read(&sh).unwrap());
    let source = serde_json::json!({
        "status": "admitted", "lane": "command", "kind": "git", "url": "https://example.org/sh.git",
        "commit": "0123456789abcdef0123456789abcdef01234567", "licence_note": "BSD",
        "retrieved_at": "2026-06-01", "retrieval_command": "part of the system",
        "integrity_reference": "the system's packages",
        "allowed_execution_modes": ["copied-fixture", "sandbox-repo", "owned-noncritical-repo"],
        "protected_source_boundary": "all of it", "approval_source": "olga",
        "review_trigger": "before another version",
    });
    let binary = serde_json::json!({
        "status": "admitted", "lane": "command", "path": sh, "version": "1", "sha256": digest,
        "identity_check": {"command": "sh -c true", "answer": "nothing"},
        "approval_source": "olga", "review_trigger": "before another version",
    });
    for (name, record) in [("source.json", source), ("binary.json", binary)] {
        signed_record(here, name, &record);
    }
}

fn signed_record(here: &Governed, name: &str, record: &Value) {
    let file = here.config().join(name);
    write(&file, &record.to_string());
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    here.signs(&["operator", "sign", file.to_str().unwrap()], &olga())
        .expect(0);
}

fn git(repo: &Path, args: &[&str]) -> String {
    let out = Command::new("git")
        .args(args)
        .current_dir(repo)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).unwrap().trim().to_owned()
}

/// Nothing dangles that hurts, and nothing is changed in the work tree.
#[track_caller]
fn is_sound(repo: &Path) {
    git(repo, &["fsck", "--strict", "--no-dangling"]);
    assert_eq!(git(repo, &["status", "--porcelain"]), "");
    assert!(!repo.join(".git/index.lock").exists());
    assert!(!repo.join(".git/cto.lock").exists());
}

/// What of a repository its owner sees: references, HEAD, settings, hooks and files.
fn seen(repo: &Path) -> Vec<String> {
    let mut lines = vec![
        git(repo, &["for-each-ref"]),
        fs::read_to_string(repo.join(".git/HEAD")).unwrap(),
        fs::read_to_string(repo.join(".git/config")).unwrap(),
        git(repo, &["ls-files", "-s"]),
    ];
    for path in crate::test_home::files(repo) {
        let is_object = path.starts_with(repo.join(".git/objects"));
        if !is_object {
            lines.push(format!("{} {:?}", path.display(), fs::read(&path).unwrap()));
        }
    }
    lines
}

#[test]
fn stages_at_which_a_change_lands_stay_closed_without_proofs() {
    let site = Site::new(4, "");
    let before = seen(&site.repo());
    let asked = site.ask(&["--owner", "olga", "--disposal", "retain"], CHANGE);
    assert_eq!(asked.error(), "3 request_blocked");
    assert!(asked.out.contains("stage_not_proven"), "{}", asked.out);
    let site = Site::new(5, "");
    assert_eq!(site.ask(&[], CHANGE).error(), "3 request_blocked");
    assert_eq!(seen(&site.repo()).len(), before.len());
    is_sound(&site.repo());
}

#[test]
fn a_commit_by_a_lane_without_evidence_does_not_pass_the_gate() {
    let site = Site::new(4, "");
    let gate = ["gate", "HEAD~1..HEAD", "--repo", "repo"];
    let passed = site.cto(&gate).expect(0).json();
    fits_schema(&site.here.place, "gate", &passed);
    assert_eq!(
        (&passed["commits"], &passed["checked"]),
        (&1.into(), &serde_json::json!([]))
    );
    site.owner("git commit -q --allow-empty --author 'codex <codex@lane.invalid>' -m x");
    let refused = site.cto(&gate).expect(5).json();
    fits_schema(&site.here.place, "gate", &refused);
    assert_eq!(refused["errors"].as_array().unwrap().len(), 1);
    site.owner("git commit -q --allow-empty -m 'x' -m 'CTO-Run: 20260601T105222Z-task-k3v9qd'");
    site.cto(&gate).expect(5);
    let verified = site
        .cto(&["verify", "--commit", "HEAD", "--repo", "repo"])
        .expect(5)
        .json();
    fits_schema(&site.here.place, "verify-commit", &verified);
    assert_eq!(verified["evidence"]["answer"], "unverifiable");
    for bad in ["HEAD", "..HEAD", "HEAD...main", "nothing..HEAD"] {
        let wrong = site.cto(&["gate", bad, "--repo", "repo"]);
        assert_eq!(wrong.code, Some(2), "{bad}: {}", wrong.out);
    }
}

#[test]
fn the_day_stands_on_one_screen() {
    let here = Governed::new();
    let status = here.place.cto(&["status", "--json"]).expect(0).json();
    fits_schema(&here.place, "status", &status);
    assert_eq!(status["last_matrix"], Value::Null);
    assert_eq!(status["ledger"]["governed"], true);
    let shown = here.place.cto(&["status"]).expect(0).out;
    for word in ["running", "waiting for a person", "last matrix", "ledger"] {
        assert!(shown.contains(word), "{shown}");
    }
}

#[test]
fn a_task_is_delegated_in_one_command_with_every_gate_asked_for() {
    let site = Site::new(3, "");
    let words = [
        "delegate",
        "Make a.txt new",
        "--repo",
        "repo",
        "--engine",
        "command",
        "--allow",
        "a.txt",
        "--verify",
        "grep -q . a.txt",
        "--json",
        "-q",
    ];
    let agent = ["--", "sh", "-ec", "printf 'new\\n' > a.txt"];
    let all = [&words[..], &agent].concat();
    let closed = Ran::of(site.here.place.command(&all).output().unwrap());
    assert_eq!(closed.expect(3).json()["status"], "blocked");
    let report = Ran::of(site.command(&all).output().unwrap())
        .expect(0)
        .json();
    fits_schema(&site.here.place, "report", &report);
    assert_eq!(report["changed_files"], serde_json::json!(["a.txt"]));
    assert_eq!(
        (&report["case_id"], &report["stage"]),
        (&"make-a-txt-new".into(), &3.into())
    );
    is_sound(&site.repo());
    let bare = [
        "delegate", "x", "--repo", "repo", "--engine", "command", "--json",
    ];
    assert_eq!(site.here.place.cto(&bare).error(), "2 task_incomplete");
    let lands = [&all[..2], &["--stage", "5"], &all[2..]].concat();
    let lands = Ran::of(site.command(&lands).output().unwrap());
    assert_eq!(lands.error(), "3 request_blocked");
}
