//! What becomes of a tree whose init, launcher or pad is killed.

use std::path::Path;

use cto_sandbox::{LaunchRequest, Replies, SandboxMessage, StopToken};
use rustix::process::{Pid, Signal};

use crate::harness::{play_under, say};
use crate::support::{Lock, daemon_script, has_namespaces, launcher, script};
use crate::workshop::Workshop;

/// Returns the children of a process with their names, zombies aside. The kernel's own list of them may leave some out
/// while others end.
fn children(parent: u32) -> Vec<(u32, String)> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let stats = numbers.filter_map(|pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (start, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let is_alive = fields.next()? != "Z";
        let is_child = fields.next()? == parent.to_string();
        (is_alive && is_child).then(|| (pid, start.split_once('(').unwrap().1.to_owned()))
    });
    stats.collect()
}

fn only_child(parent: u32) -> u32 {
    let children = children(parent);
    assert_eq!(children.len(), 1, "{children:?}");
    children[0].0
}

/// Returns the one child of this process that calls itself so.
fn child_named(name: &str) -> u32 {
    let children = children(std::process::id());
    let mut named = children.iter().filter(|(_, own)| own == name);
    let (Some((found, _)), None) = (named.next(), named.next()) else {
        panic!("not one {name}: {children:?}");
    };
    *found
}

fn kill_process(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
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
    let mut done = false;
    let kill = |message: SandboxMessage<'_>, _: &mut Replies| {
        // Output may come in more than one piece.
        if !matches!(message, SandboxMessage::Output(..)) || std::mem::replace(&mut done, true) {
            return;
        }
        let launcher = child_named("cto-launcher");
        let victim = if name == "init" {
            only_child(launcher)
        } else {
            launcher
        };
        kill_process(victim);
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

/// Launches, kills the pad, and launches again.
pub(crate) fn replace_pad() {
    let launcher = launcher();
    let launch = || {
        let outcome = launcher.launch(&script("true"), &StopToken::new().unwrap(), &mut |_, _| {});
        outcome.unwrap().end
    };
    let first = launch();
    let pad = child_named("cto-launch-pad");
    kill_process(pad);
    let second = launch();
    let is_another = child_named("cto-launch-pad") != pad;
    drop(launcher);
    say(&format!(
        "{first:?} {second:?} {is_another} {}",
        !children(std::process::id()).is_empty()
    ));
}

#[test]
fn a_pad_that_is_killed_is_replaced_and_none_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(
        play_under(&[], "replace-pad", folder.path()),
        "Exited(0) Exited(0) true false"
    );
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
