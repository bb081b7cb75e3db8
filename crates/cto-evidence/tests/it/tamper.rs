//! Falsified packs: each lie is found, and by its own code.

use std::os::unix::fs::symlink;

use cto_contract::artifact::{ATTESTATION, EVENTS, REPORT_JSON};
use cto_contract::attestation::PAYLOAD_TYPE;
use cto_evidence::canonical::to_canonical;
use cto_evidence::chain::{LineChain, read_log};
use cto_evidence::dsse::{envelope_bytes, seal_envelope};
use cto_evidence::verify::{VerifyOptions, verify};

use crate::forge::put;
use crate::sample::{self, Pack, key};
use crate::stranger::agree;
use crate::{check, codes};

/// Falsifies a fresh pack and gives the codes.
fn after(spoil: impl FnOnce(&Pack)) -> Vec<&'static str> {
    let pack = sample::pass().seal();
    spoil(&pack);
    let report = check(&pack);
    assert!(!report.ok);
    codes(&report)
}

#[test]
fn every_file_that_is_removed_renamed_linked_or_replaced_is_found() {
    for name in sample::pass().seal().names() {
        let removed = after(|p| std::fs::remove_file(p.file(&name)).unwrap());
        let expected = if name == ATTESTATION {
            "not_sealed"
        } else {
            "file_missing"
        };
        assert!(removed.contains(&expected), "{name}: {removed:?}");
        let renamed = after(|p| std::fs::rename(p.file(&name), p.file("renamed")).unwrap());
        assert!(renamed.contains(&expected), "{name}: {renamed:?}");
        let linked = after(|p| {
            let moved = p.home.path().join("moved");
            std::fs::rename(p.file(&name), &moved).unwrap();
            symlink(&moved, p.file(&name)).unwrap();
        });
        assert!(linked.contains(&"file_linked"), "{name}: {linked:?}");
        let hard =
            after(|p| std::fs::hard_link(p.file(&name), p.home.path().join("second")).unwrap());
        assert_eq!(hard, ["file_linked"], "{name}");
        let fifo = after(|p| {
            std::fs::remove_file(p.file(&name)).unwrap();
            mkfifo(&p.file(&name));
        });
        assert!(fifo.contains(&"file_special"), "{name}: {fifo:?}");
        let directory = after(|p| {
            std::fs::remove_file(p.file(&name)).unwrap();
            std::fs::create_dir(p.file(&name)).unwrap();
        });
        assert!(
            directory.contains(&"file_extra") && directory.contains(&expected),
            "{name}: {directory:?}"
        );
    }
}

fn mkfifo(path: &std::path::Path) {
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
}

#[test]
fn whatever_is_added_is_found() {
    assert_eq!(
        after(|p| put(&p.file("extra.txt"), b"x")),
        ["file_extra", "freshness_invalid", "report_mismatch"]
    );
    assert!(after(|p| put(&p.file("backend/.hidden"), b"")).contains(&"file_extra"));
    assert_eq!(
        after(|p| std::fs::create_dir(p.file("empty")).unwrap()),
        ["file_extra"]
    );
    assert_eq!(
        after(|p| symlink("/etc/passwd", p.file("link")).unwrap()),
        ["file_linked"]
    );
    assert_eq!(
        after(|p| symlink("backend", p.file("dirlink")).unwrap()),
        ["file_linked"]
    );
    assert_eq!(after(|p| mkfifo(&p.file("fifo"))), ["file_special"]);
    assert!(after(|p| put(&p.file("a\nb"), b"x")).contains(&"file_extra"));
    use std::os::unix::ffi::OsStrExt as _;
    assert!(
        after(|p| put(&p.path.join(std::ffi::OsStr::from_bytes(b"\xff")), b"x"))
            .contains(&"file_extra")
    );
}

#[test]
fn a_pack_too_large_too_deep_or_too_full_is_refused_without_being_read() {
    let sparse = |name: &'static str, len: u64| {
        after(move |p| {
            std::fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .open(p.file(name))
                .unwrap()
                .set_len(len)
                .unwrap()
        })
    };
    assert!(sparse("backend/stdout.log", (64 << 30) + 1).contains(&"file_oversized"));
    assert!(sparse(REPORT_JSON, (64 << 20) + 1).contains(&"file_oversized"));
    assert!(sparse(EVENTS, (4 << 30) + 1).contains(&"file_oversized"));
    let deep = after(|p| std::fs::create_dir_all(p.file(&["d"; 100].join("/"))).unwrap());
    assert_eq!(deep, ["file_oversized"]);
    let full = after(|p| {
        for n in 0..3000 {
            put(&p.file(&format!("backend/{n}")), b"");
        }
    });
    assert!(full.contains(&"file_extra"));
}

#[test]
fn what_is_no_pack_is_said_to_be_none() {
    let home = tempfile::TempDir::new().unwrap();
    let codes_of = |path: &std::path::Path| codes(&verify(path, &VerifyOptions::default()));
    assert_eq!(codes_of(&home.path().join("absent")), ["not_a_pack"]);
    assert!(codes_of(home.path()).contains(&"not_a_pack"));
    put(&home.path().join("file"), b"");
    assert_eq!(codes_of(&home.path().join("file")), ["not_a_pack"]);
    let pack = sample::pass().seal();
    symlink(&pack.path, home.path().join("link")).unwrap();
    assert_eq!(codes_of(&home.path().join("link")), ["not_a_pack"]);
}

/// Makes list, report and statement right again after a lie, signed by the pack's own key: only its content is wrong.
fn inside(spoil: impl FnOnce(&Pack)) -> Vec<&'static str> {
    after(|pack| {
        spoil(pack);
        pack.forge_sums();
        pack.forge_statement(&pack.key, |_| {});
    })
}

#[test]
fn a_lie_with_all_digests_made_right_needs_the_key() {
    let forge = |pack: &Pack| {
        pack.rewrite("patch.diff", |b| b.extend(b"x"));
        pack.forge_report(|_| {});
        pack.forge_sums();
    };
    // Nobody signs it: the statement is about another list.
    assert!(after(forge).contains(&"statement_mismatch"));
    // Another key signs it: whoever knows the right key is not deceived.
    let pack = sample::blocked().seal();
    pack.forge_report(|r| r["later_field"] = "another".into());
    pack.forge_sums();
    pack.forge_statement(&key(66), |_| {});
    assert_eq!(codes(&check(&pack)), ["origin_unknown"]);
    let trusting = VerifyOptions {
        extra_key: Some(key(66).public()),
        ..VerifyOptions::default()
    };
    assert!(verify(&pack.path, &trusting).ok);
}

#[test]
fn the_log_of_a_signed_pack_must_be_its_own() {
    let reordered = inside(|p| {
        p.rewrite(EVENTS, |b| {
            let mut lines: Vec<&[u8]> = b.split_inclusive(|c| *c == b'\n').collect();
            lines.swap(3, 4);
            *b = lines.concat();
        });
        p.forge_report(|_| {});
    });
    assert_eq!(reordered, ["event_sequence"]);
    let cut = inside(|p| {
        p.rewrite(EVENTS, |b| {
            let lines: Vec<&[u8]> = b.split_inclusive(|c| *c == b'\n').collect();
            *b = lines[..lines.len() - 1].concat();
        });
        p.forge_report(|_| {});
    });
    assert_eq!(cut, ["chain_broken", "event_order"]);
    // A chain that is whole in itself but lacks an event of the required order.
    let rebuilt = inside(|p| {
        p.rewrite(EVENTS, |b| {
            let log = read_log(b).unwrap();
            let mut chain = LineChain::start(
                &log.nonce,
                log.run_id.clone(),
                log.case_id.clone(),
                log.backend,
            );
            b.clear();
            for event in log
                .events
                .iter()
                .filter(|e| e.kind.event_type().as_str() != "git.diff.checked")
            {
                b.extend(
                    chain
                        .append(event.ts, event.actor, event.kind.clone())
                        .unwrap()
                        .bytes,
                );
            }
        });
        p.forge_report(|_| {});
    });
    assert!(
        rebuilt.contains(&"event_order") && rebuilt.contains(&"chain_broken"),
        "{rebuilt:?}"
    );
}

#[test]
fn a_report_must_follow_from_its_pack() {
    let report = |edit: fn(&mut serde_json::Value)| inside(|p| p.forge_report(edit));
    assert_eq!(
        report(|r| r["status"] = "fail".into()),
        ["verdict_mismatch"]
    );
    assert_eq!(
        report(|r| r["tests_passed"] = false.into()),
        ["report_mismatch"]
    );
    assert_eq!(
        report(|r| r["changed_files"] = serde_json::json!([])),
        ["policy_mismatch"]
    );
    assert_eq!(
        report(|r| r["scopes"][0]["scope"] = "frozen".into()),
        ["policy_mismatch"]
    );
    assert_eq!(
        report(|r| r["allowed_writes_passed"] = false.into()),
        ["policy_mismatch"]
    );
    assert_eq!(
        report(|r| r["patch_tree_id"] = "3".repeat(40).into()),
        ["statement_mismatch", "report_mismatch"]
    );
    assert_eq!(
        report(|r| r["contract_digest"] = "0".repeat(64).into()),
        ["statement_mismatch", "report_mismatch"]
    );
    assert_eq!(
        report(|r| r["identity"]["adapter_revision"] = 2.into()),
        ["report_mismatch"]
    );
    assert_eq!(
        report(|r| r["nonce"] = "0".repeat(64).into()),
        ["run_mismatch", "freshness_invalid"]
    );
    assert_eq!(
        report(|r| r["runtime_default_activation"] = true.into()),
        ["schema_invalid"]
    );
    assert_eq!(
        report(|r| r["freshness"]["test.log"]["nonce"] = "0".repeat(64).into()),
        ["freshness_invalid"]
    );
    assert_eq!(
        report(|r| r["freshness"]["test.log"]["wall"] = "2026-06-01T10:52:22.499999Z".into()),
        ["freshness_invalid"]
    );
    assert_eq!(
        report(|r| r["freshness"]["test.log"]["monotonic_ns"] = 51_000_000_000_u64.into()),
        ["freshness_invalid"]
    );
    assert_eq!(
        report(|r| r["freshness"]["test.log"]["source"] = "checked".into()),
        ["freshness_invalid"]
    );
    assert_eq!(
        report(|r| {
            r["freshness"].as_object_mut().unwrap().remove("test.log");
        }),
        ["freshness_invalid"]
    );
    // Unknown extra fields are legal.
    let pack = sample::pass().seal();
    pack.forge_report(|r| r["later_field"] = serde_json::json!({"x": [1, 2.5]}));
    pack.forge_sums();
    pack.forge_statement(&pack.key, |_| {});
    assert_eq!(codes(&check(&pack)), [] as [&str; 0]);
}

#[test]
fn a_verdict_on_what_nobody_looked_at_is_found_also_by_a_stranger() {
    let blocked = |edit: fn(&mut serde_json::Value)| {
        let pack = sample::blocked().seal();
        pack.forge_report(edit);
        pack.forge_sums();
        pack.forge_statement(&pack.key, |_| {});
        pack
    };
    type Edit = fn(&mut serde_json::Value);
    let cases: [(Edit, &str); 5] = [
        (
            |r| r["allowed_writes_passed"] = true.into(),
            "policy_mismatch",
        ),
        (
            |r| r["forbidden_paths_passed"] = false.into(),
            "policy_mismatch",
        ),
        (|r| r["tests_passed"] = false.into(), "report_mismatch"),
        (
            |r| {
                r["tests_passed"] = false.into();
                r["verification"]["passed"] = false.into();
            },
            "report_mismatch",
        ),
        (
            |r| {
                r["launched"] =
                    serde_json::json!({"argv": [], "environment_names": [], "version_output": null})
            },
            "report_mismatch",
        ),
    ];
    let packs = cases.map(|(edit, code)| {
        let pack = blocked(edit);
        assert_eq!(codes(&check(&pack)), [code]);
        (code.to_owned(), pack)
    });
    agree(&packs, false);
}

#[test]
fn files_of_another_run_are_found_even_when_signed() {
    let other = sample::blocked().seal();
    let mixed = |name: &str| {
        let bytes = std::fs::read(other.file(name)).unwrap();
        inside(|p| {
            put(&p.file(name), &bytes);
            if name != REPORT_JSON {
                p.forge_report(|_| {});
            }
        })
    };
    assert!(mixed(REPORT_JSON).contains(&"run_mismatch"));
    assert!(mixed(EVENTS).contains(&"run_mismatch"));
    assert!(mixed("eligibility.json").contains(&"report_mismatch"));
    assert!(mixed("patch.diff").contains(&"policy_mismatch"));
    let whole = std::fs::read(other.file(ATTESTATION)).unwrap();
    let copied = after(|p| put(&p.file(ATTESTATION), &whole));
    assert!(
        copied.contains(&"statement_mismatch") && copied.contains(&"run_mismatch"),
        "{copied:?}"
    );
}

#[test]
fn a_contract_that_was_widened_afterwards_is_found() {
    let widened = inside(|p| {
        p.rewrite("task-contract.json", |b| {
            *b = String::from_utf8_lossy(b)
                .replace("[\"strings.py\"]", "[\"**\"]")
                .into_bytes()
        });
        p.forge_report(|_| {});
    });
    assert_eq!(widened, ["report_mismatch"]);
    let malformed = inside(|p| {
        p.rewrite("patch.diff", |b| b.extend(b"garbage\n"));
        p.forge_report(|_| {});
    });
    assert_eq!(malformed, ["policy_mismatch", "patch_malformed"]);
}

#[test]
fn a_statement_must_agree_with_the_pack() {
    let signed = |edit: fn(&mut cto_contract::attestation::Statement)| {
        after(|p| p.forge_statement(&p.key, edit))
    };
    assert_eq!(
        signed(|s| s.subject[0].name = "other".to_owned()),
        ["statement_mismatch"]
    );
    assert_eq!(
        signed(|s| s.subject.push(s.subject[0].clone())),
        ["statement_mismatch"]
    );
    assert_eq!(signed(|s| s.predicate.events += 1), ["chain_broken"]);
    assert_eq!(
        signed(|s| s.predicate.event_chain_head = s.predicate.contract_digest.clone()),
        ["chain_broken"]
    );
    assert_eq!(
        signed(|s| s.predicate.status = cto_contract::words::RunStatus::Fail),
        ["verdict_mismatch"]
    );
    assert_eq!(
        signed(|s| s.predicate.conformance = true),
        ["statement_mismatch"]
    );
    assert_eq!(
        signed(|s| s.predicate.patch_tree_id = None),
        ["statement_mismatch"]
    );
    assert_eq!(
        signed(|s| s.predicate.approval_id = Some("x".to_owned())),
        ["statement_mismatch"]
    );
    assert_eq!(
        signed(|s| s.predicate.harness_public_key = key(2).public_base64()),
        ["keyid_mismatch"]
    );
    assert_eq!(
        signed(|s| s.predicate.harness_public_key = "AAAA".to_owned()),
        ["schema_invalid"]
    );
}

#[test]
fn an_envelope_has_one_spelling() {
    let envelope = |edit: fn(String) -> String| {
        after(|p| {
            p.rewrite(ATTESTATION, |b| {
                *b = edit(String::from_utf8(b.clone()).unwrap()).into_bytes()
            })
        })
    };
    assert_eq!(
        envelope(|t| t.trim_end().to_owned()),
        ["envelope_not_canonical"]
    );
    assert_eq!(envelope(|t| format!(" {t}")), ["envelope_not_canonical"]);
    assert_eq!(
        envelope(|t| t.replacen('{', "{\"extra\":1,", 1)),
        ["envelope_malformed"]
    );
    assert_eq!(
        envelope(|t| t.replacen("\"keyid\":\"", "\"keyid\":\"0", 1)),
        ["envelope_malformed"]
    );
    assert_eq!(envelope(|_| String::new()), ["envelope_malformed"]);
    let swapped = after(|p| {
        let e = p.envelope();
        let text = format!(
            "{{\"payloadType\":\"{}\",\"payload\":\"{}\",\"signatures\":{}}}\n",
            e.payload_type,
            e.payload,
            serde_json::to_string(&e.signatures).unwrap()
        );
        put(&p.file(ATTESTATION), text.as_bytes());
    });
    assert_eq!(swapped, ["envelope_not_canonical"]);
    let twice = after(|p| {
        let mut e = p.envelope();
        e.signatures.push(e.signatures[0].clone());
        put(&p.file(ATTESTATION), &envelope_bytes(&e).unwrap());
    });
    assert_eq!(twice, ["envelope_malformed"]);
    let keyid = after(|p| {
        let mut e = p.envelope();
        e.signatures[0].keyid = key(2).keyid();
        put(&p.file(ATTESTATION), &envelope_bytes(&e).unwrap());
    });
    assert_eq!(keyid, ["keyid_mismatch"]);
    let other_signature = after(|p| {
        let mut e = p.envelope();
        e.signatures[0].sig = seal_envelope(PAYLOAD_TYPE, b"{}", &p.key).signatures[0]
            .sig
            .clone();
        put(&p.file(ATTESTATION), &envelope_bytes(&e).unwrap());
    });
    assert_eq!(other_signature, ["signature_invalid"]);
    // Canonical JSON that spells a time in another way than the statement's own form.
    let respelled = after(|p| {
        let mut value = serde_json::to_value(p.statement()).unwrap();
        value["predicate"]["run_finished_at"] = "2026-06-01T10:52:52.5Z".into();
        let envelope = seal_envelope(PAYLOAD_TYPE, &to_canonical(&value).unwrap(), &p.key);
        put(&p.file(ATTESTATION), &envelope_bytes(&envelope).unwrap());
    });
    assert_eq!(respelled, ["envelope_not_canonical"]);
}
