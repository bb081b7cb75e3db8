//! What a sandbox says when somebody kills a part of it.

use std::path::Path;

use cto_sandbox::{LaunchRequest, Said, StopToken};

use crate::harness::{play_under, say};
use crate::support::{Lock, daemon_script, has_namespaces, launcher};
use crate::workshop::Workshop;

/// Returns the one child of a process that has one thread.
fn only_child(pid: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.trim().parse().unwrap()
}

/// Returns the launcher, whichever thread of this process started it.
fn launcher_of_this_process() -> u32 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let children = threads
        .map(|thread| std::fs::read_to_string(thread.unwrap().path().join("children")).unwrap());
    children.collect::<String>().trim().parse().unwrap()
}

/// Launches a tree and kills first its init and then, with another, its launcher.
pub(crate) fn murder(folder: &Path) {
    for name in ["init", "launcher"] {
        let folder = tempfile::tempdir_in(folder).unwrap();
        let lock = Lock::in_folder(folder.path());
        let request = daemon_script(folder.path(), &lock, "exec sleep 1000");
        murder_one(name, &request, &lock);
    }
}

/// The same with trees that are recorded.
pub(crate) fn murder_recorded() {
    for name in ["init", "launcher"] {
        let workshop = Workshop::recorded();
        let lock = Lock::in_folder(&workshop.space());
        let text = "(setsid flock lock sh -c 'echo held; exec sleep 1000' &) ; exec sleep 1000";
        murder_one(name, &workshop.script(text), &lock);
    }
}

fn murder_one(name: &str, request: &LaunchRequest, lock: &Lock) {
    let kill = |said: Said<'_>| {
        let Said::Output(..) = said else { return };
        let launcher = launcher_of_this_process();
        let victim = if name == "init" {
            only_child(launcher)
        } else {
            launcher
        };
        let pid = i32::try_from(victim).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    };
    let outcome = launcher()
        .launch(request, &StopToken::new().unwrap(), &mut { kill })
        .unwrap();
    let (end, cause) = (outcome.end, outcome.stopped_by);
    let recorded = outcome.recorded.map(|recorded| recorded.dropped);
    say(&format!(
        "{name}: {end:?} {cause:?} {:?} {:?} {recorded:?}",
        outcome.cpu, outcome.confinement.survivors
    ));
    lock.wait_until_free();
}

#[test]
fn a_sandbox_that_is_killed_takes_the_tree_along_and_is_no_normal_end() {
    if !has_namespaces() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [host, recorded] =
        ["murder", "murder-recorded"].map(|role| play_under(&[], role, folder.path()));
    assert_eq!(
        host,
        "init: Signaled(9) Some(SandboxDied) None None { proof: InitWaited } None\n\
         launcher: Signaled(9) Some(SandboxDied) None Unknown { reason: \"the launcher ended unexpectedly (signal: 9 (SIGKILL))\" } None"
    );
    // An init that was killed leaves its recorder to tell what it saw.
    assert_eq!(
        recorded,
        host.replacen("InitWaited } None", "InitWaited } Some(0)", 1)
    );
}
