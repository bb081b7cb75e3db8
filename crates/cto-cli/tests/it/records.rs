//! Records of people: what they let in, and that nothing goes on without them.

use std::fs;

use crate::model::{Model, config, run, source};
use crate::place::write;
use crate::source::Source;

/// Puts a record into the config directory that admits a pair.
pub(crate) fn admit(source: &Source, provider: &str, model: &str) {
    let record = format!(
        "status: admitted\nprovider: {provider}\nmodel: {model}\ncredential_source_class: none\nallowed_network_class: loopback\napproval_source: me\nadmission_timestamp: 2026-01-01\nreview_trigger: before another model\n"
    );
    write(&source.place.path("config/cto/model.yaml"), &record);
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
