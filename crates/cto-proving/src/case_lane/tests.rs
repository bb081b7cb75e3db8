use std::collections::BTreeSet;

use super::*;

#[test]
fn the_adapter_is_checked_by_every_name_that_was_promised() {
    let names: Vec<&str> = ADAPTER_CHECKS.iter().map(|row| row.name).collect();
    insta::assert_snapshot!(names.join("\n"), @r"
    command_shape_and_task_contract
    missing_provider_blocks
    provider_timeout_fail_closed
    model_provider_gate_blocks
    model_admission_mismatch_blocks
    model_admission_invalid_blocks
    openai_codex_auth_gap_blocks
    local_provider_config_missing_blocks
    local_provider_reasoning_only_blocks
    local_provider_delayed_content_allows_case
    qwen_local_openai_compat_allows_case
    agent_protocol_failure_classified
    lifecycle_supervision_accepts_committed_diff
    lifecycle_timeout_after_valid_patch_fails
    qwen_loop_hides_endpoint
    no_secret_in_artifacts
    ");
}

#[test]
fn no_name_stands_twice_and_an_unknown_one_is_refused() {
    let all: Vec<&str> = ADAPTER_CHECKS
        .iter()
        .chain(FAULTS)
        .map(|r| r.name)
        .collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    assert!(choose(&["hang".to_owned()]).is_ok());
    assert!(choose(&["nothing".to_owned()]).is_err());
}

#[test]
fn what_passes_was_started() {
    for row in ADAPTER_CHECKS.iter().chain(FAULTS) {
        assert!(
            row.blocker.is_some() || row.started == Started::Yes,
            "{}",
            row.name
        );
    }
}

#[test]
fn the_page_is_what_the_tables_say() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/case-faults.md");
    assert!(
        std::fs::read_to_string(path).unwrap_or_default() == document(),
        "docs/case-faults.md is not what the tables say: cargo run -p cto-proving --example case-faults-page > docs/case-faults.md"
    );
}
