//! The verifier in another language, written from docs/evidence-format.md alone, says the same as ours.

use std::path::Path;
use std::process::Output;

use cto_contract::artifact::{ATTESTATION, EVENTS, REPORT_JSON, SHA256SUMS};
use cto_contract::event::EventKind;

use cto_evidence::canonical::{decision_id, digest_of, sha256};
use cto_rules::patch::{changed_paths, parse};
use cto_rules::paths::check_diff;

use crate::check;
use crate::events::concluded;
use crate::forge::put;
use crate::sample::{self, Pack, Plan, key};

#[expect(
    clippy::disallowed_methods,
    reason = "the interpreter is chosen by whoever runs the tests; the verifier is a real process"
)]
fn python(arguments: &[&str]) -> Output {
    let interpreter = std::env::var("CTO_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    // Without -B the interpreter would leave its byte code in the source tree.
    std::process::Command::new(interpreter)
        .arg("-B")
        .args(arguments)
        .output()
        .unwrap()
}

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stranger/verify_pack.py");

pub(crate) fn stranger(packs: &[&Path], extra: &[&str]) -> (Option<i32>, Vec<String>) {
    let mut arguments = vec![PROGRAM];
    arguments.extend(packs.iter().map(|p| p.to_str().unwrap()));
    arguments.extend(extra);
    let output = python(&arguments);
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    (
        output.status.code(),
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect(),
    )
}

/// Both verdicts, ours and the stranger's, must be this one for every pack. All packs have one key.
#[track_caller]
pub(crate) fn agree(packs: &[(String, Pack)], expected: bool) {
    let paths: Vec<&Path> = packs.iter().map(|(_, p)| p.path.as_path()).collect();
    let (code, said) = stranger(&paths, &["--key", &packs[0].1.key.public_base64()]);
    assert_eq!(code, Some(if expected { 0 } else { 5 }), "{said:?}");
    assert_eq!(said.len(), packs.len());
    for ((what, pack), said) in packs.iter().zip(said) {
        let ours = check(pack);
        assert_eq!(ours.ok, expected, "{what}: {:?}", ours.errors);
        let right = match ours.withheld.len() {
            0 => said == "ok",
            n => said.starts_with(&format!("ok, withheld {n}: ")),
        };
        assert_eq!(right, expected, "{what}: {said}");
    }
}

#[test]
fn both_accept_what_is_right() {
    let pack = sample::pass().seal();
    assert_eq!(
        stranger(&[&pack.path], &["--pure"]),
        (Some(0), vec!["ok".to_owned()])
    );
    assert_eq!(
        stranger(&[&pack.path], &["--key", &key(2).public_base64()]).0,
        Some(5)
    );
    let renamed = sample::pass().seal();
    let elsewhere = renamed
        .home
        .path()
        .join("20260601T105223Z-r1-string-slugify-zzzzzz");
    std::fs::rename(&renamed.path, &elsewhere).unwrap();
    assert_eq!(
        stranger(&[&elsewhere], &[]).0,
        Some(5),
        "another run's name"
    );
    agree(
        &[
            ("pass".to_owned(), pack),
            ("blocked".to_owned(), sample::blocked().seal()),
            ("recovered".to_owned(), sample::recovered().seal()),
        ],
        true,
    );
}

#[test]
fn both_refuse_what_is_wrong() {
    let packs = std::cell::RefCell::new(Vec::new());
    let wrong = |what: &str, spoil: &dyn Fn(&Pack)| {
        let pack = sample::pass().seal();
        spoil(&pack);
        packs.borrow_mut().push((what.to_owned(), pack));
    };
    for name in sample::pass()
        .seal()
        .names()
        .iter()
        .filter(|n| *n != "backend/empty.log")
    {
        wrong(&format!("{name}: flipped"), &|p| {
            p.rewrite(name, |b| {
                let middle = b.len() / 2;
                b[middle] ^= 1;
            })
        });
    }
    wrong("extra", &|p| put(&p.file("extra"), b""));
    wrong("missing", &|p| {
        std::fs::remove_file(p.file("test.log")).unwrap()
    });
    wrong("link", &|p| {
        std::os::unix::fs::symlink("test.log", p.file("l")).unwrap()
    });
    wrong("hard link", &|p| {
        std::fs::hard_link(p.file("test.log"), p.home.path().join("l")).unwrap()
    });
    wrong("empty directory", &|p| {
        std::fs::create_dir(p.file("d")).unwrap()
    });
    wrong("envelope", &|p| {
        p.rewrite(ATTESTATION, |b| {
            b.pop();
        })
    });
    wrong("list", &|p| {
        p.rewrite(SHA256SUMS, |b| {
            b.pop();
        })
    });
    let signed = |what: &str, spoil: &dyn Fn(&Pack)| {
        wrong(what, &|p| {
            spoil(p);
            p.forge_sums();
            p.forge_statement(&p.key, |_| {});
        });
    };
    signed("log cut", &|p| {
        p.rewrite(EVENTS, |b| {
            let at = b.iter().rposition(|c| *c == b'{').unwrap_or(0);
            b.truncate(at);
        });
        p.forge_report(|_| {});
    });
    let report =
        |what: &str, edit: fn(&mut serde_json::Value)| signed(what, &|p| p.forge_report(edit));
    report("status", |r| r["status"] = "fail".into());
    report("scope", |r| r["scopes"][0]["scope"] = "frozen".into());
    report("changed files", |r| {
        r["changed_files"] = serde_json::json!([])
    });
    report("nonce", |r| {
        r["freshness"]["test.log"]["nonce"] = "0".repeat(64).into()
    });
    report("time", |r| {
        r["freshness"]["test.log"]["monotonic_ns"] = 51_000_000_000_u64.into()
    });
    report("activation", |r| {
        r["runtime_default_activation"] = true.into()
    });
    report("contract", |r| r["contract_digest"] = "0".repeat(64).into());
    report("identity", |r| r["identity"]["adapter_revision"] = 2.into());
    report("verification", |r| {
        r["verification"]["passed"] = false.into()
    });
    signed("index", &|p| {
        p.rewrite(REPORT_JSON, |b| {
            *b = String::from_utf8_lossy(b)
                .replacen("Collapse", "collapse", 1)
                .into_bytes()
        })
    });
    signed("patch", &|p| {
        p.rewrite("patch.diff", |b| b.extend(b"x\n"));
        p.forge_report(|_| {});
    });
    signed("checks that ended otherwise", &|p| {
        p.rewrite("test.log", |b| {
            *b = String::from_utf8_lossy(b)
                .replace("exit code 0", "exit code 1")
                .into_bytes()
        });
        p.forge_report(|_| {});
    });
    let told = |what: &str, edit: fn(&mut EventKind)| {
        let mut plan = sample::pass();
        plan.events.iter_mut().for_each(|(_, kind)| edit(kind));
        packs.borrow_mut().push((what.to_owned(), plan.seal()));
    };
    told("another title", |kind| {
        if let EventKind::RunStarted(started) = kind {
            started.title.push('!');
        }
    });
    told("another command planned", |kind| {
        if let EventKind::PlanUpdated(planned) = kind {
            planned.plan.verification.push("true".to_owned());
        }
    });
    told("more time planned", |kind| {
        if let EventKind::PlanUpdated(planned) = kind {
            planned.plan.limits.wall_seconds = Some(121);
        }
    });
    told("no bound on cost planned", |kind| {
        if let EventKind::PlanUpdated(planned) = kind {
            planned.plan.limits.cost = None;
        }
    });
    told("another tree planned", |kind| {
        if let EventKind::PlanUpdated(planned) = kind {
            planned.plan.baseline_tree_id = "3".repeat(40).parse().unwrap();
        }
    });
    told("an executable that is not told", |kind| {
        if let EventKind::PatchApplied(patch) = kind {
            patch.changes[0].after_mode = Some("100755".to_owned());
        }
    });
    told("another kind of change", |kind| {
        if let EventKind::PatchApplied(patch) = kind {
            patch.changes[0].change = cto_contract::event::ChangeKind::ModeChanged;
        }
    });
    wrong("signed by another key", &|p| {
        p.forge_statement(&key(9), |_| {})
    });
    wrong("head", &|p| {
        p.forge_statement(&p.key, |s| s.predicate.events += 1)
    });
    agree(&packs.take(), false);
}

/// A run whose patch is this one, judged by our rules.
fn judged(patch: &str, edit: impl FnOnce(&mut cto_contract::task::TaskContract)) -> Plan {
    let mut plan = sample::pass();
    edit(&mut plan.contract);
    let contract = plan.contract.clone();
    let entries = parse(patch.as_bytes()).unwrap();
    let checked = check_diff(&contract, &entries);
    plan.patch = patch.as_bytes().to_vec();
    for (_, kind) in &mut plan.events {
        if let EventKind::TaskContractCreated(data) = kind {
            data.contract_digest = digest_of(&contract).unwrap();
            data.contract = contract.clone();
        } else if let EventKind::EligibilityDecided(data) = kind {
            let decision = &mut data.decision;
            decision.contract_digest = digest_of(&contract).unwrap();
            decision.decision_id = decision_id(&decision.basis());
        } else if let EventKind::PatchApplied(data) = kind {
            data.patch_digest = sha256(patch.as_bytes());
            data.patch_bytes = patch.len() as u64;
            data.changes = changed_paths(&entries);
        } else if let EventKind::GitDiffChecked(data) = kind {
            *data = checked.clone();
        }
    }
    concluded(plan)
}

#[test]
fn both_judge_paths_alike() {
    let id = |c: &str| c.repeat(40);
    let content = |path: &str, mode: &str| {
        let tab = if path.contains(' ') { "\t" } else { "" };
        format!(
            "diff --git a/{path} b/{path}\nindex {}..{} {mode}\n--- a/{path}{tab}\n+++ b/{path}{tab}\n@@ -1 +1 @@ f()\n--- x\n+++ y\n",
            id("1"),
            id("2")
        )
    };
    let link = |path: &str, target: &str| {
        format!(
            "diff --git a/{path} b/{path}\nnew file mode 120000\nindex {}..{}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{target}\n\\ No newline at end of file\n",
            id("0"),
            id("3")
        )
    };
    let deleted = |path: &str| {
        format!(
            "diff --git a/{path} b/{path}\ndeleted file mode 100644\nindex {}..{}\n--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
            id("1"),
            id("0")
        )
    };
    let empty = "diff --git a/pkg/__init__.py b/pkg/__init__.py\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\n";
    let mode = "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n";
    let quoted = format!(
        "diff --git \"a/caf\\303\\251\\377.txt\" \"b/caf\\303\\251\\377.txt\"\ndeleted file mode 100644\nindex {}..{}\n--- \"a/caf\\303\\251\\377.txt\"\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
        id("1"),
        id("0")
    );
    let binary = format!(
        "diff --git a/b.bin b/b.bin\nindex {}..{} 100644\nGIT binary patch\nliteral 2\nBcmZQz\n\ndelta 5\nEc-ri~c#2;?\n\n",
        id("1"),
        id("2")
    );
    let gitlink = format!(
        "diff --git a/sub b/sub\nnew file mode 160000\nindex {}..{}\n--- /dev/null\n+++ b/sub\n@@ -0,0 +1 @@\n+Subproject commit {}\n",
        id("0"),
        id("4"),
        id("4")
    );
    let mut patch = String::new();
    for path in [
        "src/a.py",
        "src/deep/b.py",
        "src/conftest.py",
        "docs/x y.md",
        "AGENTS.md",
        "src/.claude/settings.json",
        ".GIT/config",
        "src/git~1/x",
        "lib/x.rs",
        "lib/x.rsx",
        "tests/unittest_x/y",
        "tests/a1",
        "tests/az",
        "parts/keep.txt",
        "parts/other",
        "src/sitecustomize.so",
        "jest.config.ts",
        "a/.cargo/config.toml",
        "exact.md",
        "tox.ini",
        "weird*name",
    ] {
        patch.push_str(&content(path, "100644"));
    }
    for (path, target) in [
        ("links/in", "../src/a.py"),
        ("links/out", "../../etc/passwd"),
        ("links/abs", "/etc"),
        ("links/updown", "x/../y"),
        ("parts", "src"),
        ("links/git", "../.git/config"),
        ("links/.gitmodules", "x"),
    ] {
        patch.push_str(&link(path, target));
    }
    patch.push_str(&deleted("strings.py"));
    patch.push_str(&format!(
        "{}{}",
        deleted("turned"),
        link("turned", "strings.py")
    ));
    patch.push_str(empty);
    patch.push_str(mode);
    patch.push_str(&quoted);
    patch.push_str(&binary);
    patch.push_str(&gitlink);
    let lists: [(&[&str], &[&str], &[&str]); 4] = [
        (
            &["src/", "links/", "*.md", "run.sh", "b.bin", "pkg/**"],
            &["parts/"],
            &["tests/a?"],
        ),
        (
            &["**"],
            &["**/*.rs", "parts/**"],
            &["tests/[a-c]1", "docs/x\\ y.md"],
        ),
        (
            &[
                "**/*.py",
                "tox.ini",
                "exact.md",
                "AGENTS.md",
                "weird\\*name",
                "turned",
            ],
            &["src/deep/**/b.py"],
            &["[!a-k]*/**/other"],
        ),
        (
            &["*/[^x]*", "parts", "src/**.py"],
            &["**/conftest.py"],
            &["l[]i]b/x.rs", "links/**/"],
        ),
    ];
    let mut packs = Vec::new();
    for (n, (allowed, forbidden, frozen)) in lists.iter().enumerate() {
        let parse_all = |list: &[&str]| list.iter().map(|p| p.parse().unwrap()).collect::<Vec<_>>();
        let plan = judged(&patch, |c| {
            c.allowed_paths = parse_all(allowed);
            c.forbidden_paths = parse_all(forbidden);
            c.frozen_paths = parse_all(frozen);
        });
        packs.push((format!("lists {n}"), plan.seal()));
    }
    packs.push(("no change".to_owned(), judged("", |_| {}).seal()));
    agree(&packs, true);
}

#[test]
fn the_attestation_holds_for_a_library_that_we_did_not_write() {
    let probe = python(&["-c", "import cryptography"]);
    if !cto_testkit::has("`cryptography` for Python", probe.status.success()) {
        return;
    }
    let pack = sample::pass().seal();
    let script = "
import base64, hashlib, json, sys
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
e = json.load(open(sys.argv[1]))
body, kind = base64.b64decode(e['payload']), e['payloadType'].encode()
raw = base64.b64decode(json.loads(body)['predicate']['harness_public_key'])
assert hashlib.sha256(raw).hexdigest() == e['signatures'][0]['keyid']
message = b'DSSEv1 %d %s %d %s' % (len(kind), kind, len(body), body)
Ed25519PublicKey.from_public_bytes(raw).verify(base64.b64decode(e['signatures'][0]['sig']), message)
load_pem_public_key(sys.argv[2].encode()).verify(base64.b64decode(e['signatures'][0]['sig']), message)
print('holds')
";
    let pem = pack.key.public().to_pem().unwrap();
    let output = python(&["-c", script, pack.file(ATTESTATION).to_str().unwrap(), &pem]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "holds\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
