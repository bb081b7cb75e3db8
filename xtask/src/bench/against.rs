//! `bench against OLD`: the release binaries of another build and of this one in turn, and the median of the ratios.
//!
//! A ratio is taken within a pair, so that what else the machine does falls on both sides. `OLD` is the `release` directory
//! of that build, with `cto` and the examples `checkout` and `sandbox-bench` in it.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::case::{self, FORBIDDEN};
use super::checkout;
use super::measure::{Cost, measure};
use super::run::{fill, interpreter_first, machine};
use crate::process::{cargo, output_of};
use crate::workspace::Workspace;

/// The old build, then this one.
const SIDES: [&str; 2] = ["old", "new"];
const FILES: [usize; 2] = [200, 20_000];
/// Starts of a command within one process: their median is one figure.
const STARTS: &str = "15";

struct Pairs {
    release: [PathBuf; 2],
    place: tempfile::TempDir,
    path: String,
    rounds: usize,
}

pub(crate) fn run(args: &[String]) -> anyhow::Result<ExitCode> {
    let (old, rest) = args
        .split_first()
        .context("name the directory with the other build's release binaries")?;
    let rounds = rest
        .first()
        .map_or(Ok(10), |n| n.parse())
        .context("the number of rounds is not a number")?;
    let workspace = Workspace::load()?;
    for package in ["cto-cli", "cto-checkout", "cto-sandbox"] {
        let built = cargo()
            .args(["build", "--release", "--bins", "--examples", "--package"])
            .arg(package)
            .current_dir(&workspace.root)
            .status()?;
        if !built.success() {
            bail!("the release build failed");
        }
    }
    let old = std::path::absolute(old)?;
    let pairs = Pairs {
        release: [old, workspace.target.join("release")],
        place: tempfile::Builder::new()
            .prefix("bench-")
            .tempdir_in(&workspace.target)?,
        path: interpreter_first()?,
        rounds,
    };
    for program in ["cto", "examples/checkout", "examples/sandbox-bench"] {
        let file = pairs.release[0].join(program);
        anyhow::ensure!(file.is_file(), "{} is missing", file.display());
    }
    println!("machine: {}", machine());
    println!("pairs: {rounds}; each figure is the median of new / old within a pair\n");
    pairs.starts()?;
    pairs.runs()?;
    pairs.workspaces()?;
    pairs.confined_starts()?;
    Ok(ExitCode::SUCCESS)
}

impl Pairs {
    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn command(&self, side: usize, program: &str) -> Command {
        let name = SIDES[side];
        let mut command = Command::new(self.release[side].join(program));
        command
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", self.place.path())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("CTO_HOME", self.at(&format!("home-{name}")))
            .env("XDG_CONFIG_HOME", self.at(&format!("config-{name}")))
            .env("CTO_HARNESS_ALLOW_COMMAND", "1")
            .env("CTO_HARNESS_COMMAND_STAGE", "3");
        command
    }

    /// Measures both sides in turn, whichever was second being first the next time, after one round that does not count.
    fn compare(
        &self,
        what: &str,
        mut once: impl FnMut(usize) -> anyhow::Result<Cost>,
    ) -> anyhow::Result<()> {
        let (mut walls, mut cpus, mut sums) = (Vec::new(), Vec::new(), [0.0; 2]);
        for round in 0..=self.rounds {
            let mut costs = [Cost::default(); 2];
            for turn in 0..2 {
                let side = (round + turn) % 2;
                costs[side] = once(side)?;
            }
            if round == 0 {
                continue;
            }
            let [old, new] = costs.map(|cost| cost.wall.as_secs_f64());
            walls.push(new / old);
            sums[0] += old;
            sums[1] += new;
            let [old, new] = costs.map(|cost| cost.cpu.as_secs_f64());
            cpus.push((old, new));
        }
        let mean = |sum: f64| sum / self.rounds as f64 * 1e3;
        let cpu = cpus
            .iter()
            .fold((0.0, 0.0), |sum, cpu| (sum.0 + cpu.0, sum.1 + cpu.1));
        let cpu = if cpu.0 > 0.0 {
            format!(", CPU of all {:.2}", cpu.1 / cpu.0)
        } else {
            String::new()
        };
        println!(
            "  {what}: {:.2} × (old {:.1} ms, new {:.1} ms at the mean{cpu})",
            median(walls),
            mean(sums[0]),
            mean(sums[1])
        );
        Ok(())
    }

    fn starts(&self) -> anyhow::Result<()> {
        println!("start of the binary");
        self.compare("cto --version", |side| {
            measure(self.command(side, "cto").arg("--version"))
        })
    }

    fn runs(&self) -> anyhow::Result<()> {
        println!("a sealed run");
        self.compare("cto run r1-string-slugify", |side| {
            measure(
                self.command(side, "cto")
                    .args(["run", "-q", "r1-string-slugify"]),
            )
        })?;
        let cases = self.at("cases");
        for files in FILES {
            let id = format!("bench-{files}");
            fill(&cases.join(&id).join("workspace"), files - 2)?;
            case::write(&cases, &id)?;
            self.compare(&format!("fake, {files} files"), |side| {
                let mut command = self.command(side, "cto");
                measure(command.args(["run", "-q", &id, "--cases"]).arg(&cases))
            })?;
        }
        let (repo, contract) = self.repository_task()?;
        self.compare("command, a repository of 5,000 files", |side| {
            measure(
                self.command(side, "cto")
                    .args(["run", "-q", "--engine", "command", "--stage", "3", "--repo"])
                    .arg(&repo)
                    .arg("--contract")
                    .arg(&contract)
                    .args(["--", "sh", "-c", "echo 'return 1' >> data/000/00000.txt"]),
            )
        })
    }

    fn repository_task(&self) -> anyhow::Result<(PathBuf, PathBuf)> {
        let repo = self.at("repo-5000");
        fill(&repo, 5_000)?;
        checkout::commit_all(&repo)?;
        let contract = self.at("task.yaml");
        std::fs::write(
            &contract,
            format!(
                "schema: cto.contract/v1\ntask_id: bench\ntitle: Bench\ninstruction: Bench.\nrisk_class: copied\nmutation_mode: copied-fixture\nallowed_paths: [data/]\nforbidden_actions: {FORBIDDEN}\nverification_commands: ['true']\n"
            ),
        )?;
        Ok((repo, contract))
    }

    fn workspaces(&self) -> anyhow::Result<()> {
        println!("workspaces of 50,000 files");
        let repo = self.at("repo");
        checkout::repository(&repo)?;
        let caches = SIDES.map(|name| self.at(&format!("cache-{name}")));
        let mut count = 0;
        let mut fresh = |name: &str| -> anyhow::Result<PathBuf> {
            count += 1;
            let place = self.at(&format!("{name}-{count}"));
            std::fs::create_dir(&place)?;
            // What the one before has written is on its way to the disk, and nobody else is to pay for that.
            output_of(&mut Command::new("sync"))?;
            Ok(place)
        };
        for cache in &caches {
            std::fs::create_dir(cache)?;
        }
        let ready = |side: usize, cache: &Path, place: &Path, kind: &str| {
            let mut command = self.command(side, "examples/checkout");
            measure(
                command
                    .arg("ready")
                    .arg(cache)
                    .arg(&repo)
                    .arg(place)
                    .arg(kind),
            )
        };
        self.compare("warm, overlay", |side| {
            ready(side, &caches[side], &fresh("ready")?, "overlay")
        })?;
        self.compare("cold, overlay", |side| {
            ready(side, &fresh("cold")?, &fresh("ready")?, "overlay")
        })?;
        self.compare("look at the source", |side| {
            let place = fresh("look")?;
            let mut command = self.command(side, "examples/checkout");
            measure(command.arg("fingerprint").arg(&repo).arg(&place))
        })
    }

    fn confined_starts(&self) -> anyhow::Result<()> {
        println!("confined start of `true`, median of {STARTS} in a process");
        for (column, what) in ["native", "with the recorder", "the first of a harness"]
            .into_iter()
            .enumerate()
        {
            self.compare(what, |side| {
                let folder = tempfile::tempdir_in(self.place.path())?;
                let mut command = self.command(side, "examples/sandbox-bench");
                let said = output_of(command.args(["start", STARTS]).arg(folder.path()))?;
                let nanos: Vec<f64> = said
                    .lines()
                    .filter_map(|line| line.split_whitespace().nth(column)?.parse().ok())
                    .collect();
                Ok(Cost {
                    wall: Duration::from_secs_f64(median(nanos) / 1e9),
                    cpu: Duration::ZERO,
                })
            })?;
        }
        Ok(())
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
