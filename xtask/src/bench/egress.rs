//! What the forwarder adds to each piece of a streamed answer, against the same stream without it.

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, bail};

/// At the median, added to each piece.
const GOAL_NANOS: u64 = 1_000_000;

pub(crate) fn run(args: &[String]) -> anyhow::Result<ExitCode> {
    if let Some(extra) = args.first() {
        bail!("`{extra}`: this benchmark takes no argument");
    }
    let added = print()?;
    Ok(if added < GOAL_NANOS {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Measures, prints the lines, and returns the nanoseconds that were added at the median.
pub(crate) fn print() -> anyhow::Result<u64> {
    let output = Command::new("cargo")
        .args([
            "run",
            "--release",
            "--quiet",
            "-p",
            "cto-egress",
            "--example",
            "latency",
        ])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("could not start cargo")?;
    if !output.status.success() {
        bail!("the measurement failed: {}", output.status);
    }
    let rounds = read(&String::from_utf8_lossy(&output.stdout))?;
    let (direct, forwarded) = (
        median(rounds.iter().map(|r| r.0)),
        median(rounds.iter().map(|r| r.1)),
    );
    let added = median(rounds.iter().map(|r| r.1.saturating_sub(r.0)));
    let micros = |nanos: u64| nanos as f64 / 1_000.0;
    println!(
        "forwarder, streamed piece: {:.1} µs direct, {:.1} µs forwarded, {:.2} x; adds {:.1} µs at the median (goal: under {:.0} µs)",
        micros(direct),
        micros(forwarded),
        forwarded as f64 / direct.max(1) as f64,
        micros(added),
        micros(GOAL_NANOS),
    );
    Ok(added)
}

fn read(text: &str) -> anyhow::Result<Vec<(u64, u64)>> {
    let rounds: Vec<(u64, u64)> = text
        .lines()
        .filter_map(|line| {
            let (left, right) = line.split_once(' ')?;
            Some((left.parse().ok()?, right.parse().ok()?))
        })
        .collect();
    if rounds.is_empty() {
        bail!("the measurement said nothing: {text:?}");
    }
    Ok(rounds)
}

fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(u64::MAX)
}
