//! The `case` lane: WorkOS Case, binary `ca`.
//!
//! It stands in an empty directory of scratch, never in the workspace: it loads `.env` and runs what a `bunfig.toml` names
//! from where it stands. Its task, its config and its providers are the run's own; nothing of the operator's is read.

mod answers;
mod config;
mod events;
mod task;

use std::time::Duration;

use cto_contract::event::EventFileFault;
use cto_contract::words::Lane;

use crate::dialogue::{Act, Dialogue, Ending, ModelAnswer, Note};
use crate::plan::{
    CollectFrom, Collection, FollowedFile, LanePlan, ModelAddress, PLACEHOLDER_KEY, PackFile,
    ScratchContent, ScratchEntry, VersionProbe, WorkingDirectory, base_environment,
};
use crate::{Adapter, Surroundings};

pub use config::{ModelPair, names_pair};
pub use events::{CaseEvents, CaseNews, EVENT_BYTES_MAX};

use answers::Answers;
use config::RUNTIME_PROVIDER;

const DESK: &str = "desk";
const DATA: &str = "case-data";
const TASKS: &str = "case-task";
const TOOLS: &str = "case-bin";
/// State that is kept after every end.
const STATE: &str = ".case";
const STATE_BYTES_MAX: u64 = 16 << 20;
/// Most of an event file that is read while it grows.
const EVENTS_BYTES_MAX: u64 = 16 << 20;
/// How long it may take to leave after it has said that all is over.
const LEAVE: Duration = Duration::from_secs(5);
const NOTES_MAX: usize = 100;

/// One attempt at a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseLane {
    /// Path of `ca`, as it is seen inside.
    pub program: String,
    /// Fresh for this attempt.
    pub task_id: String,
    /// RFC 3339.
    pub created: String,
    pub allowed_paths: Vec<String>,
    pub test_command: Option<String>,
    /// The pair that was asked for, and must be the admitted one.
    pub pair: ModelPair,
}

impl CaseLane {
    /// The one shape of its command line.
    fn argv(&self, scratch: &str) -> Vec<String> {
        let task = format!("{scratch}/{}", self.task_file());
        let words = ["run", "--task", &task, "--mode", "unattended"];
        let words = std::iter::once(self.program.as_str()).chain(words);
        words.map(str::to_owned).collect()
    }

    /// The pair that its config names.
    fn runtime_pair(&self) -> ModelPair {
        ModelPair {
            provider: RUNTIME_PROVIDER.to_owned(),
            model: self.pair.model.clone(),
        }
    }

    fn task_file(&self) -> String {
        format!("{TASKS}/{}.task.json", self.task_id)
    }

    /// What its program must find as it was planned. It writes its keys' file itself, even when it is only asked for help.
    fn fixed(&self) -> Vec<String> {
        let data = ["config.json", "projects.json", "pi-agent/models.json"];
        let data = data.map(|name| format!("{DATA}/{name}"));
        let task = [self.task_file(), format!("{TASKS}/{}.md", self.task_id)];
        task.into_iter().chain(data).collect()
    }

    /// What no role may change: their models and their task are read anew for each of them. Case writes its task file itself.
    fn read_only(&self) -> Vec<String> {
        let own = format!("{TOOLS}/ca");
        let fixed = self.fixed().into_iter();
        let fixed = fixed.filter(|path| *path != self.task_file());
        fixed.chain([own]).collect()
    }

    fn files(&self, around: &Surroundings<'_>) -> Vec<ScratchEntry> {
        let address = around.model.map(ModelAddress::base_url).unwrap_or_default();
        let task = |ending: &str| format!("{TASKS}/{}{ending}", self.task_id);
        let data = |name: &str| format!("{DATA}/{name}");
        let test = self.test_command.as_deref();
        let brief = task::task_markdown(&around.brief.markdown, &self.allowed_paths);
        let files = [
            (
                task(".task.json"),
                task::task_json(&self.task_id, &self.created),
            ),
            (task(".md"), brief.into_bytes()),
            (data("config.json"), config::config(&self.runtime_pair())),
            (
                data("projects.json"),
                config::projects(&around.places.workspace, test),
            ),
            (
                data("pi-agent/models.json"),
                config::models(&self.pair.model, &address),
            ),
            (data("pi-agent/auth.json"), b"{}\n".to_vec()),
        ];
        let files = files.map(|(path, bytes)| ScratchEntry::file(&path, bytes));
        // Its roles call `ca` by that name, whatever the file is called.
        let own = ScratchEntry {
            path: format!("{TOOLS}/ca"),
            content: ScratchContent::Program(wrapper(&self.program, &self.task_id)),
        };
        files.into_iter().chain([own]).collect()
    }

    /// What the pack shows of its config, without endpoint and key, and which provider stands for which.
    fn pack_files(&self) -> Vec<PackFile> {
        let bridge = format!(
            "admitted provider: {}\nadmitted model: {}\nruntime provider: {}\n\
             The runtime provider is how the lane speaks to the harness's forwarder. It admits nothing.\n",
            self.pair.provider, self.pair.model, RUNTIME_PROVIDER
        );
        let files = [
            ("case-data/config.json", config::config(&self.pair)),
            (
                "case-data/runtime-config.json",
                config::config(&self.runtime_pair()),
            ),
            (
                "case-data/pi-agent/models.json",
                config::shown_models(&self.pair.model),
            ),
            ("case-data/pi-agent/auth.json", b"{}\n".to_vec()),
            ("case-runtime-provider.txt", bridge.into_bytes()),
        ];
        let file = |(path, bytes): (&str, Vec<u8>)| PackFile {
            path: path.to_owned(),
            bytes,
        };
        files.map(file).into()
    }
}

/// Whether a command line is the one that Case is ever started with.
pub fn is_case_command(argv: &[String]) -> bool {
    match argv {
        [program, run, task, file, mode, unattended] => {
            !program.is_empty()
                && run == "run"
                && task == "--task"
                && file.ends_with(".task.json")
                && mode == "--mode"
                && unattended == "unattended"
        }
        _ => false,
    }
}

/// A small program that becomes another one. The roles are asked to leave marks with it, and a task that is named on the
/// command line is active for nobody: the first mark says that it is.
fn wrapper(program: &str, task: &str) -> Vec<u8> {
    let quoted = program.replace('\'', r"'\''");
    format!(
        "#!/bin/sh\n\
         if [ -d '{STATE}/{task}' ] && [ ! -e {STATE}/active ]; then echo '{task}' > {STATE}/active; fi\n\
         exec '{quoted}' \"$@\"\n"
    )
    .into_bytes()
}

impl Adapter for CaseLane {
    fn lane(&self) -> Lane {
        Lane::Case
    }

    fn revision(&self) -> u32 {
        crate::revision(Lane::Case)
    }

    fn plan(&self, around: Surroundings<'_>) -> LanePlan {
        let scratch = &around.places.scratch;
        let mut env = base_environment(around.places, around.path);
        for (name, value) in [
            ("CASE_DATA_DIR", format!("{scratch}/{DATA}")),
            ("PI_CODING_AGENT_DIR", format!("{scratch}/{DATA}/pi-agent")),
            (config::KEY_VARIABLE, PLACEHOLDER_KEY.to_owned()),
            ("SHELL", "/bin/bash".to_owned()),
        ] {
            env.insert(name.to_owned(), value);
        }
        LanePlan {
            argv: self.argv(scratch),
            env,
            working_directory: WorkingDirectory::Scratch(DESK.to_owned()),
            path_prefix: vec![TOOLS.to_owned()],
            scratch: self.files(&around),
            fixed: self.fixed(),
            read_only: self.read_only(),
            pack_files: self.pack_files(),
            // The older build has no `--version`, and starts its default flow.
            version_probe: Some(VersionProbe {
                argv: vec![self.program.clone(), "--help".to_owned()],
            }),
            collect: vec![Collection {
                from: CollectFrom::Workspace,
                path: STATE.to_owned(),
                to: "case-state".to_owned(),
                bytes_max: STATE_BYTES_MAX,
            }],
            follow: Some(FollowedFile {
                from: CollectFrom::Workspace,
                directory: format!("{STATE}/{}/events", self.task_id),
                prefix: "run-".to_owned(),
                suffix: ".jsonl".to_owned(),
                bytes_max: EVENTS_BYTES_MAX,
            }),
            overhear: Some(answers::wanted()),
            runtime_model_provider: Some(RUNTIME_PROVIDER.to_owned()),
            ..LanePlan::default()
        }
    }

    fn objection(&self, plan: &LanePlan) -> Option<String> {
        let file = |path: &str| {
            let mut entries = plan.scratch.iter().filter(|entry| entry.path == path);
            entries.next().and_then(|entry| match &entry.content {
                ScratchContent::File(bytes) => Some(bytes.as_slice()),
                ScratchContent::Program(_) | ScratchContent::Directory => None,
            })
        };
        let config = format!("{DATA}/config.json");
        let mut shown = plan.pack_files.iter().filter(|file| file.path == config);
        let shown = shown.next().map(|file| file.bytes.as_slice());
        let names = |config: Option<&[u8]>, pair: &ModelPair| {
            config.is_some_and(|config| names_pair(config, pair))
        };
        let is_own_task = |task: &[u8]| task::is_task(task, &self.task_id, &self.created);
        if !is_case_command(&plan.argv) {
            Some("Case is started in one shape only, and this is another".to_owned())
        } else if !plan.argv[3].ends_with(&self.task_file())
            || !file(&self.task_file()).is_some_and(is_own_task)
        {
            Some("the task file is not that of the contract".to_owned())
        } else if !names(shown, &self.pair) || !names(file(&config), &self.runtime_pair()) {
            Some("the config does not give the admitted pair to every role".to_owned())
        } else {
            None
        }
    }

    fn dialogue(&self) -> Box<dyn Dialogue> {
        Box::new(CaseDialogue::default())
    }
}

/// Listens to the event file; what Case prints is only kept.
#[derive(Default)]
struct CaseDialogue {
    events: CaseEvents,
    answers: Answers,
    notes: usize,
    ended_at: Option<Duration>,
}

impl CaseDialogue {
    fn note(&mut self, news: CaseNews) -> Option<Act> {
        if let CaseNews::Does(activity) = news {
            return Some(Act::Note(Note::Activity(activity)));
        }
        self.notes += 1;
        if self.notes > NOTES_MAX {
            return None;
        }
        let text = match news {
            CaseNews::Plan(phases) => phases.join(", "),
            CaseNews::PhaseStarted(phase) => format!("{phase} started"),
            CaseNews::RevisionRequested(source) => format!("the {source} asks for a revision"),
            CaseNews::Does(_) => return None,
        };
        Some(Act::Note(Note::Plan(text)))
    }
}

impl Dialogue for CaseDialogue {
    fn hear(&mut self, _: &[u8]) -> Vec<Act> {
        Vec::new()
    }

    fn read(&mut self, bytes: &[u8]) -> Vec<Act> {
        let news = self.events.feed(bytes);
        news.into_iter().filter_map(|n| self.note(n)).collect()
    }

    fn distrust(&mut self, fault: EventFileFault) {
        self.events.distrust(fault);
    }

    fn tick(&mut self, since_start: Duration) -> Vec<Act> {
        if !self.events.has_ended() || !self.may_be_ended() {
            return Vec::new();
        }
        let ended_at = *self.ended_at.get_or_insert(since_start);
        match since_start.saturating_sub(ended_at) >= LEAVE {
            true => vec![Act::Finished],
            false => Vec::new(),
        }
    }

    fn may_be_ended(&self) -> bool {
        self.events.is_reviewed()
    }

    fn overhear(&mut self, answer: &ModelAnswer) {
        self.answers.hear(answer);
    }

    fn finish(mut self: Box<Self>) -> Ending {
        let (told, ends) = (self.events.so_far(), self.events.ends());
        if self.answers.contradict(told, ends) {
            self.events.distrust(EventFileFault::Contradicted);
        }
        Ending {
            pipeline: Some(self.events.finish()),
            ..Ending::default()
        }
    }
}

#[cfg(test)]
mod tests;
