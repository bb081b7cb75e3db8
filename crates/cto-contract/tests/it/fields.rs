//! The pages for strangers name everything that a pack holds.

#[path = "../../examples/fields-page/page.rs"]
mod page;

use cto_contract::eligibility::Gate;
use cto_contract::event::{EventFileFault, EventType, PhaseStatus, PipelinePhase, ProviderFault};
use cto_contract::verify::VerifyCode;

fn document(name: &str) -> String {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn every_field_of_a_pack_stands_on_its_page() {
    assert!(
        document("evidence-fields.md") == page::page(),
        "docs/evidence-fields.md is not what the types say: \
         cargo run -p cto-contract --example fields-page > docs/evidence-fields.md"
    );
}

#[test]
fn the_format_page_names_every_word_that_a_verifier_meets() {
    let page = document("evidence-format.md");
    let mut all: Vec<&str> = Vec::new();
    all.extend(EventType::ALL.iter().map(|w| w.as_str()));
    all.extend(Gate::ALL.iter().map(|w| w.as_str()));
    all.extend(VerifyCode::ALL.iter().map(|w| w.as_str()));
    all.extend(ProviderFault::ALL.iter().map(|w| w.as_str()));
    all.extend(PipelinePhase::ALL.iter().map(|w| w.as_str()));
    all.extend(PhaseStatus::ALL.iter().map(|w| w.as_str()));
    all.extend(EventFileFault::ALL.iter().map(|w| w.as_str()));
    all.retain(|word| !page.contains(&format!("`{word}`")));
    assert_eq!(
        all,
        Vec::<&str>::new(),
        "not named in docs/evidence-format.md"
    );
}

#[test]
fn the_stranger_knows_every_event_and_gate() {
    let path = "../cto-evidence/tests/stranger/verify_pack.py";
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    let program = std::fs::read_to_string(path).unwrap_or_default();
    let events = EventType::ALL.iter().map(|w| w.as_str());
    let gates = Gate::ALL.iter().map(|w| w.as_str());
    let missing: Vec<&str> = events
        .chain(gates)
        .filter(|word| !program.contains(&format!("\"{word}\"")))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}
