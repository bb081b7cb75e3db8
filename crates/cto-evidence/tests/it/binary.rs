//! The stand-alone program: exit codes, text and JSON.

use std::path::Path;

use cto_contract::verify::VerifyReport;

use crate::forge::put;
use crate::sample;

fn run(directory: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    #[expect(
        clippy::disallowed_methods,
        reason = "the program under test is a real process"
    )]
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_cto-verify"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn it_says_what_it_found_and_exits_accordingly() {
    let pack = sample::pass().seal();
    let home = pack.home.path();
    let key = pack.key.public_base64();
    let (code, said, _) = run(home, &[sample::RUN, "--key", &key]);
    assert_eq!(code, Some(0));
    let shown: String = said
        .lines()
        .filter(|l| !l.contains("sha256:") && !l.contains("files "))
        .collect::<Vec<_>>()
        .join("\n");
    insta::assert_snapshot!(shown, @"
    verified
      integrity  ok
      origin     known
      operator   none
      run        20260601T105222Z-r1-string-slugify-k3v9qd
      status     pass
      key        34750f98bd59fcfc946da45aaabe933be154a4b5094e1c4abf42866505f3c97e
      verified       Every changed path is within the contract (patch.diff, task-contract.json, git.diff.checked)
      verified       The patch alone gives the tree that was checked (patch.diff, patch.applied, verification.completed)
      inferred       The checks pass on the changed tree (test.log, verification.completed)
      inferred       The checks fail without the change (test.log, verification.completed)
      verified       Nothing of the backend outlived the run (backend.finished)
      verified       Writes outside the workspace were impossible (backend/sandbox.json, backend.finished)
      self_reported  The backend says what it did (backend.finished)
      absent         An operator accepted the change (nothing)
    ");
    assert_eq!(run(&pack.path, &[".", "--integrity-only"]).0, Some(0));
    let (code, said, _) = run(home, &[sample::RUN]);
    assert_eq!(code, Some(5));
    assert!(
        said.starts_with("NOT VERIFIED\n") && said.contains("error      origin_unknown:"),
        "{said}"
    );
    put(&pack.file("test.log"), b"forged");
    let (code, said, _) = run(home, &[sample::RUN, "--json", "--key", &key]);
    assert_eq!(code, Some(5));
    let report: VerifyReport = serde_json::from_str(&said).unwrap();
    assert_eq!(report.errors[0].file.as_deref(), Some("test.log"));
}

#[test]
fn it_says_what_is_withheld() {
    let pack = sample::pass().seal();
    std::fs::remove_file(pack.file("patch.diff")).unwrap();
    std::fs::remove_file(pack.file("test.log")).unwrap();
    put(&pack.file("WITHHELD"), b"patch.diff\ntest.log\n");
    let (code, said, _) = run(pack.home.path(), &[sample::RUN, "--integrity-only"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("\n  withheld   2 files: patch.diff, test.log\n")
            && said.contains("\n  self_reported  Every changed path is within the contract"),
        "{said}"
    );
    let (code, said, _) = run(
        pack.home.path(),
        &[sample::RUN, "--integrity-only", "--json"],
    );
    let report: VerifyReport = serde_json::from_str(&said).unwrap();
    assert_eq!((code, report.withheld.len()), (Some(0), 2));
}

#[test]
fn a_key_comes_as_text_as_pem_or_from_a_trust_directory() {
    let pack = sample::pass().seal();
    let home = pack.home.path();
    put(
        &home.join("key.pem"),
        pack.key.public().to_pem().unwrap().as_bytes(),
    );
    assert_eq!(run(home, &[sample::RUN, "--key", "key.pem"]).0, Some(0));
    std::fs::create_dir(home.join("trust")).unwrap();
    let trust = format!(
        r#"{{"schema":"cto.trust/v1","name":"me","keyid":"{}","public_key":"{}","valid_from":"2026-01-01T00:00:00Z"}}"#,
        pack.key.keyid(),
        pack.key.public_base64()
    );
    put(&home.join("trust/me.json"), trust.as_bytes());
    assert_eq!(run(home, &[sample::RUN, "--trust", "trust"]).0, Some(0));
    put(&home.join("trust/bad.json"), b"{}");
    let (code, _, talk) = run(home, &[sample::RUN, "--trust", "trust"]);
    assert_eq!(code, Some(2));
    assert!(talk.contains("bad.json"), "{talk}");
}

#[test]
fn another_runs_pack_under_this_runs_name_is_refused() {
    let pack = sample::pass().seal();
    let name = "20260601T105223Z-r1-string-slugify-zzzzzz";
    std::fs::rename(&pack.path, pack.home.path().join(name)).unwrap();
    let (code, said, _) = run(pack.home.path(), &[name, "--integrity-only"]);
    assert_eq!(code, Some(5));
    assert!(said.contains("subject_mismatch"), "{said}");
    std::fs::rename(
        pack.home.path().join(name),
        pack.home.path().join("downloaded"),
    )
    .unwrap();
    assert_eq!(
        run(pack.home.path(), &["downloaded", "--integrity-only"]).0,
        Some(0)
    );
    assert_eq!(
        run(
            pack.home.path(),
            &["downloaded", "--integrity-only", "--expect-run", name]
        )
        .0,
        Some(5)
    );
}

#[test]
fn wrong_use_is_explained() {
    let home = tempfile::TempDir::new().unwrap();
    let fails = |arguments: &[&str]| {
        let (code, said, talk) = run(home.path(), arguments);
        assert_eq!((code, said.as_str()), (Some(2), ""), "{arguments:?}");
        talk.lines().next().unwrap_or_default().to_owned()
    };
    insta::assert_snapshot!(fails(&[]), @"error: no pack was named");
    insta::assert_snapshot!(fails(&["a", "b"]), @"error: more than one pack was named");
    insta::assert_snapshot!(fails(&["a", "--force"]), @"error: unknown option `--force`");
    insta::assert_snapshot!(fails(&["a", "--key"]), @"error: --key needs a value");
    insta::assert_snapshot!(fails(&["a", "--trust", "absent"]), @"error: --trust `absent` is not a directory");
    insta::assert_snapshot!(fails(&["a", "--expect-run", "x\u{1b}[31m"]), @r"error: `x\u{1b}[31m` is not a run id (expected ^[0-9]{8}T[0-9]{6}Z-[a-z0-9][a-z0-9-]{0,63}-[a-z0-9]{6}$)");
    assert_eq!(run(home.path(), &["--help"]).0, Some(0));
    assert_eq!(run(home.path(), &["absent"]).0, Some(5));
}
