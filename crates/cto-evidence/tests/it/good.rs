//! Packs that are right.

use cto_contract::trust::{Origin, TrustSchema, TrustedKey};
use cto_contract::verify::{Integrity, VerifyCheck};
use cto_contract::words::{ClaimLevel, RunStatus};
use cto_evidence::key::SigningKey;
use cto_evidence::trust::read_trust;
use cto_evidence::verify::{VerifyOptions, name_in_path, verify};

use crate::forge::put;
use crate::sample::{self, at, key};
use crate::{check, codes, known};

#[test]
fn a_pass_a_block_and_a_recovered_run_verify() {
    let plans = [
        (sample::pass(), RunStatus::Pass),
        (sample::blocked(), RunStatus::Blocked),
        (sample::recovered(), RunStatus::Blocked),
    ];
    for (plan, status) in plans {
        let pack = plan.seal();
        let report = check(&pack);
        assert_eq!(report.errors, [], "{status}");
        assert!(report.ok);
        assert_eq!(
            (report.integrity, report.origin),
            (Integrity::Ok, Origin::Known)
        );
        assert_eq!(report.status, Some(status));
        assert_eq!(report.pack_digest, Some(pack.sealed.pack_digest.clone()));
        assert_eq!(
            (report.files, report.bytes),
            (pack.sealed.files, pack.sealed.bytes)
        );
        let all: Vec<_> = VerifyCheck::ALL
            .iter()
            .copied()
            .filter(|c| *c != VerifyCheck::Addenda)
            .collect();
        assert_eq!(report.checked, all);
        let level = if status == RunStatus::Pass {
            ClaimLevel::Verified
        } else {
            ClaimLevel::Absent
        };
        assert_eq!(report.claims[0].level, level);
    }
}

#[test]
fn the_list_is_checkable_with_sha256sum_alone() {
    let pack = sample::pass().seal();
    #[expect(clippy::disallowed_methods, reason = "the tool that a stranger has")]
    let output = std::process::Command::new("sha256sum")
        .args(["--strict", "-c", "SHA256SUMS"])
        .current_dir(&pack.path)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn an_unknown_key_proves_integrity_and_nothing_more() {
    let pack = sample::pass().seal();
    let report = verify(&pack.path, &VerifyOptions::default());
    assert_eq!(codes(&report), ["origin_unknown"]);
    assert_eq!(
        (report.ok, report.integrity, report.origin),
        (false, Integrity::Ok, Origin::Unknown)
    );
    let report = verify(
        &pack.path,
        &VerifyOptions {
            integrity_only: true,
            ..VerifyOptions::default()
        },
    );
    assert_eq!((report.ok, report.origin), (true, Origin::Unknown));
}

fn trusted(key: &SigningKey) -> TrustedKey {
    TrustedKey {
        schema: TrustSchema,
        name: "test".to_owned(),
        keyid: key.keyid(),
        public_key: key.public_base64(),
        valid_from: at(-100),
        valid_until: None,
        revoked_at: None,
    }
}

#[test]
fn trust_depends_on_the_time_of_sealing_and_ends_with_a_revocation() {
    let pack = sample::pass().seal();
    let origin = |edit: fn(&mut TrustedKey)| {
        let mut own = trusted(&pack.key);
        edit(&mut own);
        let report = verify(
            &pack.path,
            &VerifyOptions {
                trusted: vec![trusted(&key(9)), own],
                ..VerifyOptions::default()
            },
        );
        (report.origin, codes(&report))
    };
    assert_eq!(origin(|_| {}), (Origin::Known, vec![]));
    assert_eq!(
        origin(|k| k.valid_until = Some(at(29))),
        (Origin::Expired, vec!["origin_expired"])
    );
    assert_eq!(
        origin(|k| k.valid_from = at(31)),
        (Origin::Expired, vec!["origin_expired"])
    );
    assert_eq!(
        origin(|k| k.revoked_at = Some(at(9999))),
        (Origin::Revoked, vec!["origin_revoked"])
    );
    // A key that the caller names does not outweigh its revocation.
    let revoked = TrustedKey {
        revoked_at: Some(at(1)),
        ..trusted(&pack.key)
    };
    assert_eq!(
        verify(
            &pack.path,
            &VerifyOptions {
                trusted: vec![revoked],
                ..known(&pack)
            }
        )
        .origin,
        Origin::Revoked
    );
}

#[test]
fn a_trust_directory_is_read_whole_or_not_at_all() {
    let home = tempfile::TempDir::new().unwrap();
    assert!(read_trust(&home.path().join("absent")).unwrap().is_empty());
    put(
        &home.path().join("a.json"),
        &serde_json::to_vec(&trusted(&key(1))).unwrap(),
    );
    put(&home.path().join("README"), b"not a key");
    assert_eq!(read_trust(home.path()).unwrap().len(), 1);
    put(
        &home.path().join("b.json"),
        &serde_json::to_vec(&TrustedKey {
            keyid: key(3).keyid(),
            ..trusted(&key(2))
        })
        .unwrap(),
    );
    let message = read_trust(home.path()).unwrap_err().to_string();
    assert!(
        message.ends_with("/b.json`: keyid is not the SHA-256 of public_key"),
        "{message}"
    );
    put(&home.path().join("b.json"), b"{}");
    assert!(
        read_trust(home.path())
            .unwrap_err()
            .to_string()
            .contains("b.json")
    );
}

#[test]
fn the_pack_must_be_the_one_that_was_asked_for() {
    let pack = sample::pass().seal();
    let with = |edit: &dyn Fn(&mut VerifyOptions)| {
        let mut options = known(&pack);
        edit(&mut options);
        codes(&verify(&pack.path, &options))
    };
    assert_eq!(
        with(&|o| o.asked_name = name_in_path(&pack.path)),
        [] as [&str; 0]
    );
    assert_eq!(
        with(&|o| o.asked_name = Some("20260601T105223Z-r1-string-slugify-zzzzzz".to_owned())),
        ["subject_mismatch"]
    );
    assert_eq!(
        with(&|o| o.expect_run = "20260601T105223Z-r1-string-slugify-zzzzzz".parse().ok()),
        ["expectation_mismatch"]
    );
    assert_eq!(
        with(&|o| o.expect_run = sample::RUN.parse().ok()),
        [] as [&str; 0]
    );
    assert_eq!(
        with(&|o| o.expect_contract = Some(pack.sealed.pack_digest.clone())),
        ["expectation_mismatch"]
    );
    assert_eq!(
        with(&|o| o.expect_nonce = "00".repeat(32).parse().ok()),
        ["expectation_mismatch"]
    );
    assert_eq!(
        name_in_path(std::path::Path::new("downloads/evidence")),
        None
    );
}
