//! A dummy lane, kept to show that the seam holds everything that a lane needs: it is run for real, confined and sealed.

use std::path::{Path, PathBuf};

use cto_agent::{
    Act, Adapter, CollectFrom, Collection, Dialogue, Ending, LanePlan, Note, ScratchContent,
    ScratchEntry, StdinUse, Surroundings, VersionProbe, WorkingDirectory, base_environment,
};
use cto_contract::event::{BackendStop, EventKind, RunEvent};
use cto_contract::words::{BackendCompletion, Lane, RunStatus, Stage};
use cto_sandbox::{Launcher, StopToken};

use crate::cases::Catalog;
use crate::environment::Environment;
use crate::harness::{Harness, OpenOptions, RunRequest};
use crate::sandbox::SandboxAsk;
use crate::task::Task;

/// The lane that these tests run as a dummy: this build has no adapter of its own for it.
pub(super) const LANE: Lane = Lane::Acp;

pub(super) struct DummyLane;

/// Reads its orders from stdin, and never ends by itself.
const AGENT: &str = r#"set -eu
read -r order
[ "$order" = work ]
[ "$(pwd)" = "$SCRATCH/desk" ]
dummy-tool > "$WORKSPACE/a.txt"
mkdir "$SCRATCH/state"
echo "kept by the pack" > "$SCRATCH/state/notes.txt"
ln -s /etc/passwd "$SCRATCH/state/link"
echo changed
read -r order
[ "$order" = "that is all" ]
echo finished
while :; do read -r order || :; done
"#;

impl Adapter for DummyLane {
    fn lane(&self) -> Lane {
        LANE
    }

    fn revision(&self) -> u32 {
        1
    }

    fn plan(&self, around: Surroundings<'_>) -> LanePlan {
        let mut env = base_environment(around.places, around.path);
        env.insert("SCRATCH".to_owned(), around.places.scratch.clone());
        env.insert("WORKSPACE".to_owned(), around.places.workspace.clone());
        let script = format!("{}/agent.sh", around.places.scratch);
        let shell = |words: &[&str]| {
            let words = std::iter::once(&"/bin/sh").chain(words);
            words.map(|word| (*word).to_owned()).collect::<Vec<_>>()
        };
        LanePlan {
            argv: shell(&[&script]),
            env,
            working_directory: WorkingDirectory::Scratch("desk".to_owned()),
            path_prefix: vec!["tools".to_owned()],
            scratch: vec![
                ScratchEntry::file("agent.sh", AGENT),
                ScratchEntry {
                    path: "tools/dummy-tool".to_owned(),
                    content: ScratchContent::Program(b"#!/bin/sh\necho new\n".to_vec()),
                },
            ],
            version_probe: Some(VersionProbe {
                argv: shell(&["-c", "echo dummy 1.2.3"]),
            }),
            collect: vec![Collection {
                from: CollectFrom::Scratch,
                path: "state".to_owned(),
                to: "state".to_owned(),
                bytes_max: 1 << 20,
            }],
            stdin: StdinUse::Dialogue,
            ..LanePlan::default()
        }
    }

    fn dialogue(&self) -> Box<dyn Dialogue> {
        Box::new(DummyDialogue::default())
    }
}

#[derive(Default)]
struct DummyDialogue {
    heard: Vec<u8>,
}

impl Dialogue for DummyDialogue {
    fn open(&mut self) -> Vec<Act> {
        vec![Act::Tell(b"work\n".to_vec())]
    }

    fn hear(&mut self, bytes: &[u8]) -> Vec<Act> {
        let mut acts = Vec::new();
        for byte in bytes {
            self.heard.push(*byte);
            if *byte != b'\n' {
                continue;
            }
            match std::mem::take(&mut self.heard).as_slice() {
                b"changed\n" => {
                    acts.push(Act::Note(Note::Plan("say goodbye".to_owned())));
                    acts.push(Act::Tell(b"that is all\n".to_vec()));
                }
                b"finished\n" => acts.push(Act::Finished),
                _ => {}
            }
        }
        acts
    }

    fn finish(self: Box<Self>) -> Ending {
        Ending::default()
    }
}

const CASE: &str = "schema: cto.case/v1
id: dummy
title: Write new
instruction: Write new into a.txt.
allowed_paths: [a.txt]
forbidden_actions: [push, merge, deploy, close, pr_open, issue_close, public_publication, credential_change, vendor_source_mutation, cortex_core_mutation]
verification_commands: [{run: grep -q new a.txt, must_fail_before: true}]
";

pub(super) fn put(path: &Path, text: &str) {
    use std::io::Write as _;
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = std::fs::File::create_new(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// The launcher that is built beside this test binary, whose own `main` is the test harness's.
pub(super) fn launcher() -> Launcher {
    let own = std::env::current_exe().unwrap();
    let built: Vec<PathBuf> = own
        .ancestors()
        .map(|dir| dir.join("cto-sandbox-launch"))
        .collect();
    let found = built.iter().find(|file| file.is_file());
    Launcher::at(found.expect("build it first: cargo build -p cto-sandbox --bins"))
}

fn harness(place: &Path) -> Harness {
    for dir in ["home", "config"] {
        use std::os::unix::fs::DirBuilderExt as _;
        let mut private = std::fs::DirBuilder::new();
        private.mode(0o700).create(place.join(dir)).unwrap();
    }
    let gates = [(LANE.gate(), "1"), (LANE.stage_gate(), "2")];
    let gates = gates.map(|(name, value)| (name.unwrap(), value.to_owned()));
    let usual = [
        ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ("HOME".to_owned(), place.display().to_string()),
    ];
    Harness::open(OpenOptions {
        home: place.join("home"),
        config: place.join("config"),
        env: Environment::new(usual.into_iter().chain(gates)),
        launcher: launcher(),
    })
    .unwrap()
}

#[test]
fn a_lane_is_spoken_to_ended_when_it_says_so_and_its_files_are_kept() {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let cases = place.path().join("cases");
    put(&cases.join("dummy/case.yaml"), CASE);
    put(&cases.join("dummy/workspace/a.txt"), "old\n");
    put(&cases.join("dummy/fake/a.txt"), "new\n");
    let catalog = Catalog { extra: Some(cases) };
    let request = RunRequest {
        task: Task::Case(catalog.find("dummy").unwrap()),
        lane: LANE,
        argv: vec!["/bin/sh".to_owned()],
        stage: Some(Stage::FIXTURE),
        timeout_seconds: Some(60),
        cheat: None,
        parent: None,
        conformance: true,
        sandbox: SandboxAsk::default(),
        approval: Default::default(),
    };
    let harness = harness(place.path());
    let mut events: Vec<RunEvent> = Vec::new();
    let result = harness
        .run(&request, &StopToken::new().unwrap(), &mut |event| {
            events.push(event.clone());
        })
        .unwrap();
    let verdict = &result.report.verdict;
    assert_eq!(verdict.status, RunStatus::Pass, "{:#?}", verdict.blockers);
    let started = events.iter().find_map(|e| {
        let EventKind::BackendStarted(data) = &e.kind else {
            return None;
        };
        Some(data)
    });
    let version = started.unwrap().version_output.as_deref();
    assert_eq!(version, Some("dummy 1.2.3"));
    assert!(
        events
            .iter()
            .any(|e| matches!(&e.kind, EventKind::BackendPlan(data) if data.text == "say goodbye"))
    );
    let finished = events.iter().find_map(|e| {
        let EventKind::BackendFinished(data) = &e.kind else {
            return None;
        };
        Some(data)
    });
    let finished = finished.unwrap();
    assert_eq!(finished.stopped_by, Some(BackendStop::Finished));
    assert_eq!(finished.completion, BackendCompletion::Harness);
    assert!(finished.no_survivors);
    let kept = result.pack.join("backend/state/notes.txt");
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "kept by the pack\n");
    assert!(!result.pack.join("backend/state/link").exists());
    assert_eq!(result.report.change.changed_files, ["a.txt"]);
}
