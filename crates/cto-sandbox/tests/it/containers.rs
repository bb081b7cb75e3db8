//! Containers as means of confinement: podman for real where it runs, docker by its command line.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cto_sandbox::{
    Class, Container, End, Engine, Launcher, LayerName, Means, Proof, Provider, StopCause,
    StopToken, Survivors,
};
use tempfile::TempDir;

use crate::endpoint;
use crate::providers::write_program;
use crate::stdin;
use crate::support::{Lock, daemon_script, has_namespaces, launcher, provider, run_until, try_run};
use crate::workshop::Workshop;

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// An engine with all of its state in a folder of its own.
struct Machine {
    folder: TempDir,
    container: Container,
}

impl Machine {
    fn new(engine: Engine, program: PathBuf, folder: TempDir) -> Self {
        let path = |name: &str| folder.path().join(name);
        for name in ["run", "tmp"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        let env: BTreeMap<OsString, OsString> = BTreeMap::from([
            ("PATH".into(), PATH.into()),
            ("HOME".into(), folder.path().into()),
            ("TMPDIR".into(), path("tmp").into()),
            ("XDG_RUNTIME_DIR".into(), path("run").into()),
            ("CONTAINERS_CONF".into(), path("containers.conf").into()),
        ]);
        let container = Container {
            engine,
            program,
            env,
            room: path("room"),
        };
        Self { folder, container }
    }

    fn launcher(&self) -> Launcher {
        Launcher {
            means: Means::Container(self.container.clone()),
            ..launcher()
        }
    }

    fn ask(&self, words: &[&str]) -> String {
        #[expect(clippy::disallowed_methods, reason = "asks the engine what is left")]
        let output = std::process::Command::new(&self.container.program)
            .args(words)
            .env_clear()
            .envs(&self.container.env)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn assert_nothing_left(&self) {
        assert_eq!(self.ask(&["ps", "-a", "-q"]), "");
        let left = std::fs::read_dir(&self.container.room).map(Iterator::count);
        assert_eq!(left.unwrap_or(0), 0);
    }
}

impl Drop for Machine {
    /// Podman keeps a process for its user namespace, and images that only it can remove.
    fn drop(&mut self) {
        if self.container.program.is_file() && self.container.engine == Engine::Podman {
            self.ask(&["rmi", "--all", "--force"]);
        }
        let pid = self.folder.path().join("run/libpod/tmp/pause.pid");
        let pid = std::fs::read_to_string(pid).ok();
        let pid = pid.and_then(|text| rustix::process::Pid::from_raw(text.trim().parse().ok()?));
        if let Some(pid) = pid {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
        }
    }
}

/// Podman with an own storage, where it runs: rootless, and with a runtime that copes with this machine's groups.
#[expect(
    clippy::disallowed_methods,
    reason = "test data needs no atomic writer"
)]
fn podman() -> Option<Machine> {
    let program = provider("CTO_TEST_PODMAN", "/usr/bin/podman").filter(|_| has_namespaces())?;
    if rustix::process::geteuid().is_root() {
        cto_testkit::skipped("podman is for an ordinary user, as whom these tests run again");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let runtime = match Path::new("/sys/fs/cgroup/unified").exists() {
        true => "[engine]\nruntime = \"runc\"\n",
        false => "",
    };
    std::fs::write(folder.path().join("containers.conf"), runtime).unwrap();
    Some(Machine::new(Engine::Podman, program, folder))
}

/// The stand-in, where bwrap can build its containers.
fn docker() -> Option<Machine> {
    provider("CTO_TEST_BWRAP", "/usr/bin/bwrap").filter(|_| has_namespaces())?;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("docker");
    write_program(&program, include_str!("fake_docker.py"));
    Some(Machine::new(Engine::Docker, program, folder))
}

#[test]
fn podman_holds_all_that_a_native_launch_does() {
    let Some(machine) = podman() else { return };
    let workshop = Workshop::new();
    let mut request = workshop.script(
        r#"echo made >file; cat file; hostname; cat /etc/hosts | head -1
        cat "$OUTSIDE/secret"; touch /usr/x /x /etc/x; ls /sys/kernel; set -- /proc/[0-9]*; echo $#; cat /etc/shadow; exit 5"#,
    );
    request.limits.processes = Some(200);
    request.tree.memory_bytes = Some(1 << 30);
    let ran = try_run(&machine.launcher(), &request).unwrap();
    assert_eq!(
        ran.stdout, "made\nlocalhost\n127.0.0.1\tlocalhost\n2\n",
        "{ran:?}"
    );
    assert_eq!(ran.outcome.end, End::Exited(5));
    let confinement = &ran.outcome.confinement;
    assert_eq!(
        (confinement.provider, confinement.class),
        (Provider::Podman, Class::Full),
        "{confinement:?}"
    );
    assert!(confinement.in_force(LayerName::UserNamespace));
    let gone = Proof::ContainerGone;
    assert_eq!(confinement.survivors, Survivors::None { proof: gone });
    machine.assert_nothing_left();
}

#[test]
fn a_daemon_in_a_container_dies_with_the_command_and_a_stop_reaches_it() {
    let Some(machine) = podman() else { return };
    let workshop = Workshop::new();
    let lock = Lock::in_folder(&workshop.space());
    let daemon = daemon_script(&workshop.space(), &lock, "trap '' TERM; sleep 1000");
    let mut request = workshop.script("");
    request.argv = daemon.argv;
    request.env.insert("FIFO".into(), "/case/space/fifo".into());
    request.env.insert("LOCK".into(), "/case/space/lock".into());
    let stop = StopToken::new().unwrap();
    let ran = run_until(&machine.launcher(), &request, &stop, |_, _| stop.kill()).unwrap();
    assert_eq!(ran.stdout, "held\n", "{ran:?}");
    assert_eq!(ran.outcome.stopped_by, Some(StopCause::Asked));
    assert!(lock.is_free());
    machine.assert_nothing_left();
}

#[test]
fn docker_gets_the_same_request_by_its_command_line() {
    let Some(machine) = docker() else { return };
    let workshop = Workshop::new();
    let request = workshop.script("echo made >file; cat file; touch /usr/x; cat /etc/shadow");
    for _ in 0..2 {
        let ran = try_run(&machine.launcher(), &request).unwrap();
        assert_eq!(ran.stdout, "made\n", "{ran:?}");
        let confinement = &ran.outcome.confinement;
        let class = match rustix::process::geteuid().is_root() {
            // Its containers run as the caller.
            true => Class::Process,
            false => Class::Full,
        };
        assert_eq!(
            (confinement.provider, confinement.class),
            (Provider::Docker, class),
            "{confinement:?}"
        );
    }
    let calls = std::fs::read_to_string(machine.folder.path().join("calls")).unwrap();
    let words: Vec<_> = calls
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    let once = ["image", "import", "run", "ps"];
    let again = ["image", "run", "ps"];
    assert_eq!(words, [&once[..], &again[..]].concat());
    machine.assert_nothing_left();
}

#[test]
fn a_command_in_a_container_is_told_things_too() {
    for machine in [podman(), docker()].into_iter().flatten() {
        let workshop = Workshop::new();
        stdin::talk(&machine.launcher(), workshop.script(""));
        machine.assert_nothing_left();
    }
}

#[test]
fn the_one_endpoint_of_a_container_is_handed_out() {
    for machine in [podman(), docker()].into_iter().flatten() {
        endpoint::visit(&machine.launcher());
        endpoint::decline(&machine.launcher());
        machine.assert_nothing_left();
    }
}

#[test]
fn an_engine_that_cannot_start_is_quoted_and_nothing_runs() {
    let workshop = Workshop::new();
    let request = workshop.script("touch ran");
    if let Some(machine) = docker() {
        std::fs::File::create(machine.folder.path().join("refuse")).unwrap();
        let error = try_run(&machine.launcher(), &request).unwrap_err();
        let said = error.to_string();
        assert!(
            said.ends_with(
                "could not build the sandbox: docker: Error response from daemon: no space left"
            ),
            "{said}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::new(Engine::Podman, "/no/such/podman".into(), folder);
    let error = try_run(&machine.launcher(), &request).unwrap_err();
    assert_eq!(error.to_string(), "could not execute `/no/such/podman`");
    assert!(!workshop.space().join("ran").exists());
}
