use serde_json::Value;

use super::*;
use crate::{Brief, Places};

fn lane() -> CaseLane {
    CaseLane {
        program: "/opt/it's/ca".to_owned(),
        task_id: "cto-7f".to_owned(),
        created: "2026-01-02T03:04:05Z".to_owned(),
        allowed_paths: vec!["strings.py".to_owned(), "src/".to_owned()],
        test_command: Some("python3 -m unittest".to_owned()),
        pair: ModelPair {
            provider: "qwen-local".to_owned(),
            model: "qwen3.6-35b-a3b".to_owned(),
        },
    }
}

fn planned(lane: &CaseLane) -> LanePlan {
    let model = ModelAddress {
        origin: "http://127.0.0.1:8471".to_owned(),
        provider: None,
        model: None,
        wire: None,
    };
    lane.plan(Surroundings {
        places: &Places {
            workspace: "/w".into(),
            scratch: "/s".into(),
            home: "/s/home".into(),
        },
        path: "/usr/bin",
        brief: &Brief {
            markdown: "# Task\n".to_owned(),
            contract_json: b"{}".to_vec(),
        },
        model: Some(&model),
    })
}

fn file(plan: &LanePlan, path: &str) -> Vec<u8> {
    let entry = plan.scratch.iter().find(|entry| entry.path == path);
    match &entry.unwrap_or_else(|| panic!("no {path}")).content {
        ScratchContent::File(bytes) | ScratchContent::Program(bytes) => bytes.clone(),
        ScratchContent::Directory => panic!("{path} is a directory"),
    }
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn kept(plan: &LanePlan, path: &str) -> Vec<u8> {
    let kept = plan.pack_files.iter().find(|file| file.path == path);
    kept.unwrap_or_else(|| panic!("no {path}")).bytes.clone()
}

#[test]
fn it_is_started_in_one_shape_from_an_empty_directory() {
    let plan = planned(&lane());
    insta::assert_snapshot!(plan.argv.join(" "), @"/opt/it's/ca run --task /s/case-task/cto-7f.task.json --mode unattended");
    assert!(is_case_command(&plan.argv));
    assert_eq!(
        plan.working_directory,
        WorkingDirectory::Scratch("desk".to_owned())
    );
    assert!(
        !plan
            .scratch
            .iter()
            .any(|entry| entry.path.starts_with("desk"))
    );
    assert_eq!(plan.version_probe.unwrap().argv, ["/opt/it's/ca", "--help"]);
    for other in [
        &["ca", "run", "--task", "a.task.json"][..],
        &[
            "ca",
            "session",
            "--task",
            "a.task.json",
            "--mode",
            "unattended",
        ],
        &["ca", "run", "--task", "a.json", "--mode", "unattended"],
        &["ca", "run", "--task", "a.task.json", "--mode", "attended"],
        &[
            "ca",
            "run",
            "--model",
            "x.task.json",
            "--mode",
            "unattended",
        ],
        &[],
    ] {
        let argv: Vec<String> = other.iter().map(|&word| word.to_owned()).collect();
        assert!(!is_case_command(&argv), "{other:?}");
    }
}

#[test]
fn its_roles_find_it_by_its_name_whatever_the_file_is_called() {
    let plan = planned(&lane());
    assert_eq!(plan.path_prefix, ["case-bin"]);
    let own = String::from_utf8(file(&plan, "case-bin/ca")).unwrap();
    insta::assert_snapshot!(own, @r#"
    #!/bin/sh
    if [ -d '.case/cto-7f' ] && [ ! -e .case/active ]; then echo 'cto-7f' > .case/active; fi
    exec '/opt/it'\''s/ca' "$@"
    "#);
}

#[test]
fn the_task_ends_with_the_envelope_whose_example_fits_the_contract() {
    let plan = planned(&lane());
    let task = json(&file(&plan, "case-task/cto-7f.task.json"));
    assert_eq!(task["id"], "cto-7f");
    assert_eq!(
        task["repo"],
        json(&file(&plan, "case-data/projects.json"))["repos"][0]["name"]
    );
    let page = String::from_utf8(file(&plan, "case-task/cto-7f.md")).unwrap();
    assert!(page.starts_with("# Task\n"));
    let (_, envelope) = page.split_once("<<<AGENT_RESULT\n").unwrap();
    let (envelope, _) = envelope.split_once("\nAGENT_RESULT>>>").unwrap();
    let files = &json(envelope.as_bytes())["artifacts"]["filesChanged"];
    assert_eq!(files, &serde_json::json!(["strings.py", "src/<file>"]));
}

#[test]
fn it_speaks_as_openai_and_the_pack_names_the_admitted_pair() {
    let lane = lane();
    let plan = planned(&lane);
    assert_eq!(plan.runtime_model_provider.as_deref(), Some("openai"));
    let config = json(&file(&plan, "case-data/config.json"));
    assert_eq!(config["models"]["default"]["provider"], "openai");
    assert_eq!(config["models"]["default"]["model"], "qwen3.6-35b-a3b");
    let models = json(&file(&plan, "case-data/pi-agent/models.json"));
    assert_eq!(
        models["providers"]["openai"]["baseUrl"],
        "http://127.0.0.1:8471/v1"
    );
    assert_eq!(plan.env["OPENAI_API_KEY"], "cto");
    assert!(names_pair(
        &kept(&plan, "case-data/config.json"),
        &lane.pair
    ));
    let log = String::from_utf8(kept(&plan, "case-runtime-provider.txt")).unwrap();
    assert!(log.contains("admitted provider: qwen-local\n"), "{log}");
    assert!(log.contains("runtime provider: openai\n"), "{log}");
}

#[test]
fn nothing_in_the_pack_tells_where_the_model_is() {
    for file in planned(&lane()).pack_files {
        let text = String::from_utf8(file.bytes).unwrap();
        assert!(!text.contains("8471") && !text.contains("http"), "{text}");
    }
}

#[test]
fn the_roles_that_push_or_write_after_the_review_have_a_provider_without_a_key() {
    let plan = planned(&lane());
    let config = json(&file(&plan, "case-data/config.json"));
    for role in ["closer", "retrospective"] {
        let provider = config["models"][role]["provider"].as_str().unwrap();
        assert_eq!(provider, "closed");
        assert!(
            !plan
                .env
                .keys()
                .any(|name| name.to_lowercase().contains(provider))
        );
    }
}

#[test]
fn a_config_that_gives_a_role_another_model_does_not_name_the_pair() {
    let lane = lane();
    let config = config::config(&lane.pair);
    assert!(names_pair(&config, &lane.pair));
    let twist = |path: &str, value: Value| {
        let mut config = json(&config);
        *config.pointer_mut(path).unwrap() = value;
        serde_json::to_vec(&config).unwrap()
    };
    let other = serde_json::json!({"provider": "anthropic", "model": "claude-sonnet-4-6"});
    for config in [
        twist("/models/default", other.clone()),
        twist("/models/closer", other.clone()),
        twist("/models/default/model", serde_json::json!("another")),
        twist("/models", serde_json::json!({})),
        b"no config".to_vec(),
    ] {
        assert!(!names_pair(&config, &lane.pair));
    }
    let mut config = json(&config);
    config["models"]["reviewer"] = other;
    assert!(!names_pair(
        &serde_json::to_vec(&config).unwrap(),
        &lane.pair
    ));
}

#[test]
fn it_is_ended_only_after_its_review_and_some_time_to_leave() {
    let text = include_str!("../../tests/case-events/ok.jsonl");
    let (before, after) = text
        .split_once("{\"event\":\"phase_end\",\"phase\":\"review\"")
        .unwrap();
    let mut dialogue = CaseDialogue::default();
    dialogue.read(before.as_bytes());
    dialogue.read(b"{\"event\":\"pipeline_end\"}\n");
    assert_eq!(dialogue.tick(Duration::from_secs(100)), []);
    assert!(!dialogue.may_be_ended());
    dialogue.read(format!("{{\"event\":\"phase_end\",\"phase\":\"review\"{after}").as_bytes());
    assert!(dialogue.may_be_ended());
    assert_eq!(dialogue.tick(Duration::from_secs(101)), []);
    assert_eq!(dialogue.tick(Duration::from_secs(104)), []);
    assert_eq!(dialogue.tick(Duration::from_secs(106)), [Act::Finished]);
}

#[test]
fn a_plan_of_another_shape_task_or_pair_is_objected_to() {
    let lane = lane();
    assert_eq!(lane.objection(&planned(&lane)), None);
    let objection = |change: fn(&mut LanePlan)| {
        let mut plan = planned(&lane);
        change(&mut plan);
        lane.objection(&plan).unwrap_or_default()
    };
    let shape = "Case is started in one shape only, and this is another";
    assert_eq!(objection(|p| p.argv[1] = "session".to_owned()), shape);
    assert_eq!(objection(|p| p.argv.push("--model".to_owned())), shape);
    let task = "the task file is not that of the contract";
    let other = |p: &mut LanePlan| p.argv[3] = "/s/other.task.json".to_owned();
    assert_eq!(objection(other), task);
    assert_eq!(objection(|p| drop(p.scratch.remove(0))), task);
    let edited = |p: &mut LanePlan| p.scratch[0].content = ScratchContent::File(b"{}".to_vec());
    assert_eq!(objection(edited), task);
    let pair = "the config does not give the admitted pair to every role";
    assert_eq!(objection(|p| p.pack_files.clear()), pair);
    assert_eq!(objection(|p| drop(p.scratch.remove(2))), pair);
    let fallback = |p: &mut LanePlan| p.scratch[2].content = ScratchContent::File(b"{}".to_vec());
    assert_eq!(objection(fallback), pair);
}

#[test]
fn what_it_reads_must_be_as_planned_when_it_starts() {
    let plan = planned(&lane());
    for path in &plan.fixed {
        assert!(!file(&plan, path).is_empty(), "{path}");
    }
    assert_eq!(plan.fixed.len(), 5);
}

/// What is made of an event file and of answers that passed the forwarder: who asked, and the result.
fn ending(file: &str, answers: &[(&str, &str)]) -> Option<EventFileFault> {
    let mut dialogue = CaseDialogue::default();
    dialogue.read(file.as_bytes());
    for (asker, text) in answers {
        dialogue.overhear(&ModelAnswer {
            asker: (!asker.is_empty()).then(|| format!("name: {asker}")),
            text: (*text).to_owned(),
        });
    }
    Box::new(dialogue).finish().pipeline.unwrap().fault
}

const GOOD: &str = r#"{"status":"completed"}"#;
const CRITICAL: &str = r#"{"status":"completed","findings":{"critical":1}}"#;
const DONE: [(&str, &str); 3] = [
    ("implementer", GOOD),
    ("verifier", GOOD),
    ("reviewer", GOOD),
];

#[test]
fn an_event_file_may_not_say_more_for_the_change_than_the_model_did() {
    use EventFileFault::Contradicted;
    let ok = include_str!("../../tests/case-events/noclose.jsonl");
    assert_eq!(ending(ok, &DONE), None);
    assert_eq!(
        ending(ok, &DONE[..2]),
        Some(Contradicted),
        "no reviewer answered"
    );
    assert_eq!(
        ending(ok, &DONE[1..]),
        Some(Contradicted),
        "no implementer answered"
    );
    assert_eq!(ending(ok, &[]), Some(Contradicted));
    // Whoever asked, a rejection that the file does not tell was hidden.
    let hidden = |asker, text| ending(ok, &[&DONE[..], &[(asker, text)]].concat());
    for text in [
        CRITICAL,
        r#"{"status":"failed"}"#,
        r#"{"status":"blocked"}"#,
        r#"{"status":"completed","rubric":{"categories":[{"category":"c","verdict":"fail"}]}}"#,
    ] {
        assert_eq!(hidden("reviewer", text), Some(Contradicted), "{text}");
        assert_eq!(hidden("verifier", text), Some(Contradicted), "{text}");
        // It tries again, and the last of it is told.
        assert_eq!(hidden("implementer", text), None, "{text}");
    }
    assert_eq!(
        hidden("", CRITICAL),
        Some(Contradicted),
        "findings are a reviewer's"
    );
    let by_role = r#"{"status":"failed","rubric":{"role":"verifier"}}"#;
    assert_eq!(hidden("", by_role), Some(Contradicted));
    assert_eq!(hidden("", GOOD), None);
    assert_eq!(hidden("reviewer", "no result"), None);
}

#[test]
fn a_rejection_that_the_event_file_tells_was_not_hidden() {
    let critical = include_str!("../../tests/case-events/reviewer-critical.jsonl");
    let answers = [DONE[0], DONE[1], ("reviewer", CRITICAL)];
    assert_eq!(ending(critical, &answers), None);
    // Two reviews that fail softly and a last one: the file tells of each.
    let revision = include_str!("../../tests/case-events/revision.jsonl");
    let soft = r#"{"status":"completed","rubric":{"role":"reviewer","categories":[{"category":"pattern-fit","verdict":"fail"}]}}"#;
    let told = revision
        .matches(r#""event":"phase_end","phase":"review""#)
        .count();
    let mut answers = DONE.to_vec();
    answers.extend(vec![("reviewer", soft); told]);
    assert_eq!(ending(revision, &answers), None);
    answers.push(("reviewer", soft));
    assert_eq!(
        ending(revision, &answers),
        Some(EventFileFault::Contradicted)
    );
}

#[test]
fn what_its_roles_read_is_read_only_but_for_the_file_that_it_writes_itself() {
    let plan = planned(&lane());
    insta::assert_snapshot!(plan.read_only.join("\n"), @r"
    case-task/cto-7f.md
    case-data/config.json
    case-data/projects.json
    case-data/pi-agent/models.json
    case-bin/ca
    ");
}

#[test]
fn what_its_roles_do_is_told_while_they_do_it() {
    let text = include_str!("../../tests/case-events/ok.jsonl");
    let acts = CaseDialogue::default().read(text.as_bytes());
    let told = acts.iter().filter_map(|act| match act {
        Act::Note(Note::Activity(a)) => Some(format!("{}: {}", a.kind, a.text)),
        Act::Tell(_) | Act::CloseStdin | Act::Note(_) | Act::Finished => None,
    });
    let told: Vec<String> = told.take(3).collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    runs: implement: read strings.py
    edits: implement: strings.py
    runs: implement: python3 -m unittest -q > .case/last-test.log 2>&1; rc=$?; tail -3 .case/last-test.log; ca mark-tested < .case/last-test.log; exit $rc
    ");
}
