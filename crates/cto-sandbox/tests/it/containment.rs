//! What the tree sees, and that nothing of it stays.

use std::ffi::OsStr;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use cto_sandbox::{End, LayerName, Network, Stdin, StopCause};

use crate::support::{
    Lock, assert_nothing_survived, daemon_script, fallback, has_namespaces, launcher, run,
    run_script, script, try_run,
};

#[test]
fn the_environment_is_exactly_what_was_given() {
    let mut request = crate::support::request(&["/usr/bin/env"]);
    request.env.clear();
    request.env.insert("ONE".into(), "1".into());
    request.env.insert("TWO".into(), "a=b\nc".into());
    assert_eq!(run(&request).stdout, "ONE=1\nTWO=a=b\nc\n");
}

#[test]
fn bytes_that_are_no_text_and_large_environments_arrive() {
    let bytes = OsStr::from_bytes(b"a\xff\xfe b");
    let mut request = script("printf %s \"$0$BYTES\" | od -An -tx1; printf %s \"$A$B$C\" | wc -c");
    request.argv.push(bytes.into());
    request.env.insert("BYTES".into(), bytes.into());
    for name in ["A", "B", "C"] {
        request.env.insert(name.into(), "x".repeat(100_000).into());
    }
    assert_eq!(
        run(&request).stdout,
        " 61 ff fe 20 62 61 ff fe 20 62\n300000\n"
    );
}

#[test]
fn no_descriptor_is_inherited() {
    let file = std::fs::File::open("/proc/self/status").unwrap();
    rustix::io::fcntl_setfd(file.as_fd(), rustix::io::FdFlags::empty()).unwrap();
    for launcher in [launcher(), fallback()] {
        let mut request = script("ls /proc/self/fd; readlink /proc/self/fd/0");
        let ran = try_run(&launcher, &request).unwrap();
        // The fourth is the directory that `ls` reads.
        assert_eq!(ran.stdout, "0\n1\n2\n3\n/dev/null\n");
        request.stdin = Stdin::Written;
        let ran = try_run(&launcher, &request).unwrap();
        let (list, stdin) = ran.stdout.split_at("0\n1\n2\n3\n".len());
        assert_eq!(list, "0\n1\n2\n3\n");
        assert!(stdin.starts_with("pipe:["), "{stdin}");
        let mut layers = ran.outcome.confinement.layers.iter();
        let layer = layers.find(|layer| layer.name == LayerName::ClosedDescriptors);
        assert_eq!(
            layer.unwrap().detail,
            "only standard input (a pipe from the harness), output and error are open"
        );
    }
}

#[test]
fn the_command_has_its_own_session_default_signals_and_no_privileges() {
    let ran = run_script(
        "grep -E '^(Cap(Prm|Eff|Bnd|Amb|Inh)|NoNewPrivs|Sig(Blk|Ign)):' /proc/self/status; umask; ps -o sid= -p $$",
    );
    let expected = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n\
        CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\n0022\n";
    if has_namespaces() {
        assert_eq!(ran.stdout, format!("{expected}{:>7}\n", 2), "{ran:?}");
    }
}

#[test]
fn a_daemon_in_its_own_session_does_not_survive() {
    for launcher in [launcher(), fallback()] {
        let folder = tempfile::tempdir().unwrap();
        let lock = Lock::in_folder(folder.path());
        let ran = try_run(&launcher, &daemon_script(folder.path(), &lock, "exit 3")).unwrap();
        assert_eq!(ran.stdout, "held\n", "{ran:?}");
        assert_eq!(ran.outcome.end, End::Exited(3));
        assert_nothing_survived(&ran.outcome);
        assert!(lock.is_free());
    }
}

#[test]
fn a_daemon_does_not_survive_the_wall_clock_either() {
    for launcher in [launcher(), fallback()] {
        let folder = tempfile::tempdir().unwrap();
        let lock = Lock::in_folder(folder.path());
        let mut request = daemon_script(folder.path(), &lock, "exec sleep 1000");
        request.limits.wall = Duration::from_millis(500);
        let ran = try_run(&launcher, &request).unwrap();
        assert_eq!(ran.outcome.stopped_by, Some(StopCause::Wall));
        assert_nothing_survived(&ran.outcome);
        assert!(lock.is_free());
    }
}

#[test]
fn who_holds_the_output_open_does_not_hold_the_launch() {
    for launcher in [launcher(), fallback()] {
        let ran = try_run(
            &launcher,
            &script("(trap '' TERM HUP; exec sleep 1000) & echo mine"),
        )
        .unwrap();
        assert_eq!(ran.stdout, "mine\n");
        assert_eq!(ran.outcome.end, End::Exited(0));
        assert!(ran.outcome.wall < Duration::from_secs(30));
    }
}

#[test]
fn a_tree_that_keeps_forking_is_killed_whole() {
    for launcher in [launcher(), fallback()] {
        let folder = tempfile::tempdir().unwrap();
        let lock = Lock::in_folder(folder.path());
        // Two forkers whose orphans never end; the command itself ends after a while of that.
        let mut request = script(
            r#"exec 9<"$LOCK"; flock -s 9
            forever() { while :; do (sleep 1000 &); done; }
            (forever & forever &)
            i=0; while [ $i -lt 100 ]; do (:); i=$((i+1)); done"#,
        );
        request.env.insert("LOCK".into(), lock.path().into());
        let ran = try_run(&launcher, &request).unwrap();
        assert_nothing_survived(&ran.outcome);
        assert!(lock.is_free());
    }
}

#[test]
fn inside_only_the_own_tree_is_seen() {
    if !has_namespaces() {
        return;
    }
    let ran = run_script(
        "ls -d /proc/[0-9]* | head -n 3; cat /proc/1/comm; hostname; kill -9 1; echo alive; cat /proc/1/environ /proc/1/fd/0",
    );
    assert!(ran.stdout.starts_with("/proc/1\n/proc/2\n"), "{ran:?}");
    assert!(
        ran.stdout.ends_with("cto-init\nlocalhost\nalive\n"),
        "{ran:?}"
    );
    assert_eq!(
        ran.stderr.matches("Permission denied").count(),
        2,
        "{ran:?}"
    );
}

#[test]
fn without_network_not_even_the_hosts_loopback_answers() {
    if !has_namespaces() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = |network| {
        let mut request =
            crate::support::request(&["bash", "-c", &format!("exec 3<>/dev/tcp/127.0.0.1/{port}")]);
        request.network = network;
        run(&request)
    };
    let none = connect(Network::None);
    assert_eq!(none.outcome.end, End::Exited(1));
    // Refused, not unreachable: the loopback inside is up, and nobody listens on it.
    assert!(none.stderr.contains("Connection refused"), "{none:?}");
    assert!(
        none.outcome
            .confinement
            .in_force(LayerName::NetworkNamespace)
    );
    let host = connect(Network::Host);
    assert_eq!(host.outcome.end, End::Exited(0), "{host:?}");
    assert!(
        !host
            .outcome
            .confinement
            .in_force(LayerName::NetworkNamespace)
    );
    let routes = run_script("tail -n +2 /proc/net/route; grep -c : /proc/net/dev");
    assert_eq!(routes.stdout, "1\n");
}
