//! Bounds of the whole tree: each is reached by a real program, named, and ends everything.

use std::path::Path;
use std::time::Duration;

use cto_sandbox::{End, LaunchRequest, LimitHit, LimitName, MemoryHold, Outcome, StopCause};

use crate::harness::{play, say};
use crate::support::{
    Lock, Ran, daemon_script, has_file, has_namespaces, launcher, run, script, try_run,
};
use crate::workshop::Workshop;

const MIB: u64 = 1024 * 1024;
const PYTHON: &str = "/usr/bin/python3";
const MEMORY_GROUPS: &str = "/sys/fs/cgroup/memory";

fn can_run() -> bool {
    has_namespaces() && has_file(PYTHON)
}

#[track_caller]
fn hit(request: &LaunchRequest, limit: LimitName) -> (LimitHit, Outcome) {
    let ran = run(request);
    let Some(hit) = ran.outcome.limit_hit else {
        panic!("nothing was hit: {ran:?}");
    };
    assert_eq!(hit.limit, limit, "{ran:?}");
    assert!(hit.seen >= hit.allowed, "{hit}");
    assert_eq!(ran.outcome.stopped_by, None::<StopCause>);
    (hit, ran.outcome)
}

#[test]
fn rt_35_a_daemon_in_its_own_session_dies_with_the_command() {
    if !has_namespaces() {
        return;
    }
    let workshop = Workshop::new();
    let lock = Lock::in_folder(&workshop.space());
    let daemon = daemon_script(&workshop.space(), &lock, "exit 3");
    let mut request = workshop.request(&[]);
    request.argv = daemon.argv;
    for (name, file) in [("FIFO", "fifo"), ("LOCK", "lock")] {
        request.env.insert(name.into(), file.into());
    }
    let ran = run(&request);
    assert_eq!(
        (ran.stdout.as_str(), ran.outcome.end),
        ("held\n", End::Exited(3)),
        "{ran:?}"
    );
    assert!(lock.is_free());
}

#[test]
fn rt_36_a_fork_bomb_is_bounded_and_named() {
    if !can_run() {
        return;
    }
    for workshop in Workshop::both() {
        let program = "
import os, time
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.01)";
        let mut request = workshop.request(&[PYTHON, "-c", program]);
        request.limits.processes = Some(50);
        let (hit, outcome) = hit(&request, LimitName::Processes);
        assert_eq!((hit.allowed, outcome.end), (50, End::Signaled(9)));
        assert!(hit.seen <= 60, "{hit}");
    }
}

#[test]
fn rt_37_a_memory_bomb_is_ended_and_named() {
    if !can_run() {
        return;
    }
    let workshop = Workshop::new();
    // Spread over processes, none of which is large.
    let program = "
import os, time
for _ in range(20):
    if os.fork() == 0:
        keep = bytearray(os.urandom(1) * (16 << 20))
        time.sleep(1000)
time.sleep(1000)";
    let mut request = workshop.request(&[PYTHON, "-c", program]);
    request.tree.memory_bytes = Some(128 * MIB);
    let (hit, outcome) = hit(&request, LimitName::MemoryBytes);
    assert_eq!(outcome.end, End::Signaled(9));
    assert!(hit.seen < 600 * MIB, "{hit}");
}

#[test]
fn memory_that_no_process_has_mapped_is_found() {
    if !can_run() {
        return;
    }
    let workshop = Workshop::new();
    let files = "
import os, time
keep = [os.memfd_create('x') for _ in range(20)]
for fd in keep: os.write(fd, b'x' * (16 << 20))
time.sleep(1000)";
    let segments = "
import ctypes, time
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
for n in range(20):
    segment = libc.shmget(0, 16 << 20, 0o600)
    at = libc.shmat(segment, None, 0)
    ctypes.memset(at, 1, 16 << 20)
    libc.shmdt(ctypes.c_void_p(at))
time.sleep(1000)";
    for program in [files, segments] {
        let mut request = workshop.request(&[PYTHON, "-c", program]);
        request.tree.memory_bytes = Some(128 * MIB);
        hit(&request, LimitName::MemoryBytes);
    }
}

/// Hides from every look, and takes what belongs to no process.
const HIDDEN_BOMB: &str = "
import ctypes, os
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
file = os.memfd_create('hidden')
for _ in range(1024): os.write(file, b'x' * (1 << 20))
print('all of it')";

#[test]
fn memory_that_no_look_finds_is_held_by_a_control_group_where_one_can_be_made() {
    if !can_run() {
        return;
    }
    let ran = run_hidden_bomb();
    let layers = &ran.outcome.confinement.layers;
    let held = layers
        .iter()
        .any(|layer| layer.detail.contains("held by a control group"));
    assert!(held || !has_memory_groups(), "{ran:?}");
    if held {
        let hit = ran.outcome.limit_hit.map(|hit| (hit.limit, hit.allowed));
        assert_eq!(hit, Some((LimitName::MemoryBytes, 32 * MIB)), "{ran:?}");
        assert_eq!(
            (ran.outcome.end, ran.stdout.as_str()),
            (End::Signaled(9), "")
        );
    }
    // In a process that makes no other.
    assert_eq!(play("hidden-bomb"), "0 left");
}

fn run_hidden_bomb() -> Ran {
    let workshop = Workshop::new();
    let mut request = workshop.request(&[PYTHON, "-c", HIDDEN_BOMB]);
    request.tree.memory_bytes = Some(32 * MIB);
    request.tree.memory_hold = MemoryHold::Group;
    run(&request)
}

/// Runs the program, and says how many groups are left of it.
pub(crate) fn leave_no_group() {
    run_hidden_bomb();
    say(&format!("{} left", groups_left(Path::new(MEMORY_GROUPS))));
}

/// Whether this user may make a group below the uppermost one of the older interface.
fn has_memory_groups() -> bool {
    let place = Path::new(MEMORY_GROUPS).join("test-of-cto-sandbox");
    let made = std::fs::create_dir(&place).is_ok();
    std::fs::remove_dir(place).is_ok() && made
}

/// Groups below that this process has made and not removed.
fn groups_left(folder: &Path) -> usize {
    let prefix = format!("cto-{}-", std::process::id());
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    folders
        .map(|entry| {
            let is_ours = entry.file_name().to_string_lossy().starts_with(&prefix);
            usize::from(is_ours) + groups_left(&entry.path())
        })
        .sum()
}

#[test]
fn memory_that_processes_share_counts_once() {
    if !can_run() {
        return;
    }
    let workshop = Workshop::new();
    let program = "
import os, time
keep = bytearray(b'x' * (40 << 20))
children = []
for _ in range(10):
    pid = os.fork()
    if pid == 0:
        time.sleep(0.3)
        os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
print(len(keep))";
    let mut request = workshop.request(&[PYTHON, "-c", program]);
    // Counted for each process they would be over 400 MiB; the looks are not taken all at one moment.
    request.tree.memory_bytes = Some(300 * MIB);
    let ran = run(&request);
    assert_eq!(ran.outcome.limit_hit, None, "{ran:?}");
    assert_eq!(ran.outcome.end, End::Exited(0), "{ran:?}");
}

#[test]
fn rt_38_a_full_disk_and_a_flood_of_files_are_ended_and_named() {
    if !has_namespaces() {
        return;
    }
    let workshop = Workshop::new();
    let mut request = workshop.script("while :; do cat /usr/bin/env /usr/bin/env >>file; done");
    request.tree.disk_bytes = Some(8 * MIB);
    let (bytes, _) = hit(&request, LimitName::DiskBytes);
    assert_eq!(bytes.allowed, 8 * MIB);
    let workshop = Workshop::new();
    let mut request = workshop.script("n=0; while :; do n=$((n+1)); : >file$n; done");
    request.tree.disk_files = Some(500);
    let (files, _) = hit(&request, LimitName::DiskFiles);
    assert_eq!(files.allowed, 500);
}

#[test]
fn a_temporary_directory_in_memory_has_a_hard_end() {
    if !has_namespaces() {
        return;
    }
    let ran =
        Workshop::new().run_script("head -c 300000000 /dev/zero >/tmp/file; stat -c %s /tmp/file");
    assert!(ran.stderr.contains("No space left on device"), "{ran:?}");
    assert_eq!(ran.stdout.trim(), (256 * MIB).to_string());
}

#[test]
fn large_files_many_open_files_and_cpu_time_are_named() {
    if !can_run() {
        return;
    }
    let workshop = Workshop::new();
    let mut request = workshop.script("exec head -c 2000000 /dev/zero >file");
    request.limits.file_bytes = Some(MIB);
    hit(&request, LimitName::FileBytes);
    // Who ignores the signal is found by what it left.
    let program = "
import os, time
try:
    open('other', 'wb').write(b'x' * 2000000)
except OSError:
    time.sleep(1000)";
    let mut request = workshop.request(&[PYTHON, "-c", program]);
    request.limits.file_bytes = Some(MIB / 2);
    hit(&request, LimitName::FileBytes);
    let program = "
import os, time
keep = []
try:
    while True: keep.append(open('/dev/null'))
except OSError:
    time.sleep(1000)";
    let mut request = workshop.request(&[PYTHON, "-c", program]);
    request.limits.open_files = Some(64);
    hit(&request, LimitName::OpenFiles);
    let mut request = workshop.request(&[PYTHON, "-c", "while True: pass"]);
    request.limits.cpu_seconds = Some(1);
    hit(&request, LimitName::CpuSeconds);
}

#[test]
fn a_bound_that_is_not_reached_changes_nothing() {
    if !has_namespaces() {
        return;
    }
    let workshop = Workshop::new();
    let mut request =
        workshop.script("i=0; while [ $i -lt 200 ]; do (:); i=$((i+1)); done; echo done");
    request.limits.processes = Some(100);
    request.limits.open_files = Some(256);
    request.limits.file_bytes = Some(MIB);
    request.tree.memory_bytes = Some(256 * MIB);
    request.tree.disk_bytes = Some(64 * MIB);
    let ran = run(&request);
    assert_eq!(
        (ran.stdout.as_str(), ran.outcome.limit_hit),
        ("done\n", None),
        "{ran:?}"
    );
}

#[test]
fn bounds_of_a_tree_need_a_root_from_nothing() {
    let mut request = script("true");
    request.tree.memory_bytes = Some(MIB);
    request.grace = Duration::ZERO;
    let error = try_run(&launcher(), &request).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid launch request: limits of the whole tree need a root of its own"
    );
}
