//! The launcher alone: what this crate's tests start, and nothing else.

use std::process::ExitCode;

/// Exit code of a start that did not come from a harness.
const NOT_A_LAUNCH: u8 = 2;

fn main() -> ExitCode {
    cto_sandbox::launcher_entry().unwrap_or(ExitCode::from(NOT_A_LAUNCH))
}
