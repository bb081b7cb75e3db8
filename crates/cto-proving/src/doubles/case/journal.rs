//! What Case writes while it works: its event file, its plan, its task file, its markers.

use std::fs::{DirBuilder, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use cto_contract::ids::to_hex;
use serde_json::{Value, json};

use super::Quirk;
use super::pipeline::Event;
use super::settings::Settings;

/// Longest text of a tool's arguments and results.
const TEXT_CHARS_MAX: usize = 500;

/// The state of one run.
pub(super) struct Journal {
    pub(super) run_id: String,
    repository: PathBuf,
    /// `.case/<id>` in the repository.
    state: PathBuf,
    task_file: PathBuf,
    files: Vec<PathBuf>,
    sequence: u64,
    begun: Instant,
}

impl Journal {
    pub(super) fn open(settings: &Settings, quirks: &[Quirk]) -> io::Result<Self> {
        let random = || cto_runner::random::<16>().map_err(io::Error::other);
        let state = settings.repository.join(".case").join(&settings.id);
        let run_id = uuid(&random()?);
        let events = |id: &str| state.join("events").join(format!("run-{id}.jsonl"));
        let mut files = vec![events(&run_id)];
        if quirks.contains(&Quirk::NoEvents) {
            files.clear();
        }
        if quirks.contains(&Quirk::TwoEventFiles) {
            files.push(events(&uuid(&random()?)));
        }
        // Once: a directory that goes away ends the program.
        for file in &files {
            make_directory_above(file)?;
        }
        Ok(Self {
            run_id,
            repository: settings.repository.clone(),
            state,
            task_file: settings.task_file.clone(),
            files,
            sequence: 0,
            begun: Instant::now(),
        })
    }

    pub(super) fn now(&self) -> String {
        cto_runner::now().to_string()
    }

    pub(super) fn elapsed(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn keep_plan(&self, plan: &Value) -> io::Result<()> {
        put(&self.state.join("plan.json"), plan.to_string().as_bytes())
    }

    /// Appends events, and writes what follows from them into task file and markers.
    pub(super) fn tell(&mut self, events: Vec<Event>) -> Result<(), String> {
        for event in events {
            self.tell_one(event).map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    fn tell_one(&mut self, event: Event) -> io::Result<()> {
        self.sequence += 1;
        let line = stamp(event, &self.now(), self.sequence, &self.run_id);
        for path in &self.files {
            let mut file = File::options().append(true).create(true).open(path)?;
            file.write_all(format!("{line}\n").as_bytes())?;
        }
        self.project(&line)
    }

    /// The task file is written anew in its place, and an evaluator that completes leaves its marker.
    fn project(&self, event: &Value) -> io::Result<()> {
        let text = |name: &str| event.get(name).and_then(Value::as_str);
        if let (Some("phase_end"), Some("completed"), Some(phase)) =
            (text("event"), text("outcome"), text("phase"))
        {
            let marker = match phase {
                "verify" => Some("tested"),
                "review" => Some("reviewed"),
                _ => None,
            };
            for marker in marker.into_iter().map(|name| self.state.join(name)) {
                if !marker.exists() {
                    put(&marker, self.now().as_bytes())?;
                }
            }
        }
        // Whoever broke the file has no task any more; the walk goes on.
        let Ok(Ok(Value::Object(mut task))) =
            std::fs::read(&self.task_file).map(|bytes| serde_json::from_slice(&bytes))
        else {
            return Ok(());
        };
        if let Some(to) = text("to") {
            task.insert("status".to_owned(), json!(to));
        }
        if let (Some(agent), Some(outcome)) = (text("agent"), text("outcome")) {
            let agents = task.entry("agents").or_insert(json!({}));
            agents[agent] = json!({"status": outcome});
        }
        let text = format!("{:#}\n", Value::Object(task));
        put(&self.task_file, text.as_bytes())
    }

    pub(super) fn keep_metrics(&self, outcome: &str) -> io::Result<()> {
        let path = self.repository.join(".case/run-log.jsonl");
        let line = json!({"runId": self.run_id, "outcome": outcome});
        let mut file = File::options().append(true).create(true).open(path)?;
        file.write_all(format!("{line}\n").as_bytes())
    }
}

/// An event with what every line has.
pub(super) fn stamp(mut event: Event, now: &str, sequence: u64, run: &str) -> Value {
    let more = [
        ("ts", json!(now)),
        ("sequence", json!(sequence)),
        ("runId", json!(run)),
    ];
    event.extend(more.map(|(name, value)| (name.to_owned(), value)));
    Value::Object(event)
}

/// A text as it stands in the events of a tool.
pub(super) fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

/// Writes a file and the directories above it, over whatever was there.
pub(super) fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    make_directory_above(path)?;
    File::create(path)?.write_all(bytes)
}

fn make_directory_above(path: &Path) -> io::Result<()> {
    match path.parent() {
        None => Ok(()),
        Some(above) => DirBuilder::new().recursive(true).create(above),
    }
}

fn uuid(random: &[u8; 16]) -> String {
    let hex = to_hex(random);
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!(
        "{}-{}-{}-{}-{}",
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32)
    )
}
