//! `bench checkout`: workspaces, the look at the source and the diff against git's own; runs side by side against a row.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::case::{self, FORBIDDEN};
use super::measure::{Cost, alternate, goal, mean_cpu, measure, median_wall};
use super::run::{interpreter_first, machine};
use crate::process::{cargo, output_of};
use crate::workspace::Workspace;

const FILES: usize = 50_000;
const CHANGED_FILES: usize = 10;
const RUNS: usize = 100;
/// Runs at a time, and the cores that the goal is for.
const JOBS: f64 = 2.0;
/// Git as nobody has configured it.
pub(crate) const GIT_ENV: [(&str, &str); 6] = [
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_AUTHOR_NAME", "bench"),
    ("GIT_AUTHOR_EMAIL", "bench@example.org"),
    ("GIT_COMMITTER_NAME", "bench"),
    ("GIT_COMMITTER_EMAIL", "bench@example.org"),
];

struct Bench {
    cto: PathBuf,
    /// The operations of the checkout crate, one a process.
    operation: PathBuf,
    place: tempfile::TempDir,
    /// How many places were made.
    places: Cell<usize>,
    path: String,
}

pub(crate) fn run(args: &[String]) -> anyhow::Result<ExitCode> {
    let rounds: usize = args
        .first()
        .map_or(Ok(5), |n| n.parse())
        .context("the number of rounds is not a number")?;
    let workspace = Workspace::load()?;
    for package in [
        ["--package", "cto-cli", "--bin", "cto"],
        ["--package", "cto-checkout", "--example", "checkout"],
    ] {
        let built = cargo()
            .args(["build", "--release"])
            .args(package)
            .current_dir(&workspace.root)
            .status()?;
        if !built.success() {
            bail!("the release build failed");
        }
    }
    let release = workspace.target.join("release");
    let bench = Bench {
        cto: release.join("cto"),
        operation: release.join("examples/checkout"),
        place: tempfile::Builder::new()
            .prefix("bench-")
            .tempdir_in(&workspace.target)?,
        places: Cell::new(0),
        path: interpreter_first()?,
    };
    println!("machine: {}", machine());
    println!("rounds: {rounds}, both sides alternating; wall is the median; {FILES} files\n");
    repository(&bench.at("repo"))?;
    bench.workspaces(rounds)?;
    bench.looks(rounds)?;
    bench.diffs(rounds)?;
    bench.side_by_side(rounds.div_ceil(2))?;
    Ok(ExitCode::SUCCESS)
}

/// Says how two sides compare, and against what goal.
fn tell(what: &str, ours: &[Cost], theirs: &[Cost], wanted: Wanted) {
    let (own, other) = (median_wall(ours), median_wall(theirs));
    let (faster, share) = (other / own, own / other);
    let (ratio, goal) = match wanted {
        Wanted::Faster(times) => (
            format!("{faster:.1} × faster"),
            goal(&format!("at least {times} × faster"), faster >= times),
        ),
        Wanted::AtMost(times) => (
            format!("{share:.2} × its time"),
            goal(&format!("at most {times} ×"), share <= times),
        ),
        Wanted::Nothing => (format!("{share:.2} × its time"), String::new()),
    };
    println!(
        "  {what}: {:.1} ms against {:.1} ms: {ratio}{goal}",
        own * 1e3,
        other * 1e3
    );
}

#[derive(Clone, Copy)]
enum Wanted {
    Faster(f64),
    AtMost(f64),
    Nothing,
}

impl Bench {
    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(GIT_ENV)
            .env("PATH", &self.path)
            .env("HOME", self.place.path())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("CTO_HOME", self.at("home"))
            .env("XDG_CONFIG_HOME", self.at("config"))
            .env("CTO_HARNESS_ALLOW_COMMAND", "1")
            .env("CTO_HARNESS_COMMAND_STAGE", "3");
        command
    }

    fn git(&self, dir: &Path, args: &[&str]) -> Command {
        let mut command = self.command(Path::new("git"));
        command.args(args).current_dir(dir);
        command
    }

    /// An empty place of its own. Nothing is removed before the end: for minutes afterwards ext4 would look long for
    /// inodes that were not just freed, and who comes first would pay for it.
    fn fresh(&self, name: &str) -> anyhow::Result<PathBuf> {
        let number = self.places.replace(self.places.get() + 1);
        let place = self.at(&format!("{name}-{number}"));
        std::fs::create_dir(&place)?;
        // What the one before has written is on its way to the disk, and nobody else is to pay for that.
        output_of(&mut Command::new("sync"))?;
        Ok(place)
    }

    fn operate(&self, words: &[&str], paths: &[&Path]) -> Command {
        let mut command = self.command(&self.operation);
        command.arg(words[0]).args(paths).args(&words[1..]);
        command
    }

    fn ready(&self, cache: &Path, kind: &str) -> anyhow::Result<Cost> {
        let place = self.fresh("ready")?;
        let repo = self.at("repo");
        measure(&mut self.operate(&["ready", kind], &[cache, &repo, &place]))
    }

    fn workspaces(&self, rounds: usize) -> anyhow::Result<()> {
        let (repo, cache) = (self.at("repo"), self.at("cache"));
        std::fs::create_dir(&cache)?;
        let clone = || {
            let place = self.fresh("clone")?;
            measure(
                self.git(&place, &["clone", "-q", "--local"])
                    .arg(&repo)
                    .arg("to"),
            )
        };
        let copy = || {
            let to = self.fresh("cp")?.join("to");
            measure(self.command(Path::new("cp")).arg("-a").arg(&repo).arg(to))
        };
        let warm = |kind: &str| self.ready(&cache, kind);
        let cold = |kind: &str| self.ready(&self.fresh("cold")?, kind);
        warm("overlay")?;
        let overlay = self.can_overlay()?;
        let mut costs: [Vec<Cost>; 7] = Default::default();
        for _ in 0..rounds {
            costs[0].push(clone()?);
            costs[1].push(warm("overlay")?);
            costs[2].push(cold("overlay")?);
            costs[3].push(warm("copy")?);
            costs[4].push(cold("copy")?);
            costs[5].push(copy()?);
            costs[6].push(self.plan()?);
        }
        let [cloned, warm, cold, warm_copy, cold_copy, copied, planned] = costs;
        println!("ready workspace, against `git clone --local`");
        if overlay {
            tell("warm, overlay", &warm, &cloned, Wanted::Faster(20.0));
        } else {
            println!("  warm, overlay: this kernel refuses to mount one");
        }
        tell("cold, overlay", &cold, &cloned, Wanted::AtMost(1.0));
        let without_overlays = Wanted::AtMost(1.3);
        tell("warm, copy", &warm_copy, &cloned, without_overlays);
        tell("cold, copy", &cold_copy, &cloned, without_overlays);
        tell("`cp -a`", &copied, &cloned, Wanted::Nothing);
        tell(
            "warm, overlay, against `cp -a`",
            &warm,
            &copied,
            Wanted::Nothing,
        );
        tell(
            "whole `cto run --plan`, with gates and the look at the source",
            &planned,
            &cloned,
            Wanted::Nothing,
        );
        println!();
        Ok(())
    }

    fn plan(&self) -> anyhow::Result<Cost> {
        let contract = self.at("task.yaml");
        std::fs::write(
            &contract,
            format!(
                "schema: cto.contract/v1\ntask_id: bench\ntitle: Bench\ninstruction: Bench.\nrisk_class: copied\nmutation_mode: copied-fixture\nallowed_paths: [part00/]\nforbidden_actions: {FORBIDDEN}\nverification_commands: ['true']\n"
            ),
        )?;
        measure(
            self.command(&self.cto)
                .args([
                    "run", "--engine", "command", "--stage", "3", "--plan", "--json", "--repo",
                ])
                .arg(self.at("repo"))
                .arg("--contract")
                .arg(&contract)
                .args(["--", "true"]),
        )
    }

    /// Whether a run sees this tree through an overlay here, by the plan's own word.
    fn can_overlay(&self) -> anyhow::Result<bool> {
        self.plan()?;
        let shown = output_of(
            self.command(&self.cto)
                .args([
                    "run", "--engine", "command", "--stage", "3", "--plan", "--json", "--repo",
                ])
                .arg(self.at("repo"))
                .arg("--contract")
                .arg(self.at("task.yaml"))
                .args(["--", "true"]),
        )?;
        Ok(shown.contains("\"workspace_kind\": \"overlay\""))
    }

    fn looks(&self, rounds: usize) -> anyhow::Result<()> {
        let repo = self.at("repo");
        let ours = |_| {
            let place = self.fresh("look")?;
            measure(&mut self.operate(&["fingerprint"], &[&repo, &place]))
        };
        let status = |_| measure(&mut self.git(&repo, &["status", "--porcelain"]));
        let (ours, theirs) = alternate(rounds, ours, status)?;
        println!("fingerprint of the source, against `git status`");
        tell("whole process", &ours, &theirs, Wanted::AtMost(1.5));
        println!();
        Ok(())
    }

    fn diffs(&self, rounds: usize) -> anyhow::Result<()> {
        let place = self.fresh("diffed")?;
        let repo = self.at("repo");
        output_of(
            self.git(&place, &["clone", "-q", "--local"])
                .arg(&repo)
                .arg("to"),
        )?;
        let clone = place.join("to");
        let listed = output_of(&mut self.git(&clone, &["ls-files"]))?;
        for path in listed.lines().step_by(FILES / CHANGED_FILES) {
            let full = clone.join(path);
            let text = std::fs::read_to_string(&full)? + "a line more\n";
            std::fs::write(full, text)?;
        }
        // It ends with 1 because files differ, which is the point.
        self.git(&clone, &["update-index", "-q", "--refresh"])
            .status()?;
        let theirs = |_| {
            measure(&mut self.git(
                &clone,
                &["diff", "--binary", "--full-index", "--no-renames"],
            ))
        };
        println!(
            "diff with {CHANGED_FILES} changed files, against `git diff` on a refreshed index"
        );
        for kind in ["overlay", "copy"] {
            let ours = |_| {
                let (place, cache) = (self.fresh("ready")?, self.at("cache"));
                let told = output_of(&mut self.operate(&["diff", kind], &[&cache, &repo, &place]))?;
                let nanos = told.lines().last().context("no time was told")?.parse()?;
                Ok(Cost {
                    wall: Duration::from_nanos(nanos),
                    cpu: Duration::ZERO,
                })
            };
            let (ours, theirs) = alternate(rounds, ours, theirs)?;
            let what = format!("{kind}, changes and patch");
            tell(&what, &ours, &theirs, Wanted::Nothing);
        }
        println!();
        Ok(())
    }

    /// The shipped cases and as many small ones as it takes to a hundred.
    fn side_by_side(&self, rounds: usize) -> anyhow::Result<()> {
        let cases = self.at("cases");
        let listed = output_of(self.command(&self.cto).args(["cases", "--json"]))?;
        let shipped = listed.split("\"id\":").skip(1);
        let mut ids: Vec<String> = shipped
            .filter_map(|rest| rest.split('"').nth(1).map(str::to_owned))
            .collect();
        for n in ids.len()..RUNS {
            let id = format!("small-{n:03}");
            case::write(&cases, &id)?;
            ids.push(id);
        }
        let matrix = |jobs: &'static str| {
            let cases = &cases;
            move |_| {
                measure(
                    self.command(&self.cto)
                        .args(["matrix", "-q", "--json", "--jobs", jobs, "--cases"])
                        .arg(cases),
                )
            }
        };
        let in_a_row = |_| {
            let mut whole = Cost::default();
            for id in &ids {
                let mut single = self.command(&self.cto);
                let cost = measure(
                    single
                        .args(["run", "-q", "--json", id, "--cases"])
                        .arg(&cases),
                )?;
                whole.wall += cost.wall;
                whole.cpu += cost.cpu;
            }
            Ok(whole)
        };
        matrix("2")(0)?;
        let (two, row) = alternate(rounds, matrix("2"), in_a_row)?;
        println!("{RUNS} fake runs by `cto matrix`, two at a time, against single runs in a row");
        tell("--jobs 2 against single runs", &two, &row, Wanted::Nothing);
        // A run has several processes at once, so what can be gained is what runs in a row leave idle.
        let busy = mean_cpu(&row) / median_wall(&row);
        let most = JOBS / busy;
        let share = median_wall(&row) / median_wall(&two) / most;
        println!(
            "  runs in a row keep {busy:.2} cores busy, so {most:.2} × is the most on two that do nothing else: {share:.2} of it{}",
            goal("at least 0.85", share >= 0.85)
        );
        let (two, one) = alternate(rounds, matrix("2"), matrix("1"))?;
        tell("--jobs 2 against --jobs 1", &two, &one, Wanted::Nothing);
        Ok(())
    }
}

/// A repository as they are: some five levels deep, some ten files a directory, most of them small; one pack.
pub(super) fn repository(repo: &Path) -> anyhow::Result<()> {
    for n in 0..FILES {
        let dir = format!(
            "part{:02}/module{:02}/{}{:03}",
            n / 2_500,
            n / 250 % 10,
            ["src/area", "tests/area", "src/deep/er/area"][n / 10 % 3],
            n / 10 % 25
        );
        let below = repo.join(dir);
        std::fs::create_dir_all(&below)?;
        // From 60 bytes to 10 KiB, and no two alike.
        let lines = 1 + (n * 7_919 % 97) * (n * 104_729 % 97) / 55;
        let text = format!("line of file {n}, which says nothing that matters much\n");
        std::fs::write(below.join(format!("file{n:05}.txt")), text.repeat(lines))?;
    }
    commit_all(repo)
}

/// Makes a repository of a directory, with one commit and one pack.
pub(super) fn commit_all(repo: &Path) -> anyhow::Result<()> {
    for args in [
        &["init", "-q", "-b", "main", "."][..],
        &["add", "-A"],
        &["commit", "-qm", "all"],
        &["repack", "-adq"],
        &["status", "--porcelain"],
    ] {
        let mut git = Command::new("git");
        output_of(git.envs(GIT_ENV).args(args).current_dir(repo))?;
    }
    Ok(())
}
