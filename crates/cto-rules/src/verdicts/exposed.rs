//! What the last look at a pack found: secrets that were not kept out of it.

use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::event::LogRewritten;

use super::ExposedSecret;

/// A file of the pack that held a secret and lies in quarantine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExposedFile {
    /// Relative to the pack.
    pub path: String,
    pub secret: ExposedSecret,
}

/// One blocker for each file.
pub fn exposed(files: &[ExposedFile]) -> Vec<Blocker> {
    let blocker = |file: &ExposedFile| {
        let ExposedSecret { rule, line } = &file.secret;
        Blocker::new(
            BlockerCode::SecretExposed,
            rule.as_str(),
            format!(
                "{rule} in line {line} of `{}`; the file is in quarantine",
                file.path
            ),
        )
    };
    files.iter().map(blocker).collect()
}

/// A log that had to be written again failed its run, whatever else it says.
pub(crate) fn log_rewritten(rewritten: &LogRewritten) -> Blocker {
    let LogRewritten { rule, lines, .. } = rewritten;
    Blocker::new(
        BlockerCode::SecretExposed,
        rule.as_str(),
        format!(
            "{rule} in the log: {lines} of its lines were written again; the first log is in quarantine"
        ),
    )
}
