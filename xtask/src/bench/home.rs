//! `bench home`: finding a run in a home of 100,000 runs against finding it in one of 100.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};

use super::measure::{alternate, goal, measure, median_wall};
use crate::process::{cargo, output_of, status_of};
use crate::workspace::Workspace;

const FEW: u32 = 100;
const MANY: u32 = 100_000;
/// What the larger home may cost, of what the smaller one does.
const RATIO_MAX: f64 = 1.5;
const CASE: &str = "r1-string-slugify";

/// A home with so many runs, and the last of them.
struct Home {
    place: PathBuf,
    last: String,
}

pub(crate) fn run(args: &[String]) -> anyhow::Result<ExitCode> {
    let rounds: usize = args
        .first()
        .map_or(Ok(21), |n| n.parse())
        .context("the number of rounds is not a number")?;
    let workspace = Workspace::load()?;
    let mut build = cargo();
    build
        .current_dir(&workspace.root)
        .args(["build", "--release"]);
    build.args(["-p", "cto-cli", "-p", "cto-store", "--bins"]);
    if !status_of(build.args(["--example", "many-runs"]))?.success() {
        bail!("the release build failed");
    }
    let release = workspace.target.join("release");
    // Each run is two commits that wait for the disk: in memory nobody waits.
    let memory = Path::new("/dev/shm");
    let place = match memory.is_dir() {
        true => tempfile::tempdir_in(memory)?,
        false => tempfile::tempdir()?,
    };
    let make = |count: u32| Home::make(&release, &place.path().join(count.to_string()), count);
    let (few, many) = (make(FEW)?, make(MANY)?);
    println!("rounds: {rounds}, both sides alternating; wall is the median\n");
    let mut is_met = true;
    for by in ["latest", "prefix"] {
        let find = |home: &Home| {
            let name = if by == "latest" { by } else { home.prefix() };
            measure(home.command(&release).args(["show", name, "--json"]))
        };
        let (small, large) = alternate(rounds, |_| find(&few), |_| find(&many))?;
        let (small, large) = (median_wall(&small), median_wall(&large));
        let ratio = large / small;
        println!(
            "show by {by}: {:.1} ms of {FEW} runs, {:.1} ms of {MANY}, {ratio:.2} x{}",
            small * 1e3,
            large * 1e3,
            goal(&format!("at most {RATIO_MAX} x"), ratio <= RATIO_MAX)
        );
        is_met &= ratio <= RATIO_MAX;
    }
    Ok(if is_met {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

impl Home {
    /// All runs but the last have an entry and a directory with an empty log; the last is a real one.
    fn make(release: &Path, place: &Path, count: u32) -> anyhow::Result<Self> {
        let mut home = Self {
            place: place.to_owned(),
            last: String::new(),
        };
        std::fs::create_dir(place)?;
        output_of(home.command(release).args(["run", CASE, "--json", "-q"]))?;
        let mut fill = Command::new(release.join("examples/many-runs"));
        output_of(fill.arg(home.root()).arg(count.to_string()))?;
        let ran = output_of(home.command(release).args(["run", CASE, "--json", "-q"]))?;
        let after = ran
            .split_once("\"run_id\": \"")
            .context("the run names no id")?;
        let id = after.1.split('"').next().unwrap_or_default();
        home.last = id.to_owned();
        Ok(home)
    }

    fn root(&self) -> PathBuf {
        self.place.join("home")
    }

    /// All of the id but its last character.
    fn prefix(&self) -> &str {
        self.last.get(..self.last.len() - 1).unwrap_or_default()
    }

    fn command(&self, release: &Path) -> Command {
        let mut command = Command::new(release.join("cto"));
        command.env_clear().current_dir(&self.place);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", &self.place);
        command.env("CTO_HOME", self.root());
        command.env("XDG_CONFIG_HOME", self.place.join("config"));
        command
    }
}
