//! Doubles of Codex, Pi and Claude Code: they read the config that the lane laid out, ask their model on their wire, run what
//! it calls for, and tell of it in events that were recorded from the real programs.
//!
//! What goes wrong at the provider comes from the scripted model. What a program itself does wrong comes from the double's
//! name: `endless`, `deaf`, `daemon`, `dies`, `hangs`, `half`, `newer`.

mod model;
mod tape;
#[cfg(test)]
mod tests;

use std::io::Read as _;
use std::process::{Command, ExitCode, Stdio};

use cto_contract::words::{Lane, Wire};
use cto_runner::Environment;
use serde_json::{Value, json};

use super::Call;
use model::{Answer, Failure, Model, Turn};
use tape::Tape;
pub use tape::recording;

/// What is wrong with a double.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quirk {
    /// It prints without end.
    Endless,
    /// It never ends and does not hear SIGTERM.
    Deaf,
    /// It leaves a process behind, in a session of its own.
    Daemon,
    /// It kills itself after its work.
    Dies,
    /// It never ends.
    Hangs,
    /// Its last line is cut in half.
    Half,
    /// It tells of events that nobody knows yet, in lines of any length.
    Newer,
}

const QUIRKS: [(&str, Quirk); 7] = [
    ("endless", Quirk::Endless),
    ("deaf", Quirk::Deaf),
    ("daemon", Quirk::Daemon),
    ("dies", Quirk::Dies),
    ("hangs", Quirk::Hangs),
    ("half", Quirk::Half),
    ("newer", Quirk::Newer),
];

/// Runs the double of such a lane.
pub(super) fn run(call: &Call) -> ExitCode {
    let quirk = call.behaviour.as_deref();
    let known = |name: &str| QUIRKS.iter().find(|(known, _)| *known == name);
    let quirk = match quirk.map(known) {
        None => None,
        Some(Some((_, quirk))) => Some(*quirk),
        Some(None) => return wrong("this double has no such behaviour"),
    };
    if call.args.iter().any(|word| word == "--version") {
        print(version(call.lane));
        return ExitCode::SUCCESS;
    }
    let env = Environment::from_os(std::env::vars_os());
    let Some(model) = model_of(call, &env) else {
        return wrong("it was not told where its model is");
    };
    let mut task = String::new();
    if std::io::stdin().read_to_string(&mut task).is_err() || task.trim().is_empty() {
        return wrong("it was given no task");
    }
    let tape = Tape::of(call.lane);
    begin(&tape, call.lane, &task);
    if quirk == Some(Quirk::Newer) {
        print(r#"{"type":"hologram.started","shape":{"deep":[[[]]]}}"#);
        print(&format!("{{\"type\":\"{}\"}}", "x".repeat(5 << 20)));
    }
    match quirk {
        Some(Quirk::Endless) => loop {
            print(r#"{"type":"hologram.updated"}"#);
        },
        Some(Quirk::Hangs) => become_shell("sleep 100000"),
        Some(Quirk::Deaf) => become_shell("trap '' TERM; while :; do sleep 1; done"),
        Some(Quirk::Daemon | Quirk::Dies | Quirk::Half | Quirk::Newer) | None => {}
    }
    let outcome = work(&tape, &model, &task, quirk);
    match quirk {
        Some(Quirk::Dies) => become_shell("kill -KILL $$"),
        Some(Quirk::Daemon) => {
            run_command("setsid sleep 100000 >/dev/null 2>&1 &");
        }
        Some(Quirk::Endless | Quirk::Hangs | Quirk::Deaf | Quirk::Half | Quirk::Newer) | None => {}
    }
    outcome
}

fn version(lane: Lane) -> &'static str {
    match lane {
        Lane::Codex => "codex-cli 0.169.0",
        Lane::Pi => "0.87.1",
        Lane::Claude => "2.1.326 (Claude Code)",
        Lane::Fake | Lane::Command | Lane::Case | Lane::Acp => "",
    }
}

/// Where its model is, by the config that the lane laid out.
fn model_of(call: &Call, env: &Environment) -> Option<Model> {
    let word_after = |flag: &str| {
        let at = call.args.iter().position(|word| word == flag)?;
        call.args.get(at + 1).cloned()
    };
    let read = |variable: &str, name: &str| {
        std::fs::read_to_string(format!("{}/{name}", env.get(variable)?)).ok()
    };
    match call.lane {
        Lane::Codex => {
            let config = read("CODEX_HOME", "config.toml")?;
            let mut lines = config.lines();
            let url = lines.find_map(|line| line.strip_prefix("base_url = "))?;
            Some(Model {
                wire: Wire::Responses,
                base_url: serde_json::from_str(url).ok()?,
                name: word_after("-m")?,
            })
        }
        Lane::Pi => {
            let models: Value =
                serde_json::from_str(&read("PI_CODING_AGENT_DIR", "models.json")?).ok()?;
            let provider = models.get("providers")?.get(word_after("--provider")?)?;
            Some(Model {
                wire: Wire::ChatCompletions,
                base_url: provider.get("baseUrl")?.as_str()?.to_owned(),
                name: word_after("--model")?,
            })
        }
        Lane::Fake | Lane::Command | Lane::Case | Lane::Acp => None,
        Lane::Claude => Some(Model {
            wire: Wire::Messages,
            base_url: format!("{}/v1", env.get("ANTHROPIC_BASE_URL")?),
            name: word_after("--model")?,
        }),
    }
}

/// Everything that comes before the first answer.
fn begin(tape: &Tape, lane: Lane, task: &str) {
    match lane {
        Lane::Codex => {
            tape.tell(&[("/type", "thread.started")], &[]);
            tape.tell(&[("/type", "item.completed"), ("/item/type", "error")], &[]);
            tape.tell(&[("/type", "turn.started")], &[]);
        }
        Lane::Pi => {
            for name in ["session", "agent_start", "turn_start"] {
                tape.tell(&[("/type", name)], &[]);
            }
            for (role, text) in [("system", None), ("user", Some(task))] {
                let set = text.map(|text| ("/message/content/0/text", json!(text)));
                let set: Vec<_> = set.into_iter().collect();
                for name in ["message_start", "message_end"] {
                    tape.tell(&[("/type", name), ("/message/role", role)], &set);
                }
            }
        }
        Lane::Claude => tape.tell(&[("/type", "system"), ("/subtype", "init")], &[]),
        Lane::Fake | Lane::Command | Lane::Case | Lane::Acp => {}
    }
}

/// Asks and does what it is told, until the model calls for nothing more.
fn work(tape: &Tape, model: &Model, task: &str, quirk: Option<Quirk>) -> ExitCode {
    let mut turns: Vec<Turn> = Vec::new();
    loop {
        let answer = match asked(tape, model, task, &turns) {
            Ok(answer) => answer,
            Err(failure) => return fail(tape, model.wire, &failure),
        };
        let output = answer.command.as_ref().map(|command| {
            tell_start(tape, model.wire, &answer);
            let output = run_command(command);
            tell_end(tape, model.wire, command, &output);
            output
        });
        let Some(output) = output else {
            tell_start(tape, model.wire, &answer);
            let used = turns.iter().map(|turn| turn.answer.input);
            let input = used.sum::<u64>() + answer.input;
            return finish(tape, model.wire, &answer, input, quirk);
        };
        turns.push(Turn { answer, output });
    }
}

/// Asks as often as the real program does: Codex and Claude Code once more after a failure.
fn asked(tape: &Tape, model: &Model, task: &str, turns: &[Turn]) -> Result<Answer, Failure> {
    match model.ask(task, turns) {
        Err(failure) if model.wire != Wire::ChatCompletions => {
            let why = format!("Reconnecting... 1/1 ({failure})");
            match model.wire {
                Wire::Responses => tape.tell(&[("/type", "error")], &[("/message", json!(why))]),
                Wire::Messages | Wire::ChatCompletions => {
                    tape.tell(&[("/type", "system"), ("/subtype", "api_retry")], &[]);
                }
            }
            model.ask(task, turns)
        }
        first => first,
    }
}

fn tell_start(tape: &Tape, wire: Wire, answer: &Answer) {
    let text = json!(answer.text);
    match wire {
        Wire::Responses => {
            if answer.is_reasoning {
                tape.tell(
                    &[("/type", "item.completed"), ("/item/type", "reasoning")],
                    &[],
                );
            }
            if !answer.text.is_empty() {
                tape.tell(
                    &[("/type", "item.completed"), ("/item/type", "agent_message")],
                    &[("/item/text", text)],
                );
            }
            if let Some(command) = &answer.command {
                let command = json!(format!("/bin/sh -c {command}"));
                tape.tell(
                    &[
                        ("/type", "item.started"),
                        ("/item/type", "command_execution"),
                    ],
                    &[("/item/command", command)],
                );
            }
        }
        Wire::ChatCompletions => {
            tape.tell(
                &[("/type", "message_start"), ("/message/role", "assistant")],
                &[],
            );
            let stop = match answer.command {
                Some(_) => "toolUse",
                None => "stop",
            };
            let set = [
                ("/message/content/0/text", text),
                ("/message/usage/input", json!(answer.input)),
                ("/message/usage/cacheRead", json!(0)),
                ("/message/usage/output", json!(answer.output)),
            ];
            tape.tell(
                &[("/type", "message_end"), ("/message/stopReason", stop)],
                &set,
            );
            if let Some(command) = &answer.command {
                tape.tell(
                    &[("/type", "tool_execution_start")],
                    &[("/args/command", json!(command))],
                );
            }
        }
        Wire::Messages => {
            if answer.is_reasoning {
                tape.tell(
                    &[
                        ("/type", "assistant"),
                        ("/message/content/0/type", "thinking"),
                    ],
                    &[],
                );
            }
            if !answer.text.is_empty() {
                tape.tell(
                    &[("/type", "assistant"), ("/message/content/0/type", "text")],
                    &[("/message/content/0/text", text)],
                );
            }
            if let Some(command) = &answer.command {
                let set = [("/message/content/0/input/command", json!(command))];
                tape.tell(
                    &[
                        ("/type", "assistant"),
                        ("/message/content/0/type", "tool_use"),
                    ],
                    &set,
                );
            }
        }
    }
}

fn tell_end(tape: &Tape, wire: Wire, command: &str, output: &str) {
    match wire {
        Wire::Responses => {
            let set = [
                ("/item/command", json!(format!("/bin/sh -c {command}"))),
                ("/item/aggregated_output", json!(output)),
            ];
            tape.tell(
                &[
                    ("/type", "item.completed"),
                    ("/item/type", "command_execution"),
                ],
                &set,
            );
        }
        Wire::ChatCompletions => {
            let set = [("/result/content/0/text", json!(output))];
            tape.tell(&[("/type", "tool_execution_end")], &set);
            for name in ["message_start", "message_end"] {
                tape.tell(
                    &[("/type", name), ("/message/role", "toolResult")],
                    &[("/message/content/0/text", json!(output))],
                );
            }
            tape.tell(&[("/type", "turn_end")], &[]);
            tape.tell(&[("/type", "turn_start")], &[]);
        }
        Wire::Messages => {
            let set = [("/message/content/0/content", json!(output))];
            tape.tell(&[("/type", "user")], &set);
        }
    }
}

fn finish(tape: &Tape, wire: Wire, answer: &Answer, input: u64, quirk: Option<Quirk>) -> ExitCode {
    let (name, set) = match wire {
        Wire::Responses => (
            vec![("/type", "turn.completed")],
            vec![
                ("/usage/input_tokens", json!(input)),
                ("/usage/cached_input_tokens", json!(0)),
            ],
        ),
        Wire::ChatCompletions => {
            tape.tell(&[("/type", "turn_end")], &[]);
            (vec![("/type", "agent_end")], Vec::new())
        }
        Wire::Messages => {
            let is_refused = answer.is_refusal;
            let result = match is_refused {
                true => tape.line(
                    &[("/type", "result"), ("/terminal_reason", "api_error")],
                    &[],
                ),
                false => tape.line(
                    &[("/type", "result"), ("/terminal_reason", "completed")],
                    &[
                        ("/result", json!(answer.text)),
                        ("/usage/input_tokens", json!(input)),
                        ("/usage/cache_read_input_tokens", json!(0)),
                    ],
                ),
            };
            print(half(&result, quirk));
            return match is_refused {
                true => ExitCode::FAILURE,
                false => ExitCode::SUCCESS,
            };
        }
    };
    let line = tape.line(&name, &set);
    print(half(&line, quirk));
    if wire == Wire::ChatCompletions && quirk != Some(Quirk::Half) {
        tape.tell(&[("/type", "agent_settled")], &[]);
    }
    ExitCode::SUCCESS
}

fn half(line: &str, quirk: Option<Quirk>) -> &str {
    match quirk == Some(Quirk::Half) {
        true => line.get(..line.len() / 2).unwrap_or(""),
        false => line,
    }
}

/// Tells of a provider that failed, as the real program does, and ends as it does: Pi with 0.
fn fail(tape: &Tape, wire: Wire, failure: &Failure) -> ExitCode {
    let why = json!(failure.to_string());
    match wire {
        Wire::Responses => {
            tape.tell(&[("/type", "error")], &[("/message", why.clone())]);
            tape.tell(&[("/type", "turn.failed")], &[("/error/message", why)]);
            ExitCode::FAILURE
        }
        Wire::ChatCompletions => {
            let set = [("/message/errorMessage", why)];
            tape.tell(
                &[("/type", "message_end"), ("/message/stopReason", "error")],
                &set,
            );
            for name in ["turn_end", "agent_end", "agent_settled"] {
                tape.tell(&[("/type", name)], &[]);
            }
            ExitCode::SUCCESS
        }
        Wire::Messages => {
            let set = [("/result", why)];
            tape.tell(
                &[("/type", "result"), ("/terminal_reason", "api_error")],
                &set,
            );
            ExitCode::FAILURE
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the double stands for a program that starts processes: inside the sandbox, like it"
)]
fn run_command(command: &str) -> String {
    let ran = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .output();
    ran.map_or_else(
        |error| error.to_string(),
        |ran| {
            String::from_utf8_lossy(&ran.stdout).into_owned()
                + &String::from_utf8_lossy(&ran.stderr)
        },
    )
}

#[expect(
    clippy::disallowed_methods,
    reason = "the double stands for a program that starts processes: inside the sandbox, like it"
)]
fn become_shell(script: &str) -> ! {
    use std::os::unix::process::CommandExt as _;
    let error = Command::new("/bin/sh").args(["-c", script]).exec();
    // Whoever waits for what it was to do sees that it did not.
    panic!("sh: {error}")
}

/// Prints a line. Nobody may listen any more: then there is nobody to tell.
fn print(line: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).ok();
}

fn wrong(why: &str) -> ExitCode {
    use std::io::Write as _;
    writeln!(std::io::stderr(), "{why}").ok();
    ExitCode::from(2)
}
