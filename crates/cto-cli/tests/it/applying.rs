//! `cto apply`: exactly the checked patch in the working tree that it was made for, or nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::place::{Ran, write};
use crate::schemas::fits_schema;
use crate::source::Source;

const TERMS: &str = "allowed_paths: [src/]\nverification_commands: [{run: grep -q new src/a.txt, must_fail_before: true}]\nlimits: {wall_seconds: 120}\n";

/// Changes a file, adds one that may be executed, one with bytes that are no text, a link, and removes one.
const WORK: &str = "printf 'new\\n' > src/a.txt; mkdir src/deep; printf '#!/bin/sh\\n' > src/deep/run.sh; chmod +x src/deep/run.sh; printf '\\000\\377' > src/b.bin; ln -s a.txt src/link; rm src/gone.txt";

fn source() -> Source {
    let source = Source::new(&[
        ("src/a.txt", "old\n"),
        ("src/gone.txt", "bye\n"),
        ("other.txt", "mine\n"),
    ]);
    source.contract(TERMS);
    source
}

fn passed(source: &Source) -> Value {
    let (code, blockers, report) = source.work(WORK);
    assert_eq!((code, blockers), (0, vec![]), "{report:#}");
    report
}

fn apply(source: &Source, args: &[&str]) -> Ran {
    let all = [&["apply", "latest", "--repo", "repo", "--json"], args].concat();
    source.place.cto(&all)
}

/// Everything of the repository, its git directory too: paths, modes, bytes.
fn state(source: &Source) -> String {
    let found = std::process::Command::new("sh")
        .args([
            "-c",
            "find . -printf '%p %M %l\\n' | sort; find . -type f -exec sha256sum {} + | sort",
        ])
        .current_dir(source.repo())
        .output()
        .unwrap();
    String::from_utf8_lossy(&found.stdout).into_owned()
}

#[test]
fn the_checked_patch_is_applied_exactly_and_nothing_is_committed() {
    let source = source();
    let report = passed(&source);
    source.sh("git rev-parse HEAD > ../head; git ls-files -s > ../index");
    let output = apply(&source, &[]).expect(0).json();
    fits_schema(&source.place, "apply", &output);
    assert_eq!(output["run_id"], report["run_id"]);
    assert_eq!(output["base"], report["baseline_head"]);
    assert_eq!(output["changed_files"], report["changed_files"]);
    assert_eq!(output["was_there"], false);
    assert_eq!(output["other_changes"], json!([]));
    let repo = source.repo();
    assert_eq!(fs::read(repo.join("src/a.txt")).unwrap(), b"new\n");
    assert_eq!(fs::read(repo.join("src/b.bin")).unwrap(), [0, 255]);
    let mode = fs::metadata(repo.join("src/deep/run.sh")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o111, 0o111);
    assert_eq!(
        fs::read_link(repo.join("src/link")).unwrap().to_str(),
        Some("a.txt")
    );
    assert!(!repo.join("src/gone.txt").exists());
    // No commit, no index, no leftover; and what git would commit now is the tree that was checked.
    source.sh("git rev-parse HEAD | cmp - ../head; git ls-files -s | cmp - ../index; test ! -e .git/cto-landing; test ! -e .git/cto.lock");
    source.sh("git add -A && git write-tree > ../tree && git reset -q");
    let tree = fs::read_to_string(source.place.path("tree")).unwrap();
    assert_eq!(tree.trim(), report["patch_tree_id"].as_str().unwrap());
    // Once more is the same.
    let again = apply(&source, &[]).expect(0).json();
    assert_eq!(again["was_there"], true);
}

#[test]
fn other_work_of_the_owner_stays_and_is_named() {
    let source = source();
    passed(&source);
    source.sh("echo more >> other.txt; echo x > untracked");
    let output = apply(&source, &[]).expect(0).json();
    assert_eq!(output["other_changes"], json!(["other.txt", "untracked"]));
    assert_eq!(
        fs::read(source.repo().join("other.txt")).unwrap(),
        b"mine\nmore\n"
    );
}

#[test]
fn a_tree_that_the_patch_was_not_checked_for_is_left_alone() {
    for (change, code) in [
        ("echo mine > src/a.txt", "working_tree_differs"),
        ("echo mine > src/b.bin", "working_tree_differs"),
        ("chmod +x src/a.txt", "working_tree_differs"),
        (
            "rm src/a.txt; ln -s ../other.txt src/a.txt",
            "working_tree_differs",
        ),
        (
            "mkdir elsewhere; mv src elsewhere/src; ln -s elsewhere/src src",
            "working_tree_differs",
        ),
        ("git commit -qm second --allow-empty", "base_moved"),
        ("git checkout -q --orphan fresh", "base_moved"),
    ] {
        let source = source();
        passed(&source);
        source.sh(change);
        let before = state(&source);
        let ran = apply(&source, &[]).expect(3);
        assert_eq!(ran.json()["error"]["code"], code, "{change}: {}", ran.out);
        assert!(ran.json()["error"]["hint"].is_string(), "{change}");
        assert_eq!(state(&source), before, "{change}");
    }
}

#[test]
fn a_run_that_did_not_pass_is_of_a_case_or_of_nobody_here_is_refused() {
    let source = source();
    let (code, ..) = source.work("echo other > src/a.txt");
    assert_eq!(code, 1);
    let before = state(&source);
    let ran = apply(&source, &[]).expect(1);
    assert_eq!(ran.json()["error"]["code"], "run_not_passed");
    source.place.cto(&["run", "r1-string-slugify"]).expect(0);
    let runs = source.place.cto(&["runs", "--json"]).expect(0).json();
    let id = runs["rows"][0]["run_id"].as_str().unwrap().to_owned();
    let ran = source
        .place
        .cto(&["apply", &id, "--repo", "repo", "--json"])
        .expect(2);
    assert_eq!(ran.json()["error"]["code"], "run_without_repository");
    let ran = source
        .place
        .cto(&["apply", "nothing", "--repo", "repo", "--json"])
        .expect(2);
    assert!(ran.json()["error"]["message"].is_string());
    assert_eq!(state(&source), before);
}

#[test]
fn a_pack_that_was_touched_or_comes_from_elsewhere_is_refused() {
    let source = source();
    let report = passed(&source);
    let pack = source.pack(&report);
    let before = state(&source);
    let elsewhere = Source::new(&[("src/a.txt", "old\n")]);
    let path = pack.to_str().unwrap();
    let there = source.repo();
    let args = ["apply", path, "--repo", there.to_str().unwrap(), "--json"];
    let ran = elsewhere.place.cto(&args).expect(5);
    assert_eq!(
        ran.json()["error"]["code"],
        "run_of_elsewhere",
        "{}",
        ran.out
    );
    let patch = pack.join("patch.diff");
    let text = fs::read_to_string(&patch).unwrap();
    fs::set_permissions(&patch, fs::Permissions::from_mode(0o600)).unwrap();
    write(&patch, &text.replace("+new", "+bad"));
    apply(&source, &[]).expect(5);
    assert_eq!(state(&source), before);
}

#[test]
fn a_repository_that_is_none_or_has_no_tree_is_named() {
    let source = source();
    passed(&source);
    fs::create_dir(source.place.path("plain")).unwrap();
    for (repo, code) in [
        ("plain", "repository_missing"),
        ("nowhere", "repository_missing"),
    ] {
        let ran = source
            .place
            .cto(&["apply", "latest", "--repo", repo, "--json"])
            .expect(3);
        assert_eq!(ran.json()["error"]["code"], code, "{}", ran.out);
    }
    source.sh("git clone -q --bare . ../bare");
    let ran = source
        .place
        .cto(&["apply", "latest", "--repo", "bare", "--json"])
        .expect(3);
    assert_eq!(
        ran.json()["error"]["code"],
        "no_working_tree",
        "{}",
        ran.out
    );
}

#[test]
fn hooks_filters_and_settings_of_the_repository_do_not_run() {
    let source = source();
    passed(&source);
    source.sh("git config core.fsmonitor 'touch ../ran'; git config filter.f.smudge 'touch ../ran'; git config filter.f.clean 'touch ../ran'; echo '* filter=f' > .git/info/attributes; git config core.autocrlf true; printf '#!/bin/sh\\ntouch ../ran\\n' > .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout");
    apply(&source, &[]).expect(0);
    assert!(!source.place.path("ran").exists());
    assert_eq!(fs::read(source.repo().join("src/a.txt")).unwrap(), b"new\n");
}
