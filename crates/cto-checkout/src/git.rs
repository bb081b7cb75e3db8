//! Runs `git`, always with the harness's own git directory and nothing of the machine's or the agent's settings.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::baseline::Baseline;
use crate::git_dir::GitDir;
use crate::platform::{self, memory_file};
use crate::tree_path::{TreePath, parent_of};

/// Where git is looked for; the caller's own PATH may have been arranged by somebody else.
const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const STDERR_BYTES_MAX: u64 = 16 * 1024;
const STDERR_LINES_SHOWN: usize = 8;
const IGNORE_OUTPUT_BYTES_MAX: u64 = 1 << 30;
const IGNORE_WALL: Duration = Duration::from_secs(120);
/// Most memory of its own that a git may take. It reads ignore rules and attributes whole, however large they say they are.
const MEMORY_BYTES_MAX: u64 = 4 << 30;
/// What a shell ends with when there is no such program.
const SHELL_FOUND_NO_PROGRAM: i32 = 127;
const VERSION_WALL: Duration = Duration::from_secs(10);
/// So long a git may be silent before somebody looks for what it may be waiting for.
const SILENCE: Duration = Duration::from_secs(2);

/// Settings that outrank every file: nothing is converted, nothing is started.
const SETTINGS: [&str; 10] = [
    "core.autocrlf=false",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.quotePath=true",
    "core.excludesFile=/dev/null",
    "core.attributesFile=/dev/null",
    "core.untrackedCache=false",
    "core.pager=cat",
    "gc.auto=0",
    "protocol.allow=never",
];

/// Why git did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("could not start `git`")]
    Start { source: io::Error },
    #[error("could not talk to `git {verb}`")]
    Talk {
        verb: &'static str,
        source: io::Error,
    },
    #[error("`git {verb}` was not done after {seconds} s")]
    TimedOut { verb: &'static str, seconds: u64 },
    #[error("`git {verb}` waits for `{path}`, which is a pipe, a device or a socket")]
    Waits { verb: &'static str, path: PathBuf },
    #[error("`git {verb}` wrote more than {max} bytes")]
    TooMuchOutput { verb: &'static str, max: u64 },
    #[error("`git {verb}` failed with {status}: {stderr}")]
    Failed {
        verb: &'static str,
        status: ExitStatus,
        /// The end of what it said, with control characters escaped.
        stderr: String,
    },
}

/// One call of git: what it does, where, and within which bounds.
pub(crate) struct Call<'a> {
    pub(crate) verb: &'static str,
    pub(crate) arguments: Vec<String>,
    pub(crate) git_dir: &'a Path,
    pub(crate) work_tree: Option<&'a Path>,
    pub(crate) wall: Duration,
    pub(crate) output_bytes_max: u64,
}

/// Settings of one call that outrank the usual ones; never text that a repository chose.
pub(crate) type Settings<'a> = &'a [&'a str];

pub(crate) struct Finished {
    status: ExitStatus,
    stderr: Vec<u8>,
}

impl Call<'_> {
    /// Runs git to its end, with its output going to `output` as it comes.
    pub(crate) fn run(&self, input: Stdio, output: &mut dyn Write) -> Result<Finished, GitError> {
        self.run_with(&[], input, output)
    }

    /// The same with further settings.
    pub(crate) fn run_with(
        &self,
        settings: Settings<'_>,
        input: Stdio,
        output: &mut dyn Write,
    ) -> Result<Finished, GitError> {
        self.run_watched(settings, input, output, &|| None)
    }

    /// The same in a tree that may hold what git would wait for: when it says nothing for a while, `trap` looks for that.
    pub(crate) fn run_watched(
        &self,
        settings: Settings<'_>,
        input: Stdio,
        output: &mut dyn Write,
        trap: &dyn Fn() -> Option<PathBuf>,
    ) -> Result<Finished, GitError> {
        let talk = |source| self.talk(source);
        // What it says goes to memory by itself: reading two pipes in turn can block either side.
        let mut said = memory_file().map_err(talk)?;
        let mut command = self.command(settings);
        command
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(said.try_clone().map_err(talk)?);
        let mut child = command
            .spawn()
            .map_err(|source| GitError::Start { source })?;
        let pumped = self.pump(&mut child, output, trap);
        if pumped.is_err() {
            // It may be gone already; the wait below is what matters: no git survives its call.
            drop(child.kill());
        }
        let status = child.wait().map_err(talk)?;
        pumped?;
        if status.code() == Some(SHELL_FOUND_NO_PROGRAM) {
            let source = io::ErrorKind::NotFound.into();
            return Err(GitError::Start { source });
        }
        let mut stderr = Vec::new();
        said.rewind().map_err(talk)?;
        said.take(STDERR_BYTES_MAX)
            .read_to_end(&mut stderr)
            .map_err(talk)?;
        Ok(Finished { status, stderr })
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one home of `git`")]
    fn command(&self, settings: Settings<'_>) -> Command {
        // The bound is there before git is: set from outside, a fast git has read by then what it was to be kept from. A
        // bound that is lower already stays.
        let bounded = format!(
            "ulimit -d {} 2>/dev/null; exec git \"$@\"",
            MEMORY_BYTES_MAX / 1024
        );
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &bounded, "git"]);
        command
            .env_clear()
            .env("PATH", SEARCH_PATH)
            .env("HOME", "/nonexistent")
            .env("LC_ALL", "C")
            .env("GIT_DIR", self.git_dir)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_TERMINAL_PROMPT", "0");
        if let Some(work_tree) = self.work_tree {
            command
                .env("GIT_WORK_TREE", work_tree)
                .current_dir(work_tree);
        } else {
            command.current_dir("/");
        }
        for setting in SETTINGS.iter().chain(settings) {
            command.args(["-c", setting]);
        }
        command.arg(self.verb).args(&self.arguments);
        command
    }

    pub(crate) fn talk(&self, source: io::Error) -> GitError {
        GitError::Talk {
            verb: self.verb,
            source,
        }
    }

    /// Moves output until git has closed it and ended, or until the time is up.
    fn pump(
        &self,
        child: &mut Child,
        output: &mut dyn Write,
        trap: &dyn Fn() -> Option<PathBuf>,
    ) -> Result<(), GitError> {
        let talk = |source| self.talk(source);
        let deadline = Instant::now() + self.wall;
        let mut silent_until = Some(deadline.min(Instant::now() + SILENCE));
        let mut stdout = child
            .stdout
            .take()
            .ok_or_else(|| talk(io::ErrorKind::BrokenPipe.into()))?;
        let mut written: u64 = 0;
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let until = silent_until.unwrap_or(deadline);
            let readable = platform::readable_by(stdout.as_fd(), until).map_err(io::Error::from);
            if silent_until.take().is_some() && matches!(readable, Ok(false)) {
                if let Some(path) = trap() {
                    let verb = self.verb;
                    return Err(GitError::Waits { verb, path });
                }
                continue;
            }
            self.in_time(readable)?;
            let count = match stdout.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(talk(error)),
            };
            written += count as u64;
            if written > self.output_bytes_max {
                return Err(GitError::TooMuchOutput {
                    verb: self.verb,
                    max: self.output_bytes_max,
                });
            }
            output.write_all(&buffer[..count]).map_err(talk)?;
        }
        self.in_time(platform::ended_by(child, deadline))
    }

    fn in_time(&self, happened: io::Result<bool>) -> Result<(), GitError> {
        if happened.map_err(|source| self.talk(source))? {
            return Ok(());
        }
        Err(GitError::TimedOut {
            verb: self.verb,
            seconds: self.wall.as_secs(),
        })
    }

    /// Turns a bad end into an error; `also_fine` lists further exit codes that are answers.
    pub(crate) fn expect_success(
        &self,
        finished: Finished,
        also_fine: &[i32],
    ) -> Result<(), GitError> {
        let fine = |code: i32| code == 0 || also_fine.contains(&code);
        if finished.status.code().is_some_and(fine) {
            return Ok(());
        }
        Err(GitError::Failed {
            verb: self.verb,
            status: finished.status,
            stderr: readable(&finished.stderr),
        })
    }
}

/// Git repeats names that an agent chose: nothing in them may reach a terminal as it is.
fn readable(said: &[u8]) -> String {
    let lines = String::from_utf8_lossy(said);
    let lines: Vec<String> = lines
        .lines()
        .take(STDERR_LINES_SHOWN)
        .map(|line| TreePath::from(line).to_string())
        .collect();
    lines.join("; ")
}

/// Returns the version that `git` states, such as `2.47.3`.
pub fn git_version() -> Result<String, GitError> {
    let call = Call {
        verb: "version",
        arguments: Vec::new(),
        git_dir: Path::new("/nonexistent"),
        work_tree: None,
        wall: VERSION_WALL,
        output_bytes_max: 4096,
    };
    let mut said = Vec::new();
    let finished = call.run(Stdio::null(), &mut said)?;
    call.expect_success(finished, &[])?;
    let text = readable(&said);
    Ok(text
        .strip_prefix("git version ")
        .unwrap_or(&text)
        .trim()
        .to_owned())
}

/// Returns which of these paths the *baseline's* ignore rules ignore; what an agent did to ignore files has no effect.
///
/// A path below a link of the baseline counts as not ignored: git does not answer for such paths.
pub fn ignored<'a>(
    git_dir: &GitDir,
    baseline: &Baseline,
    paths: impl IntoIterator<Item = &'a TreePath>,
) -> Result<BTreeSet<TreePath>, GitError> {
    let below_link = |path: &TreePath| {
        let mut above = path.parent();
        while !above.is_empty() {
            if baseline.manifest.is_symlink(above) {
                return true;
            }
            above = parent_of(above);
        }
        false
    };
    let asked: Vec<&TreePath> = paths.into_iter().filter(|path| !below_link(path)).collect();
    if asked.is_empty() {
        return Ok(BTreeSet::new());
    }
    let call = Call {
        verb: "check-ignore",
        arguments: ["-z", "--stdin", "--no-index"].map(str::to_owned).into(),
        git_dir: git_dir.path(),
        work_tree: Some(&baseline.root),
        wall: IGNORE_WALL,
        output_bytes_max: IGNORE_OUTPUT_BYTES_MAX,
    };
    let input = || -> io::Result<File> {
        let mut file = memory_file()?;
        let mut bytes = Vec::new();
        for path in &asked {
            bytes.extend_from_slice(path.as_bytes());
            bytes.push(0);
        }
        file.write_all(&bytes)?;
        file.rewind()?;
        Ok(file)
    };
    let input = input().map_err(|source| call.talk(source))?;
    let mut answer = Vec::new();
    let finished = call.run(input.into(), &mut answer)?;
    // 1 is its way to say that none is ignored.
    call.expect_success(finished, &[1])?;
    Ok(answer
        .split(|&byte| byte == 0)
        .filter(|path| !path.is_empty())
        .map(TreePath::from)
        .collect())
}
