//! How a launch ends, and what is told about it.

use std::time::Duration;

use cto_sandbox::{
    Bind, Class, End, LaunchError, LaunchRequest, LayerName, Proof, StopCause, StopToken, Survivors,
};

use crate::support::{
    assert_nothing_survived, fallback, has_namespaces, launcher, request, run, run_script,
    run_until, script, try_run,
};
use crate::workshop::Workshop;

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
const SIGXCPU: i32 = 24;
const SIGXFSZ: i32 = 25;

fn error_of(request: &LaunchRequest) -> String {
    let error = try_run(&launcher(), request).unwrap_err();
    match std::error::Error::source(&error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

#[test]
fn exit_codes_come_through() {
    for code in [0, 1, 42, 255] {
        let ran = run_script(&format!("exit {code}"));
        assert_eq!(ran.outcome.end, End::Exited(code));
        assert_eq!(ran.outcome.stopped_by, None);
        assert!(ran.outcome.started);
    }
}

#[test]
fn signals_come_through() {
    for signal in [SIGKILL, SIGTERM, 6, 11] {
        let ran = run_script(&format!("kill -{signal} $$"));
        assert_eq!(ran.outcome.end, End::Signaled(signal));
        assert_eq!(ran.outcome.stopped_by, None);
    }
}

#[test]
fn both_streams_come_through_whole() {
    let ran = run_script("seq 1 20000; echo warning >&2");
    assert_eq!(ran.stdout.lines().count(), 20000);
    assert_eq!(ran.stderr, "warning\n");
    assert_eq!(ran.outcome.output.stdout_bytes, ran.stdout.len() as u64);
    assert_eq!(ran.outcome.output.stderr_bytes, 8);
    assert!(!ran.outcome.output.capped);
}

#[test]
fn a_command_is_found_in_the_given_path() {
    assert_eq!(run(&request(&["echo", "found"])).stdout, "found\n");
}

#[test]
fn what_cannot_be_executed_is_an_error_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    let make = |name: &str, text: &str, mode: u32| {
        use std::io::Write;
        use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .write(true)
            .mode(mode)
            .open(place(name))
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.set_permissions(std::fs::Permissions::from_mode(mode))
            .unwrap();
    };
    make("script", "#!/no/such/interpreter\n", 0o755);
    make("plain", "echo\n", 0o644);
    make("garbage", "no program", 0o755);

    assert_eq!(
        error_of(&request(&["no-such-command"])),
        "command `no-such-command` was not found"
    );
    assert_eq!(
        error_of(&request(&["/no/such"])),
        "command `/no/such` was not found"
    );
    let script = place("script");
    assert_eq!(
        error_of(&request(&[&script])),
        format!("the interpreter of command `{script}` was not found")
    );
    let plain = place("plain");
    assert_eq!(
        error_of(&request(&[&plain])),
        format!("could not execute command `{plain}`: Permission denied (os error 13)")
    );
    let garbage = place("garbage");
    assert_eq!(
        error_of(&request(&[&garbage])),
        format!("could not execute command `{garbage}`: Exec format error (os error 8)")
    );
}

#[test]
fn a_malformed_request_is_refused_before_anything_starts() {
    let refused = |change: fn(&mut LaunchRequest)| {
        let mut request = script("true");
        change(&mut request);
        error_of(&request)
    };
    let refusals = [
        refused(|r| r.argv.clear()),
        refused(|r| r.argv[0].clear()),
        refused(|r| r.argv.push("a\0b".into())),
        refused(|r| drop(r.env.insert("A=B".into(), "c".into()))),
        refused(|r| drop(r.env.insert("A".into(), "b\0".into()))),
        refused(|r| r.cwd = "work".into()),
        refused(|r| r.binds.push(Bind::read_only("../x"))),
    ];
    let expected = [
        "the command line is empty",
        "the program name is empty",
        "argument 3 holds a NUL byte",
        "environment name \"A=B\" is not a name",
        "environment value of \"A\" holds a NUL byte",
        "path `work` is not absolute",
        "path `../x` is not absolute",
    ];
    assert_eq!(
        refusals,
        expected.map(|text| format!("invalid launch request: {text}"))
    );
}

#[test]
fn a_missing_working_directory_is_an_error_by_name() {
    let mut request = script("true");
    request.cwd = "/no/such/directory".into();
    assert_eq!(
        error_of(&request),
        "could not enter working directory `/no/such/directory`: No such file or directory (os error 2)"
    );
}

#[test]
fn a_binary_that_is_no_launcher_is_an_error_by_name() {
    let launch = |program: &str| {
        let error = try_run(&cto_sandbox::Launcher::at(program), &script("true")).unwrap_err();
        error.to_string()
    };
    assert_eq!(
        launch("/bin/true"),
        "launcher `/bin/true` did not answer (it hung up)"
    );
    assert_eq!(
        launch("/no/launcher"),
        "could not start launcher `/no/launcher`"
    );
}

#[test]
fn over_the_wall_clock_the_tree_is_told_to_end() {
    let mut request = script("trap 'echo told; exit 7' TERM; sleep 1000 & wait");
    // Long enough for a shell to set its trap on a busy machine.
    request.limits.wall = Duration::from_secs(3);
    let ran = run(&request);
    assert_eq!(ran.outcome.end, End::Exited(7));
    assert_eq!(ran.outcome.stopped_by, Some(StopCause::Wall));
    assert_eq!(ran.stdout, "told\n");
    assert!(ran.outcome.wall >= request.limits.wall);
}

#[test]
fn who_ignores_term_is_killed_after_the_grace() {
    for launcher in [launcher(), fallback()] {
        let mut request = script("trap '' TERM; echo ready; while :; do sleep 1000; done");
        request.grace = Duration::from_millis(200);
        let stop = StopToken::new().unwrap();
        let ran = run_until(&launcher, &request, &stop, |_, _| stop.ask()).unwrap();
        assert_eq!(ran.outcome.end, End::Signaled(SIGKILL));
        assert_eq!(ran.outcome.stopped_by, Some(StopCause::Asked));
        assert!(ran.outcome.wall >= request.grace);
        assert_nothing_survived(&ran.outcome);
    }
}

#[test]
fn asking_stops_and_asking_twice_kills() {
    let asked = |text: &str, times: usize| {
        let stop = StopToken::new().unwrap();
        let ran = run_until(&launcher(), &script(text), &stop, |_, _| {
            (0..times).for_each(|_| stop.ask())
        })
        .unwrap();
        (ran.outcome.end, ran.outcome.stopped_by)
    };
    let patient = "trap 'exit 5' TERM; echo ready; sleep 1000 & wait";
    let stubborn = "trap '' TERM; echo ready; while :; do sleep 1000; done";
    assert_eq!(asked(patient, 1), (End::Exited(5), Some(StopCause::Asked)));
    assert_eq!(
        asked(stubborn, 2),
        (End::Signaled(SIGKILL), Some(StopCause::Asked))
    );
}

#[test]
fn a_stop_from_another_thread_wakes_the_loop() {
    let stop = StopToken::new().unwrap();
    let other = stop.clone();
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        receiver.recv().unwrap();
        other.kill();
    });
    let ran = run_until(
        &launcher(),
        &script("echo ready; exec sleep 1000"),
        &stop,
        |_, _| sender.send(()).unwrap(),
    );
    assert_eq!(ran.unwrap().outcome.end, End::Signaled(SIGKILL));
    thread.join().unwrap();
}

#[test]
fn a_stop_that_was_asked_before_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let stop = StopToken::new().unwrap();
    stop.ask();
    let mut request = script("touch here");
    request.cwd = folder.path().to_path_buf();
    let outcome = run_until(&launcher(), &request, &stop, |_, _| {})
        .unwrap()
        .outcome;
    assert_eq!(outcome.end, End::NotStarted);
    assert!(!outcome.started);
    assert_eq!(outcome.stopped_by, Some(StopCause::Asked));
    assert!(
        outcome
            .confinement
            .layers
            .iter()
            .all(|layer| !layer.in_force || layer.name == LayerName::UnprivilegedUid)
    );
    assert!(!folder.path().join("here").exists());
}

#[test]
fn resource_limits_hit_and_show() {
    let mut request = script("while :; do :; done");
    request.limits.cpu_seconds = Some(1);
    let ran = run(&request);
    assert_eq!(ran.outcome.end, End::Signaled(SIGXCPU));
    let layer = ran
        .outcome
        .confinement
        .layers
        .iter()
        .find(|l| l.name == LayerName::ResourceLimits)
        .unwrap();
    assert_eq!(
        (layer.in_force, layer.detail.as_str()),
        (true, "cpu seconds 1")
    );

    let folder = tempfile::tempdir().unwrap();
    let mut request = script("exec head -c 100000 /dev/zero >big");
    request.cwd = folder.path().to_path_buf();
    request.limits.file_bytes = Some(5000);
    assert_eq!(run(&request).outcome.end, End::Signaled(SIGXFSZ));
    assert_eq!(folder.path().join("big").metadata().unwrap().len(), 5000);

    let mut request = script("ulimit -n; ulimit -u 2>/dev/null || true; ulimit -c");
    request.limits.open_files = Some(64);
    assert_eq!(run(&request).stdout.lines().next(), Some("64"));
}

#[test]
fn time_of_grandchildren_counts_also_when_they_are_killed() {
    let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let waited = run_script(&format!("sh -c 'sh -c \"{}\"'", busy.replace('$', "\\$")));
    assert_eq!(waited.outcome.end, End::Exited(0));
    assert!(
        waited.outcome.cpu.unwrap() > Duration::from_millis(20),
        "{:?}",
        waited.outcome.cpu
    );
    let left = run_script(&format!(
        "trap 'exit 0' USR1; ({busy}; kill -USR1 $$; exec sleep 1000) & wait"
    ));
    assert!(
        left.outcome.cpu.unwrap() > Duration::from_millis(20),
        "{:?}",
        left.outcome.cpu
    );
    assert!(waited.outcome.peak_rss_bytes.unwrap() > 100_000);
}

#[test]
fn the_outcome_says_which_class_held_and_how_the_end_is_known() {
    let class = |launcher| {
        let outcome = try_run(&launcher, &script("true")).unwrap().outcome;
        (outcome.confinement.class, outcome.confinement.survivors)
    };
    let proof = |proof| Survivors::None { proof };
    assert_eq!(
        class(fallback()),
        (Class::Group, proof(Proof::SubreaperEmpty))
    );
    if has_namespaces() {
        assert_eq!(
            class(launcher()),
            (Class::Process, proof(Proof::InitWaited))
        );
    }
}

#[test]
fn the_probe_says_what_a_launch_with_a_root_of_its_own_then_has() {
    if !has_namespaces() {
        return;
    }
    let workshop = Workshop::new();
    let mut request = workshop.script("true");
    request.limits.processes = Some(10_000);
    request.recorder = cto_sandbox::Recorder::On;
    let launched = run(&request).outcome.confinement;
    let probed = cto_sandbox::probe();
    assert_eq!(probed.class, launched.class);
    for layer in &launched.layers {
        assert_eq!(probed.in_force(layer.name), layer.in_force, "{layer:?}");
    }
}

#[test]
fn an_overlay_without_namespaces_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut request = script("true");
    let place = || folder.path().to_path_buf();
    request.overlay = Some(cto_sandbox::Overlay {
        lowers: vec![place()],
        upper: place(),
        work: place(),
        at: place(),
    });
    let error = try_run(&fallback(), &request).unwrap_err();
    assert!(matches!(error, LaunchError::Unavailable { .. }), "{error}");
}
