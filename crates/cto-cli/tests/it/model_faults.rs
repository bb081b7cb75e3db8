//! What a model's provider does wrong, seen in the pack of a run.

use std::fs;

use cto_contract::model_script::{FaultScope, ModelFault};
use serde_json::Value;

use crate::model::{run, source};

/// An agent that asks once, swallows what goes wrong, changes nothing and says that it is done.
const FORGIVING: &str = r#"
try:
    ask(False)
except Exception as error:
    print(error)
print("done, all tests pass")
"#;

#[test]
fn what_the_provider_did_wrong_is_not_the_agents_fault_and_nothing_is_judged() {
    let script = "schema: cto.model-script/v1\nsteps:\n  - finish: new\n";
    let scripted = cto_egress::ScriptedModel::start(
        0,
        cto_egress::ScriptedOptions {
            script: cto_contract::document::read("script.yaml", script.as_bytes()).unwrap(),
            fault: ModelFault::Ok,
            scope: FaultScope::Every,
            record: None,
        },
    )
    .unwrap();
    let source = source();
    for (fault, blocker, marker) in [
        (
            ModelFault::Unauthorized,
            "provider_auth_unavailable",
            "provider-auth-unavailable.txt",
        ),
        (
            ModelFault::ServerError,
            "provider_unavailable",
            "provider-unavailable.txt",
        ),
        (
            ModelFault::CleanCut,
            "provider_unavailable",
            "provider-unavailable.txt",
        ),
        (
            ModelFault::ReasoningOnly,
            "provider_reasoning_only",
            "provider-reasoning-only.txt",
        ),
    ] {
        let (code, blockers, report) = run(&source, &scripted.base_url_at_work(fault), FORGIVING);
        assert_eq!(
            (code, blockers),
            (3, vec![blocker.to_owned()]),
            "{report:#}"
        );
        assert_eq!(report["fault_class"], "environment");
        assert_eq!(report["allowed_writes_passed"], Value::Null);
        assert_eq!(report["tests_passed"], Value::Null);
        let pack = source.pack(&report);
        assert!(pack.join("backend").join(marker).is_file());
        let page = fs::read_to_string(pack.join("report.md")).unwrap();
        assert!(page.contains("Faults of the model's provider: "), "{page}");
        source.place.cto(&["verify", "latest"]).expect(0);
    }
    // The control: the same agent with a good provider is judged.
    let (code, blockers, _) = run(&source, &scripted.base_url(ModelFault::Ok), FORGIVING);
    assert_eq!(code, 1);
    assert!(blockers.contains(&"no_diff".to_owned()), "{blockers:?}");
}
