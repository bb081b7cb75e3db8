//! Requests, approvals, denials and outcomes, from the command line to the pack.

use std::fs;
use std::path::PathBuf;

use cto_testkit::authenticator::UP_UV;
use serde_json::Value;

use crate::dice::{Dice, is_campaign};
use crate::operators::{Governed, ivan, olga};
use crate::place::{Place, Ran, sh, write};
use crate::schemas::fits_schema;
use crate::tracer::follow;

const PATCH: &str =
    "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-old\n+new\n";

/// A home with an operator and a case that needs approval.
pub(crate) fn asking(terms: &str) -> Governed {
    let here = Governed::new();
    let dir = here.place.path("cases/asks");
    let text = format!(
        "{}allowed_paths: [a.txt]\napproval_required: true\nverification_commands: [{{run: grep -q new a.txt, must_fail_before: true}}]\n{terms}",
        crate::place::head("asks")
    );
    write(&dir.join("case.yaml"), &text);
    write(&dir.join("workspace/a.txt"), "old\n");
    write(&dir.join("fake.patch"), PATCH);
    here
}

pub(crate) fn cto(here: &Governed, args: &[&str]) -> Ran {
    here.place.cto(&[args, &["--json", "-q"]].concat())
}

pub(crate) fn request(here: &Governed) -> String {
    let asked = cto(here, &["request", "asks", "--cases", "cases"]).expect(0);
    asked.json()["request"]["request_id"]
        .as_str()
        .unwrap()
        .to_owned()
}

pub(crate) fn granted(here: &Governed) -> String {
    let id = request(here);
    here.signs(&["approve", &id], &olga()).expect(0);
    id
}

pub(crate) fn codes(report: &Value) -> Vec<&str> {
    let all = report["blockers"].as_array().unwrap();
    all.iter().map(|b| b["code"].as_str().unwrap()).collect()
}

/// The types of a run's log that are about its approval and its backend.
fn told(here: &Governed, report: &Value) -> Vec<String> {
    let pack = here.place.pack(report["run_id"].as_str().unwrap());
    let log = fs::read_to_string(pack.join("events.normalized.jsonl")).unwrap();
    log.lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|event| event["type"].as_str().unwrap().to_owned())
        .filter(|t| t.starts_with("approval.") || t == "backend.started" || t == "plan.updated")
        .collect()
}

fn verifies(here: &Governed, report: &Value) {
    let run = report["run_id"].as_str().unwrap();
    cto(here, &["verify", run]).expect(0);
}

#[test]
fn one_approval_lets_one_run_happen_and_its_outcome_closes_it() {
    let here = asking("");
    let blocked = cto(&here, &["run", "asks", "--cases", "cases"]).expect(3);
    assert_eq!(codes(&blocked.json()), ["approval_missing"]);

    let asked = cto(&here, &["request", "asks", "--cases", "cases"]).expect(0);
    let asked = asked.json();
    fits_schema(&here.place, "request-show", &asked);
    let document = &asked["request"];
    assert_eq!(document["approval_granted"], false);
    assert_eq!(document["execution_allowed"], false);
    let id = document["request_id"].as_str().unwrap();
    let packs = fs::read_dir(here.place.home().join("harness-runs")).unwrap();
    let before = packs.count();
    let open = cto(&here, &["run", "--request", id]).expect(4).json();
    assert_eq!(open["standing"]["phase"], "requested");
    let waited = cto(&here, &["run", "--request", id, "--wait=1"]).expect(4);
    assert_eq!(waited.json()["standing"]["execution_allowed"], false);
    let packs = fs::read_dir(here.place.home().join("harness-runs")).unwrap();
    assert_eq!(packs.count(), before, "an open request gives out no run id");

    let decided = here.signs(&["approve", id], &olga()).expect(0).json();
    fits_schema(&here.place, "decision", &decided);
    assert_eq!(decided["request"]["standing"]["execution_allowed"], true);
    assert_eq!(decided["request"]["self_approved"], true);
    let inbox = cto(&here, &["inbox"]).expect(0).json();
    fits_schema(&here.place, "inbox", &inbox);
    assert_eq!(inbox["requests"][0]["standing"]["phase"], "granted");

    let report = cto(&here, &["run", "--request", id]).expect(0).json();
    assert_eq!(report["approval_status"], "granted");
    assert_eq!(report["approval_id"], id);
    assert_eq!(report["presence"], "uv");
    assert_eq!(report["self_approved"], true);
    assert_eq!(
        told(&here, &report),
        [
            "plan.updated",
            "approval.requested",
            "approval.granted",
            "approval.consumed",
            "backend.started"
        ]
    );
    verifies(&here, &report);
    let again = cto(&here, &["run", "--request", id]).expect(3).json();
    assert_eq!(codes(&again), ["approval_consumed"]);
    verifies(&here, &again);

    let run = report["run_id"].as_str().unwrap();
    let accept = &["outcome", run, "accepted"];
    let closed = here.signs(accept, &olga()).expect(0).json();
    fits_schema(&here.place, "outcome", &closed);
    verifies(&here, &report);
    assert_eq!(here.asks(accept).error(), "2 outcome_recorded");
    let all = cto(&here, &["inbox", "--all"]).expect(0).json();
    let standing = &all["requests"][0]["standing"];
    assert_eq!(standing["status"], "consumed_by_pass_evidence");
    assert_eq!(all["outcomes"].as_array().unwrap().len(), 0);
}

#[test]
fn a_denial_is_final_and_stands_in_the_pack() {
    let here = asking("");
    let id = request(&here);
    let deny = &["deny", &id, "--note", "not so"];
    here.signs(deny, &olga()).expect(0);
    let report = cto(&here, &["run", "--request", &id]).expect(3).json();
    assert_eq!(codes(&report), ["approval_denied"]);
    assert_eq!(report["approval_status"], "denied");
    assert_eq!(
        told(&here, &report),
        ["approval.requested", "approval.denied"]
    );
    verifies(&here, &report);
    assert_eq!(here.asks(&["approve", &id]).error(), "2 request_denied");
}

#[test]
fn an_approval_is_for_what_was_shown_and_nothing_else() {
    let here = asking("");
    let id = granted(&here);
    write(&here.place.path("cases/asks/workspace/a.txt"), "old \n");
    write(
        &here.place.path("cases/asks/fake.patch"),
        &PATCH.replace("-old", "-old "),
    );
    let report = cto(&here, &["run", "--request", &id]).expect(3).json();
    assert_eq!(codes(&report), ["approval_scope_mismatch"]);
    assert_eq!(
        told(&here, &report),
        ["plan.updated", "approval.requested", "approval.granted"]
    );
    verifies(&here, &report);
    // The grant is still there for the tree that it was given for.
    write(&here.place.path("cases/asks/workspace/a.txt"), "old\n");
    write(&here.place.path("cases/asks/fake.patch"), PATCH);
    cto(&here, &["run", "--request", &id]).expect(0);
}

#[test]
fn a_request_whose_document_was_changed_is_no_request() {
    let here = asking("");
    let id = request(&here);
    let file = here
        .place
        .home()
        .join("requests")
        .join(format!("{id}.request.json"));
    let text = fs::read_to_string(&file).unwrap();
    write(&file, &text.replace("grep -q new a.txt", "true"));
    assert_eq!(here.asks(&["approve", &id]).error(), "5 request_changed");
    assert_eq!(
        cto(&here, &["run", "--request", &id]).error(),
        "5 request_changed"
    );
}

#[test]
fn a_sentence_that_differs_decides_nothing() {
    let here = asking("");
    let id = request(&here);
    let approve = &["approve", id.as_str()];
    let asked = here.asks(approve).expect(4).json();
    let sentence = asked["sentence"].as_str().unwrap();
    assert!(sentence.is_ascii());
    for wrong in [
        format!("{sentence} "),
        sentence.to_lowercase(),
        format!("'{sentence}'"),
    ] {
        let mut other = asked.clone();
        other["sentence"] = wrong.into();
        let refused = here.brings(approve, &other, &olga(), UP_UV);
        assert_eq!(refused.error(), "2 sentence_differs");
    }
    here.brings(approve, &asked, &olga(), UP_UV).expect(0);
    // A sentence alone says nothing: it comes with a signature, or is typed.
    let alone = here
        .place
        .cto(&["deny", &id, "--note", "x", "--sentence", "x"]);
    assert_eq!(alone.code, Some(2));
}

#[test]
fn an_approver_who_is_not_named_and_a_quorum_are_refused_by_name() {
    for (policy, code) in [
        ("{approvers: [ivan]}", "2 not_an_approver"),
        ("{quorum: 2}", "2 quorum_unsupported"),
        ("{four_eyes: true}", "2 four_eyes_needed"),
    ] {
        let here = asking(&format!("approval_policy: {policy}\n"));
        let id = request(&here);
        assert_eq!(here.asks(&["approve", &id]).error(), code, "{policy}");
    }
}

#[test]
fn four_eyes_are_two_operators_who_both_signed() {
    let here = asking("approval_policy: {four_eyes: true}\n");
    here.signs(&["operator", "add", "ivan", "ivan.pub"], &olga())
        .expect(0);
    let id = request(&here);
    let by = |name: &'static str| ["approve", id.as_str(), "--as", name].map(str::to_owned);
    let asks = |args: &[String]| here.asks(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(asks(&by("olga")).error(), "2 four_eyes_needed");
    let sign = ["request", "--sign", id.as_str(), "--as", "ivan"];
    let signed = here.signs(&sign, &ivan()).expect(0).json();
    fits_schema(&here.place, "request-show", &signed);
    assert_eq!(here.asks(&sign).error(), "2 request_signed");
    // The one who asked does not approve; the other does.
    assert_eq!(asks(&by("ivan")).error(), "2 four_eyes_needed");
    let approve = ["approve", id.as_str(), "--as", "olga"];
    let decided = here.signs(&approve, &olga()).expect(0).json();
    assert_eq!(decided["request"]["requested_by"], "ivan");
    assert_eq!(decided["request"]["self_approved"], false);
    assert_eq!(here.asks(&sign).error(), "2 request_granted");
    let report = cto(&here, &["run", "--request", &id]).expect(0).json();
    assert_eq!(report["self_approved"], false);
    let run = report["run_id"].as_str().unwrap();
    let verified = cto(&here, &["verify", run]).expect(0).json();
    fits_schema(&here.place, "verify", &verified);
    assert_eq!(verified["operator"], "unknown");
    let kinds: Vec<&Value> = verified["signatures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| &s["signed"])
        .collect();
    assert_eq!(kinds, ["requester", "grant"]);
    // A denial needs one pair of eyes.
    let other = request(&here);
    let deny = ["deny", &other, "--note", "no", "--as", "olga"];
    here.signs(&deny, &olga()).expect(0);
}

#[test]
fn a_verifier_elsewhere_knows_the_operator_by_what_it_pinned_and_by_nothing_else() {
    let here = asking("");
    let id = granted(&here);
    let report = cto(&here, &["run", "--request", &id]).expect(0).json();
    let run = report["run_id"].as_str().unwrap();
    here.signs(&["outcome", run, "accepted"], &olga()).expect(0);
    let file = here.config().join("operators.allowed_signers");
    let pinned = fs::read_to_string(&file).unwrap();
    write(&here.place.path("operators"), &pinned);
    let ledger = cto(&here, &["ledger", "verify"]).expect(0).json()["ledger"].clone();
    let ledger = ledger.as_str().unwrap();
    let verify = |operators: &str, ledger: &str| {
        let args = ["verify", run, "--operators", operators, "--ledger", ledger];
        cto(&here, &args)
    };
    let known = verify("operators", ledger).expect(0).json();
    fits_schema(&here.place, "verify", &known);
    assert_eq!(known["operator"], "known");
    assert_eq!(known["signatures"].as_array().unwrap().len(), 2);
    // Whoever else has the same name is not the same, nor is another ledger this one.
    let eve = format!("olga {}\n", ivan().public_line());
    write(&here.place.path("others"), &eve);
    let other = "0".repeat(64);
    for refused in [verify("others", ledger), verify("operators", &other)] {
        let report = refused.expect(5).json();
        assert_eq!(report["operator"], "unknown");
        assert_eq!(report["integrity"], "ok");
    }
    assert_eq!(verify("absent", ledger).error(), "2 operators_unreadable");
    let one = cto(&here, &["verify", run, "--ledger", ledger]);
    assert_eq!(one.code, Some(2));
    // A run that nobody approved has no operator to be known.
    let plain = cto(&here, &["run", "r1-string-slugify"]).expect(0).json();
    let plain = plain["run_id"].as_str().unwrap();
    let args = [
        "verify",
        plain,
        "--operators",
        "operators",
        "--ledger",
        ledger,
    ];
    let report = cto(&here, &args).expect(5).json();
    assert_eq!(report["operator"], "none");
}

#[test]
fn a_receipt_shows_a_stranger_who_approved_what_without_the_pack() {
    let here = asking("");
    let id = granted(&here);
    let report = cto(&here, &["run", "--request", &id]).expect(0).json();
    let run = report["run_id"].as_str().unwrap();
    here.signs(&["outcome", run, "accepted"], &olga()).expect(0);
    let receipt = cto(&here, &["verify", run, "--receipt"]).expect(0);
    assert!(receipt.out.len() < 64 << 10, "{}", receipt.out.len());
    let receipt = receipt.json();
    fits_schema(&here.place, "receipt", &receipt);
    let operators = fs::read_to_string(here.config().join("operators.allowed_signers")).unwrap();
    write(&here.place.path("operators"), &operators);
    let ledger = cto(&here, &["ledger", "verify"]).expect(0).json()["ledger"].clone();
    let public = cto(&here, &["key", "show"]).expect(0).json()["public_key"].clone();
    let check = |receipt: &Value, ledger: &str| {
        write(&here.place.path("receipt.json"), &receipt.to_string());
        let named = ["--operators", "operators", "--ledger", ledger];
        let key = ["--key", public.as_str().unwrap()];
        let args = [&["verify", "receipt.json"], &named[..], &key[..]].concat();
        cto(&here, &args)
    };
    let ledger = ledger.as_str().unwrap();
    let known = check(&receipt, ledger).expect(0).json();
    fits_schema(&here.place, "verify", &known);
    assert_eq!(known["operator"], "known");
    assert_eq!(known["origin"], "known");
    assert_eq!(known["run_id"], run);
    assert_eq!(known["pack_digest"], report_digest(&here, run));
    assert_eq!(
        check(&receipt, &"0".repeat(64)).expect(5).json()["operator"],
        "unknown"
    );
    // Every link that is taken out, edited or taken from elsewhere is missed.
    let other = granted(&here);
    let other = cto(&here, &["run", "--request", &other]).expect(0).json();
    let other = other["run_id"].as_str().unwrap();
    let foreign = cto(&here, &["verify", other, "--receipt"]).expect(0).json();
    for link in ["request", "grant", "attestation", "ledger_head", "addenda"] {
        let mut without = receipt.clone();
        without[link] = Value::Null;
        check(&without, ledger).expect(5);
        if !matches!(link, "ledger_head" | "addenda") {
            let mut mixed = receipt.clone();
            mixed[link] = foreign[link].clone();
            check(&mixed, ledger).expect(5);
        }
    }
    let edits = [
        ("/request/contract/instruction", "do something else"),
        ("/request/requester", "root(0)"),
        ("/grant/statement/sentence", "I approve everything."),
        ("/grant/signature/presence", "up"),
        ("/addenda/0/name", "0001-closeout.dsse.json"),
        ("/addenda/0/content", "{}"),
        ("/ledger_head", "{}"),
    ];
    for (field, value) in edits {
        let mut edited = receipt.clone();
        *edited.pointer_mut(field).unwrap() = value.into();
        let told = check(&edited, ledger).expect(5);
        assert_eq!(told.json()["ok"], false, "{field}");
    }
    check(&receipt, ledger).expect(0);
}

fn report_digest(here: &Governed, run: &str) -> Value {
    cto(here, &["verify", run]).expect(0).json()["pack_digest"].clone()
}

#[test]
fn a_key_that_is_revoked_takes_its_grants_with_it() {
    let here = asking("");
    here.signs(&["operator", "add", "ivan", "ivan.pub"], &olga())
        .expect(0);
    let id = request(&here);
    here.signs(&["approve", &id, "--as", "olga"], &olga())
        .expect(0);
    here.signs(&["operator", "revoke", "olga", "--as", "ivan"], &ivan())
        .expect(0);
    let report = cto(&here, &["run", "--request", &id]).expect(3).json();
    assert_eq!(codes(&report), ["approval_signature_invalid"]);
}

#[test]
fn what_is_shown_is_whole_and_steers_no_terminal() {
    let long = "x".repeat(5000);
    let here = asking("");
    let file = here.place.path("cases/asks/case.yaml");
    let text = fs::read_to_string(&file).unwrap();
    let title = text.lines().find(|l| l.starts_with("title:")).unwrap();
    let tricky = format!("title: \"a\\e[2J\\u202Eb {long}\"");
    write(&file, &text.replace(title, &tricky));
    let id = request(&here);
    let shown = here.place.cto(&["approve", &id]);
    let told = format!("{}{}", shown.out, shown.err);
    assert!(told.contains(&long));
    assert!(
        !told.contains('\u{1b}') && !told.contains('\u{202e}'),
        "{told}"
    );
}

#[test]
fn a_run_that_needs_no_approval_can_not_be_requested() {
    let here = Governed::new();
    let asked = cto(&here, &["request", "r1-string-slugify"]);
    assert_eq!(asked.error(), "2 approval_not_needed");
}

/// The same place again, in another directory.
pub(crate) fn copy_of(from: &Governed) -> Governed {
    let place = Place::new();
    let script = format!("cp -a '{}/.' .", from.place.path("").display());
    sh(&place.path(""), &script);
    Governed {
        place,
        counter: from.counter.clone(),
    }
}

/// The words of a command that brings a signature along, which is written beside.
fn bringing(here: &Governed, args: &[&str], asked: &Value) -> Vec<String> {
    let message = fs::read(asked["file"].as_str().unwrap()).unwrap();
    here.counter.set(here.counter.get() + 1);
    let armour = olga().sign("cto-approval", &message, UP_UV, here.counter.get());
    write(&here.place.path("message.sig"), &armour);
    let sentence = asked["sentence"].as_str().unwrap();
    let brought = [
        "--signature",
        "message.sig",
        "--sentence",
        sentence,
        "--json",
        "-q",
    ];
    [args, &brought]
        .concat()
        .iter()
        .map(|a| (*a).to_owned())
        .collect()
}

/// Kills a command before some of its writes (before each in a campaign), each time in a fresh copy of the home.
fn kill_everywhere(from: &Governed, args: &[&str], after: impl Fn(&Governed, usize)) {
    let root = |here: &Governed| -> PathBuf { here.place.path("") };
    let whole = copy_of(from);
    let full = follow(&whole.place.command(args), &root(&whole), None);
    assert!(full.code.is_some());
    let count = full.writes.len();
    assert!(count > 0);
    let mut dice = Dice::thrown();
    let points: Vec<usize> = if is_campaign() {
        (1..=count).collect()
    } else {
        (0..4).map(|_| 1 + dice.roll(count)).collect()
    };
    for at in points {
        let copy = copy_of(from);
        follow(&copy.place.command(args), &root(&copy), Some(at));
        after(&copy, at);
    }
}

/// How many backends the grant of a request has started, over all packs.
pub(crate) fn started(here: &Governed) -> usize {
    let packs = fs::read_dir(here.place.home().join("harness-runs")).unwrap();
    packs
        .filter_map(|p| fs::read_to_string(p.unwrap().path().join("events.normalized.jsonl")).ok())
        .filter(|log| log.contains("\"backend.started\""))
        .count()
}

#[test]
fn a_run_that_is_killed_anywhere_never_uses_its_grant_twice() {
    let here = asking("");
    let id = granted(&here);
    let run = ["run", "--request", &id, "--json", "-q"];
    kill_everywhere(&here, &run, |copy, at| {
        cto(copy, &["recover"]).expect(0);
        let again = cto(copy, &["run", "--request", &id]);
        let report = again.json();
        assert!(started(copy) <= 1, "killed before write {at}");
        if report["status"] != "pass" {
            assert_eq!(codes(&report), ["approval_consumed"], "write {at}");
        }
        cto(copy, &["ledger", "verify"]).expect(0);
    });
}

#[test]
fn a_request_that_is_killed_anywhere_is_whole_or_not_there() {
    let here = asking("");
    let args = ["request", "asks", "--cases", "cases", "--json", "-q"];
    kill_everywhere(&here, &args, |copy, at| {
        let all = cto(copy, &["inbox", "--all"]).expect(0).json();
        let rows = all["requests"].as_array().unwrap();
        assert!(rows.len() <= 1, "write {at}");
        for row in rows {
            assert_eq!(row["title"], "Change a.txt", "write {at}: {row}");
        }
        let id = request(copy);
        copy.signs(&["approve", &id], &olga()).expect(0);
    });
}

#[test]
fn a_decision_that_is_killed_anywhere_is_taken_once_or_not_at_all() {
    let here = asking("");
    let id = request(&here);
    let approve = ["approve", id.as_str()];
    let asked = here.asks(&approve).expect(4).json();
    let args = bringing(&here, &approve, &asked);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    kill_everywhere(&here, &args, |copy, at| {
        let again = copy.place.cto(&args);
        let row = cto(copy, &["inbox", "--all"]).expect(0).json()["requests"][0].clone();
        assert_eq!(
            row["standing"]["phase"], "granted",
            "write {at}: {}",
            again.out
        );
        cto(copy, &["run", "--request", &id]).expect(0);
        let twice = cto(copy, &["run", "--request", &id]).expect(3).json();
        assert_eq!(codes(&twice), ["approval_consumed"], "write {at}");
    });
}

#[test]
fn an_outcome_that_is_killed_anywhere_is_recorded_once_or_not_at_all() {
    let here = asking("");
    let id = granted(&here);
    let report = cto(&here, &["run", "--request", &id]).expect(0).json();
    let run = report["run_id"].as_str().unwrap();
    let accept = ["outcome", run, "accepted"];
    let asked = here.asks(&accept).expect(4).json();
    let args = bringing(&here, &accept, &asked);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    kill_everywhere(&here, &args, |copy, at| {
        let again = copy.place.cto(&args);
        let told = again.out.clone();
        let is_done = told.contains("cto.outcome-output/v1") || told.contains("outcome_recorded");
        assert!(is_done, "write {at}: {told}");
        cto(copy, &["inbox"]).expect(0);
        verifies(copy, &report);
        let beside = copy
            .place
            .home()
            .join(format!("harness-runs/{run}.addenda"));
        assert_eq!(fs::read_dir(beside).unwrap().count(), 2, "write {at}");
    });
}

#[test]
fn in_a_copied_home_a_grant_is_spent_once_in_each_and_checkpoints_differ() {
    let here = asking("");
    let id = granted(&here);
    let copy = copy_of(&here);
    cto(&here, &["run", "--request", &id]).expect(0);
    cto(&copy, &["run", "--request", &id]).expect(0);
    for home in [&here, &copy] {
        let twice = cto(home, &["run", "--request", &id]).expect(3).json();
        assert_eq!(codes(&twice), ["approval_consumed"]);
    }
}
