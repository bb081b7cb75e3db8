//! One side of `cargo xtask bench sandbox`: starts commands in a root from nothing, and beside them the peers.
//!
//! `start ROUNDS FOLDER [BWRAP]` prints, a line each round, nanoseconds of a confined start of `true`, of one with the
//! recorder on, of one that is the first of its harness, of bwrap's and of a bare one. `run FOLDER COMMAND…` runs one command
//! confined in that folder and passes its exit code on, `record` the same with the recorder on.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = cto_sandbox::launcher_entry() {
        return code;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["start", rounds, folder] => start(rounds, folder.as_ref(), None),
        ["start", rounds, folder, bwrap] => start(rounds, folder.as_ref(), Some(bwrap.as_ref())),
        ["run", folder, ref argv @ ..] if !argv.is_empty() => run(folder.as_ref(), argv),
        ["record", folder, ref argv @ ..] if !argv.is_empty() => record(folder.as_ref(), argv),
        _ => Err("start ROUNDS FOLDER [BWRAP] | run|record FOLDER COMMAND…".to_owned()),
    };
    match done {
        Ok(code) => code,
        Err(why) => {
            // Nobody is left to tell when this fails too.
            writeln!(std::io::stderr(), "{why}").ok();
            ExitCode::from(2)
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn start(_rounds: &str, _folder: &Path, _bwrap: Option<&Path>) -> Result<ExitCode, String> {
    Err("confinement needs Linux".to_owned())
}

#[cfg(not(target_os = "linux"))]
fn run(_folder: &Path, _argv: &[&str]) -> Result<ExitCode, String> {
    Err("confinement needs Linux".to_owned())
}

#[cfg(not(target_os = "linux"))]
fn record(_folder: &Path, _argv: &[&str]) -> Result<ExitCode, String> {
    Err("confinement needs Linux".to_owned())
}

#[cfg(target_os = "linux")]
use linux::{record, run, start};

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::ffi::OsString;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use cto_sandbox::{
        Access, Bind, BuiltRoot, End, LaunchRequest, Launcher, Limits, Network, Recorder, Replies,
        Root, SandboxMessage, Stdin, StopToken, Stream, Tmpfs, TreeLimits,
    };

    use super::*;

    const WORKSPACE: &str = "/cto/workspace";
    const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
    const TMP_BYTES: u64 = 1 << 30;

    /// A launch as a run makes it: a root from nothing, one writable folder, and a temporary one in memory.
    fn request(folder: &Path, argv: &[&str], recorder: Recorder) -> LaunchRequest {
        let mut root = BuiltRoot::system();
        root.tmpfs.push(Tmpfs {
            at: "/tmp".into(),
            bytes: TMP_BYTES,
            files: 1_000_000,
        });
        LaunchRequest {
            argv: argv.iter().map(OsString::from).collect(),
            env: BTreeMap::from([("PATH".into(), PATH.into()), ("HOME".into(), "/tmp".into())]),
            cwd: PathBuf::from(WORKSPACE),
            stdin: Stdin::Closed,
            binds: vec![Bind {
                from: folder.to_owned(),
                at: WORKSPACE.into(),
                access: Access::Writable,
            }],
            overlay: None,
            limits: Limits {
                wall: Duration::from_secs(600),
                output_bytes: 64 << 20,
                cpu_seconds: None,
                file_bytes: None,
                open_files: None,
                processes: None,
            },
            network: Network::None,
            grace: Duration::from_secs(2),
            root: Root::Built(root),
            tree: TreeLimits::default(),
            run_as: None,
            recorder,
            endpoint: None,
        }
    }

    fn launch(launcher: &Launcher, request: &LaunchRequest) -> Result<End, String> {
        let stop = StopToken::new().map_err(|e| e.to_string())?;
        let mut listener = |message: SandboxMessage<'_>, _: &mut Replies| match message {
            SandboxMessage::Output(Stream::Stdout, bytes) => {
                drop(std::io::stdout().write_all(bytes))
            }
            SandboxMessage::Output(Stream::Stderr, bytes) => {
                drop(std::io::stderr().write_all(bytes))
            }
            SandboxMessage::Attempt(_)
            | SandboxMessage::Started
            | SandboxMessage::Activity(_)
            | SandboxMessage::Tick { .. } => {}
        };
        launcher
            .launch(request, &stop, &mut listener)
            .map(|outcome| outcome.end)
            .map_err(|error| match std::error::Error::source(&error) {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            })
    }

    pub(super) fn run(folder: &Path, argv: &[&str]) -> Result<ExitCode, String> {
        ended(&request(folder, argv, Recorder::Off))
    }

    pub(super) fn record(folder: &Path, argv: &[&str]) -> Result<ExitCode, String> {
        ended(&request(folder, argv, Recorder::On))
    }

    fn ended(request: &LaunchRequest) -> Result<ExitCode, String> {
        match launch(&Launcher::current_exe(), request)? {
            End::Exited(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
            End::Signaled(_) | End::NotStarted => Ok(ExitCode::FAILURE),
        }
    }

    /// The same in bwrap's words, as far as it has them.
    fn bwrap(program: &Path, folder: &Path) -> Command {
        let mut command = command(program);
        command
            .args(["--unshare-all", "--die-with-parent", "--new-session"])
            .args(["--ro-bind", "/usr", "/usr"])
            .args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"])
            .args(["--bind".as_ref(), folder.as_os_str(), WORKSPACE.as_ref()])
            .args(["--chdir", WORKSPACE, "--clearenv", "--setenv", "PATH", PATH]);
        for name in ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"] {
            match std::fs::read_link(name) {
                Ok(target) => {
                    command.arg("--symlink").arg(target).arg(name);
                }
                Err(_) if Path::new(name).is_dir() => {
                    command.args(["--ro-bind", name, name]);
                }
                Err(_) => {}
            }
        }
        for name in ["passwd", "group", "hosts", "ld.so.cache", "nsswitch.conf"] {
            let file = format!("/etc/{name}");
            if Path::new(&file).is_file() {
                command.args(["--ro-bind", &file, &file]);
            }
        }
        command.arg("true");
        command
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "what is measured beside a launch is no launch"
    )]
    fn command(program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", PATH)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    fn timed(act: impl FnOnce() -> Result<bool, String>) -> Result<u128, String> {
        let begun = Instant::now();
        match act()? {
            true => Ok(begun.elapsed().as_nanos()),
            false => Err("`true` did not end with 0".to_owned()),
        }
    }

    pub(super) fn start(
        rounds: &str,
        folder: &Path,
        peer: Option<&Path>,
    ) -> Result<ExitCode, String> {
        let rounds: usize = rounds.parse().map_err(|_| "ROUNDS is no number")?;
        let confined = |recorder| request(folder, &["true"], recorder);
        let (plain, recorded) = (confined(Recorder::Off), confined(Recorder::On));
        let launcher = Launcher::current_exe();
        let ended = |mut command: Command| {
            let status = command.status();
            status
                .map(|status| status.success())
                .map_err(|e| format!("{:?}: {e}", command.get_program()))
        };
        for round in 0..=rounds {
            let native = timed(|| Ok(launch(&launcher, &plain)? == End::Exited(0)))?;
            let with_recorder = timed(|| Ok(launch(&launcher, &recorded)? == End::Exited(0)))?;
            let first = Launcher::current_exe();
            let first = timed(|| Ok(launch(&first, &plain)? == End::Exited(0)))?;
            let other = match peer {
                Some(program) => timed(|| ended(bwrap(program, folder)))?,
                None => 0,
            };
            let bare = timed(|| ended(command("true".as_ref())))?;
            // The first of each warms what the others find warm.
            if round > 0 {
                let line = format!("{native} {with_recorder} {first} {other} {bare}");
                writeln!(std::io::stdout(), "{line}").map_err(|e| e.to_string())?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
