//! The contract's setup: it must succeed, and leave the baseline's own files alone.

use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::event::SetupCompleted;
use cto_contract::text::shorten;
use cto_contract::verification::CommandResult;

/// `changed` are the baseline's own files that it touched, `files` counts the new ones.
pub fn setup(commands: Vec<CommandResult>, files: u64, changed: &[String]) -> SetupCompleted {
    let failed = commands.iter().find(|c| !c.passed).map(|bad| {
        let why = bad.reason.as_deref().unwrap_or("it failed");
        Blocker::new(
            BlockerCode::ProviderUnavailable,
            bad.command.as_str(),
            format!(
                "the setup command `{}` did not succeed: {}",
                shorten(&bad.command, 120),
                shorten(why, 200)
            ),
        )
    });
    let touched = changed.first().map(|first| {
        Blocker::new(
            BlockerCode::DirtyStartingTree,
            first.as_str(),
            format!(
                "the setup changed files of the baseline: {}",
                shorten(&changed.join(", "), 400)
            ),
        )
    });
    let blockers = failed.into_iter().chain(touched).collect();
    SetupCompleted {
        commands,
        files,
        blockers,
    }
}
