//! `cto validate redteam`: try every way out of the sandbox on this machine, and show what came of each.

use std::path::PathBuf;

use cto_contract::outputs::{BehaviourStatus, CheckedBehaviour, ValidateRedteamOutput};
use cto_proving::pool;
use cto_proving::redteam::{self, CORPUS, Options, check_home};
use cto_sandbox::Launcher;

use crate::commands::Outcome;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::printer::{BAD, GOOD, STRONG};
use crate::session::Session;

/// Try every way out of the sandbox on this machine
///
/// Real programs, run as agents of real runs, try to write, read, connect, escape, outlive, flood, forge and cheat; each
/// behaviour has a control that must work, so that nothing passes because nothing works. Runs have a home, a config and a
/// repository of their own below `validation/` in home, where their packs stay to be read. Nothing of yours is touched.
/// What this machine lacks to try something with is skipped and said; a layer that it lacks is a failure of what that
/// layer should hold. Exit 1 when any behaviour does not come out as it must.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto validate redteam
  cto validate redteam --only 18 --only 23
  cto validate redteam --json | jq '.checked[] | select(.status != \"pass\")'")]
pub(super) struct RedteamArgs {
    /// Run so many at once; without it as many as there are cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Try this behaviour, by its number in docs/redteam.md; may be given again
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=last()))]
    only: Vec<u8>,
}

fn last() -> i64 {
    CORPUS.last().map_or(0, |b| b.number.into())
}

pub(super) fn redteam(args: &RedteamArgs, session: &Session) -> Outcome {
    let program = std::env::current_exe()
        .map_err(|e| Failure::io("program_unknown", "this program can't find itself", &e))?;
    let home = session.home()?;
    check_home(home.root(), session.env.get("HOME").map(PathBuf::from)).map_err(|error| {
        Failure::of(Exit::USAGE, error.code(), &error)
            .hint("name another one: `cto --home DIR validate redteam`")
    })?;
    let options = Options {
        directory: home.validation(),
        env: session.env.clone(),
        launcher: Launcher::current_exe(),
        program,
        jobs: args.jobs.map_or_else(pool::cores, usize::from),
        only: args.only.clone(),
    };
    let interrupt = Interrupt::listen()
        .map_err(|e| Failure::io("signals_unavailable", "signals can't be listened to", &e))?;
    let team = {
        let bar = session.printer.progress();
        redteam::validate(&options, &interrupt.stop, &mut |run, wrong| {
            let word = if wrong == 0 { "ok" } else { "WRONG" };
            bar.line(&format!("{word:<8} {run}"));
        })?
    };
    if session.printer.json {
        session.printer.document(&team)?;
    } else {
        show(&team, session)?;
    }
    Ok(match interrupt.signal() {
        Some(signal) => Exit::signal(signal),
        None if team.ok => Exit::DONE,
        None => Exit::FAILED,
    })
}

fn show(team: &ValidateRedteamOutput, session: &Session) -> Result<(), Failure> {
    let mut page = session.printer.page();
    let rows: Vec<Vec<String>> = team.checked.iter().map(cells).collect();
    page.table(&["#", "behaviour", "expected", "status", "seen"], &rows);
    if !team.not_covered.is_empty() {
        page.heading("Not tried yet");
        for entry in &team.not_covered {
            page.line(&format!(
                "  {} {}: {}",
                entry.behaviour, entry.name, entry.reason
            ));
        }
    }
    if !team.errors.is_empty() {
        page.heading("Errors");
        for error in &team.errors {
            page.text("  ").styled(BAD, "wrong").text("  ").line(error);
        }
    }
    let count =
        |status: BehaviourStatus| team.checked.iter().filter(|r| r.status == status).count();
    page.end();
    if team.ok {
        page.styled(GOOD, "OK");
    } else {
        page.styled(BAD, "WRONG");
    }
    let skipped = match count(BehaviourStatus::Skipped) {
        0 => String::new(),
        some => format!(", {some} skipped"),
    };
    page.text("  ").styled(
        STRONG,
        &format!(
            "{} of {} behaviours come out as they must{skipped}",
            count(BehaviourStatus::Pass),
            team.checked.len()
        ),
    );
    page.end();
    page.field("packs", &team.directory);
    session.printer.show(&page)
}

fn cells(row: &CheckedBehaviour) -> Vec<String> {
    let seen = match row.status {
        BehaviourStatus::Pass | BehaviourStatus::Fail => row.seen.clone(),
        BehaviourStatus::Skipped => row.reason.clone().unwrap_or_default(),
    };
    vec![
        row.behaviour.to_string(),
        row.name.clone(),
        row.expected.clone(),
        row.status.to_string(),
        cto_contract::text::shorten(&seen, 100),
    ]
}
