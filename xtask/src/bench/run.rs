//! `bench run`: a sealed run against the same work bare, sealing, verifying, and the start of the binary.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::case::{self, FORBIDDEN};
use super::measure::{Cost, alternate, goal, mean_cpu, measure, median_wall};
use crate::process::{cargo, output_of};
use crate::python;
use crate::workspace::Workspace;

/// The work without a harness: two copies, patch, verify, diff. With a third argument the checks run three times, as the
/// harness runs them: on the baseline, on the change, and once more.
const BARE: &str = r#"set -e
case="$1"; place="$2"
cp -r "$case/workspace" "$place/a"
cp -r "$case/workspace" "$place/b"
cd "$place/a"
GIT_CEILING_DIRECTORIES="$place" git apply --whitespace=nowarn "$case/fake.patch"
python3 -m unittest -q 2> "$place/test.log"
if [ -n "$3" ]; then
    python3 -m unittest -q 2> "$place/again.log"
    (cd "$place/b"; python3 -m unittest -q 2> "$place/before.log" || true)
fi
git diff --no-index --binary "$place/b" "$place/a" > "$place/patch.diff" || true
test -s "$place/patch.diff"
"#;

/// Nothing but the three rounds of checks that a run makes, side by side: what no run on this machine can be faster than.
const CHECKS: &str = r#"cd "$1/workspace"
for round in before after again; do
    python3 -m unittest -q 2> "$2/$round.log" &
done
wait
"#;

/// A tree that a run works on, and what is wanted of the run.
struct Size {
    files: usize,
    /// Of the wall time that the same work takes bare.
    wall_most: Option<f64>,
    /// How many times less CPU it adds than in-toto-run.
    less_than_peer: f64,
}

const SMALL: Size = Size {
    files: 200,
    wall_most: Some(0.9),
    less_than_peer: 1.0,
};
const LARGE: Size = Size {
    files: 20_000,
    wall_most: None,
    less_than_peer: 10.0,
};

struct Bench {
    cto: PathBuf,
    cto_verify: PathBuf,
    place: tempfile::TempDir,
    path: String,
}

pub(crate) fn run(args: &[String]) -> anyhow::Result<ExitCode> {
    let rounds: usize = args
        .first()
        .map_or(Ok(11), |n| n.parse())
        .context("the number of rounds is not a number")?;
    let workspace = Workspace::load()?;
    let built = cargo()
        .args([
            "build",
            "--release",
            "--package",
            "cto-cli",
            "--package",
            "cto-evidence",
        ])
        .current_dir(&workspace.root)
        .status()?;
    if !built.success() {
        bail!("the release build failed");
    }
    let release = workspace.target.join("release");
    let place = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(&workspace.target)?;
    let bench = Bench {
        cto: release.join("cto"),
        cto_verify: release.join("cto-verify"),
        place,
        path: interpreter_first()?,
    };
    println!("machine: {}", machine());
    println!("rounds: {rounds}, both sides alternating; wall is the median, CPU the mean\n");
    bench.start(rounds * 5)?;
    bench.governed(&SMALL, rounds, &workspace)?;
    bench.governed(&LARGE, rounds.div_ceil(3), &workspace)?;
    bench.verifying(rounds.div_ceil(3))?;
    Ok(ExitCode::SUCCESS)
}

impl Bench {
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", self.place.path())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("CTO_HOME", self.place.path().join("home"))
            .env("XDG_CONFIG_HOME", self.place.path().join("config"));
        command
    }

    fn start(&self, rounds: usize) -> anyhow::Result<()> {
        let version = |_| measure(self.command(&self.cto).arg("--version"));
        let help = |_| measure(self.command(&self.cto).args(["run", "--help"]));
        let git = |_| measure(self.command(Path::new("git")).arg("--version"));
        let (version, other) = alternate(rounds, version, git)?;
        let (help, _) = alternate(rounds, help, git)?;
        println!("start of the binary");
        println!(
            "  cto --version {:.1} ms, cto run --help {:.1} ms, git --version {:.1} ms{}",
            median_wall(&version) * 1e3,
            median_wall(&help) * 1e3,
            median_wall(&other) * 1e3,
            goal(
                "under 10 ms",
                median_wall(&version).max(median_wall(&help)) < 0.01
            )
        );
        println!(
            "  cto --version / git --version: {:.2}\n",
            median_wall(&version) / median_wall(&other)
        );
        Ok(())
    }

    /// A case with so many files, of which one changes.
    fn case(&self, files: usize) -> anyhow::Result<PathBuf> {
        let id = format!("bench-{files}");
        let cases = self.place.path().join("cases");
        let dir = cases.join(&id);
        let tree = dir.join("workspace");
        fill(&tree, files - 2)?;
        case::write(&cases, &id)?;
        Ok(dir)
    }

    fn governed(&self, size: &Size, rounds: usize, workspace: &Workspace) -> anyhow::Result<()> {
        let files = size.files;
        let case = self.case(files)?;
        let cases = self.place.path().join("cases");
        let id = format!("bench-{files}");
        let mut sealing = Vec::new();
        let mut costs: [Vec<Cost>; 4] = Default::default();
        self.governed_once(&id, &cases)?;
        for round in 0..rounds {
            let (cost, seal) = self.governed_once(&id, &cases)?;
            costs[0].push(cost);
            sealing.push(seal);
            let place = |name: &str| -> anyhow::Result<PathBuf> {
                let place = self.place.path().join(format!("{name}-{files}-{round}"));
                std::fs::create_dir_all(&place)?;
                Ok(place)
            };
            for (side, script, rounds) in [(1, BARE, "3"), (2, BARE, ""), (3, CHECKS, "")] {
                let place = place(&format!("bare{side}"))?;
                let mut sh = self.command(Path::new("sh"));
                sh.args(["-c", script, "sh"]).args([&case, &place]);
                costs[side].push(measure(sh.arg(rounds))?);
            }
        }
        let [ours, same, once, least] = costs;
        let (own_wall, own_cpu) = (median_wall(&ours), mean_cpu(&ours));
        let (wall, cpu) = (median_wall(&same), mean_cpu(&same));
        println!(
            "one fake run with a sealed pack, {files} files, against the same work bare with the same three rounds of checks"
        );
        let wanted = size.wall_most.map_or_else(String::new, |most| {
            goal(&format!("at most {most} ×"), own_wall / wall <= most)
        });
        println!(
            "  wall: {:.1} ms against {:.1} ms: {:.2} × bare{wanted}",
            own_wall * 1e3,
            wall * 1e3,
            own_wall / wall
        );
        println!(
            "  CPU: {:.1} ms against {:.1} ms: {:.2} × bare",
            own_cpu * 1e3,
            cpu * 1e3,
            own_cpu / cpu
        );
        println!(
            "  against bare work with one round of checks: {:.2} × wall, {:.2} × CPU; the three rounds alone, side by side: {:.1} ms",
            own_wall / median_wall(&once),
            own_cpu / mean_cpu(&once),
            median_wall(&least) * 1e3
        );
        sealing.sort();
        let seal = sealing.get(sealing.len() / 2).copied().unwrap_or_default();
        println!(
            "  sealing and verifying the pack: {:.1} ms, {:.0} % of the run",
            seal.as_secs_f64() * 1e3,
            100.0 * seal.as_secs_f64() / own_wall
        );
        match self.in_toto(&case, files, rounds.min(3), workspace)? {
            Some(peer) => tell_overhead((own_wall - wall, own_cpu - cpu), peer, size),
            None => println!("  in-toto-run: not measured"),
        }
        println!();
        Ok(())
    }

    /// One run, and how long it took from the verdict to the end of the process.
    fn governed_once(&self, id: &str, cases: &Path) -> anyhow::Result<(Cost, Duration)> {
        let before = super::measure::children_cpu()?;
        let start = Instant::now();
        let mut child = self
            .command(&self.cto)
            .args(["run", id, "--events", "--cases"])
            .arg(cases)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut verdict = None;
        for line in BufReader::new(child.stdout.take().context("no output")?).lines() {
            if line?.contains("\"type\":\"run.completed\"") {
                verdict = Some(Instant::now());
            }
        }
        let status = child.wait()?;
        if !status.success() {
            bail!("cto run {id} ended with {status}");
        }
        let cost = Cost {
            wall: start.elapsed(),
            cpu: super::measure::children_cpu()?.saturating_sub(before),
        };
        Ok((cost, verdict.map(|v| v.elapsed()).unwrap_or_default()))
    }

    /// The peer: in-toto-run around the same check. Returns wall and CPU seconds that it adds to the check alone.
    fn in_toto(
        &self,
        case: &Path,
        files: usize,
        rounds: usize,
        workspace: &Workspace,
    ) -> anyhow::Result<Option<(f64, f64)>> {
        let tool = match python::tool(workspace, "in-toto", "in-toto-run") {
            Ok(tool) => tool,
            Err(reason) => {
                println!("  in-toto-run: {reason}");
                return Ok(None);
            }
        };
        let tree = self.place.path().join(format!("in-toto-{files}"));
        output_of(
            Command::new("cp")
                .arg("-r")
                .arg(case.join("workspace"))
                .arg(&tree),
        )?;
        output_of(
            Command::new("git")
                .env("GIT_CEILING_DIRECTORIES", self.place.path())
                .args(["apply", "--whitespace=nowarn"])
                .arg(case.join("fake.patch"))
                .current_dir(&tree),
        )?;
        let key = self.place.path().join("in-toto-key.pem");
        if !key.exists() {
            output_of(
                Command::new("openssl")
                    .args(["genpkey", "-algorithm", "ed25519", "-out"])
                    .arg(&key),
            )?;
        }
        let meta = self.place.path().join(format!("in-toto-meta-{files}"));
        std::fs::create_dir_all(&meta)?;
        let check = ["python3", "-m", "unittest", "-q"];
        let theirs = |_| {
            measure(
                self.command(&tool)
                    .args(["-n", "check", "--signing-key"])
                    .arg(&key)
                    .arg("--metadata-directory")
                    .arg(&meta)
                    .args(["-m", ".", "-p", ".", "--"])
                    .args(check)
                    .current_dir(&tree),
            )
        };
        let alone = |_| {
            measure(
                self.command(Path::new("python3"))
                    .args(&check[1..])
                    .current_dir(&tree),
            )
        };
        let (theirs, alone) = alternate(rounds, theirs, alone)?;
        Ok(Some((
            median_wall(&theirs) - median_wall(&alone),
            mean_cpu(&theirs) - mean_cpu(&alone),
        )))
    }

    /// A pack of about 1 GiB, against openssl on the same files with two processes at once.
    fn verifying(&self, rounds: usize) -> anyhow::Result<()> {
        let dir = self.place.path().join("cases/bench-large");
        std::fs::create_dir_all(dir.join("workspace"))?;
        std::fs::write(dir.join("workspace/a.txt"), "old\n")?;
        std::fs::write(
            dir.join("fake.patch"),
            "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-old\n+new\n",
        )?;
        let print = "{run: head -c 256M /dev/zero}";
        std::fs::write(
            dir.join("case.yaml"),
            format!(
                "schema: cto.case/v1\nid: bench-large\ntitle: Print\ninstruction: Print\nallowed_paths: [a.txt]\nforbidden_actions: {FORBIDDEN}\nlimits: {{output_mb: 300}}\nverification_commands: [{print}, {print}]\n"
            ),
        )?;
        let report = output_of(
            self.command(&self.cto)
                .args(["run", "bench-large", "--json", "--cases"])
                .arg(self.place.path().join("cases")),
        )?;
        let run_id = report
            .split("\"run_id\": \"")
            .nth(1)
            .and_then(|r| r.split('"').next())
            .context("no run id in the report")?
            .to_owned();
        let pack = self.place.path().join("home/harness-runs").join(&run_id);
        let size: u64 = std::fs::metadata(pack.join("test.log"))?.len();
        let ours = |_| {
            measure(
                self.command(&self.cto_verify)
                    .arg(&pack)
                    .arg("--integrity-only"),
            )
        };
        let openssl = |_| {
            measure(
                self.command(Path::new("sh"))
                    .args([
                        "-c",
                        "find . -type f -print0 | xargs -0 -P 2 -n 1 openssl dgst -sha256",
                    ])
                    .current_dir(&pack),
            )
        };
        let (ours, openssl) = alternate(rounds, ours, openssl)?;
        let (own, other) = (median_wall(&ours), median_wall(&openssl));
        println!(
            "verifying a pack of {:.2} GiB, warm, against openssl's SHA-256 of the same files",
            size as f64 / (1u64 << 30) as f64
        );
        println!(
            "  {:.0} ms against {:.0} ms: {:.2} × its throughput{}",
            own * 1e3,
            other * 1e3,
            other / own,
            goal("at least 0.9", other / own >= 0.9)
        );
        Ok(())
    }
}

/// Says what a run adds to bare work, and what in-toto-run adds, in wall and CPU seconds.
fn tell_overhead(own: (f64, f64), peer: (f64, f64), size: &Size) {
    let less = size.less_than_peer;
    let wanted = if less > 1.0 {
        format!("at least {less} × less CPU")
    } else {
        "less CPU than in-toto-run".to_owned()
    };
    let times = if own.1 <= 0.0 {
        "nothing".to_owned()
    } else {
        format!("{:.1} × less CPU", peer.1 / own.1)
    };
    println!(
        "  overhead: {:.0} ms wall, {:.0} ms CPU; in-toto-run's: {:.0} ms wall, {:.0} ms CPU: {times}{}",
        own.0 * 1e3,
        own.1 * 1e3,
        peer.0 * 1e3,
        peer.1 * 1e3,
        goal(&wanted, own.1 * less <= peer.1)
    );
}

/// Writes so many small files below `tree`, a hundred a directory.
pub(super) fn fill(tree: &Path, files: usize) -> anyhow::Result<()> {
    for n in 0..files {
        let below = tree.join(format!("data/{:03}", n / 100));
        if n % 100 == 0 {
            std::fs::create_dir_all(&below)?;
        }
        std::fs::write(
            below.join(format!("{n:05}.txt")),
            format!("record {n}\n").repeat(20),
        )?;
    }
    Ok(())
}

/// `PATH` with the interpreter itself first: a version manager's shim would drown what is measured.
pub(super) fn interpreter_first() -> anyhow::Result<String> {
    let own = std::env::var("PATH").context("PATH is not set")?;
    let python =
        output_of(Command::new("python3").args(["-c", "import sys; print(sys.executable)"]))?;
    let dir = Path::new(python.trim())
        .parent()
        .context("python3 has no directory")?
        .display()
        .to_string();
    Ok(format!("{dir}:{own}"))
}

pub(super) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo")
        .lines()
        .find_map(|l| {
            l.strip_prefix("model name")
                .map(|r| r.trim_start_matches([' ', '\t', ':']).to_owned())
        })
        .unwrap_or_else(|| "unknown CPU".to_owned());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let version = |program: &str, arg: &str| {
        output_of(Command::new(program).arg(arg)).map_or_else(
            |_| "absent".to_owned(),
            |v| v.lines().next().unwrap_or_default().to_owned(),
        )
    };
    format!(
        "{cpu}, {cores} cores, Linux {}, {}, {}, {}",
        read("/proc/sys/kernel/osrelease").trim(),
        version("git", "--version"),
        version("python3", "--version"),
        version("openssl", "version")
    )
}
