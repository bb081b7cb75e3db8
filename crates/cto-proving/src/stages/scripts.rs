//! What the agent does in each run: as a shell script for a `command`, as a script of the model for every other lane.

use cto_contract::model_script::{ModelScript, ScriptScene, ScriptSchema, ScriptStep};
use cto_contract::words::Lane;
use serde_json::json;

/// What the agent does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Act {
    /// The change that was asked for.
    Works,
    /// Nothing, and it says that all is done.
    Talks,
    /// The change, and one out of bounds.
    EditsOutside,
    /// A change that the checks refuse.
    WorksWrongly,
    /// It never ends.
    Hangs,
}

impl Act {
    pub(super) const ALL: [Self; 5] = [
        Self::Works,
        Self::Talks,
        Self::EditsOutside,
        Self::WorksWrongly,
        Self::Hangs,
    ];

    /// As a shell would do it.
    pub(super) const fn shell(self) -> &'static str {
        match self {
            Self::Works => "echo new > a.txt",
            Self::Talks => "echo all done",
            Self::EditsOutside => "echo new > a.txt; echo more >> b.txt",
            Self::WorksWrongly => "echo wrong > a.txt",
            Self::Hangs => "exec sleep 600",
        }
    }
}

/// The script of a model that has the lane's program do it.
pub(super) fn model_script(lane: Lane, act: Act) -> ModelScript {
    let run = |command: &str| ScriptStep::Run(command.to_owned());
    let work = match act {
        Act::Talks => Vec::new(),
        Act::Works | Act::EditsOutside | Act::WorksWrongly | Act::Hangs => vec![run(act.shell())],
    };
    let finish = |text: &str| ScriptStep::Finish(text.to_owned());
    if lane != Lane::Case {
        let said = finish("Done, all tests pass");
        return ModelScript {
            schema: ScriptSchema,
            steps: work.into_iter().chain([said]).collect(),
            scenes: Vec::new(),
        };
    }
    let commit = run("git add -A && git commit -qm work --allow-empty");
    let implemented = envelope(json!({"status": "completed", "summary": "done",
        "artifacts": {"filesChanged": ["a.txt"], "testsPassed": true}}));
    let verified = envelope(json!({"status": "completed", "summary": "verified",
        "rubric": {"role": "verifier", "categories":
            [{"category": "edge-case-checked", "verdict": "pass", "detail": ""}]}}));
    let names = [
        "principle-compliance",
        "test-sufficiency",
        "scope-discipline",
        "pattern-fit",
    ];
    let categories = names.map(|name| json!({"category": name, "verdict": "pass", "detail": ""}));
    let reviewed = envelope(json!({"status": "completed", "summary": "reviewed",
        "findings": {"critical": 0, "warnings": 0, "info": 0, "details": []},
        "rubric": {"role": "reviewer", "categories": categories}}));
    let scene = |when: &str, steps: Vec<ScriptStep>| ScriptScene {
        when: when.to_owned(),
        steps,
    };
    let implement = work.into_iter().chain([commit, finish(&implemented)]);
    ModelScript {
        schema: ScriptSchema,
        steps: vec![finish(&verified)],
        scenes: vec![
            scene("name: implementer", implement.collect()),
            scene("name: reviewer", vec![finish(&reviewed)]),
        ],
    }
}

fn envelope(result: serde_json::Value) -> String {
    format!("Done.\n<<<AGENT_RESULT\n{result}\nAGENT_RESULT>>>\n")
}
