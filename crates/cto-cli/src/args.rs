//! What can be typed: global flags and the commands, grouped for help.

use std::path::PathBuf;

use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};

use crate::commands;

/// Hand a bounded code change to an agent; get back sealed evidence or a named refusal
///
/// A run does one task in a confined copy, judges the change itself, and seals what
/// happened into an evidence pack that anybody can check offline. Nothing lands by itself.
#[derive(Debug, Parser)]
#[command(
    name = "cto",
    version,
    max_term_width = 100,
    disable_help_subcommand = false,
    propagate_version = false
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Keep state here instead of CTO_HOME or the XDG state directory
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Read harness.yaml and trust files from here
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) config: Option<PathBuf>,
    /// Print one JSON document (NDJSON for streams); `cto schema` describes it
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say nothing on stderr but errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say more
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Colour the output
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Init(commands::init::Args),
    Contract(commands::contract::Args),
    Route(commands::route::Args),
    Run(commands::run::Args),
    Delegate(commands::delegate::Args),
    Rerun(commands::rerun::Args),
    Apply(commands::apply::Args),
    Request(commands::request::Args),
    Inbox(commands::inbox::Args),
    Approve(commands::approve::Args),
    Deny(commands::approve::DenyArgs),
    Outcome(commands::outcome::Args),
    Matrix(commands::matrix::Args),
    Stop(commands::stop::Args),
    Cases(commands::cases::Args),
    Engines(commands::engines::Args),
    Status(commands::status::Args),
    Runs(commands::runs::Args),
    Show(commands::show::Args),
    Explain(commands::explain::Args),
    Diff(commands::diff::Args),
    Logs(commands::logs::Args),
    Watch(commands::watch::Args),
    Replay(commands::replay::Args),
    Why(commands::why::Args),
    Verify(commands::verify::Args),
    Gate(commands::gate::Args),
    Export(commands::export::Args),
    Import(commands::import::Args),
    Key(commands::key::Args),
    Trust(commands::trust::Args),
    Admit(commands::admit::Args),
    Admissions(commands::admissions::Args),
    Operator(commands::operator::Args),
    Ledger(commands::ledger::Args),
    Config(commands::config::Args),
    Validate(commands::validate::Args),
    Ladder(commands::ladder::Args),
    Health(commands::health::Args),
    Loop(commands::loops::Args),
    Model(commands::model::Args),
    Doctor(commands::doctor::Args),
    Recover(commands::recover::Args),
    Gc(commands::gc::Args),
    Index(commands::index::Args),
    Schema(commands::schema::Args),
    Completions(commands::completions::Args),
    Man(commands::man::Args),
}

/// The commands as help shows them.
const GROUPS: [(&str, &[&str]); 7] = [
    (
        "Work",
        &[
            "init", "contract", "route", "run", "delegate", "rerun", "apply", "matrix", "loop",
            "stop",
        ],
    ),
    (
        "Look",
        &[
            "status", "ladder", "cases", "engines", "runs", "show", "explain", "diff", "logs",
            "watch", "replay", "why",
        ],
    ),
    (
        "Decide",
        &["request", "inbox", "approve", "deny", "outcome"],
    ),
    (
        "Evidence",
        &["verify", "gate", "export", "import", "key", "trust"],
    ),
    ("Authority", &["admit", "admissions", "operator", "ledger"]),
    (
        "Upkeep",
        &[
            "doctor", "validate", "health", "model", "config", "recover", "gc", "index",
        ],
    ),
    ("Reference", &["schema", "completions", "man", "help"]),
];

/// The parser, with the commands of its help in groups.
pub(crate) fn command() -> clap::Command {
    let mut command = Cli::command();
    let mut listing = String::new();
    for (group, names) in GROUPS {
        listing.push_str(&format!("\n{group}:\n"));
        for name in names {
            let about = command
                .find_subcommand(name)
                .and_then(|c| c.get_about())
                .map_or_else(
                    || "Print this message or the help of a command".to_owned(),
                    ToString::to_string,
                );
            listing.push_str(&format!("  {name:<12} {about}\n"));
        }
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{listing}\nOptions:\n{{options}}\n\nTry first:\n  \
         cto run r1-string-slugify    do a shipped task and seal its evidence\n  \
         cto verify latest            check that evidence, offline\n"
    );
    command = command.help_template(template);
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_parser_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_command_is_in_exactly_one_group() {
        let grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| names.iter().copied())
            .filter(|n| *n != "help")
            .collect();
        let unique: BTreeSet<&str> = grouped.iter().copied().collect();
        assert_eq!(unique.len(), grouped.len());
        let command = command();
        let known: BTreeSet<&str> = command
            .get_subcommands()
            .map(clap::Command::get_name)
            .collect();
        assert_eq!(unique, known);
    }
}
