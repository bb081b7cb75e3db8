//! One way to launch a shell script, and the tricks by which tests see a process without looking for it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cto_sandbox::{
    Access, Attempt, Bind, BuiltRoot, LaunchError, LaunchRequest, Launcher, Limits, Means, Network,
    Outcome, Recorder, Root, SandboxMessage, Stdin, StopToken, Stream, Survivors, TreeLimits,
};

/// Where a rerun of these tests as another user finds the launcher.
pub(crate) const LAUNCHER_VARIABLE: &str = "CTO_SANDBOX_TEST_LAUNCHER";
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

#[expect(
    clippy::disallowed_methods,
    reason = "a rerun of these tests is configured by its environment"
)]
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

pub(crate) fn launcher() -> Launcher {
    let built = || OsString::from(env!("CARGO_BIN_EXE_cto-sandbox-launch"));
    Launcher::at(variable(LAUNCHER_VARIABLE).unwrap_or_else(built))
}

pub(crate) fn fallback() -> Launcher {
    Launcher {
        force_group: true,
        ..launcher()
    }
}

pub(crate) fn by(means: Means) -> Launcher {
    Launcher {
        means,
        ..launcher()
    }
}

/// The same request in a root that shows nothing but the system and this folder, where it is.
pub(crate) fn in_place(mut request: LaunchRequest, folder: &Path) -> LaunchRequest {
    request.root = Root::Built(BuiltRoot::system());
    request.cwd = folder.to_owned();
    request.binds = vec![Bind {
        from: folder.to_owned(),
        at: folder.to_owned(),
        access: Access::Writable,
    }];
    request
}

pub(crate) fn request(argv: &[&str]) -> LaunchRequest {
    LaunchRequest {
        argv: argv.iter().map(OsString::from).collect(),
        env: BTreeMap::from([("PATH".into(), PATH.into())]),
        cwd: PathBuf::from("/"),
        stdin: Stdin::Closed,
        binds: Vec::new(),
        overlay: None,
        limits: Limits {
            wall: Duration::from_secs(60),
            output_bytes: 1 << 20,
            cpu_seconds: None,
            file_bytes: None,
            open_files: None,
            processes: None,
        },
        network: Network::None,
        grace: Duration::from_secs(60),
        root: Root::Host,
        tree: TreeLimits::default(),
        run_as: None,
        recorder: Recorder::Off,
        endpoint: None,
    }
}

pub(crate) fn script(text: &str) -> LaunchRequest {
    request(&["/bin/sh", "-c", text])
}

/// An outcome with both streams.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Each with its final count.
    pub(crate) attempts: Vec<Attempt>,
}

pub(crate) fn try_run(launcher: &Launcher, request: &LaunchRequest) -> Result<Ran, LaunchError> {
    run_until(launcher, request, &StopToken::new().unwrap(), |_, _| {})
}

/// Runs and calls `each` with every chunk, where a test can ask for a stop without waiting for a time.
pub(crate) fn run_until(
    launcher: &Launcher,
    request: &LaunchRequest,
    stop: &StopToken,
    mut each: impl FnMut(Stream, &[u8]),
) -> Result<Ran, LaunchError> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut attempts = Vec::new();
    let outcome = launcher.launch(request, stop, &mut |message, _| match message {
        SandboxMessage::Output(stream, bytes) => {
            each(stream, bytes);
            match stream {
                Stream::Stdout => stdout.extend_from_slice(bytes),
                Stream::Stderr => stderr.extend_from_slice(bytes),
            }
        }
        SandboxMessage::Attempt(attempt) => note(&mut attempts, attempt),
        SandboxMessage::Started | SandboxMessage::Activity(_) | SandboxMessage::Tick { .. } => {}
    })?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Ran {
        outcome,
        stdout: text(stdout),
        stderr: text(stderr),
        attempts,
    })
}

/// Takes an attempt in the place of what was told of it before.
fn note(attempts: &mut Vec<Attempt>, attempt: &Attempt) {
    let same = |other: &Attempt| {
        Attempt {
            count: attempt.count,
            ..other.clone()
        } == *attempt
    };
    match attempts.iter_mut().find(|other| same(other)) {
        Some(other) => other.count = attempt.count,
        None => attempts.push(attempt.clone()),
    }
}

pub(crate) fn run(request: &LaunchRequest) -> Ran {
    let ran = try_run(&launcher(), request).unwrap();
    assert_nothing_survived(&ran.outcome);
    ran
}

pub(crate) fn run_script(text: &str) -> Ran {
    run(&script(text))
}

#[track_caller]
pub(crate) fn assert_nothing_survived(outcome: &Outcome) {
    let survivors = &outcome.confinement.survivors;
    assert!(matches!(survivors, Survivors::None { .. }), "{survivors:?}");
}

/// Whether this machine gives us namespaces; where not, their tests would test nothing.
pub(crate) fn has_namespaces() -> bool {
    cto_testkit::has("user namespaces", cto_sandbox::probe().class.has_init())
}

pub(crate) fn has_root() -> bool {
    cto_testkit::has("root", rustix::process::geteuid().is_root())
}

pub(crate) fn has_file(path: &str) -> bool {
    cto_testkit::has(path, Path::new(path).exists())
}

/// Where another provider's program is: as `cargo xtask test` says, else where systems have it.
pub(crate) fn provider(setting: &str, usual: &str) -> Option<PathBuf> {
    match variable(setting) {
        Some(path) => {
            let path = PathBuf::from(path);
            assert!(path.is_file(), "{setting} names no file");
            Some(path)
        }
        None => has_file(usual).then(|| PathBuf::from(usual)),
    }
}

/// Launches through bwrap, where it is and can work.
pub(crate) fn bwrap() -> Option<Launcher> {
    let program = provider("CTO_TEST_BWRAP", "/usr/bin/bwrap")?;
    has_namespaces().then(|| by(Means::Bwrap { program }))
}

/// A lock file: a process that holds it is alive, and its death frees it, without anybody looking for it.
pub(crate) struct Lock {
    pub(crate) path: PathBuf,
}

impl Lock {
    pub(crate) fn in_folder(folder: &Path) -> Self {
        let path = folder.join("lock");
        File::create(&path).unwrap();
        Self { path }
    }

    pub(crate) fn path(&self) -> &OsStr {
        self.path.as_os_str()
    }

    pub(crate) fn is_free(&self) -> bool {
        File::open(&self.path).unwrap().try_lock().is_ok()
    }

    /// Waits until the holder is dead.
    pub(crate) fn wait_until_free(&self) {
        File::open(&self.path).unwrap().lock().unwrap();
    }
}

/// A script that leaves a daemon in its own session, forked twice, which holds the lock and ignores TERM and HUP.
/// It ends with `then` once the daemon holds the lock.
pub(crate) fn daemon_script(folder: &Path, lock: &Lock, then: &str) -> LaunchRequest {
    let text = r#"
        mkfifo "$FIFO"
        ( setsid flock "$LOCK" sh -c 'trap "" TERM HUP; echo held >"$FIFO"; while :; do sleep 1000; done' & )
        read answer <"$FIFO"
        echo "$answer"
    "#;
    let mut request = script(&format!("{text}\n{then}"));
    request
        .env
        .insert("FIFO".into(), folder.join("fifo").into());
    request.env.insert("LOCK".into(), lock.path().into());
    request
}
