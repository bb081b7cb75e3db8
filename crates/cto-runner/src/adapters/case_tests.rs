//! The lane `case`, run for real with a small program in the place of `ca`: confined, followed, judged and sealed.

use cto_contract::blocker::BlockerCode;
use cto_contract::model_script::{FaultScope, ModelFault, ModelScript, ScriptSchema, ScriptStep};
use cto_contract::words::{Lane, Stage};
use cto_egress::{ScriptedModel, ScriptedOptions};
use cto_sandbox::StopToken;

use super::tests::{launcher, put};
use crate::cases::Catalog;
use crate::environment::Environment;
use crate::harness::{Harness, OpenOptions, RunRequest, RunResult};
use crate::sandbox::SandboxAsk;
use crate::task::Task;

/// Does what Case does: finds its repository by its config, works there, commits, and writes its events.
const PROGRAM: &str = r#"#!/bin/sh
set -eu
[ "$1" = --help ] && { echo 'Usage: ca <command> [options]'; exit 0; }
[ "$1 $2 $4 $5" = "run --task --mode unattended" ]
[ -z "$(ls -A .)" ] || { echo "it does not stand in an empty directory" >&2; exit 9; }
id=$(basename "$3" .task.json)
grep -q '<<<AGENT_RESULT' "${3%.task.json}.md"
grep -q '"provider": "openai"' "$CASE_DATA_DIR/config.json"
[ -f "$PI_CODING_AGENT_DIR/models.json" ]
cd "$(sed -n 's/.*"path": "\(.*\)".*/\1/p' "$CASE_DATA_DIR/projects.json")"
events=.case/$id/events
mkdir -p "$events"
tell() { printf '%s\n' "$1" >> "$events/run-1.jsonl"; }
ask() { python3 -c 'import json, os, sys, urllib.request as u
at = json.load(open(os.environ["PI_CODING_AGENT_DIR"] + "/models.json"))["providers"]["openai"]["baseUrl"]
bash = {"name": "bash", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}
body = {"model": "qwen3.6-35b-a3b", "messages": [{"role": "user", "content": "name: " + sys.argv[1]}],
        "tools": [{"type": "function", "function": bash}]}
u.urlopen(u.Request(at + "/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"})).read()' "$1"; }
end() { tell "{\"event\":\"phase_end\",\"phase\":\"$1\",\"outcome\":\"completed\",\"result\":{\"status\":\"completed\"$2}}"; }
tell '{"event":"phase_start","phase":"implement"}'
echo new > a.txt
git add -A
git commit -q -m work
[ "$(git diff --name-only main)" = a.txt ]
[ "$(git merge-base HEAD main)" = "$(git rev-parse HEAD~1)" ]
ca --help > /dev/null
ask implementer
end implement ''
ask verifier
end verify ''
ASK
REVIEW
tell '{"event":"pipeline_end","outcome":"failed","failedAgent":"closer"}'
LAST
"#;

const MODEL_RECORD: &str = "status: admitted
provider: qwen-local
model: qwen3.6-35b-a3b
credential_source_class: none
allowed_network_class: loopback
approval_source: me
admission_timestamp: 2026-06-01
review_trigger: before another model
";
const DECISION_RECORD: &str = "decision_status: local_provider_required
provider_class: local_case_compatible
provider: qwen-local
model: qwen3.6-35b-a3b
approval_source: me
";

const CASE: &str = "schema: cto.case/v1
id: dummy
title: Write new
instruction: Write new into a.txt.
allowed_paths: [a.txt]
forbidden_actions: [push, merge, deploy, close, pr_open, issue_close, public_publication, credential_change, vendor_source_mutation, cortex_core_mutation]
verification_commands: [{run: grep -q new a.txt, must_fail_before: true}]
";

fn private(path: &std::path::Path) {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut private = std::fs::DirBuilder::new();
    private.mode(0o700).create(path).unwrap();
}

/// Every role that asks gets a good result.
fn content_model() -> ScriptedModel {
    let result = "<<<AGENT_RESULT\n{\"status\":\"completed\"}\nAGENT_RESULT>>>";
    let options = ScriptedOptions {
        script: ModelScript {
            schema: ScriptSchema,
            steps: vec![ScriptStep::Finish(result.to_owned())],
            scenes: Vec::new(),
        },
        fault: ModelFault::Ok,
        scope: FaultScope::Every,
        record: None,
    };
    ScriptedModel::start(0, options).unwrap()
}

/// Runs the program with these lines in it; its reviewer asks its model.
fn run(place: &std::path::Path, review: &str, last: &str) -> RunResult {
    run_asking(place, "ask reviewer", review, last)
}

/// Runs the program with these lines in it.
fn run_asking(place: &std::path::Path, ask: &str, review: &str, last: &str) -> RunResult {
    let program = place.join("bin/ca");
    put(
        &program,
        &PROGRAM
            .replace("ASK", ask)
            .replace("REVIEW", review)
            .replace("LAST", last),
    );
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, executable).unwrap();
    let cases = place.join("cases");
    put(&cases.join("dummy/case.yaml"), CASE);
    put(&cases.join("dummy/workspace/a.txt"), "old\n");
    put(&cases.join("dummy/fake/a.txt"), "new\n");
    private(&place.join("home"));
    private(&place.join("config"));
    put(
        &place.join("config/harness.yaml"),
        "schema: cto.harness/v1\nproviders: {qwen-local: {}}\n",
    );
    put(&place.join("config/model.yaml"), MODEL_RECORD);
    put(&place.join("config/decision.yaml"), DECISION_RECORD);
    let model = content_model();
    let pairs = [
        ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ("HOME", place.display().to_string()),
        ("CTO_HARNESS_ALLOW_CASE", "1".to_owned()),
        ("CTO_HARNESS_CASE_STAGE", "2".to_owned()),
        ("CTO_HARNESS_CASE_BIN", program.display().to_string()),
        ("CTO_HARNESS_CASE_MODEL_PROVIDER", "qwen-local".to_owned()),
        ("CTO_HARNESS_CASE_MODEL", "qwen3.6-35b-a3b".to_owned()),
        (
            "CTO_HARNESS_CASE_LOCAL_BASE_URL",
            model.base_url(ModelFault::Ok),
        ),
    ];
    let harness = Harness::open(OpenOptions {
        home: place.join("home"),
        config: place.join("config"),
        env: Environment::new(pairs.map(|(name, value)| (name.to_owned(), value))),
        launcher: launcher(),
    })
    .unwrap();
    let request = RunRequest {
        task: Task::Case(Catalog { extra: Some(cases) }.find("dummy").unwrap()),
        lane: Lane::Case,
        argv: Vec::new(),
        stage: Some(Stage::FIXTURE),
        timeout_seconds: Some(60),
        cheat: None,
        parent: None,
        conformance: true,
        sandbox: SandboxAsk::default(),
        approval: Default::default(),
    };
    let stop = StopToken::new().unwrap();
    harness.run(&request, &stop, &mut |_| {}).unwrap()
}

fn blockers(review: &str, last: &str) -> Vec<(BlockerCode, String)> {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let result = run(place.path(), review, last);
    let blockers = result.report.verdict.blockers;
    blockers.into_iter().map(|b| (b.code, b.subject)).collect()
}

const GOOD: &str = r#"end review ',"findings":{"critical":0}'"#;

#[test]
fn a_run_passes_on_its_change_and_the_pack_shows_both_providers_and_the_state() {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let result = run(place.path(), GOOD, "");
    assert_eq!(result.report.verdict.blockers, []);
    assert_eq!(result.report.change.changed_files, ["a.txt"]);
    let read = |name: &str| std::fs::read_to_string(result.pack.join(name)).unwrap();
    assert!(read("backend/case-data/config.json").contains("\"qwen-local\""));
    assert!(read("backend/case-data/runtime-config.json").contains("\"openai\""));
    assert!(read("backend/case-runtime-provider.txt").contains("runtime provider: openai"));
    assert!(read("events.normalized.jsonl").contains("implement started"));
    assert!(!read("backend/case-data/pi-agent/models.json").contains("http"));
    assert!(result.pack.join("backend/case-state").is_dir());
}

#[test]
fn its_own_reviewer_can_only_refuse() {
    let critical = r#"end review ',"findings":{"critical":1}'"#;
    let rejected = |subject: &str| (BlockerCode::ReviewerRejected, subject.to_owned());
    assert_eq!(blockers(critical, ""), [rejected("review")]);
    let lost = r#"tell '{"event":"phase_end","phase":"review","outcome":"failed","result":{"status":"failed","error":"AGENT_RESULT start delimiter not found"}}'"#;
    let protocol = (BlockerCode::AgentProtocolFailed, "review".to_owned());
    assert_eq!(blockers(lost, "exit 1"), [protocol]);
    let failed = |subject: &str| (BlockerCode::BackendFailed, subject.to_owned());
    assert_eq!(blockers(":", ""), [failed("no end of review")]);
    // By whether anybody looked before it was gone.
    let gone = blockers(GOOD, "rm -r .case");
    let seen = [failed("event file rewritten")];
    assert!(
        gone == seen || gone == [failed("event file missing")],
        "{gone:?}"
    );
}

#[test]
fn a_review_that_nobody_asked_the_model_for_is_none() {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let result = run_asking(place.path(), ":", GOOD, "");
    let blockers = result.report.verdict.blockers.iter();
    let blockers: Vec<(BlockerCode, &str)> =
        blockers.map(|b| (b.code, b.subject.as_str())).collect();
    assert_eq!(
        blockers,
        [(BlockerCode::BackendFailed, "event file contradicted")]
    );
}
