//! Wall and CPU time of whole commands, alternating so that both sides see the same machine.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// What one execution cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
}

/// Runs a command to success and measures it.
pub(crate) fn measure(command: &mut Command) -> anyhow::Result<Cost> {
    let before = children_cpu()?;
    let start = Instant::now();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("could not start {:?}", command.get_program()))?;
    let wall = start.elapsed();
    if !output.status.success() {
        bail!(
            "{:?} failed: {}{}",
            command.get_program(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(Cost {
        wall,
        cpu: children_cpu()?.saturating_sub(before),
    })
}

/// CPU time of all children that were waited for, as the kernel counts it: in hundredths of a second.
pub(crate) fn children_cpu() -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("CPU time needs /proc")?;
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = fields
        .split_whitespace()
        .skip(13)
        .take(2)
        .filter_map(|f| f.parse::<u64>().ok())
        .sum();
    Ok(Duration::from_millis(ticks * 10))
}

/// Alternates the two commands and gives the costs of each.
pub(crate) fn alternate(
    rounds: usize,
    mut left: impl FnMut(usize) -> anyhow::Result<Cost>,
    mut right: impl FnMut(usize) -> anyhow::Result<Cost>,
) -> anyhow::Result<(Vec<Cost>, Vec<Cost>)> {
    let mut costs = (Vec::new(), Vec::new());
    for round in 0..rounds {
        costs.0.push(left(round)?);
        costs.1.push(right(round)?);
    }
    Ok(costs)
}

pub(crate) fn median_wall(costs: &[Cost]) -> f64 {
    let mut walls: Vec<f64> = costs.iter().map(|c| c.wall.as_secs_f64()).collect();
    walls.sort_by(f64::total_cmp);
    walls.get(walls.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The mean, because a single reading has only hundredths.
pub(crate) fn mean_cpu(costs: &[Cost]) -> f64 {
    costs.iter().map(|c| c.cpu.as_secs_f64()).sum::<f64>() / costs.len().max(1) as f64
}

/// What is wanted of a figure, and whether it is so; the goals are those of the specification.
pub(crate) fn goal(wanted: &str, is_met: bool) -> String {
    let word = if is_met { "reached" } else { "MISSED" };
    format!(" (goal: {wanted}: {word})")
}
