//! `bench landing`: a change that lands in a large repository against `git commit` of the same change.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};

use super::checkout::{GIT_ENV, repository};
use super::measure::{Cost, alternate, goal, measure, median_wall};
use super::run::machine;
use crate::process::{cargo, output_of};
use crate::workspace::Workspace;

const CHANGED_FILES: usize = 10;
/// A landing may take so many times as long as git's own commit.
const AT_MOST: f64 = 1.5;

fn git(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.args(args).current_dir(dir).envs(GIT_ENV);
    command
}

fn answer(dir: &Path, args: &[&str]) -> anyhow::Result<String> {
    Ok(output_of(&mut git(dir, args))?.trim().to_owned())
}

/// Adds a line to some files all over the repository.
fn change(repo: &Path, files: &[PathBuf], line: &str) -> anyhow::Result<()> {
    for file in files {
        let path = repo.join(file);
        let mut text = std::fs::read(&path)?;
        text.extend_from_slice(line.as_bytes());
        std::fs::write(path, text)?;
    }
    Ok(())
}

pub(crate) fn run(args: &[String]) -> anyhow::Result<ExitCode> {
    let rounds: usize = args
        .first()
        .map_or(Ok(7), |n| n.parse())
        .context("the number of rounds is not a number")?;
    let workspace = Workspace::load()?;
    let built = cargo()
        .args([
            "build",
            "--release",
            "--package",
            "cto-checkout",
            "--example",
            "landing",
        ])
        .current_dir(&workspace.root)
        .status()?;
    if !built.success() {
        bail!("the release build failed");
    }
    let program = workspace.target.join("release/examples/landing");
    let place = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(&workspace.target)?;
    let (theirs, ours) = (place.path().join("theirs"), place.path().join("ours"));
    repository(&theirs)?;
    output_of(Command::new("cp").arg("-a").args([&theirs, &ours]))?;
    let listed = answer(&ours, &["ls-files"])?;
    let all: Vec<PathBuf> = listed.lines().map(PathBuf::from).collect();
    let step = (all.len() / CHANGED_FILES).max(1);
    let files: Vec<PathBuf> = all.into_iter().step_by(step).collect();
    // The change that lands, and the tree that it gives.
    change(&ours, &files, "a line more\n")?;
    let patch = place.path().join("patch.diff");
    let output = format!("--output={}", patch.display());
    answer(
        &ours,
        &["diff", "--binary", "--full-index", "--no-renames", &output],
    )?;
    answer(&ours, &["add", "-A"])?;
    let tree = answer(&ours, &["write-tree"])?;
    answer(&ours, &["reset", "-q", "--hard"])?;
    println!("machine: {}", machine());
    println!("rounds: {rounds}, both sides alternating; wall is the median\n");
    let (own, other) = alternate(
        rounds,
        |round| {
            let scratch = place.path().join(format!("landing-{round}"));
            std::fs::create_dir(&scratch)?;
            output_of(&mut Command::new("sync"))?;
            let branch = format!("cto/bench-{round}");
            let words = [tree.as_str(), &branch, "ref-only"];
            measure(
                Command::new(&program)
                    .args([&ours, &patch])
                    .args(words)
                    .arg(&scratch),
            )
        },
        |round| {
            change(&theirs, &files, &format!("line {round}\n"))?;
            output_of(&mut Command::new("sync"))?;
            measure(&mut git(&theirs, &["commit", "-q", "-a", "-m", "change"]))
        },
    )?;
    tell(&own, &other);
    Ok(ExitCode::SUCCESS)
}

fn tell(own: &[Cost], other: &[Cost]) {
    let (own, other) = (median_wall(own), median_wall(other));
    let share = own / other;
    println!(
        "  a landing (ref-only): {:.1} ms against {:.1} ms of `git commit -a`: {share:.2} × its time{}",
        own * 1e3,
        other * 1e3,
        goal(&format!("at most {AT_MOST} ×"), share <= AT_MOST)
    );
}
