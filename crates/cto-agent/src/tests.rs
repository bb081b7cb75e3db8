use proptest::prelude::*;

use super::*;
use crate::plan::StdinUse;

fn places() -> Places {
    Places {
        workspace: "/run/w".into(),
        scratch: "/s".into(),
        home: "/s/home".into(),
    }
}

fn planned(adapter: &dyn Adapter, model: Option<&ModelAddress>) -> LanePlan {
    let brief = Brief {
        markdown: "# Task\n".to_owned(),
        contract_json: b"{}".to_vec(),
    };
    adapter.plan(Surroundings {
        places: &places(),
        path: "/usr/bin",
        brief: &brief,
        model,
    })
}

fn command(argv: &[&str]) -> CommandLane {
    CommandLane {
        argv: argv.iter().map(|&word| word.to_owned()).collect(),
    }
}

#[test]
fn the_program_gets_its_words_unchanged_and_finds_its_task_by_two_names() {
    let argv = ["my-agent", "--do", "$(touch x)", "", "a b"];
    let lane = command(&argv);
    let plan = planned(&lane, None);
    assert!(!plan.env.keys().any(|name| name.starts_with("OPENAI")));
    let model = ModelAddress {
        origin: "http://127.0.0.1:8471".to_owned(),
        provider: None,
        model: None,
        wire: None,
    };
    let with_model = planned(&lane, Some(&model));
    assert_eq!(
        with_model.env["OPENAI_BASE_URL"],
        "http://127.0.0.1:8471/v1"
    );
    assert_eq!(with_model.env["OPENAI_API_KEY"], "cto");
    assert_eq!(plan.argv, argv, "no shell, no splitting, no expansion");
    assert_eq!(plan.env["CTO_TASK"], "/s/brief.md");
    assert_eq!(plan.env["CTO_CONTRACT"], "/s/task-contract.json");
    assert_eq!(plan.env["HOME"], "/s/home");
    assert!(!plan.env.keys().any(|name| name.starts_with("CTO_HARNESS")));
    assert_eq!(
        plan.scratch,
        [
            ScratchEntry::file("brief.md", *b"# Task\n"),
            ScratchEntry::file("task-contract.json", *b"{}"),
        ]
    );
    assert_eq!(plan.working_directory, WorkingDirectory::Workspace);
    assert_eq!(plan.stdin, StdinUse::Closed);
}

#[test]
fn a_fake_patch_is_applied_by_a_process_and_nothing_is_inherited() {
    let lane = FakeLane {
        change: FakeChange::Patch(b"x".to_vec()),
    };
    let plan = planned(&lane, None);
    assert_eq!(
        plan.argv.join(" "),
        "git apply --whitespace=nowarn --verbose /s/fake.patch"
    );
    assert_eq!(plan.env["HOME"], "/s/home");
    assert_eq!(plan.env["PATH"], "/usr/bin");
    assert_eq!(plan.env["GIT_CEILING_DIRECTORIES"], "/run");
    assert!(!plan.env.contains_key("SSH_AUTH_SOCK"));
    let overlay = FakeLane {
        change: FakeChange::Overlay,
    };
    assert_eq!(
        planned(&overlay, None).argv.join(" "),
        "cp -RPv /s/fake/. ."
    );
}

#[test]
fn every_lane_with_an_adapter_says_so() {
    let (program, model, task) = (vec!["x".to_owned()], "m".to_owned(), String::new());
    let codex = CodexLane {
        program: program.clone(),
        model: model.clone(),
        task: task.clone(),
    };
    let pi = PiLane {
        program: program.clone(),
        model: model.clone(),
        task: task.clone(),
    };
    let claude = ClaudeLane {
        program,
        model,
        task,
    };
    let case = CaseLane {
        program: "ca".to_owned(),
        task_id: "t".to_owned(),
        created: "2026-06-01T00:00:00Z".to_owned(),
        allowed_paths: Vec::new(),
        test_command: None,
        pair: ModelPair {
            provider: "p".to_owned(),
            model: "m".to_owned(),
        },
    };
    let adapters: [&dyn Adapter; 6] = [
        &FakeLane {
            change: FakeChange::Overlay,
        },
        &command(&["x"]),
        &case,
        &codex,
        &pi,
        &claude,
    ];
    let built_in: Vec<Lane> = Lane::ALL
        .iter()
        .copied()
        .filter(|lane| is_built_in(*lane))
        .collect();
    assert_eq!(adapters.map(Adapter::lane).as_slice(), built_in);
}

#[test]
fn a_lane_with_a_model_asks_for_that_one_and_is_given_no_key_and_no_address_in_its_words() {
    let (program, model, task) = (
        vec!["/opt/agent".to_owned()],
        "some \"model\"".to_owned(),
        "do it".to_owned(),
    );
    let codex = CodexLane {
        program: program.clone(),
        model: model.clone(),
        task: task.clone(),
    };
    let pi = PiLane {
        program: program.clone(),
        model: model.clone(),
        task: task.clone(),
    };
    let claude = ClaudeLane {
        program,
        model,
        task,
    };
    let address = ModelAddress {
        origin: "http://127.0.0.1:8471".to_owned(),
        provider: None,
        model: None,
        wire: None,
    };
    let lanes: [&dyn Adapter; 3] = [&codex, &pi, &claude];
    for lane in lanes {
        let plan = planned(lane, Some(&address));
        assert_eq!(plan.argv[0], "/opt/agent");
        assert!(
            plan.argv.contains(&"some \"model\"".to_owned()),
            "{:?}",
            plan.argv
        );
        assert!(
            !plan
                .argv
                .iter()
                .any(|word| word.contains("http") || word.contains("do it"))
        );
        assert_eq!(plan.working_directory, WorkingDirectory::Workspace);
        assert_eq!(plan.stdin, StdinUse::Dialogue, "its task comes by stdin");
        assert_eq!(
            plan.version_probe.unwrap().argv,
            ["/opt/agent", "--version"]
        );
        for file in &plan.pack_files {
            let text = String::from_utf8_lossy(&file.bytes);
            assert!(!text.contains("127.0.0.1"), "{text}");
        }
        let opened = lane.dialogue().open();
        assert_eq!(opened, [Act::Tell(b"do it".to_vec()), Act::CloseStdin]);
    }
    let plan = planned(&codex, Some(&address));
    let ScratchContent::File(config) = &plan.scratch[0].content else {
        panic!("a file");
    };
    let config = String::from_utf8_lossy(config);
    assert!(
        config.contains("model = \"some \\\"model\\\"\"\n"),
        "{config}"
    );
    assert!(config.contains("base_url = \"http://127.0.0.1:8471/v1\"\n"));
    assert!(config.contains("PYTHONDONTWRITEBYTECODE = \"1\"\n"));
    let env = planned(&claude, Some(&address)).env;
    assert_eq!(env["ANTHROPIC_BASE_URL"], "http://127.0.0.1:8471");
    assert_eq!(env["ANTHROPIC_API_KEY"], PLACEHOLDER_KEY);
}

/// Everything that a dialogue gives for output in these chunks.
fn heard(chunks: &[&[u8]]) -> (Vec<Act>, Ending) {
    let mut dialogue = command(&["x"]).dialogue();
    let mut acts = dialogue.open();
    for chunk in chunks {
        acts.extend(dialogue.hear(chunk));
    }
    (acts, dialogue.finish())
}

#[test]
fn a_rejection_outweighs_every_other_review_and_a_last_line_counts() {
    let (acts, ending) = heard(&[
        br#"{"schema":"cto.agent/v1","type":"plan","steps":["a","b"]}
{"schema":"cto.agent/v1","type":"review","verdict":"reject","note":"no"}
{"schema":"cto.agent/v1","type":"review","verdict":"accept"}
{"schema":"cto.agent/v1","type":"plan","steps":["c"]}"#,
    ]);
    assert_eq!(acts, [Act::Note(Note::Plan("a; b".to_owned()))]);
    assert_eq!(ending.notes, [Note::Plan("c".to_owned())]);
    let words = ending.words.unwrap();
    assert_eq!(words.review, Some(ReviewVerdict::Reject));
    assert_eq!(words.review_note.as_deref(), Some("no"));
}

proptest! {
    #[test]
    fn a_dialogue_does_not_depend_on_where_the_output_is_cut(
        lines in prop::collection::vec(
            prop_oneof![
                "[ -~]{0,40}",
                Just(r#"{"schema":"cto.agent/v1","type":"plan","steps":["a"]}"#.to_owned()),
                Just(r#"{"schema":"cto.agent/v1","type":"review","verdict":"reject"}"#.to_owned()),
                Just(r#"{"schema":"cto.agent/v1","type":"nonsense"}"#.to_owned()),
            ],
            0..8,
        ),
        size in 1_usize..50,
    ) {
        let text = lines.join("\n").into_bytes();
        let whole = heard(&[&text]);
        let cut: Vec<&[u8]> = text.chunks(size).collect();
        prop_assert_eq!(heard(&cut), whole);
    }

    #[test]
    fn no_output_makes_a_dialogue_panic_or_act_on_the_program(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        let (acts, _) = heard(&[&bytes]);
        prop_assert!(acts.iter().all(|act| matches!(act, Act::Note(_))));
    }
}
