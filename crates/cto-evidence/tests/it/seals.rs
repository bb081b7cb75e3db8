//! Sealing: once, in order, and again only after an interruption.

use cto_contract::artifact::{ATTESTATION, REPORT_JSON, SHA256SUMS};
use cto_evidence::seal::{SealError, SealInput, seal};
use cto_evidence::writer::{PackWriter, WriteError};

use crate::forge::put;
use crate::{check, sample};

#[test]
fn a_pack_is_sealed_exactly_once() {
    let pack = sample::pass().seal();
    let again = seal(
        &pack.path,
        SealInput {
            report: pack.sealed.report.clone(),
            key: &pack.key,
        },
    );
    assert!(
        matches!(again, Err(SealError::AlreadySealed(_))),
        "{again:?}"
    );
    assert!(check(&pack).ok);
}

#[test]
fn an_interrupted_seal_is_taken_up_again() {
    let pack = sample::pass().seal();
    std::fs::rename(pack.file(ATTESTATION), pack.file(".attestation.tmp")).unwrap();
    put(&pack.file(SHA256SUMS), b"half a li");
    put(&pack.file(REPORT_JSON), b"{");
    let sealed = seal(
        &pack.path,
        SealInput {
            report: pack.sealed.report.clone(),
            key: &pack.key,
        },
    )
    .unwrap();
    assert_eq!(sealed, pack.sealed, "the same bytes come out");
    assert!(check(&pack).ok);
}

#[test]
fn a_pack_with_something_missing_or_unfit_is_not_sealed() {
    let attempt = |spoil: &dyn Fn(&sample::Pack)| {
        let pack = sample::pass().seal();
        std::fs::remove_file(pack.file(ATTESTATION)).unwrap();
        spoil(&pack);
        let outcome = seal(
            &pack.path,
            SealInput {
                report: pack.sealed.report.clone(),
                key: &pack.key,
            },
        );
        assert!(!pack.file(ATTESTATION).exists());
        outcome.unwrap_err().to_string()
    };
    insta::assert_snapshot!(attempt(&|p| std::fs::remove_file(p.file("test.log")).unwrap()), @"the required artifact `test.log` is missing");
    insta::assert_snapshot!(attempt(&|p| put(&p.file("new.txt"), b"x")), @"the report has no freshness for `new.txt`");
    insta::assert_snapshot!(attempt(&|p| std::os::unix::fs::symlink("test.log", p.file("l")).unwrap()), @"`l`: a symbolic link");
    insta::assert_snapshot!(attempt(&|p| std::fs::create_dir(p.file("d")).unwrap()), @"`d`: an empty directory, which no pack holds");
    insta::assert_snapshot!(attempt(&|p| put(&p.file("a\\b"), b"x")), @"`a\\b`: a name that no pack holds: too long, too deep, or with forbidden characters");
    insta::assert_snapshot!(attempt(&|p| p.rewrite("events.normalized.jsonl", |b| { b.pop(); })), @"the log is broken");
}

#[test]
fn nothing_in_a_pack_is_overwritten_and_no_link_is_followed() {
    let home = tempfile::TempDir::new().unwrap();
    let writer = PackWriter::create(&home.path().join("p")).unwrap();
    writer.write_new("backend/a/b.log", b"x").unwrap();
    assert!(matches!(
        writer.write_new("backend/a/b.log", b"y"),
        Err(WriteError::Io { .. })
    ));
    std::os::unix::fs::symlink(home.path(), home.path().join("p/out")).unwrap();
    assert!(writer.write_new("out/escaped", b"y").is_err());
    std::os::unix::fs::symlink(home.path().join("escaped"), home.path().join("p/report.md"))
        .unwrap();
    assert!(writer.write_new("report.md", b"y").is_err());
    for bad in ["../x", "/x", "", "a//b", "a\nb", "a\\b"] {
        assert!(
            matches!(writer.write_new(bad, b""), Err(WriteError::BadName(_))),
            "{bad:?}"
        );
    }
    assert!(!home.path().join("escaped").exists());
    assert!(writer.remove("backend/a/b.log").unwrap());
    assert!(!writer.remove("backend/a/b.log").unwrap());
}
