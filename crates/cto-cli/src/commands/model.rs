//! `cto model`: model endpoints for trials.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use cto_contract::document;
use cto_contract::model_script::{FaultScope, ModelFault, ModelScript, ScriptSchema, ScriptStep};
use cto_contract::outputs::{ScriptedModelOutput, ScriptedModelTag};
use cto_egress::{SCRIPTED_MODEL, ScriptedModel, ScriptedOptions};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::Outcome;
use crate::failure::{Exit, Failure};
use crate::session::Session;

/// Serve a model for trials
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Scripted(Scripted),
}

/// Serve a model that does what a script says, on loopback
///
/// Speaks chat completions, responses and Anthropic messages, so that any agent can be tried without an account. It has
/// the agent run commands through the agent's own shell tool, one step of the script after the other: the step is the
/// number of tool results in a request, so asking again changes nothing. A first part of the path names a fault
/// (`http://127.0.0.1:PORT/401/v1`), for trying what becomes of a run when a provider fails; `/at-work/401/v1` lets it
/// fail only once the agent works.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
A script:
  schema: cto.model-script/v1
  steps:
    - say: I look first
    - run: ls
    - edit: { path: a.py, find: old, replace: new }
    - edit: { path: b.txt, content: whole text }
    - finish: Done
  scenes:                       # other steps for an agent's other roles
    - when: You are the reviewer
      steps: [finish: It is fine]

Example:
  cto model scripted --port 8080 --script fix.yaml")]
struct Scripted {
    /// The port to listen on; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// What the model says and does; without one it says that there is nothing to do
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// What is wrong with every answer whose path names nothing else
    #[arg(long, value_name = "FAULT", default_value = "ok")]
    fault: ModelFault,
    /// Let only an agent at work meet it: the question before its start, which offers no tools, is answered well
    #[arg(long)]
    at_work: bool,
    /// Write every request down, a JSON object a line
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    match &args.command {
        Command::Scripted(args) => scripted(args, session),
    }
}

fn scripted(args: &Scripted, session: &Session) -> Outcome {
    let script = match &args.script {
        Some(path) => read_script(path)?,
        None => ModelScript {
            schema: ScriptSchema,
            steps: vec![ScriptStep::Finish("There is nothing to do.".to_owned())],
            scenes: Vec::new(),
        },
    };
    let record = args.record.as_ref().map(|path| {
        let opened = File::options().append(true).create(true).open(path);
        opened
            .map(|file| Box::new(file) as Box<dyn Write + Send>)
            .map_err(|e| {
                Failure::of(Exit::USAGE, "record_unwritable", &e)
                    .under(format!("could not open {}", path.display()))
            })
    });
    // Before it listens: a signal right after the address was printed must not be lost.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|e| Failure::io("signals_unavailable", "signals can't be heard", &e))?;
    let scope = match args.at_work {
        true => FaultScope::AtWork,
        false => FaultScope::Every,
    };
    let model = ScriptedModel::start(
        args.port,
        ScriptedOptions {
            script,
            fault: args.fault,
            scope,
            record: record.transpose()?,
        },
    )
    .map_err(|e| {
        Failure::of(Exit::USAGE, "port_unavailable", &e)
            .under(format!(
                "could not listen on port {} of loopback",
                args.port
            ))
            .hint("`--port 0` takes a free one")
    })?;
    let output = ScriptedModelOutput {
        schema_version: ScriptedModelTag,
        base_url: format!("http://{}/v1", model.address()),
        messages_base_url: format!("http://{}", model.address()),
        model: SCRIPTED_MODEL.to_owned(),
        fault: args.fault,
        scope,
        faults: ModelFault::ALL.to_vec(),
    };
    if session.printer.json {
        session.printer.document(&output)?;
    } else {
        let mut page = session.printer.page();
        page.line(&output.base_url);
        session.printer.show(&page)?;
        session.printer.talk("chat completions and responses there; messages without `/v1`; any key, any model; Ctrl-C ends it");
    }
    // To be ended is the only way it ends, so that is no failure.
    signals.forever().next();
    drop(model);
    Ok(Exit::DONE)
}

fn read_script(path: &PathBuf) -> Result<ModelScript, Failure> {
    let shown = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|e| {
        Failure::of(Exit::USAGE, "script_unreadable", &e).under(format!("could not read {shown}"))
    })?;
    document::read(&shown, &bytes).map_err(|e| {
        Failure::of(Exit::USAGE, "script_invalid", &e)
            .hint("`cto schema model-script` describes it")
    })
}
