//! Records of people: what they let in, and that nothing goes on without them.

use std::fs;

use crate::model::{Model, config, run, source};
use crate::place::{Place, write};
use crate::schemas::fits_schema;
use crate::source::Source;

/// Puts a record into the config directory that admits a pair.
pub(crate) fn admit(source: &Source, provider: &str, model: &str) {
    write(
        &source.place.path("config/cto/model.yaml"),
        &record(provider, model),
    );
}

fn record(provider: &str, model: &str) -> String {
    format!(
        "status: admitted\nprovider: {provider}\nmodel: {model}\ncredential_source_class: none\nallowed_network_class: loopback\napproval_source: me\nadmission_timestamp: 2026-01-01\nreview_trigger: before another model\n"
    )
}

#[test]
fn a_model_that_no_record_admits_is_never_asked_and_nothing_of_the_operators_is_started() {
    let (model, source) = (Model::start(), source());
    let made = source.place.path("made-by-the-command");
    config(
        &source,
        &format!(
            "providers: {{local: {{credential_command: [touch, {}]}}}}\n",
            made.display()
        ),
    );
    let record = source.place.path("config/cto/model.yaml");
    let good = fs::read_to_string(&record).unwrap();
    let nothing = "raise SystemExit('it must not run')";
    for (text, code, status) in [
        (None, "model_not_admitted", "missing_admission"),
        (
            Some(good.replace("status: admitted", "status: not_admitted")),
            "model_not_admitted",
            "missing_admission",
        ),
        (
            Some(good.replace("before another model", "by 2020-01-01")),
            "model_not_admitted",
            "not_admitted",
        ),
        (
            Some(format!("{good}extra: 1\n")),
            "model_admission_invalid",
            "invalid_admission",
        ),
    ] {
        match text {
            None => fs::remove_file(&record).unwrap(),
            Some(text) => write(&record, &text),
        }
        let (exit, blockers, report) = run(&source, &model.url(), nothing);
        assert_eq!((exit, blockers), (3, vec![code.to_owned()]), "{report:#}");
        assert_eq!(report["model_admission_status"], status);
        assert_eq!(report["failure_reason"], "model not admitted");
        let marker = "backend/provider-model-not-admitted.txt";
        let said = fs::read_to_string(source.pack(&report).join(marker)).unwrap();
        assert!(said.starts_with(code), "{said}");
        assert_eq!(report["backend_process_started"], false);
    }
    assert!(!made.exists(), "the credential command was started");
    assert!(model.asked().is_empty());
    source.place.cto(&["verify", "latest"]).expect(0);
}

#[test]
fn a_template_admits_nothing_and_a_record_is_taken_in_once_and_never_overwritten_unasked() {
    let place = Place::new().with_key();
    for kind in ["source", "binary", "model", "decision", "target"] {
        let skeleton = place.cto(&["admit", kind, "--template"]).expect(0).out;
        write(&place.path(&format!("{kind}.json")), &skeleton);
        let file = place.path(&format!("{kind}.json"));
        let args = ["admit", kind, "--json", "--file", file.to_str().unwrap()];
        let taken = place.cto(&args).expect(0).json();
        fits_schema(&place, "admit", &taken);
        assert_eq!(taken["state"], "not_admitted", "{kind}");
        assert_eq!(place.cto(&args).expect(0).json()["written"], false);
    }
    let listed = place.cto(&["admissions", "--json"]).expect(0).json();
    fits_schema(&place, "admissions", &listed);
    assert_eq!(listed["records"].as_array().unwrap().len(), 5);
    let first = place
        .cto(&["admissions", "--limit", "2", "--json"])
        .expect(0)
        .json();
    let next = first["next"].as_str().unwrap();
    let rest = ["admissions", "--after", next, "--json"];
    let rest = place.cto(&rest).expect(0).json();
    assert_eq!(rest["records"].as_array().unwrap().len(), 3);
    let file = place.path("model.json");
    let args = ["admit", "model", "--json", "--file", file.to_str().unwrap()];
    write(&file, &record("mine", "m1"));
    assert_eq!(place.cto(&args).expect(0).json()["state"], "admitted");
    write(
        &file,
        &record("mine", "m1").replace("before", "2020-01-01, before"),
    );
    assert_eq!(place.cto(&args).error(), "2 record_exists");
    let args = [&args[..], &["--replace"]].concat();
    assert_eq!(place.cto(&args).expect(0).json()["state"], "stale");
}

#[test]
fn a_record_with_a_secret_an_address_or_a_wrong_field_is_refused_by_line_and_never_quoted() {
    let place = Place::new().with_key();
    let key = format!("sk-ant-api03-{}", "aB3dE5gH7j".repeat(9));
    let escaped: String = key.bytes().map(|b| format!("\\u{b:04x}")).collect();
    for (text, why) in [
        (
            record("mine", "m1").replace("approval_source: me", &format!("approval_source: {key}")),
            "record.yaml:6:",
        ),
        (
            record("mine", "m1").replace(
                "approval_source: me",
                &format!("approval_source: \"{escaped}\""),
            ),
            "looks like a secret",
        ),
        (
            record("mine", "m1").replace("loopback", "http://127.0.0.1:8080/v1"),
            "record.yaml:5:",
        ),
        (
            format!("{}mood: good\n", record("mine", "m1")),
            "record.yaml:9:1",
        ),
        (
            record("mine", "m1").replace("2026-01-01", "2999-01-01"),
            "record.yaml:7:1: `admission_timestamp` lies in the future",
        ),
        ("status: admitted\n".to_owned(), "missing field"),
    ] {
        let file = place.path("record.yaml");
        write(&file, &text);
        let ran = place.cto(&["admit", "model", "--file", file.to_str().unwrap()]);
        assert_eq!(ran.code, Some(2), "{text}");
        assert!(ran.err.contains(why), "{why}: {}", ran.err);
        assert!(!ran.err.contains(&key), "{}", ran.err);
    }
    let listed = place.cto(&["admissions", "--json"]).expect(0).json();
    assert_eq!(listed["records"].as_array().unwrap().len(), 0);
}
