//! Benchmarks: every figure is a ratio of two things measured side by side in one run.

mod against;
mod case;
mod checkout;
mod egress;
mod home;
mod landing;
mod measure;
mod run;
mod sandbox;

use std::process::ExitCode;

use anyhow::bail;

pub(crate) fn run(args: &[String]) -> anyhow::Result<ExitCode> {
    match args.first().map(String::as_str) {
        Some("against") => against::run(&args[1..]),
        Some("run") => run::run(&args[1..]),
        Some("checkout") => checkout::run(&args[1..]),
        Some("sandbox") => sandbox::run(&args[1..]),
        Some("egress") => egress::run(&args[1..]),
        Some("landing") => landing::run(&args[1..]),
        Some("home") => home::run(&args[1..]),
        _ => bail!("name a benchmark: run, checkout, sandbox, egress, home, landing, against"),
    }
}
