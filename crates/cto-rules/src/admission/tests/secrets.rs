//! No secret gets into a record.

use super::*;

#[test]
fn a_record_with_a_secret_in_it_is_refused_before_it_is_quoted() {
    let noise = "4f8aB2cD9eF1gH3iJ5kL7mN0pQ2rS4tU6vW8";
    let whole = serde_json::to_value(&model().record).unwrap();
    for (field, value) in [
        ("approval_source", format!("sk-proj-{noise}{noise}")),
        ("review_trigger", format!("use ghp_{noise} until then")),
        ("surprise", format!("AKIA{}", "Q7ZX2MNBV5LKJHGF")),
    ] {
        let mut document = whole.clone();
        document[field] = json!(value);
        let text = serde_json::to_string_pretty(&document).unwrap();
        let error = read(AdmissionKind::Model, "m.json", text.as_bytes()).unwrap_err();
        assert!(error.message.contains("looks like a secret"), "{error}");
        assert!(
            !error.to_string().contains(&value) && error.line > 1,
            "{error}"
        );
    }
    // Hashes and words about credentials are no secrets.
    let mut source = serde_json::to_value(&source(Lane::Codex).record).unwrap();
    source["integrity"] = json!(
        "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg=="
    );
    let text = serde_json::to_string_pretty(&source).unwrap();
    assert!(read(AdmissionKind::Source, "s.json", text.as_bytes()).is_ok());
    for kind in AdmissionKind::ALL {
        let template = serde_json::to_vec_pretty(&Admission::template(*kind, Lane::Pi)).unwrap();
        assert!(read(*kind, "t.json", &template).is_ok(), "{kind}");
    }
    let binary = serde_json::to_vec_pretty(&binary(Lane::Case).record).unwrap();
    assert!(read(AdmissionKind::Binary, "b.json", &binary).is_ok());
}
