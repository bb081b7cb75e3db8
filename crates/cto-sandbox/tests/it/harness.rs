//! The harness itself under test: its death, its memory, its children, and another user.
//!
//! These run in a process of their own, which is this test binary again with a role.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cto_sandbox::{
    End, LaunchRequest, Launcher, LayerName, Means, SandboxMessage, Stdin, StopToken,
};

use crate::bounds;
use crate::killing;
use crate::support::{
    LAUNCHER_VARIABLE, Lock, assert_nothing_survived, bwrap, by, daemon_script, fallback,
    has_namespaces, has_root, in_place, launcher, run, script, variable,
};
use crate::workshop::Workshop;

const ROLE: &str = "CTO_SANDBOX_TEST_ROLE";
const FOLDER: &str = "CTO_SANDBOX_TEST_FOLDER";
const NOBODY: u32 = 65534;

/// Plays the role that a test gave to this process; without one, does nothing.
#[test]
fn role() {
    let Some(role) = variable(ROLE) else { return };
    let folder = variable(FOLDER).unwrap_or_default();
    let folder = Path::new(&folder);
    match role.to_str() {
        Some("launch") => launch_and_say(folder, &launcher(), Stdin::Closed),
        Some("launch-told") => launch_and_say(folder, &launcher(), Stdin::Written),
        Some("launch-group") => launch_and_say(folder, &fallback(), Stdin::Closed),
        Some("launch-group-told") => launch_and_say(folder, &fallback(), Stdin::Written),
        Some("launch-none") => launch_and_say(folder, &by(Means::None), Stdin::Closed),
        Some("launch-weak") => launch_in_place_and_say(folder, &by(Means::Weak)),
        Some("launch-bwrap") => launch_in_place_and_say(folder, &bwrap().unwrap()),
        Some("flood") => flood(),
        Some("many") => many(),
        Some("describe") => describe(),
        Some("describe-built") => describe_built(),
        Some("many-built") => many_built(),
        Some("murder") => killing::murder(folder),
        Some("murder-recorded") => killing::murder_recorded(),
        Some("hidden-bomb") => bounds::leave_no_group(),
        Some("replace-pad") => killing::replace_pad(),
        other => panic!("unknown role {other:?}"),
    }
}

fn start(role: &str, folder: &Path) -> Child {
    start_under(&[], role, folder)
}

/// Starts this binary again behind a command that ends by executing its arguments.
#[expect(
    clippy::disallowed_methods,
    reason = "this binary again, as a harness that may be killed"
)]
fn start_under(wrapper: &[&str], role: &str, folder: &Path) -> Child {
    let binary = std::env::current_exe().unwrap();
    let mut line = wrapper.iter().map(OsStr::new).chain([binary.as_os_str()]);
    Command::new(line.next().unwrap())
        .args(line)
        .args([
            "--exact",
            "harness::role",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(ROLE, role)
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns what a role says in lines that begin with `said: `, until it ends.
pub(crate) fn play(role: &str) -> String {
    play_under(&[], role, Path::new("/"))
}

pub(crate) fn play_under(wrapper: &[&str], role: &str, folder: &Path) -> String {
    let output = start_under(wrapper, role, folder)
        .wait_with_output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let said: Vec<_> = text
        .lines()
        .filter_map(|line| line.split_once("said: "))
        .map(|(_, said)| said)
        .collect();
    said.join("\n")
}

#[expect(
    clippy::print_stdout,
    reason = "the way in which a role answers its test"
)]
pub(crate) fn say(text: &str) {
    println!("\nsaid: {text}");
}

fn launch_and_say(folder: &Path, launcher: &Launcher, stdin: Stdin) {
    let lock = Lock::in_folder(folder);
    let then = match stdin {
        Stdin::Closed => "exec sleep 1000",
        Stdin::Written => "exec cat",
    };
    let request = daemon_script(folder, &lock, then);
    run_and_say(&LaunchRequest { stdin, ..request }, launcher);
}

fn launch_in_place_and_say(folder: &Path, launcher: &Launcher) {
    let lock = Lock::in_folder(folder);
    let request = daemon_script(folder, &lock, "exec sleep 1000");
    run_and_say(&in_place(request, folder), launcher);
}

fn run_and_say(request: &LaunchRequest, launcher: &Launcher) {
    let stop = StopToken::new().unwrap();
    let outcome = launcher.launch(request, &stop, &mut |message, _| {
        if let SandboxMessage::Output(_, bytes) = message {
            say(String::from_utf8_lossy(bytes).trim());
        }
    });
    say(&format!("{outcome:?}"));
}

#[test]
fn when_the_harness_is_killed_the_whole_tree_dies() {
    let bwrap = bwrap().map(|_| "launch-bwrap");
    let roles = ["launch", "launch-group", "launch-none", "launch-weak"];
    // These have a daemon, and a command that reads what nobody will write.
    let told = ["launch-told", "launch-group-told"];
    for role in roles.into_iter().chain(told).chain(bwrap) {
        let folder = tempfile::tempdir().unwrap();
        let mut harness = start(role, folder.path());
        let lines = BufReader::new(harness.stdout.take().unwrap()).lines();
        let said = lines
            .map(|line| line.unwrap())
            .find(|line| line.contains("said: "));
        assert_eq!(said.as_deref(), Some("said: held"));
        let lock = Lock {
            path: folder.path().join("lock"),
        };
        assert!(!lock.is_free());
        harness.kill().unwrap();
        harness.wait().unwrap();
        // Returns only when the daemon is dead; a survivor makes this test hang, not pass.
        lock.wait_until_free();
    }
}

fn status_kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .unwrap();
    line.trim_start_matches(':')
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap()
}

fn flood() {
    // Warm: what a launch needs at all is not the flood's.
    run(&script("true"));
    let before = status_kib("VmHWM");
    let mut request = crate::support::request(&["yes"]);
    request.limits.wall = Duration::from_secs(2);
    request.limits.output_bytes = 300_000;
    let mut seen = 0;
    let outcome = launcher()
        .launch(
            &request,
            &StopToken::new().unwrap(),
            &mut |message, _| match message {
                SandboxMessage::Output(_, bytes) => seen += bytes.len(),
                SandboxMessage::Attempt(attempt) => panic!("{attempt:?}"),
                SandboxMessage::Started
                | SandboxMessage::Activity(_)
                | SandboxMessage::Tick { .. } => {}
            },
        )
        .unwrap();
    assert_nothing_survived(&outcome);
    let output = outcome.output;
    assert_eq!(
        (seen, output.stdout_bytes, output.capped),
        (300_000, 300_000, true)
    );
    assert!(output.dropped_bytes > 1_000_000, "{output:?}");
    assert_eq!(outcome.end, End::Signaled(15));
    let grown = status_kib("VmHWM") - before;
    assert!(grown < 1024, "{grown} KiB");
    say("flat");
}

#[test]
fn a_flood_of_output_is_capped_and_takes_no_memory() {
    assert_eq!(play("flood"), "flat");
}

fn many() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    run(&script("true"));
    let before = descriptors();
    for round in 0..200 {
        let mut request = script("(setsid sleep 1000 &) ; sleep 1000 & exit 4");
        if round % 4 < 2 {
            request.stdin = Stdin::Written;
        }
        let launcher = if round % 2 == 0 {
            launcher()
        } else {
            fallback()
        };
        let outcome = launcher
            .launch(&request, &StopToken::new().unwrap(), &mut |_, _| {})
            .unwrap();
        assert_eq!(outcome.end, End::Exited(4));
        assert_nothing_survived(&outcome);
    }
    assert_eq!(descriptors(), before);
    let child = rustix::process::wait(rustix::process::WaitOptions::NOHANG);
    assert_eq!(child.unwrap_err(), rustix::io::Errno::CHILD);
    say("none left");
}

#[test]
fn two_hundred_launches_leave_no_process_and_no_descriptor() {
    assert_eq!(play("many"), "none left");
}

#[test]
fn a_panic_in_the_listener_leaves_nothing_behind() {
    for stdin in [Stdin::Closed, Stdin::Written] {
        let folder = tempfile::tempdir().unwrap();
        let lock = Lock::in_folder(folder.path());
        let request = daemon_script(folder.path(), &lock, "exec sleep 1000");
        let request = LaunchRequest { stdin, ..request };
        let stop = StopToken::new().unwrap();
        let panicked = std::panic::catch_unwind(|| {
            launcher().launch(&request, &stop, &mut |message, _| {
                if let SandboxMessage::Output(..) = message {
                    panic!("the listener failed");
                }
            })
        });
        assert!(panicked.is_err());
        assert!(lock.is_free());
    }
}

#[test]
fn a_probe_takes_little_time() {
    // The quickest of them: a machine that is busy with other things makes some slow.
    let took = |_| {
        let start = Instant::now();
        assert!(!cto_sandbox::probe().layers.is_empty());
        start.elapsed()
    };
    let quickest = (0..10).map(took).min().unwrap();
    assert!(quickest < Duration::from_millis(100), "{quickest:?}");
}

fn describe() {
    let confinement = run(&script("test -d /proc/self")).outcome.confinement;
    let probed = cto_sandbox::probe();
    let has = |name: LayerName| {
        assert_eq!(probed.in_force(name), confinement.in_force(name));
        confinement.in_force(name)
    };
    let first = &confinement.layers[0];
    let why = first.detail.split(';').next().unwrap_or_default();
    let (proc, network) = (has(LayerName::OwnProc), has(LayerName::NetworkNamespace));
    say(&format!(
        "{:?} proc {proc} network {network}: {why}",
        confinement.class
    ));
}

#[test]
fn what_the_kernel_refuses_is_done_without_and_said() {
    if !has_namespaces() {
        return;
    }
    let described = |preparation: &str| {
        let script = format!("{preparation} && exec \"$@\"");
        play_under(
            &["unshare", "-Urm", "sh", "-c", &script, "sh"],
            "describe",
            Path::new("/"),
        )
    };
    let whole = "own user namespace, user and group mapped to themselves";
    assert_eq!(
        described("true"),
        format!("Process proc true network true: {whole}")
    );
    assert_eq!(
        described("echo 0 >/proc/sys/user/max_net_namespaces"),
        format!("Process proc true network false: {whole}")
    );
    // A /proc with something mounted over it, as in containers.
    assert_eq!(
        described("mount --bind /dev/null /proc/uptime"),
        format!("Process proc false network true: {whole}")
    );
    assert_eq!(
        described("echo 0 >/proc/sys/user/max_user_namespaces"),
        "Group proc false network false: the kernel refused to create the namespaces: No space left on device (os error 28)"
    );
}

/// Says what holds a launch in a root from nothing.
fn describe_built() {
    let workshop = Workshop::recorded();
    let ran = workshop.run_script("id -u; echo made >file");
    let confinement = &ran.outcome.confinement;
    let missing: Vec<_> = confinement
        .layers
        .iter()
        .filter(|layer| !layer.in_force)
        .map(|layer| layer.name.as_str())
        .collect();
    let made = std::fs::read_to_string(workshop.space().join("file")).unwrap();
    say(&format!(
        "{:?} as {} made {}: without {}",
        confinement.class,
        ran.stdout.trim(),
        made.trim(),
        missing.join(" ")
    ));
}

#[test]
fn a_root_that_cannot_stop_being_root_is_less_and_says_so() {
    if !has_namespaces() {
        return;
    }
    // Root of a namespace only, which may not change the owners of what others have mounted.
    assert_eq!(
        play_under(&["unshare", "-Urm"], "describe-built", Path::new("/")),
        "Process as 0 made made: without resource_limits egress_forwarder unprivileged_uid"
    );
}

fn many_built() {
    let workshops = Workshop::both();
    let lines = |path: &str| std::fs::read_to_string(path).unwrap().lines().count();
    let left = || {
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
        (descriptors, lines("/proc/self/mountinfo"))
    };
    workshops[0].run_script("true");
    let before = left();
    for round in 0..60 {
        let request =
            workshops[round / 2 % 2].script("(setsid sleep 1000 &) ; echo x; exec sleep 1000");
        let stop = StopToken::new().unwrap();
        // Now at the first word of the command, now while its root is still being built.
        let early = std::thread::scope(|scope| {
            if round % 2 == 0 {
                let stop = stop.clone();
                scope.spawn(move || stop.kill());
            }
            launcher().launch(&request, &stop, &mut |message, _| {
                if let SandboxMessage::Output(..) = message {
                    stop.kill();
                }
            })
        });
        assert_nothing_survived(&early.unwrap());
    }
    assert_eq!(left(), before);
    let child = rustix::process::wait(rustix::process::WaitOptions::NOHANG);
    assert_eq!(child.unwrap_err(), rustix::io::Errno::CHILD);
    for workshop in &workshops {
        let kept: Vec<_> = std::fs::read_dir(workshop.path()).unwrap().collect();
        assert_eq!(kept.len(), 2, "{kept:?}");
        assert_eq!(std::fs::read_dir(workshop.space()).unwrap().count(), 0);
    }
    say("none left");
}

#[test]
fn killed_launches_leave_no_process_no_mount_and_no_file() {
    if !has_namespaces() {
        return;
    }
    assert_eq!(play("many-built"), "none left");
}

/// The same tests again as a user without any privilege, when these run as root.
#[test]
fn all_of_this_holds_for_an_unprivileged_user_too() {
    if !has_root() {
        return;
    }
    // A place that this user can reach, wherever the build was made.
    let folder = tempfile::Builder::new()
        .permissions(std::fs::Permissions::from_mode(0o755))
        .tempdir()
        .unwrap();
    let tests = copy_program(&std::env::current_exe().unwrap(), folder.path(), "tests");
    let program = copy_program(&launcher().program, folder.path(), "launcher");
    let scratch = folder.path().join("tmp");
    std::fs::create_dir(&scratch).unwrap();
    std::os::unix::fs::chown(&scratch, Some(NOBODY), Some(NOBODY)).unwrap();
    #[expect(
        clippy::disallowed_methods,
        reason = "this binary again, as another user"
    )]
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(tests)
        .args(["--skip", "unprivileged_user_too"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("TMPDIR", scratch)
        .env(LAUNCHER_VARIABLE, program)
        .current_dir("/")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn copy_program(from: &Path, folder: &Path, name: &str) -> std::path::PathBuf {
    let to = folder.join(name);
    std::fs::copy(from, &to).unwrap();
    File::open(&to)
        .unwrap()
        .set_permissions(std::fs::Permissions::from_mode(0o755))
        .unwrap();
    to
}
