//! `bench sandbox`: the start of a confined process against bwrap's, and the price of a git-heavy job in a sandbox.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};

use super::measure::{Cost, goal, mean_cpu, measure};
use super::run::machine;
use crate::process::{cargo, output_of};
use crate::workspace::Workspace;

/// Files of the repository that git works on.
const FILES: usize = 1_500;

/// What git has to do: many processes, many small files, a pack.
const GIT_WORK: &str = r#"set -e
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_CEILING_DIRECTORIES=/
export GIT_AUTHOR_NAME=bench GIT_AUTHOR_EMAIL=bench@example.org GIT_COMMITTER_NAME=bench GIT_COMMITTER_EMAIL=bench@example.org
cd repo
git init -q -b main .
git add -A
git commit -qm all
n=0
while [ $n -lt 40 ]; do
    n=$((n + 1))
    echo "line $n" >> part0/file0.txt
    echo "line $n" > part1/new$n.txt
    git status --porcelain > /dev/null
    git add -A
    git commit -qm "change $n"
    git diff --stat HEAD~1 > /dev/null
    git checkout -q -b side$n
    git checkout -q main
done
git clone -q --no-hardlinks . ../clone
git log --stat > /dev/null
git gc -q
"#;

struct Bench {
    /// One side of each comparison, as a program.
    side: PathBuf,
    place: tempfile::TempDir,
}

pub(crate) fn run(args: &[String]) -> anyhow::Result<ExitCode> {
    let rounds: usize = args
        .first()
        .map_or(Ok(9), |n| n.parse())
        .context("the number of rounds is not a number")?;
    let workspace = Workspace::load()?;
    let built = cargo()
        .args(["build", "--release", "--package", "cto-sandbox"])
        .args(["--example", "sandbox-bench"])
        .current_dir(&workspace.root)
        .status()?;
    if !built.success() {
        bail!("the release build failed");
    }
    let bench = Bench {
        side: workspace.target.join("release/examples/sandbox-bench"),
        place: tempfile::Builder::new()
            .prefix("bench-")
            .tempdir_in(&workspace.target)?,
    };
    let bwrap = bwrap();
    println!("machine: {}", machine());
    println!(
        "peer: {}; started as {}",
        match &bwrap {
            Some((_, version)) => version.as_str(),
            None => "no bwrap on PATH, its comparison is skipped",
        },
        if is_root() {
            "root"
        } else {
            "an ordinary user"
        }
    );
    println!("rounds: {rounds}, all sides alternating; wall is the median, CPU the mean\n");
    bench.start(rounds * 10, bwrap.as_ref().map(|(path, _)| path.as_path()))?;
    bench.git_heavy(rounds)?;
    Ok(ExitCode::SUCCESS)
}

fn bwrap() -> Option<(PathBuf, String)> {
    let path = std::env::var_os("PATH")?;
    let program = std::env::split_paths(&path)
        .map(|dir| dir.join("bwrap"))
        .find(|file| file.is_file())?;
    let version = output_of(Command::new(&program).arg("--version")).ok()?;
    Some((program, version.trim().to_owned()))
}

fn is_root() -> bool {
    output_of(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

/// Says how a ratio compares with its goal.
fn tell(what: &str, ratio: f64, most: f64) {
    let goal = goal(&format!("at most {most} ×"), ratio <= most);
    println!("  {what}: {ratio:.2} ×{goal}");
}

impl Bench {
    /// The sides alternate in one process, so that nothing but the start itself is measured.
    fn start(&self, rounds: usize, bwrap: Option<&Path>) -> anyhow::Result<()> {
        let folder = self.place.path().join("start");
        std::fs::create_dir(&folder)?;
        let mut command = Command::new(&self.side);
        command.args(["start", &rounds.to_string()]).arg(&folder);
        if let Some(bwrap) = bwrap {
            command.arg(bwrap);
        }
        let said = output_of(&mut command)?;
        let mut sides: [Vec<f64>; 5] = Default::default();
        for line in said.lines() {
            for (side, nanos) in sides.iter_mut().zip(line.split_whitespace()) {
                side.push(nanos.parse::<f64>().context("no number of nanoseconds")? / 1e6);
            }
        }
        let [native, recorded, first, other, bare] = sides.map(|mut side| {
            side.sort_by(f64::total_cmp);
            side.get(side.len() / 2).copied().unwrap_or(f64::NAN)
        });
        println!(
            "start of `true` in a root from nothing, with Landlock, seccomp, canaries and proof"
        );
        println!(
            "  native {native:.2} ms, with the recorder {recorded:.2} ms, the first of a harness {first:.2} ms, bare fork and exec {bare:.2} ms"
        );
        if bwrap.is_some() {
            println!(
                "  bwrap, with the same namespaces and mounts, none of the rest, and no wait for their end: {other:.2} ms"
            );
            tell("native against bwrap", native / other, 1.0);
            println!(
                "  with the recorder against bwrap: {:.2} ×; the first of a harness: {:.2} ×",
                recorded / other,
                first / other
            );
        }
        println!();
        Ok(())
    }

    /// A fresh tree for each execution: what a job leaves would be the next one's warm start.
    fn job(&self, name: &str, round: usize) -> anyhow::Result<PathBuf> {
        let place = self.place.path().join(format!("{name}-{round}"));
        for n in 0..FILES {
            let dir = place.join("repo").join(format!("part{}", n % 30));
            std::fs::create_dir_all(&dir)?;
            let text = format!("line of file {n}, which says nothing that matters\n");
            std::fs::write(dir.join(format!("file{n}.txt")), text.repeat(1 + n % 60))?;
        }
        Ok(place)
    }

    fn git_heavy(&self, rounds: usize) -> anyhow::Result<()> {
        let bare = |round| {
            let place = self.job("bare", round)?;
            measure(
                Command::new("/bin/sh")
                    .args(["-c", GIT_WORK])
                    .env_clear()
                    .env("PATH", "/usr/local/bin:/usr/bin:/bin")
                    .env("HOME", "/nonexistent")
                    .current_dir(place),
            )
        };
        let confined = |round, word: &str| {
            let place = self.job(word, round)?;
            measure(
                Command::new(&self.side)
                    .arg(word)
                    .arg(place)
                    .args(["/bin/sh", "-c", GIT_WORK]),
            )
        };
        let mut costs: [Vec<Cost>; 3] = Default::default();
        for round in 0..rounds {
            costs[0].push(bare(round)?);
            costs[1].push(confined(round, "run")?);
            costs[2].push(confined(round, "record")?);
        }
        let [bare, plain, recorded] = costs.map(|side| mean_cpu(&side));
        println!("git-heavy job, {FILES} files, CPU seconds of the whole tree and its supervisors");
        println!("  bare {bare:.2} s, confined {plain:.2} s");
        tell("confined against bare", plain / bare, 1.15);
        println!("  with the recorder {recorded:.2} s");
        tell("with the recorder against bare", recorded / bare, 1.4);
        Ok(())
    }
}
