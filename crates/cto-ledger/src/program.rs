//! The programs that are called here: `ssh-keygen`, git for a second place, and a command that the config names. No other
//! module of this crate starts a process.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program that could not be started or did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    #[error("`{0}` is not on the PATH")]
    Missing(String),
    #[error("`{program}` could not be started")]
    Start { program: String, source: io::Error },
    #[error("`{program}` could not be spoken to")]
    Pipe { program: String, source: io::Error },
    #[error("`{program}` ended with {status}: {told}")]
    Failed {
        program: String,
        status: String,
        told: String,
    },
    #[error("an empty command")]
    Empty,
}

/// A program with its arguments, in an environment made from nothing.
pub(crate) struct Program {
    name: String,
    command: Command,
}

/// Finds a program by an absolute path or on the `PATH`. Relative entries of the `PATH` are not looked at.
fn find(name: &str, path: &str) -> Result<PathBuf, ProgramError> {
    let is_there = |place: &Path| {
        rustix::fs::access(place, rustix::fs::Access::EXEC_OK).is_ok() && place.is_file()
    };
    let named = Path::new(name);
    if named.is_absolute() && is_there(named) {
        return Ok(named.to_owned());
    }
    if name.contains('/') {
        return Err(ProgramError::Missing(name.to_owned()));
    }
    std::env::split_paths(path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|place| is_there(place))
        .ok_or_else(|| ProgramError::Missing(name.to_owned()))
}

impl Program {
    /// A command as the config names it.
    pub(crate) fn of(argv: &[String], path: &str) -> Result<Self, ProgramError> {
        let (name, arguments) = argv.split_first().ok_or(ProgramError::Empty)?;
        let mut program = Self::named(name, path)?;
        program.command.args(arguments);
        Ok(program)
    }

    pub(crate) fn named(name: &str, path: &str) -> Result<Self, ProgramError> {
        #[expect(
            clippy::disallowed_methods,
            reason = "an operator's own tools: not an agent's, and outside every run"
        )]
        let mut command = Command::new(find(name, path)?);
        command.env_clear().env("PATH", path).env("LC_ALL", "C");
        Ok(Self {
            name: name.to_owned(),
            command,
        })
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Hands bytes to its standard input and gives what it prints. What it says on stderr becomes the error.
    pub(crate) fn feed(self, input: &[u8]) -> Result<Vec<u8>, ProgramError> {
        self.run(input, Stdio::piped())
    }

    /// The same for a program that talks to the person: its stderr is the terminal's.
    pub(crate) fn feed_and_talk(self, input: &[u8]) -> Result<Vec<u8>, ProgramError> {
        self.run(input, Stdio::inherit())
    }

    fn run(mut self, input: &[u8], stderr: Stdio) -> Result<Vec<u8>, ProgramError> {
        let name = self.name;
        let pipe = |source| ProgramError::Pipe {
            program: name.clone(),
            source,
        };
        let mut child = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .map_err(|source| ProgramError::Start {
                program: name.clone(),
                source,
            })?;
        // A message is a few kilobytes: it fits into the pipe, so this can't wait for a reader that waits for us.
        if let Some(mut stdin) = child.stdin.take() {
            match stdin.write_all(input) {
                Err(e) if e.kind() != io::ErrorKind::BrokenPipe => return Err(pipe(e)),
                Ok(()) | Err(_) => {}
            }
        }
        let output = child.wait_with_output().map_err(pipe)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let told = String::from_utf8_lossy(&output.stderr);
        Err(ProgramError::Failed {
            status: output.status.to_string(),
            told: cto_contract::text::shorten(told.trim(), 300),
            program: name,
        })
    }
}

/// A ref of a repository to which checkpoints are committed.
pub(crate) struct GitPlace<'a> {
    pub(crate) path: &'a str,
    pub(crate) repository: &'a Path,
    pub(crate) reference: &'a str,
}

/// The file of the newest checkpoint in each commit.
const LAST: &str = "checkpoint.dsse.json";

impl GitPlace<'_> {
    fn git(&self, arguments: &[&str]) -> Result<Program, ProgramError> {
        let program = Program::named("git", self.path)?
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_AUTHOR_NAME", "cto")
            .env("GIT_AUTHOR_EMAIL", "cto@localhost")
            .env("GIT_COMMITTER_NAME", "cto")
            .env("GIT_COMMITTER_EMAIL", "cto@localhost")
            .args([
                "-c",
                "core.hooksPath=/dev/null",
                "-c",
                "core.fsmonitor=false",
            ])
            .args(["-C"])
            .args([self.repository.as_os_str()]);
        Ok(program.args(arguments))
    }

    fn ask(&self, arguments: &[&str], input: &[u8]) -> Result<String, ProgramError> {
        let out = self.git(arguments)?.feed(input)?;
        Ok(String::from_utf8_lossy(&out).trim().to_owned())
    }

    /// The commit that the ref names, if there is one.
    fn tip(&self) -> Result<Option<String>, ProgramError> {
        let refs = self.ask(&["for-each-ref", "--format=%(objectname) %(refname)"], b"")?;
        let mut lines = refs.lines().filter_map(|line| line.split_once(' '));
        let tip = lines.find(|(_, name)| *name == self.reference);
        Ok(tip.map(|(id, _)| id.to_owned()))
    }

    /// Adds a checkpoint on top of the ref.
    pub(crate) fn commit(&self, name: &str, bytes: &[u8]) -> Result<String, ProgramError> {
        let blob = self.ask(&["hash-object", "-w", "--stdin"], bytes)?;
        let tree = self.ask(
            &["mktree"],
            format!("100644 blob {blob}\t{LAST}\n").as_bytes(),
        )?;
        let tip = self.tip()?;
        let mut arguments = vec!["commit-tree", &tree, "-m", name];
        if let Some(tip) = &tip {
            arguments.extend(["-p", tip]);
        }
        let commit = self.ask(&arguments, b"")?;
        let old = tip.unwrap_or_else(|| "0".repeat(commit.len()));
        self.ask(&["update-ref", self.reference, &commit, &old], b"")?;
        Ok(format!("{}@{commit}", self.reference))
    }

    /// The newest checkpoint.
    pub(crate) fn last(&self) -> Result<Option<Vec<u8>>, ProgramError> {
        let Some(tip) = self.tip()? else {
            return Ok(None);
        };
        let object = format!("{tip}:{LAST}");
        self.git(&["cat-file", "blob", &object])?
            .feed(b"")
            .map(Some)
    }
}
