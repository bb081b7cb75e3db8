//! The model before anything is started: keys that expire, an endpoint that a program tells, one question, and what it costs.

use std::fs;

use cto_contract::model_script::{FaultScope, ModelFault};
use serde_json::Value;

use crate::model::{config, run, source};
use crate::place::write;

const HONEST: &str = r#"open("src/a.txt", "w").write(ask(False))"#;

fn scripted() -> cto_egress::ScriptedModel {
    let script = "schema: cto.model-script/v1\nsteps:\n  - finish: new\n";
    let script = cto_contract::document::read("script.yaml", script.as_bytes()).unwrap();
    let options = cto_egress::ScriptedOptions {
        script,
        fault: ModelFault::Ok,
        scope: FaultScope::Every,
        record: None,
    };
    cto_egress::ScriptedModel::start(0, options).unwrap()
}

#[test]
fn a_provider_that_fails_one_question_blocks_by_name_before_anything_starts() {
    let (model, source) = (scripted(), source());
    for (fault, blocker, reason, marker) in [
        (
            ModelFault::Unauthorized,
            "provider_auth_unavailable",
            "provider unavailable",
            "provider-auth-unavailable.txt",
        ),
        (
            ModelFault::TooManyRequests,
            "provider_unavailable",
            "provider unavailable",
            "provider-unavailable.txt",
        ),
        (
            ModelFault::ServerError,
            "provider_unavailable",
            "provider unavailable",
            "provider-unavailable.txt",
        ),
        (
            ModelFault::ReasoningOnly,
            "provider_reasoning_only",
            "provider response shape unavailable",
            "provider-reasoning-only.txt",
        ),
        (
            ModelFault::AnotherModel,
            "model_admission_mismatch",
            "model not admitted",
            "provider-model-not-admitted.txt",
        ),
    ] {
        let (code, blockers, report) = run(&source, &model.base_url(fault), HONEST);
        assert_eq!(
            (code, blockers),
            (3, vec![blocker.to_owned()]),
            "{report:#}"
        );
        assert_eq!(report["failure_reason"], reason);
        assert_eq!(report["backend_process_started"], false);
        let pack = source.pack(&report);
        assert!(pack.join("backend").join(marker).is_file(), "{marker}");
        source.place.cto(&["verify", "latest"]).expect(0);
    }
    for good in [ModelFault::Ok, ModelFault::Drip, ModelFault::Http10] {
        let (_, blockers, report) = run(&source, &model.base_url(good), HONEST);
        let probe = &report["resources"]["model_probe"];
        assert_eq!(probe["answered_by"], "qwen-test", "{blockers:?} {report:#}");
        assert_eq!(probe["wire"], "chat_completions");
        assert_eq!(report["backend_process_started"], true);
    }
    let (_, blockers, _) = run(&source, "http://127.0.0.1:9/v1", HONEST);
    assert_eq!(blockers, ["provider_unavailable"]);
}

#[test]
fn keys_that_expire_are_renewed_and_none_of_them_is_left_anywhere() {
    let (model, source) = (scripted(), source());
    let mint = source.place.path("mint.sh");
    let count = source.place.path("minted");
    // The first token is over at once for the harness, which renews it some seconds before its end.
    let script = format!(
        "echo x >> {count}\nn=$(wc -l < {count})\necho \"short-lived-token-number-$n-of-the-login\"\ndate -u -d '+4 seconds' +%Y-%m-%dT%H:%M:%SZ\n",
        count = count.display()
    );
    write(&mint, &script);
    config(
        &source,
        &format!(
            "providers: {{local: {{base_url_command: [echo, '{}'], credential_command: [sh, '{}']}}}}\n",
            model.base_url(ModelFault::Ok),
            mint.display()
        ),
    );
    let (code, blockers, report) = run(
        &source,
        "",
        r#"
for attempt in range(3):
    ask(False)
open("src/a.txt", "w").write("new")
"#,
    );
    assert_eq!((code, blockers), (0, vec![]), "{report:#}");
    let minted = fs::read_to_string(&count).unwrap().lines().count();
    assert!(
        minted >= 4,
        "one for the start and one for each request: {minted}"
    );
    let mut all = Vec::new();
    crate::model::texts(&source.place.home(), &mut all);
    let url = model.base_url(ModelFault::Ok);
    for (path, text) in all {
        for number in 1..=minted {
            let token = format!("short-lived-token-number-{number}-of-the-login");
            assert!(!text.contains(&token), "{token} in {path}");
        }
        assert!(!text.contains(&url), "the endpoint in {path}");
    }
}

#[test]
fn a_price_list_makes_cost_known_and_its_cap_ends_the_agent_at_once() {
    let (model, source) = (scripted(), source());
    let prices = "prices: {as_of: '2026-11-01', models: {qwen-test: {input: 1000, output: 2000}}}";
    config(&source, &format!("providers: {{local: {{{prices}}}}}\n"));
    let url = model.base_url(ModelFault::Ok);
    let (_, _, report) = run(&source, &url, "ask(False)");
    let cost = report["resources"]["cost"].as_f64().unwrap();
    let traffic = &report["resources"]["model_traffic"];
    let tokens = |kind: &str| traffic["usage"][kind].as_f64().unwrap();
    let expected = (tokens("input") * 1000.0 + tokens("output") * 2000.0) / 1e6;
    assert!((cost - expected).abs() < 1e-9, "{cost} {expected}");
    assert_eq!(traffic["cost"]["prices_as_of"], "2026-11-01");
    source.contract(&crate::model::terms(", cost: 0.000001"));
    let (code, blockers, report) = run(
        &source,
        &url,
        "import time\nask(False)\ntime.sleep(100)\nopen('late', 'w')",
    );
    assert_eq!(
        (code, blockers),
        (3, vec!["limit_exceeded".to_owned()]),
        "{report:#}"
    );
    let message = report["blockers"][0]["message"].as_str().unwrap();
    assert!(message.contains("used up its cost"), "{message}");
    assert_eq!(report["backend_completion"], "harness");
    assert_eq!(report["changed_files"], Value::from(Vec::<String>::new()));
}

#[test]
fn the_bridge_for_keys_of_a_login_is_closed_until_it_is_opened_by_its_name() {
    let source = source();
    crate::records::admit(&source, "openai-codex", "gpt-test");
    let (code, blockers, report) = run(&source, "http://127.0.0.1:9/v1", HONEST);
    assert_eq!(
        (code, blockers),
        (3, vec!["provider_auth_unavailable".to_owned()]),
        "{report:#}"
    );
    let message = report["blockers"][0]["message"].as_str().unwrap();
    assert!(
        message.contains("CTO_HARNESS_COMMAND_OPENAI_CODEX_AUTH_BRIDGE"),
        "{message}"
    );
    let pack = source.pack(&report);
    assert!(pack.join("backend/provider-auth-unavailable.txt").is_file());
}
