//! Runs whose harness, launcher, init or agent is killed at a random moment: nothing of them is left, nothing is lost. Two
//! hundred kills in `cargo xtask campaign kills`, fewer in the ordinary tests.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use cto_contract::verify::Integrity;
use cto_evidence::verify::{VerifyOptions, verify};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::dice::{Dice, is_campaign, seed};
use crate::test_home::{TINY, TestHome};

const RUNS: u32 = 60;
const CAMPAIGN_KILLS: u32 = 200;
const WORKERS: u32 = 4;
/// A run has some forty events; later numbers leave some runs alone.
const EVENTS: usize = 48;
/// What the agent says eight times, as an event.
const AGENT_WORD: &str = "\"type\":\"backend.plan\"";
const AGENT_WORDS: usize = 8;
/// Where this machine shows its control groups.
const GROUPS: &str = "/sys/fs/cgroup";
/// A killed tree needs a moment to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// What the agent does: its change, a daemon that ignores signals, words that are events, and some work after them.
const AGENT: &str = r#"echo new > a.txt
(setsid sh -c 'trap "" TERM HUP; while :; do sleep 1000; done' "$0" &)
n=0
while [ $n -lt 8 ]; do
    n=$((n + 1))
    echo '{"schema":"cto.agent/v1","type":"plan","steps":["go on"]}'
    m=0; while [ $m -lt 500 ]; do m=$((m + 1)); done
done"#;

fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let lists = threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .map(|pid| pid.parse().unwrap())
                .collect::<Vec<u32>>()
        })
        .collect()
}

/// Somebody so many generations below the harness, or the nearest to that who is there, with the generation.
fn descendant(harness: u32, generations: usize, dice: &mut Dice) -> (u32, usize) {
    let mut chosen = harness;
    for generation in 0..generations {
        let mut below = children(chosen);
        let has_more = |pid: &u32| generation + 1 == generations || !children(*pid).is_empty();
        // The launch pad and the mover have none: who is to be found deeper is not below them.
        if below.iter().any(has_more) {
            below.retain(has_more);
        }
        let Some(next) = below.get(dice.roll(below.len().max(1))) else {
            return (chosen, generation);
        };
        chosen = *next;
    }
    (chosen, generations)
}

/// What a worker saw of its runs.
#[derive(Default)]
struct Tally {
    /// Runs that had given out their id, which is then never lost.
    given: Vec<String>,
    /// Whose control groups are to be gone.
    harnesses: Vec<u32>,
    killed: [u32; 4],
}

fn one_run(test_home: &TestHome, marker: &str, dice: &mut Dice, tally: &mut Tally) {
    let cases = test_home.cases();
    let mut args = vec!["run", TINY, "--events", "-q", "--cases"];
    args.push(cases.to_str().unwrap());
    let has_agent = dice.roll(2) == 0;
    if has_agent {
        args.extend(["--engine", "command", "--", "sh", "-ec", AGENT, marker]);
    }
    let mut child = test_home
        .command(&args)
        .env("CTO_HARNESS_ALLOW_COMMAND", "1")
        .env("CTO_HARNESS_COMMAND_STAGE", "2")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    tally.harnesses.push(child.id());
    // Any event, or one of the agent's own words, at which it is there.
    let (word, moment) = match has_agent && dice.roll(2) == 0 {
        true => (AGENT_WORD, 1 + dice.roll(AGENT_WORDS)),
        false => ("", 1 + dice.roll(EVENTS)),
    };
    let generations = dice.roll(4);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut seen, mut said) = (0, 0);
    let mut id = None;
    for line in lines.map_while(Result::ok) {
        seen += 1;
        if seen == 2 {
            let event: Value = serde_json::from_str(&line).unwrap();
            id = event["run_id"].as_str().map(str::to_owned);
        }
        said += usize::from(line.contains(word));
        if said == moment && line.contains(word) {
            let (victim, generation) = descendant(child.id(), generations, dice);
            let pid = Pid::from_raw(i32::try_from(victim).unwrap()).unwrap();
            // Gone meanwhile is as good as killed.
            if kill_process(pid, Signal::KILL).is_ok() {
                tally.killed[generation] += 1;
            }
        }
    }
    child.wait().unwrap();
    tally.given.extend(id);
}

/// Processes that this place shows in: by their command line, or by what is mounted for them.
fn processes_of(marker: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let names = |path: &Path, file: &str| {
        let bytes = std::fs::read(path.join(file)).unwrap_or_default();
        bytes.windows(marker.len()).any(|w| w == marker.as_bytes())
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter(|e| e.file_name().to_string_lossy().parse::<u32>().is_ok())
        .filter(|e| e.file_name().to_string_lossy() != own)
        .filter(|e| names(&e.path(), "cmdline") || names(&e.path(), "mountinfo"))
        .map(|e| std::fs::read_to_string(e.path().join("stat")).unwrap_or_default())
        .collect()
}

fn nothing_is_left(test_home: &TestHome, marker: &str) {
    let deadline = Instant::now() + GONE_WITHIN;
    let mut left = processes_of(marker);
    while !left.is_empty() && Instant::now() < deadline {
        std::thread::yield_now();
        left = processes_of(marker);
    }
    assert_eq!(left, Vec::<String>::new(), "processes are left");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(marker), "a mount is left: {mounts}");
    for dir in ["work", "rooms"] {
        let left = std::fs::read_dir(test_home.home().join(dir)).unwrap();
        assert_eq!(left.count(), 0, "scratch is left in {dir}");
    }
}

/// Groups that these processes made. Those of other tests come and go meanwhile.
fn groups_of(makers: &[u32], folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir());
    let maker = |path: &Path| -> Option<u32> {
        let name = path.file_name()?.to_str()?.strip_prefix("cto-")?;
        name.split('-').next()?.parse().ok()
    };
    folders
        .flat_map(|path| match maker(&path) {
            Some(maker) if makers.contains(&maker) => vec![path],
            Some(_) => Vec::new(),
            None => groups_of(makers, &path),
        })
        .collect()
}

/// Every run that gave out its id is sealed, and every pack verifies.
fn nothing_is_lost(test_home: &TestHome, tally: &Tally) {
    let packs = test_home.packs();
    for id in &tally.given {
        assert!(packs.contains(id), "{id} is lost");
    }
    for id in &packs {
        let report = verify(&test_home.pack(id), &VerifyOptions::default());
        assert_eq!(report.integrity, Integrity::Ok, "{id}: {:?}", report.errors);
    }
}

impl Tally {
    fn kills(&self) -> u32 {
        self.killed.iter().sum()
    }

    /// Some runs are over before their moment comes: a campaign counts kills.
    fn is_enough(&self) -> bool {
        match is_campaign() {
            true => self.kills() >= CAMPAIGN_KILLS / WORKERS,
            false => self.harnesses.len() >= (RUNS / WORKERS) as usize,
        }
    }
}

fn worker(seed: u64) -> Tally {
    let mut dice = Dice::new(seed);
    let test_home = TestHome::new();
    test_home.tiny();
    let path = test_home.path();
    let marker = path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut tally = Tally::default();
    while !tally.is_enough() {
        one_run(&test_home, &marker, &mut dice, &mut tally);
    }
    let (code, answer) = test_home.json(&["recover"]);
    assert_eq!(code, 0, "{answer}");
    nothing_is_left(&test_home, &marker);
    nothing_is_lost(&test_home, &tally);
    tally
}

#[test]
#[expect(
    clippy::print_stderr,
    reason = "how often each was killed is for whoever reads the campaign"
)]
fn runs_that_are_killed_leave_nothing_and_lose_nothing() {
    let seed = seed();
    let (mut killed, mut harnesses) = ([0; 4], Vec::new());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|n| scope.spawn(move || worker(seed.wrapping_add(2 * u64::from(n)))))
            .collect();
        for worker in workers {
            let tally = worker.join().unwrap();
            for (all, own) in killed.iter_mut().zip(tally.killed) {
                *all += own;
            }
            harnesses.extend(tally.harnesses);
        }
    });
    let test_home = TestHome::new();
    let (code, answer) = test_home.json(&["recover"]);
    assert_eq!(code, 0, "{answer}");
    let left = groups_of(&harnesses, Path::new(GROUPS));
    assert_eq!(left, Vec::<PathBuf>::new());
    let [harness, launcher, init, agent] = killed;
    eprintln!("killed: harness {harness}, launcher {launcher}, init {init}, agent {agent}");
    // Who is there at a moment depends on how busy the machine is: only a campaign meets everybody for sure.
    assert!(harness > 0, "{killed:?}");
    if is_campaign() {
        assert!(killed.iter().all(|n| *n > 0), "{killed:?}");
        assert!(killed.iter().sum::<u32>() >= CAMPAIGN_KILLS, "{killed:?}");
    }
}
