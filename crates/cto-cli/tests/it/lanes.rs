//! A place with everything that a run of an installed agent needs: gates, records, a model, and its program.

use std::path::{Path, PathBuf};

use cto_contract::model_script::{FaultScope, ModelFault};
use cto_contract::words::Lane;
use cto_egress::{ScriptedModel, ScriptedOptions};
use serde_json::Value;

use crate::place::{Place, Ran, search_path, write};

/// Starts a model that does this.
pub(crate) fn scripted(steps: &str) -> ScriptedModel {
    let script = format!("schema: cto.model-script/v1\nsteps:\n{steps}");
    let options = ScriptedOptions {
        script: cto_contract::document::read("script.yaml", script.as_bytes()).unwrap(),
        fault: ModelFault::Ok,
        scope: FaultScope::Every,
        record: None,
    };
    ScriptedModel::start(0, options).unwrap()
}

/// One lane with its program, in a home of its own.
pub(crate) struct LanePlace {
    pub(crate) place: Place,
    pub(crate) lane: Lane,
    env: Vec<(String, String)>,
}

impl LanePlace {
    pub(crate) fn new(lane: Lane, program: &Path) -> Self {
        let place = Place::elsewhere().with_key();
        write(
            &place.path("config/cto/harness.yaml"),
            "schema: cto.harness/v1\nproviders: {scripted: {}}\n",
        );
        write(&place.path("config/cto/model.yaml"), &model_record());
        let name = lane.as_str().to_ascii_uppercase();
        let set = |variable: &str, value: &str| {
            (
                format!("CTO_HARNESS_{}", variable.replace("LANE", &name)),
                value.to_owned(),
            )
        };
        let env = vec![
            set("ALLOW_LANE", "1"),
            set("LANE_BIN", program.to_str().unwrap()),
            set("LANE_MODEL_PROVIDER", "scripted"),
            set("LANE_MODEL", "scripted"),
        ];
        Self { place, lane, env }
    }

    /// With a directory of programs before all others.
    pub(crate) fn with_path(mut self, first: &Path) -> Self {
        let path = format!("{}:{}", first.display(), search_path());
        self.env.push(("PATH".to_owned(), path));
        self
    }

    /// Runs with these arguments at a stage, with the model at this address.
    pub(crate) fn run(&self, stage: u8, url: &str, args: &[&str]) -> (i32, Value) {
        let stage = stage.to_string();
        let lane = self.lane.as_str();
        let all = [
            &["run"],
            args,
            &["--engine", lane, "--stage", &stage, "--json", "-q"],
        ]
        .concat();
        let mut command = self.place.command(&all);
        let name = lane.to_ascii_uppercase();
        command.envs(self.env.iter().cloned());
        command.env(format!("CTO_HARNESS_{name}_STAGE"), &stage);
        command.env(format!("CTO_HARNESS_{name}_LOCAL_BASE_URL"), url);
        let ran = Ran::of(command.output().unwrap());
        (ran.code.unwrap(), ran.json())
    }

    /// Another command, in the environment of the lane.
    pub(crate) fn cto(&self, args: &[&str]) -> Ran {
        let mut command = self.place.command(args);
        command.envs(self.env.iter().cloned());
        Ran::of(command.output().unwrap())
    }

    pub(crate) fn verify(&self, report: &Value) -> Ran {
        let id = report["run_id"].as_str().unwrap();
        self.place.cto(&["verify", id])
    }

    pub(crate) fn pack(&self, report: &Value) -> PathBuf {
        self.place.pack(report["run_id"].as_str().unwrap())
    }
}

pub(crate) fn model_record() -> String {
    "status: admitted\nprovider: scripted\nmodel: scripted\ncredential_source_class: none\nallowed_network_class: loopback\napproval_source: the tests\nadmission_timestamp: 2026-01-01\nreview_trigger: before another model\n".to_owned()
}

/// The first blocker, with status and fault, as the fault table has it.
pub(crate) fn told(report: &Value) -> String {
    let text = |name: &str| report[name].as_str().unwrap_or("?").to_owned();
    let code = report["blockers"][0]["code"].as_str().unwrap_or("none");
    format!("{} {code} {}", text("status"), text("fault_class"))
}

/// Types of the events that a program told, as its stdout has them.
pub(crate) fn kinds(text: &str) -> std::collections::BTreeSet<String> {
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let kind = |line: Value| {
        let text = |path: &str| {
            line.pointer(path)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let name = text("/type")?;
        let subtype = text("/subtype").filter(|_| name == "system");
        let more = subtype.or_else(|| text("/item/type"));
        Some(more.map_or(name.clone(), |more| format!("{name} {more}")))
    };
    lines.filter_map(kind).collect()
}
