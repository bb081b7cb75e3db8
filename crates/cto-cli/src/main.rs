//! The `cto` binary: commands, rendering and exit codes. It decides nothing; it asks the crates below and tells.
//!
//! Invariants: stdout is data and stderr is talk, and only `printer` writes to either. Home, database and key are
//! opened by the command that needs them, never before. The process may be the sandbox's launcher: that is looked
//! at first, before any thread exists. Under the name of a double it is that double and nothing else.

mod args;
mod commands;
mod failure;
mod interrupt;
mod printer;
mod sandbox_args;
mod session;
mod signing;
mod suggest;
mod work_args;

use std::process::ExitCode;

use cto_runner::Environment;

fn main() -> ExitCode {
    if let Some(code) = cto_sandbox::launcher_entry() {
        return code;
    }
    if let Some(code) = cto_proving::doubles::entry(std::env::args_os()) {
        return code;
    }
    let env = Environment::from_os(std::env::vars_os());
    commands::start(std::env::args_os().collect(), env).into()
}
