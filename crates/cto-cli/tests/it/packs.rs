//! A real pack, attacked and checked by tools that are not ours.

use std::path::Path;
use std::process::{Command, Stdio};

use cto_evidence::verify::{VerifyOptions, verify};

use crate::test_home::{TestHome, files};

/// The first and the last byte, every line end, both sides of it, and a spread over the rest.
fn position_classes(bytes: &[u8]) -> Vec<usize> {
    let mut at: Vec<usize> = vec![0, bytes.len() - 1];
    for (i, _) in bytes
        .iter()
        .enumerate()
        .filter(|(_, b)| **b == b'\n')
        .take(40)
    {
        at.extend([i.saturating_sub(1), i, (i + 1).min(bytes.len() - 1)]);
    }
    at.extend((0..bytes.len()).step_by((bytes.len() / 97).max(1)));
    at.sort_unstable();
    at.dedup();
    at
}

#[test]
fn every_flipped_byte_of_a_real_pack_is_found() {
    let test_home = TestHome::new();
    let (_, report) = test_home.json(&["run", "r1-string-slugify"]);
    let pack = test_home.pack(report["run_id"].as_str().unwrap());
    let options = VerifyOptions {
        integrity_only: true,
        ..VerifyOptions::default()
    };
    assert!(verify(&pack, &options).ok);
    let mut flips = 0;
    for path in files(&pack) {
        let name = path.strip_prefix(&pack).unwrap().display().to_string();
        let good = std::fs::read(&path).unwrap();
        if good.is_empty() {
            continue;
        }
        for (n, at) in position_classes(&good).into_iter().enumerate() {
            // Another bit, the case of a letter, the sign: in turn.
            let mask = [0x01, 0x20, 0x80][n % 3];
            let mut bad = good.clone();
            bad[at] ^= mask;
            std::fs::write(&path, &bad).unwrap();
            let answer = verify(&pack, &options);
            assert!(
                !answer.ok && !answer.errors.is_empty(),
                "{name}: byte {at} ^ {mask:#x} was not found"
            );
            flips += 1;
        }
        std::fs::write(&path, &good).unwrap();
    }
    assert!(flips > 500, "{flips}");
    assert!(verify(&pack, &options).ok, "the pack is as it was");
}

#[test]
fn a_pack_is_checked_by_sha256sum_alone() {
    let test_home = TestHome::new();
    let (_, report) = test_home.run_tiny();
    let pack = test_home.pack(report["run_id"].as_str().unwrap());
    let check = || {
        Command::new("sha256sum")
            .args(["--check", "--strict", "--quiet", "SHA256SUMS"])
            .current_dir(&pack)
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .success()
    };
    assert!(check());
    std::fs::write(pack.join("test.log"), "all is well\n").unwrap();
    assert!(!check());
}

#[test]
fn a_verifier_written_from_the_format_page_alone_agrees_on_real_packs() {
    let test_home = TestHome::new();
    let python = std::env::var("CTO_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../cto-evidence/tests/stranger/verify_pack.py");
    let agrees = |run_id: &str| {
        let out = Command::new(&python)
            .arg(&script)
            .arg(test_home.pack(run_id))
            .output()
            .unwrap();
        (
            out.status.code(),
            String::from_utf8_lossy(&out.stdout).into_owned()
                + &String::from_utf8_lossy(&out.stderr),
        )
    };
    let mut ids = Vec::new();
    for case in [
        "r1-string-slugify",
        "c-binary-file",
        "c-unicode-names",
        "c-symlink",
        "c-crlf",
        "c-rename-file",
    ] {
        let (code, report) = test_home.json(&["run", case]);
        assert_eq!(code, 0);
        ids.push(report["run_id"].as_str().unwrap().to_owned());
    }
    let (_, blocked) = test_home.json(&["run", "r1-string-slugify", "--engine", "pi"]);
    ids.push(blocked["run_id"].as_str().unwrap().to_owned());
    let (_, failed) = test_home.json(&["run", "r1-string-slugify", "--cheat", "edit-tests"]);
    ids.push(failed["run_id"].as_str().unwrap().to_owned());
    for id in &ids {
        let (code, told) = agrees(id);
        assert_eq!(code, Some(0), "{id}: {told}");
    }
    let log = test_home.pack(&ids[0]).join("test.log");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[10] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    assert_eq!(agrees(&ids[0]).0, Some(5));
}

#[test]
fn a_directory_that_is_no_pack_is_named_as_such_and_not_read_through() {
    let test_home = TestHome::new();
    test_home.tiny();
    let (code, answer) = test_home.json(&["verify", test_home.cases().to_str().unwrap()]);
    assert_eq!(code, 5);
    let errors = answer["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1, "{answer}");
    assert_eq!(errors[0]["code"], "not_a_pack");
}
