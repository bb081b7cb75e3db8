//! What of the operator's own is seen inside and what is not, for a person.

use cto_contract::plan::{HiddenPath, HiddenReason};
use cto_contract::report::SandboxSection;
use cto_contract::text::one_line;

/// Directories that a program may look for and does not find.
pub(super) fn left_out(hidden: &[HiddenPath]) -> Option<String> {
    let mut names = hidden.iter().filter(|h| h.reason.is_left_out());
    let first = names.next()?;
    let more = match names.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let why = match first.reason {
        HiddenReason::Masked | HiddenReason::ClosedToOthers => "others may not read it",
        HiddenReason::HoldsClosed => "it holds files that others may not read",
        HiddenReason::LeavesInstallation => "it is a link out of its installation",
        HiddenReason::TooLarge => "it holds too many files to look at",
    };
    Some(format!(
        "note: `{}`{more} is not seen inside: {why}; if a program needs it, name it under `read_paths` of harness.yaml",
        one_line(&first.path)
    ))
}

/// What of the operator's own was seen inside and what was not, where there is any; each path written by `code`.
pub(super) fn seen_and_not(
    section: &SandboxSection,
    code: impl Fn(&str) -> String,
) -> impl Iterator<Item = (&'static str, String)> {
    let read: Vec<String> = section.read_paths.iter().map(|p| code(p)).collect();
    let hidden = section.hidden_paths.iter();
    let hidden: Vec<String> = hidden
        .map(|h| format!("{} ({})", code(&h.path), h.reason))
        .collect();
    [
        ("Readable besides the system's programs", read),
        ("Not to be seen inside", hidden),
    ]
    .into_iter()
    .filter(|(_, paths)| !paths.is_empty())
    .map(|(what, paths)| (what, paths.join(", ")))
}
