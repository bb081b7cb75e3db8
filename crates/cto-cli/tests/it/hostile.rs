//! What a hostile change, hostile code under test or a hostile machine can not do.

use crate::judging::verdict_of;
use crate::test_home::{CTO, TestHome, blockers, files, write};

#[test]
fn a_secret_in_the_patch_goes_to_quarantine_and_nowhere_else() {
    let test_home = TestHome::new();
    let dir = test_home.case("leak", "");
    let key = format!("AKIA{}", "QWERTYUIOPASDFGH");
    let patch = format!(
        "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-old\n+new {key}\n"
    );
    write(&dir.join("fake.patch"), &patch);
    let (code, found, report) = verdict_of(&test_home, "leak");
    assert_eq!((code, found[0].as_str()), (1, "secret_exposed"));
    let run_id = report["run_id"].as_str().unwrap();
    for entry in files(&test_home.pack(run_id)) {
        let bytes = std::fs::read(&entry).unwrap();
        assert!(
            !String::from_utf8_lossy(&bytes).contains(&key),
            "{} holds the secret",
            entry.display()
        );
    }
    let kept = std::fs::read_to_string(
        test_home
            .home()
            .join("quarantine")
            .join(run_id)
            .join("patch.diff"),
    )
    .unwrap();
    assert!(kept.contains(&key));
    assert_eq!(test_home.json(&["verify", run_id]).0, 0);
}

#[test]
fn a_secret_of_the_environment_never_reaches_a_pack() {
    let test_home = TestHome::new();
    test_home.case(
        "chatty",
        // In halves: a contract that holds the secret is refused.
        "verification_commands: [\"cat a.txt; echo s3cret-value''-of-mine\"]\n",
    );
    let out = test_home
        .command(&[
            "run",
            "chatty",
            "--json",
            "--cases",
            test_home.cases().to_str().unwrap(),
        ])
        .env("MY_API_KEY", "s3cret-value-of-mine")
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let run_id = report["run_id"].as_str().unwrap();
    let log = std::fs::read_to_string(test_home.pack(run_id).join("test.log")).unwrap();
    assert!(log.contains("[redacted:MY_API_KEY]"), "{log}");
}

/// Whether no file of the pack holds the text, and the run failed for it, and its pack verifies.
fn is_kept_out(test_home: &TestHome, case: &str, secret: &str, quarantined: &[&str]) {
    let (code, found, report) = verdict_of(test_home, case);
    assert_eq!((code, found[0].as_str()), (1, "secret_exposed"), "{report}");
    let run_id = report["run_id"].as_str().unwrap();
    for file in files(&test_home.pack(run_id)) {
        let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
        assert!(!text.contains(secret), "{} holds it", file.display());
    }
    let quarantine = test_home.home().join("quarantine").join(run_id);
    let kept: Vec<String> = files(&quarantine)
        .iter()
        .map(|f| f.strip_prefix(&quarantine).unwrap().display().to_string())
        .collect();
    assert_eq!(kept, quarantined);
    let (code, answer) = test_home.json(&["verify", run_id]);
    assert_eq!(code, 0, "{answer}");
}

#[test]
fn a_token_in_the_output_of_a_check_goes_to_quarantine() {
    let test_home = TestHome::new();
    let token = format!("ghp_{}", "a7Kq2ZmX9cR4tLw8BvN3sYp6HdJ5fGg1QeUo");
    // In halves, so that the contract holds no token.
    let (start, end) = token.split_at(9);
    test_home.case(
        "printed",
        &format!("verification_commands: [\"a={start}; echo ${{a}}{end}; grep -q new a.txt\"]\n"),
    );
    is_kept_out(
        &test_home,
        "printed",
        &token,
        &["events.normalized.jsonl", "test.log"],
    );
}

#[test]
fn a_token_in_a_new_file_name_takes_the_patch_and_the_log_to_quarantine() {
    let test_home = TestHome::new();
    let token = format!("ghp_{}", "a7Kq2ZmX9cR4tLw8BvN3sYp6HdJ5fGg1QeUo");
    let dir = test_home.case("named", "allowed_paths: [a.txt, \"ghp_*\"]\n");
    let patch = format!(
        "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-old\n+new\n\
         diff --git a/{token} b/{token}\nnew file mode 100644\n--- /dev/null\n+++ b/{token}\n@@ -0,0 +1 @@\n+x\n"
    );
    write(&dir.join("fake.patch"), &patch);
    is_kept_out(
        &test_home,
        "named",
        &token,
        &[
            "backend/stderr.log",
            "events.normalized.jsonl",
            "patch.diff",
        ],
    );
}

#[test]
fn a_pack_names_no_path_of_the_machine() {
    let test_home = TestHome::new();
    test_home.case(
        "nosy",
        "verification_commands: [\"pwd; echo $HOME; grep -q new a.txt\"]\n",
    );
    let (code, _, report) = verdict_of(&test_home, "nosy");
    assert_eq!(code, 0);
    let pack = test_home.pack(report["run_id"].as_str().unwrap());
    let root = test_home.path();
    let place = root.to_str().unwrap().trim_end_matches('/');
    for file in files(&pack) {
        let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
        assert!(!text.contains(place), "{}: {text}", file.display());
    }
    let log = std::fs::read_to_string(pack.join("test.log")).unwrap();
    assert!(log.contains("\n$WORKSPACE\n"), "{log}");
}

#[test]
fn a_full_disk_is_named_and_nothing_half_written_is_left() {
    let test_home = TestHome::new();
    let small = test_home.home();
    std::fs::create_dir(&small).unwrap();
    test_home.configure("disk_floor_mb: 0\n");
    // A file system of one's own, in a namespace of one's own: the disk is full for this run only.
    let script = "mount -t tmpfs -o size=1500k,mode=700 tmpfs \"$CTO_HOME\" || exit 99\n\
        \"$0\" run c-many-files --json\n\
        echo \"exit $?\"\n\
        \"$0\" verify latest > /dev/null && echo verified\n\
        ls \"$CTO_HOME/work\" | wc -l\n";
    let mut plain = test_home.command::<&str>(&[]);
    let mut command = std::process::Command::new("unshare");
    command.args(["-Urm", "sh", "-c", script, CTO]).env_clear();
    for (name, value) in plain.get_envs() {
        command.env(name, value.unwrap());
    }
    plain.stdin(std::process::Stdio::null());
    let out = command.output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(text.contains("artifact_write_failure"), "{text}{told}");
    assert!(text.contains("No space left on device"), "{text}{told}");
    assert!(text.contains("exit 1\nverified\n0\n"), "{text}{told}");
}

#[test]
fn too_little_free_space_is_named_before_anything_is_prepared() {
    let test_home = TestHome::new();
    test_home.configure("disk_floor_mb: 1000000000\n");
    test_home.tiny();
    let (code, report) = test_home.run_tiny();
    assert_eq!(code, 1);
    assert_eq!(blockers(&report), ["artifact_write_failure"]);
    let message = report["blockers"][0]["message"].as_str().unwrap();
    assert!(
        message.contains("fewer than the floor of 1000000000 MiB"),
        "{message}"
    );
    assert_eq!(report["backend_process_started"], false);
}

#[test]
fn an_agent_can_not_widen_what_is_ignored() {
    let test_home = TestHome::new();
    let dir = test_home.case("sneaky", "allowed_paths: [a.txt, .gitignore]\n");
    std::fs::remove_file(dir.join("fake.patch")).unwrap();
    std::fs::create_dir_all(dir.join("fake")).unwrap();
    write(&dir.join("fake/a.txt"), "new\n");
    write(&dir.join("fake/.gitignore"), "hidden\n");
    write(&dir.join("fake/hidden"), "x");
    let (code, found, report) = verdict_of(&test_home, "sneaky");
    assert_eq!((code, found[0].as_str()), (1, "disallowed_file_change"));
    assert!(
        report["blockers"][0]["message"]
            .as_str()
            .unwrap()
            .contains("hidden")
    );
}

#[test]
fn test_results_are_never_read_through_a_link() {
    let test_home = TestHome::new();
    let outside = test_home.path().join("outside");
    write(
        &outside.join("results.xml"),
        "<testsuite tests=\"1\"><testcase classname=\"t\" name=\"a\"/></testsuite>",
    );
    for (id, link) in [
        ("directory", format!("ln -s {} reports", outside.display())),
        (
            "file",
            format!(
                "mkdir reports; ln -s {}/results.xml reports/",
                outside.display()
            ),
        ),
    ] {
        test_home.case(
            id,
            &format!("verification_commands: [{{run: \"{link}\", expect: {{junit: reports/results.xml, min_tests: 1}}}}]\n"),
        );
        let (code, found, report) = verdict_of(&test_home, id);
        assert_eq!(code, 1, "{report:#}");
        assert!(
            found.contains(&"verification_failed".to_owned()),
            "{found:?}"
        );
    }
}

#[test]
fn code_under_test_never_finds_the_evidence() {
    let test_home = TestHome::new();
    let home = test_home.home();
    let attacks = [
        "echo {} >> \"$f/events.normalized.jsonl\"",
        ": > \"$f/events.normalized.jsonl\"",
        "echo forged > \"$f/patch.diff\"",
        "echo {} > \"$f/report.md\"",
        "ln -s /etc/passwd \"$f/backend/x\"",
    ]
    .join("; ");
    test_home.case(
        "forger",
        &format!(
            "verification_commands:\n  - run: |\n      for f in ../../../harness-runs/* {0}/harness-runs/* /proc/1/root{0}/harness-runs/*; do test -d \"$f\" && {{ echo fo\"\"und; {attacks}; }}; done\n      test ! -e {0} && test ! -e /cto/oracle && grep -q new a.txt\n",
            home.display()
        ),
    );
    let (code, _, report) = verdict_of(&test_home, "forger");
    assert_eq!(code, 0, "{report:#}");
    assert_eq!(report["sandbox"]["class"], "full");
    let run_id = report["run_id"].as_str().unwrap();
    assert_eq!(test_home.json(&["verify", run_id]).0, 0);
    let log = std::fs::read_to_string(test_home.pack(run_id).join("test.log")).unwrap();
    assert!(!log.contains("found"), "{log}");
}
