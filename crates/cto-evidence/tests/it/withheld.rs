//! Copies that leave files out: said and allowed, or found.

use std::collections::BTreeSet;

use cto_contract::artifact::{EVENTS, PATCH, REPORT_JSON, REQUIRED, SHA256SUMS, TEST_LOG};
use cto_contract::verify::{Integrity, VerifyCheck, VerifyReport};
use cto_contract::words::ClaimLevel;
use cto_evidence::withheld::{WITHHELD, read_withheld, write_withheld};
use proptest::prelude::*;

use crate::forge::put;
use crate::sample::{self, Pack};
use crate::stranger::agree;
use crate::{check, codes};

const STDOUT: &str = "backend/stdout.log";
const SANDBOX: &str = "backend/sandbox.json";
const DEEP: &str = "backend/deep/größe file.txt";

fn list(pack: &Pack, paths: &[&str]) {
    let paths: BTreeSet<String> = paths.iter().map(|p| (*p).to_owned()).collect();
    put(&pack.file(WITHHELD), &write_withheld(&paths));
}

fn remove(pack: &Pack, path: &str) {
    std::fs::remove_file(pack.file(path)).unwrap();
    // A copy has no empty directories.
    if let Some((dir, _)) = path.rsplit_once('/') {
        std::fs::remove_dir(pack.file(dir)).ok();
    }
}

/// Leaves files out as an export does.
fn withhold(pack: &Pack, paths: &[&str]) {
    for path in paths {
        remove(pack, path);
    }
    list(pack, paths);
}

fn copy(paths: &[&str]) -> Pack {
    let pack = sample::pass().seal();
    withhold(&pack, paths);
    pack
}

fn levels(report: &VerifyReport) -> String {
    report
        .claims
        .iter()
        .map(|c| format!("{}: {}", c.kind, c.level))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn a_copy_verifies_with_fewer_files_and_says_which() {
    let all = [DEEP, "backend/empty.log", SANDBOX, STDOUT, PATCH, TEST_LOG];
    let whole = check(&sample::pass().seal());
    assert!(whole.ok && whole.withheld.is_empty());
    for paths in [&all[..], &[PATCH], &[TEST_LOG], &[STDOUT], &[DEEP]] {
        let pack = copy(paths);
        let report = check(&pack);
        assert_eq!(report.errors, [], "{paths:?}");
        assert!(report.ok && report.integrity == Integrity::Ok);
        assert_eq!(report.withheld, paths);
        assert_eq!(report.pack_digest, whole.pack_digest, "the same pack");
        assert_eq!(report.files, whole.files - paths.len() as u64);
        assert!(report.bytes < whole.bytes);
        assert_eq!(
            report.checked.contains(&VerifyCheck::Policy),
            !paths.contains(&PATCH),
            "nobody says that the policy was recomputed"
        );
    }
    for other in [sample::blocked(), sample::recovered()] {
        let pack = other.seal();
        withhold(&pack, &[PATCH, TEST_LOG]);
        assert_eq!(check(&pack).errors, []);
    }
}

#[test]
fn claims_that_rest_on_a_withheld_file_are_self_reported() {
    insta::assert_snapshot!(levels(&check(&sample::pass().seal())), @r"
    paths_within_contract: verified
    patch_gives_checked_tree: verified
    checks_pass: inferred
    checks_fail_before: inferred
    nothing_survived: verified
    writes_confined: verified
    backend_account: self_reported
    operator_accepted: absent
    ");
    insta::assert_snapshot!(levels(&check(&copy(&[PATCH]))), @r"
    paths_within_contract: self_reported
    patch_gives_checked_tree: self_reported
    checks_pass: inferred
    checks_fail_before: inferred
    nothing_survived: verified
    writes_confined: verified
    backend_account: self_reported
    operator_accepted: absent
    ");
    insta::assert_snapshot!(levels(&check(&copy(&[TEST_LOG]))), @r"
    paths_within_contract: verified
    patch_gives_checked_tree: verified
    checks_pass: self_reported
    checks_fail_before: self_reported
    nothing_survived: verified
    writes_confined: verified
    backend_account: self_reported
    operator_accepted: absent
    ");
    insta::assert_snapshot!(levels(&check(&copy(&[SANDBOX, STDOUT, PATCH, TEST_LOG]))), @r"
    paths_within_contract: self_reported
    patch_gives_checked_tree: self_reported
    checks_pass: self_reported
    checks_fail_before: self_reported
    nothing_survived: verified
    writes_confined: self_reported
    backend_account: self_reported
    operator_accepted: absent
    ");
    let broken = copy(&[PATCH]);
    broken.rewrite("report.md", |b| b.push(b'x'));
    assert!(
        check(&broken)
            .claims
            .iter()
            .all(|c| c.level == ClaimLevel::Absent)
    );
}

#[test]
fn a_file_that_is_missing_without_a_word_is_missing() {
    let missing = |spoil: &dyn Fn(&Pack)| {
        let pack = sample::pass().seal();
        spoil(&pack);
        let report = check(&pack);
        assert!(!report.ok && report.integrity == Integrity::Broken);
        codes(&report)
    };
    assert!(missing(&|p| remove(p, PATCH)).contains(&"file_missing"));
    assert!(
        missing(&|p| {
            withhold(p, &[PATCH]);
            remove(p, TEST_LOG);
        })
        .contains(&"file_missing")
    );
    assert_eq!(missing(&|p| list(p, &[PATCH])), ["withheld_present"]);
    assert_eq!(
        missing(&|p| {
            withhold(p, &[PATCH]);
            list(p, &[PATCH, TEST_LOG]);
        }),
        ["withheld_present"]
    );
    let linked = missing(&|p| {
        withhold(p, &[PATCH]);
        std::os::unix::fs::symlink(TEST_LOG, p.file(PATCH)).unwrap();
    });
    assert_eq!(linked, ["file_linked"]);
}

/// Codes of a copy that leaves `patch.diff` out, with these bytes as its list.
fn listed(bytes: &[u8]) -> Vec<&'static str> {
    let pack = copy(&[PATCH]);
    put(&pack.file(WITHHELD), bytes);
    codes(&check(&pack))
}

#[test]
fn a_list_in_another_form_excuses_nothing() {
    for bad in [
        "",
        "\n",
        "patch.diff",
        "patch.diff\n\n",
        "patch.diff\r\n",
        "patch.diff\npatch.diff\n",
        "test.log\npatch.diff\n",
        "./patch.diff\n",
        "backend/absent.log\npatch.diff\n",
        "backend/\npatch.diff\n",
        "patch.diff\nreport.md\n",
        "patch.diff\ntrace.jsonl\n",
        "WITHHELD\npatch.diff\n",
    ] {
        let found = listed(bad.as_bytes());
        assert!(
            found.contains(&"withheld_malformed") && found.contains(&"file_missing"),
            "{bad:?}: {found:?}"
        );
    }
    assert!(listed(b"patch.diff\xff\n").contains(&"withheld_malformed"));
    assert_eq!(listed(b"patch.diff\n"), [] as [&str; 0]);
}

#[test]
fn what_carries_the_verdict_cannot_be_withheld() {
    for name in REQUIRED.iter().filter(|n| ![PATCH, TEST_LOG].contains(n)) {
        let pack = sample::pass().seal();
        withhold(&pack, &[name]);
        let report = check(&pack);
        assert!(!report.ok && report.withheld.is_empty(), "{name}");
        let found = codes(&report);
        let expected = if *name == SHA256SUMS {
            "file_missing"
        } else {
            "withheld_malformed"
        };
        assert!(found.contains(&expected), "{name}: {found:?}");
    }
}

#[test]
fn the_list_itself_is_a_plain_file_that_no_seal_covers() {
    let spoilt = |spoil: &dyn Fn(&Pack)| {
        let pack = copy(&[PATCH]);
        spoil(&pack);
        codes(&check(&pack))
    };
    let linked = spoilt(&|p| {
        let moved = p.home.path().join("moved");
        std::fs::rename(p.file(WITHHELD), &moved).unwrap();
        std::os::unix::fs::symlink(&moved, p.file(WITHHELD)).unwrap();
    });
    assert!(linked.contains(&"file_linked"), "{linked:?}");
    let sealed = spoilt(&|p| {
        p.forge_sums();
        p.forge_statement(&p.key, |_| {});
    });
    assert!(sealed.contains(&"sums_malformed"), "{sealed:?}");
}

#[test]
fn what_is_left_is_checked_as_before() {
    let pack = copy(&[STDOUT, PATCH, TEST_LOG]);
    let left: Vec<String> = pack
        .names()
        .into_iter()
        .filter(|n| !check(&pack).withheld.contains(n))
        .collect();
    for name in left.iter().filter(|n| *n != "backend/empty.log") {
        let good = std::fs::read(pack.file(name)).unwrap();
        let mut bad = good.clone();
        bad[good.len() / 2] ^= 1;
        put(&pack.file(name), &bad);
        assert_eq!(check(&pack).integrity, Integrity::Broken, "{name}");
        put(&pack.file(name), &good);
    }
    assert!(check(&pack).ok);
}

/// Makes everything right again after a lie, signature included, and only then leaves the patch out.
fn lie(spoil: impl FnOnce(&Pack)) -> Pack {
    let pack = sample::pass().seal();
    spoil(&pack);
    pack.forge_sums();
    pack.forge_statement(&pack.key, |_| {});
    withhold(&pack, &[PATCH]);
    pack
}

#[test]
fn log_report_and_list_must_agree_about_a_patch_that_nobody_sees() {
    let another_patch = lie(|p| {
        p.rewrite(PATCH, |b| b.extend(b"x\n"));
        p.forge_report(|_| {});
    });
    assert_eq!(codes(&check(&another_patch)), ["policy_mismatch"]);
    let another_digest = lie(|p| p.rewrite(PATCH, |b| b.extend(b"x\n")));
    assert_eq!(
        codes(&check(&another_digest)),
        ["policy_mismatch", "report_mismatch"]
    );
    let report = |edit: fn(&mut serde_json::Value)| lie(|p| p.forge_report(edit));
    let other_files = report(|r| r["changed_files"] = serde_json::json!([]));
    assert_eq!(codes(&check(&other_files)), ["policy_mismatch"]);
    let other_scope = report(|r| r["scopes"][0]["scope"] = "frozen".into());
    assert_eq!(codes(&check(&other_scope)), ["policy_mismatch"]);
    let other_changes = report(|r| r["changes"] = serde_json::json!([]));
    assert_eq!(codes(&check(&other_changes)), ["report_mismatch"]);
    let no_patch_taken = sample::blocked().seal();
    no_patch_taken.rewrite(PATCH, |b| b.extend(b"x\n"));
    no_patch_taken.forge_report(|_| {});
    no_patch_taken.forge_sums();
    no_patch_taken.forge_statement(&no_patch_taken.key, |_| {});
    withhold(&no_patch_taken, &[PATCH]);
    assert_eq!(codes(&check(&no_patch_taken)), ["policy_mismatch"]);
    let named = |(what, pack): (&str, Pack)| (what.to_owned(), pack);
    agree(
        &[
            ("another patch", another_patch),
            ("another digest", another_digest),
            ("other files", other_files),
            ("other scope", other_scope),
            ("other changes", other_changes),
            ("no patch taken", no_patch_taken),
        ]
        .map(named),
        false,
    );
}

#[test]
fn any_other_byte_in_the_list_is_found() {
    // One file is listed and gone, its neighbour in spelling is sealed and there.
    let mut plan = sample::pass();
    for name in ["backend/a.log", "backend/b.log", "backend/c.log"] {
        plan.backend_files
            .insert(name.to_owned(), name.as_bytes().to_vec());
    }
    let pack = plan.seal();
    withhold(&pack, &["backend/b.log", PATCH]);
    let good = std::fs::read(pack.file(WITHHELD)).unwrap();
    let mut other_lists = 0;
    for at in 0..good.len() {
        for xor in [1, 2, 3, 4, 8, 16, 0x20, 0x40, 0x80, good[at] ^ b'\n'] {
            let mut bad = good.clone();
            bad[at] ^= xor;
            if bad == good {
                continue;
            }
            other_lists += u32::from(read_withheld(&bad).is_ok());
            put(&pack.file(WITHHELD), &bad);
            let report = check(&pack);
            assert!(
                !report.ok && report.integrity == Integrity::Broken,
                "{at} ^ {xor}"
            );
        }
    }
    assert!(
        other_lists > 2,
        "{other_lists} are lists in their own right"
    );
    put(&pack.file(WITHHELD), b"backend/a.log\npatch.diff\n");
    let found = codes(&check(&pack));
    assert!(
        found.contains(&"withheld_present") && found.contains(&"file_missing"),
        "{found:?}"
    );
    put(&pack.file(WITHHELD), &good);
    assert!(check(&pack).ok);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    /// Every choice of what is gone and what is listed: right if and only if the two are one, and not empty.
    #[test]
    fn a_list_holds_only_if_it_is_exactly_what_is_gone(gone in 0_u8..16, said in 0_u8..16) {
        thread_local! {
            static PACK: Pack = sample::pass().seal();
        }
        PACK.with(|pack| {
            let names = [STDOUT, "backend/empty.log", PATCH, TEST_LOG];
            let chosen = |bits: u8| -> Vec<&str> {
                names.iter().enumerate().filter(|(n, _)| bits & (1 << n) != 0).map(|(_, p)| *p).collect()
            };
            let kept: Vec<(&str, Vec<u8>)> =
                chosen(gone).into_iter().map(|p| (p, std::fs::read(pack.file(p)).unwrap())).collect();
            for (path, _) in &kept {
                std::fs::remove_file(pack.file(path)).unwrap();
            }
            list(pack, &chosen(said));
            let report = check(pack);
            for (path, bytes) in &kept {
                put(&pack.file(path), bytes);
            }
            std::fs::remove_file(pack.file(WITHHELD)).unwrap();
            assert_eq!(report.ok, gone == said && said != 0, "{gone:b} {said:b}: {:?}", report.errors);
        });
    }
}

#[test]
fn the_stranger_agrees_about_what_is_withheld() {
    let named = |paths: &[&str]| (paths.join(" "), copy(paths));
    agree(
        &[
            named(&[PATCH]),
            named(&[TEST_LOG]),
            named(&[DEEP, "backend/empty.log", SANDBOX, STDOUT, PATCH, TEST_LOG]),
            ("whole".to_owned(), sample::pass().seal()),
        ],
        true,
    );
    let bad = |what: &str, spoil: &dyn Fn(&Pack)| {
        let pack = copy(&[PATCH]);
        spoil(&pack);
        (what.to_owned(), pack)
    };
    let text = |text: &str| bad(text, &|p| put(&p.file(WITHHELD), text.as_bytes()));
    agree(
        &[
            text(""),
            text("\n"),
            text("patch.diff"),
            text("patch.diff\n\n"),
            text("patch.diff\npatch.diff\n"),
            text("test.log\npatch.diff\n"),
            text("patch.diff\ntest.log\n"),
            text("backend/absent.log\npatch.diff\n"),
            text("patch.diff\ntrace.jsonl\n"),
            bad("not UTF-8", &|p| {
                put(&p.file(WITHHELD), b"patch.diff\xff\n")
            }),
            bad("no list", &|p| {
                std::fs::remove_file(p.file(WITHHELD)).unwrap()
            }),
            bad("another is missing", &|p| remove(p, TEST_LOG)),
            bad("there", &|p| {
                put(&p.file(PATCH), sample::PATCH_TEXT.as_bytes())
            }),
            bad("flipped", &|p| p.rewrite(TEST_LOG, |b| b[0] ^= 1)),
            bad("report", &|p| p.rewrite(REPORT_JSON, |b| b.push(b' '))),
            bad("log", &|p| p.rewrite(EVENTS, |b| b.push(b'\n'))),
            bad("sealed", &|p| {
                p.forge_sums();
                p.forge_statement(&p.key, |_| {});
            }),
        ],
        false,
    );
}
