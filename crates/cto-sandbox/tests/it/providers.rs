//! Other means of confinement behind the same request: what each holds, and what it says about it.

use std::path::PathBuf;

use cto_sandbox::{
    Access, Bind, Class, End, LaunchRequest, Launcher, LayerName, Means, Network, Proof, Provider,
    Root, Survivors,
};

use crate::support::{
    Lock, Ran, assert_nothing_survived, bwrap, by, daemon_script, script, try_run,
};
use crate::workshop::{WORKSPACE, Workshop};

fn weak() -> Launcher {
    by(Means::Weak)
}

/// A request of the workshop with the workspace at its own place, as it must be where nothing can be mounted.
fn in_place(workshop: &Workshop, text: &str) -> LaunchRequest {
    let mut request = workshop.script(text);
    let space = workshop.space();
    request.binds = vec![Bind {
        from: space.clone(),
        at: space.clone(),
        access: Access::Writable,
    }];
    request.cwd = space.clone();
    request.env.insert("HOME".into(), space.into());
    request
}

fn run_weak(workshop: &Workshop, text: &str) -> Ran {
    let ran = try_run(&weak(), &in_place(workshop, text)).unwrap();
    assert_nothing_survived(&ran.outcome);
    ran
}

fn detail(ran: &Ran, name: LayerName) -> String {
    let layers = &ran.outcome.confinement.layers;
    let layer = layers.iter().find(|layer| layer.name == name).unwrap();
    layer.detail.clone()
}

#[test]
fn the_weak_mode_writes_in_the_workspace_and_nowhere_else() {
    let workshop = Workshop::new();
    let ran = run_weak(
        &workshop,
        r#"echo made >inside && cat inside
        echo x >"$OUTSIDE/new"; echo x >>"$OUTSIDE/secret"; cat "$OUTSIDE/secret"; ls "$OUTSIDE" /root /home /
        mv inside "$OUTSIDE/moved"; ln "$OUTSIDE/secret" linked; rm "$OUTSIDE/secret"; echo x >/tmp/cto-weak; echo x >/dev/shm/cto-weak"#,
    );
    assert_eq!(ran.stdout, "made\n", "{ran:?}");
    assert_eq!(
        std::fs::read_to_string(workshop.outside().join("secret")).unwrap(),
        "untouched"
    );
    let names = std::fs::read_dir(workshop.outside()).unwrap().count();
    assert_eq!(names, 1);
    for place in ["/tmp/cto-weak", "/dev/shm/cto-weak"] {
        assert!(!PathBuf::from(place).exists(), "{place}");
    }
}

#[test]
fn the_weak_mode_says_what_it_holds_and_what_not() {
    let workshop = Workshop::new();
    let ran = run_weak(&workshop, "true");
    let confinement = &ran.outcome.confinement;
    assert_eq!(
        (confinement.provider, confinement.class),
        (Provider::Native, Class::Weak)
    );
    assert_eq!(
        confinement.survivors,
        Survivors::None {
            proof: Proof::SubreaperEmpty
        }
    );
    let open = [
        LayerName::UserNamespace,
        LayerName::MountNamespace,
        LayerName::PidNamespace,
        LayerName::NetworkNamespace,
        LayerName::OwnProc,
        LayerName::RootFromNothing,
    ];
    assert!(!open.iter().any(|&name| confinement.in_force(name)));
    let held = [
        LayerName::Landlock,
        LayerName::Seccomp,
        LayerName::ReadOnlyPaths,
        LayerName::NoNewPrivileges,
        LayerName::NoCapabilities,
        LayerName::ClosedDescriptors,
        LayerName::BuiltEnvironment,
        LayerName::WallClock,
        LayerName::OutputCap,
    ];
    for name in held {
        assert!(confinement.in_force(name), "{name}: {}", detail(&ran, name));
    }
    assert!(detail(&ran, LayerName::Landlock).contains("not held: mode, owner, times"));
    assert!(detail(&ran, LayerName::NetworkNamespace).contains("system call filter"));
    let proof = ran.outcome.proof.as_ref().unwrap();
    assert!(proof.canaries.iter().all(cto_sandbox::Canary::holds));
    assert!(proof.canaries.len() >= 6, "{proof:?}");
}

#[test]
fn the_weak_mode_has_no_socket_but_pairs() {
    let workshop = Workshop::new();
    let text = r#"python3 - <<'END'
import socket
a, b = socket.socketpair()
a.send(b"pair"); print(b.recv(9).decode())
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.AF_NETLINK):
    try:
        socket.socket(family, socket.SOCK_DGRAM)
        print("open", family)
    except PermissionError:
        print("refused")
END"#;
    let ran = run_weak(&workshop, text);
    let lines = "pair\nrefused\nrefused\nrefused\nrefused\n";
    assert_eq!(ran.stdout, lines, "{ran:?}");
}

#[test]
fn the_weak_mode_cannot_look_into_other_processes_nor_signal_them() {
    let workshop = Workshop::new();
    let me = std::process::id();
    let text = format!(
        "cat /proc/{me}/environ; ls /proc/{me}/root; readlink /proc/{me}/fd/1 /proc/{me}/exe; cat /proc/1/environ; kill -0 {me} && echo reached"
    );
    let ran = run_weak(&workshop, &text);
    assert_eq!(ran.stdout, "", "{ran:?}");
}

#[test]
fn a_daemon_does_not_survive_without_namespaces() {
    let workshop = Workshop::new();
    let lock = Lock::in_folder(&workshop.space());
    let mut request = in_place(&workshop, "");
    let daemon = daemon_script(&workshop.space(), &lock, "true");
    request.argv = daemon.argv;
    request.env.extend(daemon.env);
    let ran = try_run(&weak(), &request).unwrap();
    assert_eq!(ran.stdout, "held\n", "{ran:?}");
    assert_nothing_survived(&ran.outcome);
    assert!(lock.is_free());
}

#[test]
fn the_weak_mode_refuses_what_needs_a_mount() {
    let workshop = Workshop::new();
    let error = |request: &LaunchRequest| try_run(&weak(), request).unwrap_err().to_string();
    assert_eq!(
        error(&workshop.script("touch ran")),
        format!(
            "process confinement is not available here: the weak mode has no mounts, and `{WORKSPACE}` needs one"
        )
    );
    assert_eq!(
        error(&script("true")),
        "process confinement is not available here: the weak mode needs a root that is named"
    );
    assert!(!workshop.space().join("ran").exists());
}

#[test]
fn without_a_sandbox_group_environment_cap_and_clock_still_hold() {
    let mut request = script("env; echo; yes | head -c 5000; sleep 1000 & exit 3");
    request.limits.output_bytes = 1000;
    request.network = Network::Host;
    let ran = try_run(&by(Means::None), &request).unwrap();
    assert_nothing_survived(&ran.outcome);
    assert_eq!(ran.outcome.end, End::Exited(3));
    assert!(ran.stdout.starts_with("PATH="), "{ran:?}");
    assert!(ran.outcome.output.capped);
    let confinement = &ran.outcome.confinement;
    assert_eq!(
        (confinement.provider, confinement.class),
        (Provider::None, Class::None)
    );
    assert!(!confinement.in_force(LayerName::Landlock));
    assert!(confinement.in_force(LayerName::WallClock));
    assert!(detail(&ran, LayerName::PidNamespace).contains("asked for no sandbox"));
    assert_eq!(ran.outcome.proof, None);
}

#[test]
fn bwrap_holds_all_that_a_native_launch_does() {
    let Some(launcher) = bwrap() else { return };
    let workshop = Workshop::new();
    let request = workshop.script(
        r#"ls / | grep -v ^lib | xargs; echo made >file; cat file; id -un; hostname
        cat "$OUTSIDE/secret"; touch /usr/x /x /etc/x; set -- /proc/[0-9]*; echo $#; cat /etc/shadow"#,
    );
    let ran = try_run(&launcher, &request).unwrap();
    assert_eq!(
        ran.stdout, "bin case dev etc proc sbin tmp usr\nmade\nuser\nlocalhost\n2\n",
        "{ran:?}"
    );
    let confinement = &ran.outcome.confinement;
    assert_eq!(
        (confinement.provider, confinement.class),
        (Provider::Bwrap, Class::Full),
        "{confinement:?}"
    );
    assert_eq!(
        confinement.survivors,
        Survivors::None {
            proof: Proof::InitWaited
        }
    );
    assert!(
        ran.outcome
            .proof
            .unwrap()
            .canaries
            .iter()
            .all(cto_sandbox::Canary::holds)
    );
}

#[test]
fn a_daemon_does_not_survive_bwrap() {
    let Some(launcher) = bwrap() else { return };
    let workshop = Workshop::new();
    let lock = Lock::in_folder(&workshop.space());
    let daemon = daemon_script(&workshop.space(), &lock, "true");
    let mut request = workshop.script("");
    request.argv = daemon.argv;
    request.env.insert("FIFO".into(), "/case/space/fifo".into());
    request.env.insert("LOCK".into(), "/case/space/lock".into());
    let ran = try_run(&launcher, &request).unwrap();
    assert_eq!(ran.stdout, "held\n", "{ran:?}");
    assert_nothing_survived(&ran.outcome);
    assert!(lock.is_free());
}

#[test]
fn bwrap_that_is_missing_or_lies_starts_nothing() {
    let workshop = Workshop::new();
    let error = |program: &str| {
        let launcher = by(Means::Bwrap {
            program: program.into(),
        });
        let error = try_run(&launcher, &workshop.script("touch ran")).unwrap_err();
        assert!(!workshop.space().join("ran").exists());
        error.to_string()
    };
    assert_eq!(
        error("/no/such/bwrap"),
        "could not execute `/no/such/bwrap`"
    );
    let said = error("/bin/false");
    assert_eq!(
        said,
        "`/bin/false` could not build the sandbox: exit status: 1"
    );
    // One that only executes what it should have shown: the launcher finds itself on the host.
    let liar = workshop.path().join("bwrap");
    let text = r#"#!/bin/bash
        while [ $# -gt 0 ]; do [ "$3" = /.cto/cto-launcher ] && exec -a "$3" "$2"; shift; done"#;
    write_program(&liar, text);
    let said = error(liar.to_str().unwrap());
    assert!(
        said.starts_with("the sandbox does not hold: the ")
            && said.ends_with("namespace is still the host's"),
        "{said}"
    );
}

#[expect(
    clippy::disallowed_methods,
    reason = "test data needs no atomic writer"
)]
pub(crate) fn write_program(path: &std::path::Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn only_the_native_means_have_overlays() {
    let workshop = Workshop::new();
    let mut request = in_place(&workshop, "true");
    request.overlay = Some(cto_sandbox::Overlay {
        lowers: vec![workshop.outside()],
        upper: workshop.space(),
        work: workshop.space(),
        at: workshop.space(),
    });
    let bwrap = Means::Bwrap {
        program: "/usr/bin/bwrap".into(),
    };
    for means in [Means::Weak, bwrap] {
        let error = try_run(&by(means), &request).unwrap_err().to_string();
        assert!(error.ends_with("has no overlays"), "{error}");
    }
    let Root::Built(_) = request.root else {
        unreachable!("the workshop builds its root")
    };
}
