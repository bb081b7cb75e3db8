//! The double of WorkOS Case: phases, events, files and exits as the two builds that were tried have them.
//!
//! It is no replay: its roles ask their model and use tools, so that what a script has the model say and do decides how a
//! run ends. Its file name says only what no model can bring about ([`Quirk`]).

mod envelope;
mod journal;
mod pipeline;
mod role;
mod settings;
mod shell;

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use cto_runner::Environment;

use super::Call;
use journal::Journal;
use pipeline::{Pipeline, Profile, Role};
use settings::Settings;

/// What of the double differs from the newer build at its best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quirk {
    /// Knows no `--version` and starts its default flow then.
    OlderBuild,
    /// Ends with 1 where a result is missing or the pipeline was aborted, as recorded runs did.
    ExitOne,
    /// Stays after everything has ended.
    Lingers,
    /// Writes nothing about its phases.
    NoEvents,
    /// Writes two files about its phases.
    TwoEventFiles,
    /// Is the program of the same name from another registry.
    NotCase,
}

impl Quirk {
    const NAMES: [(Self, &'static str); 6] = [
        (Self::OlderBuild, "older-build"),
        (Self::ExitOne, "exit-one"),
        (Self::Lingers, "lingers"),
        (Self::NoEvents, "no-events"),
        (Self::TwoEventFiles, "two-event-files"),
        (Self::NotCase, "not-case"),
    ];

    /// The word in the file name of the double.
    pub fn as_str(self) -> &'static str {
        let mut names = Self::NAMES.iter().filter(|(quirk, _)| *quirk == self);
        names.next().map_or("", |(_, name)| name)
    }

    /// Reads the words behind the lane in a file name: one for each quirk, with dots between them.
    fn read_all(words: &str) -> Result<Vec<Self>, String> {
        let quirk = |word: &str| {
            let mut names = Self::NAMES.iter();
            let found = names.find(|(_, name)| *name == word);
            found.map(|(quirk, _)| *quirk).ok_or(word.to_owned())
        };
        words.split('.').map(quirk).collect()
    }
}

/// Longest that a double stays that lingers: the harness ends it long before.
const LINGER: Duration = Duration::from_secs(3_600);

const HELP: &str = "Usage: ca <command> [options]\n\nCommands:\n  run             Run the pipeline for a task\n  mark-tested     Note that the tests ran\n  mark-reviewed   Note that a review was made\n";

/// Runs the double.
pub(super) fn run(call: &Call) -> ExitCode {
    let args: Vec<&str> = call.args.iter().map(String::as_str).collect();
    if let ["--own-session", command] = args.as_slice() {
        return shell::become_command(command);
    }
    let quirks = match call.behaviour.as_deref().map(Quirk::read_all) {
        None => Vec::new(),
        Some(Ok(quirks)) => quirks,
        Some(Err(word)) => return fatal(&format!("the double of Case knows no `{word}`")),
    };
    let has = |quirk| quirks.contains(&quirk);
    let env = Environment::from_os(std::env::vars_os());
    if has(Quirk::NotCase) {
        say("Usage: case <type> <text>\n");
        return ExitCode::SUCCESS;
    }
    // Whatever it is asked, it leaves these two.
    settings::leave_traces(&env);
    match args.as_slice() {
        ["--help" | "-h"] => {
            say(HELP);
            ExitCode::SUCCESS
        }
        ["--version"] if !has(Quirk::OlderBuild) => {
            say("0.1.0\n");
            ExitCode::SUCCESS
        }
        ["mark-tested"] => mark("tested"),
        ["mark-reviewed", ..] => mark("reviewed"),
        ["run", "--task", task, "--mode", "unattended"] => pipeline(call, task, &env, &quirks),
        // Its default flow: it looks for an issue of the repository where it stands.
        _ => fatal("Repo not found in projects.json for cwd"),
    }
}

fn pipeline(call: &Call, task: &str, env: &Environment, quirks: &[Quirk]) -> ExitCode {
    match walk(call, task, env, quirks) {
        Ok(end) => {
            if quirks.contains(&Quirk::Lingers) {
                std::thread::sleep(LINGER);
            }
            match end {
                End::Failed if quirks.contains(&Quirk::ExitOne) => ExitCode::FAILURE,
                End::Completed | End::Failed => ExitCode::SUCCESS,
            }
        }
        Err(why) => fatal(&why),
    }
}

/// What its `pipeline_end` says.
enum End {
    Completed,
    Failed,
}

fn walk(call: &Call, task: &str, env: &Environment, quirks: &[Quirk]) -> Result<End, String> {
    // The real program runs what a file here names, so it must not be started among files.
    if std::fs::read_dir(".").is_ok_and(|mut entries| entries.next().is_some()) {
        return Err("it stands among files: `.env` and `bunfig.toml` would be obeyed".to_owned());
    }
    let settings = Settings::read(task, env)?;
    let profile = Profile::of(settings.profile.as_deref());
    let mut journal = Journal::open(&settings, quirks).map_err(|e| e.to_string())?;
    let mut pipeline = Pipeline::new(profile);
    let plan = pipeline.plan(&settings.id, &journal.run_id, &journal.now());
    journal.keep_plan(&plan).map_err(|e| e.to_string())?;
    journal.tell(pipeline.start(&settings.id, plan))?;
    while let Some(begun) = pipeline.begin() {
        journal.tell(begun.events)?;
        let role = begun.role;
        let spoken = role::Speaker {
            program: &call.program,
            settings: &settings,
            role,
            revision: begun.revision,
        };
        let mut result = spoken.work(&mut journal)?;
        // An implementer that fails tries once more; a second failure leaves the first one standing.
        if role == Role::Implement && !result.is_completed() {
            let again = spoken.work(&mut journal)?;
            result = if again.is_completed() { again } else { result };
        }
        if result.is_without_envelope() {
            complain(&format!("{}: {}", role.agent(), result.error()));
        }
        journal.tell(pipeline.end(result))?;
    }
    journal.tell(pipeline.finish(journal.elapsed()))?;
    journal
        .keep_metrics(pipeline.outcome())
        .map_err(|e| e.to_string())?;
    Ok(match pipeline.has_failed() {
        true => End::Failed,
        false => End::Completed,
    })
}

/// What `ca mark-…` leaves in the state of the task that is active.
fn mark(name: &str) -> ExitCode {
    let active = std::fs::read_to_string(".case/active").unwrap_or_default();
    let active = active.trim();
    if active.is_empty() {
        return fatal("No active task");
    }
    let marker = format!(".case/{active}/{name}");
    match journal::put(
        std::path::Path::new(&marker),
        cto_runner::now().to_string().as_bytes(),
    ) {
        Ok(()) => {
            complain(&format!("{marker} created"));
            ExitCode::SUCCESS
        }
        Err(error) => fatal(&error.to_string()),
    }
}

fn fatal(why: &str) -> ExitCode {
    complain(&format!("Fatal: {why}"));
    ExitCode::FAILURE
}

// Whoever can't hear it sees the code.
fn complain(text: &str) {
    writeln!(io::stderr(), "{text}").ok();
}

fn say(text: &str) {
    io::stdout().write_all(text.as_bytes()).ok();
}

#[cfg(test)]
mod tests;
