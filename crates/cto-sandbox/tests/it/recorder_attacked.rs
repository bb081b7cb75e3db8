//! The recorder itself under attack: hidden from, raced, flooded, and asked by processes that are gone.

use std::path::Path;

use cto_sandbox::{AttemptKind, End, Recorder, SandboxMessage, StopCause, StopToken};

use crate::harness::play_under;
use crate::recorder::{PYTHON, attack};
use crate::support::{has_file, has_namespaces, launcher, script, try_run};
use crate::workshop::Workshop;

#[test]
fn rt_49_a_process_that_hides_is_seen_or_counted() {
    let workshop = Workshop::recorded();
    let program = r#"
import signal, threading
W = os.O_WRONLY | os.O_CREAT
# Not dumpable, and no descriptors left.
libc.prctl(4, 0, 0, 0, 0)
os.closerange(3, 1000)
attempt("hidden", lambda: opened("/usr/hidden", W))
libc.prctl(15, b"two\nlines", 0, 0, 0)
attempt("named", lambda: opened("/usr/named", W))
libc.prctl(15, b"python3", 0, 0, 0)
# A path that is not there, and one that ends with the memory.
call("nowhere", 56 if ARM else 257, -100, ctypes.c_void_p(0xdead000), W, 0)
attempt("init", lambda: os.kill(1, 9))
# An own filter that allows everything.
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]
allow = Filter(1, struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
call("filter", 277 if ARM else 317, 1, 0, ctypes.byref(allow))
attempt("after", lambda: opened("/usr/after", W))
def other():
    attempt("thread", lambda: opened("/usr/thread", W))
thread = threading.Thread(target=other)
thread.start()
thread.join()
"#;
    let Some(ran) = attack(&workshop, program) else {
        return;
    };
    let attempts = ran.attempts.iter().filter(|a| a.what != "exec");
    let seen: Vec<_> = attempts
        .map(|a| format!("{} {} {}", a.what, a.target, a.process))
        .collect();
    assert_eq!(
        seen,
        [
            "open for writing /usr/hidden python3 (pid 2)",
            "open for writing /usr/named two\\nlines (pid 2)",
            "open for writing (could not be read) python3 (pid 2)",
            "signal process 1 python3 (pid 2)",
            "own filter  python3 (pid 2)",
            "open for writing /usr/after python3 (pid 2)",
            "open for writing /usr/thread python3 (pid 2)",
        ],
        "{ran:?}"
    );
    assert_eq!(ran.outcome.recorded.unwrap().blind, 1);
    assert_eq!(
        ran.stdout,
        "hidden EROFS\nnamed EROFS\nnowhere EFAULT\ninit EPERM\nfilter ALLOWED\nafter EROFS\nthread EROFS\n"
    );
}

#[test]
fn rt_50_a_path_that_changes_while_it_is_looked_at_is_still_refused() {
    let raced = Path::new("/usr/cto-raced");
    let workshop = Workshop::recorded();
    let program = r#"
import threading
os.mkdir("own")
buffer = ctypes.create_string_buffer(b"/case/space/own/x")
names = [b"/case/space/own/x", b"/usr/cto-raced\0\0\0"]
stop = False
def swap():
    while not stop:
        for name in names:
            ctypes.memmove(buffer, name, len(name))
thread = threading.Thread(target=swap)
thread.start()
seen = set()
for _ in range(3000):
    fd = libc.open(buffer, os.O_WRONLY | os.O_CREAT, 0o644)
    if fd >= 0:
        seen.add(os.readlink("/proc/self/fd/%d" % fd))
        os.close(fd)
stop = True
thread.join()
# A half-written name may be anything, but nothing outside.
print(all(path.startswith("/case/space/") for path in seen))
"#;
    if let Some(ran) = attack(&workshop, program) {
        assert_eq!(ran.stdout, "True\n", "{ran:?}");
        assert!(!raced.exists());
    }
}

#[test]
fn rt_27_and_49_a_clone3_that_hides_its_flags_is_refused_and_counted() {
    let workshop = Workshop::recorded();
    let program = r#"
call("nowhere", 435, ctypes.c_void_p(0xdead000), 64)
# Its last bytes are not there; and one too short to say anything.
import mmap
edge = mmap.mmap(-1, 8192)
start = ctypes.addressof(ctypes.c_char.from_buffer(edge))
checked(libc.mprotect(ctypes.c_void_p(start + 4096), 4096, 0))
call("edge", 435, ctypes.c_void_p(start + 4092), 64)
call("short", 435, 0, 0)
libc.prctl(4, 0, 0, 0, 0)
attempt("hidden", lambda: clone3(0x20000))
"#;
    let Some(ran) = attack(&workshop, program) else {
        return;
    };
    let attempts = ran.attempts.iter().filter(|a| a.what != "exec");
    let seen: Vec<_> = attempts
        .map(|a| format!("{} {} {} x{}", a.kind.as_str(), a.what, a.target, a.count))
        .collect();
    let expected = [
        "denied clone3 (could not be read) x2",
        "denied clone3 flags 0x20000 x1",
    ];
    assert_eq!(seen, expected, "{ran:?}");
    assert_eq!(ran.outcome.recorded.unwrap().blind, 2);
    assert_eq!(
        ran.stdout,
        "nowhere EPERM\nedge EPERM\nshort ENOSYS\nhidden EPERM\n"
    );
}

#[test]
fn rt_27_and_50_flags_that_change_while_they_are_looked_at_make_no_process() {
    let workshop = Workshop::recorded();
    let program = r#"
import threading
arguments = ctypes.create_string_buffer(struct.pack("8Q", 0, 0, 0, 0, 17, 0, 0, 0), 64)
stop = False
def swap():
    while not stop:
        for flags in [0, 0x10000000]:
            ctypes.memmove(arguments, struct.pack("Q", flags), 8)
thread = threading.Thread(target=swap)
thread.start()
seen = set()
for _ in range(3000):
    if libc.syscall(435, arguments, 64) == 0:
        os._exit(9)
    seen.add(errno.errorcode[ctypes.get_errno()])
stop = True
thread.join()
print(seen <= {"EPERM", "ENOSYS"})
"#;
    if let Some(ran) = attack(&workshop, program) {
        assert_eq!(ran.stdout, "True\n", "{ran:?}");
        assert_eq!(ran.outcome.end, End::Exited(0), "{ran:?}");
    }
}

#[test]
fn rt_51_a_flood_is_cut_and_counted_and_pushes_nothing_else_out() {
    let workshop = Workshop::recorded();
    let program = r#"
for n in range(5000):
    libc.open(b"/usr/flood-%d" % n, os.O_WRONLY | os.O_CREAT, 0)
for n in range(3000):
    attempt_to = b"/none/%d" % n
    libc.execve(attempt_to, (ctypes.c_char_p * 2)(attempt_to, None), None)
call("last", 40 if ARM else 165, 0, b"/", 0, 0, 0)
os.execv("/usr/bin/true", ["true"])
"#;
    let Some(ran) = attack(&workshop, program) else {
        return;
    };
    assert_eq!(ran.outcome.end, End::Exited(0), "{ran:?}");
    let count = |what: &str| ran.attempts.iter().filter(|a| a.what == what).count();
    assert_eq!((count("open for writing"), count("exec")), (200, 2000));
    assert_eq!(count("mount"), 1);
    let recorded = ran.outcome.recorded.unwrap();
    // With the start of Python, and its end.
    assert_eq!((recorded.attempts, recorded.dropped), (8003, 5802));
    assert_eq!(recorded.blind, 0);
}

#[test]
fn repetitions_are_counted_and_the_first_is_told_at_once() {
    if !has_namespaces() {
        return;
    }
    let workshop = Workshop::recorded();
    let request = workshop.script("echo >/usr/x; exec sleep 1000");
    let stop = StopToken::new().unwrap();
    let mut counts = Vec::new();
    let outcome = launcher().launch(&request, &stop, &mut |message, _| {
        if let SandboxMessage::Attempt(attempt) = message
            && attempt.what == "open for writing"
        {
            counts.push(attempt.count);
            stop.kill();
        }
    });
    // Only the stop ends it, so it was told while the command ran.
    assert_eq!(outcome.unwrap().stopped_by, Some(StopCause::Asked));
    assert_eq!(counts, [1]);
    let ran = workshop.run_script("for n in 1 2 3; do echo >/usr/x; done 2>/dev/null; exit 0");
    let opened = ran.attempts.iter().find(|a| a.what == "open for writing");
    assert_eq!(opened.unwrap().count, 3, "{ran:?}");
}

#[test]
fn executions_are_told_with_bounded_arguments() {
    if !has_namespaces() {
        return;
    }
    let workshop = Workshop::recorded();
    let ran = workshop.run_script(
        r#"ln -s /usr/bin/env link
        long=$(printf '%01000d' 0)
        ./link PATH=/none:/usr/bin true "$long" b c d e f g h i j k l m n o p q r s
        PATH=/a:/b:/usr/bin:/bin env gh pr create
        PATH=/a:/usr/bin env printf '%s\n' hi
        printf 'a\nb\377' >odd; cp /usr/bin/true "$(cat odd)"; ./"$(cat odd)" "$(cat odd)""#,
    );
    let told = |program: &str| {
        let mut list = ran.attempts.iter().filter(|a| a.what == "exec");
        let found = list.find(|a| a.argv.first().is_some_and(|name| name == program));
        found
            .cloned()
            .unwrap_or_else(|| panic!("{program}: {ran:#?}"))
    };
    // The name of the file, not of the link that leads to it.
    let env = told("./link");
    assert_eq!(
        env.target,
        std::fs::canonicalize("/usr/bin/env")
            .unwrap()
            .to_str()
            .unwrap()
    );
    assert_eq!(env.argv.len(), 16);
    assert_eq!(env.argv[3], "0".repeat(256));
    assert_eq!(env.kind, AttemptKind::Attempt);
    // Not found anywhere: told once. Found at the second place: only that.
    let missing = told("gh");
    assert_eq!(
        (missing.argv.join(" ").as_str(), missing.count),
        ("gh pr create", 1)
    );
    assert_eq!(missing.target, "/bin/gh");
    assert_eq!(told("printf").target, "/usr/bin/printf");
    assert_eq!(
        ran.attempts
            .iter()
            .filter(|a| a.argv.first().is_some_and(|n| n == "printf"))
            .count(),
        1
    );
    let odd = told("./a\nb\u{fffd}");
    assert_eq!(
        (odd.target.as_str(), odd.argv[1].as_str()),
        ("/case/space/a\nb\u{fffd}", "a\nb\u{fffd}")
    );
}

#[test]
fn processes_that_end_while_they_are_looked_at_and_timers_disturb_nothing() {
    let workshop = Workshop::recorded();
    let program = r#"
import signal, subprocess
for n in range(150):
    child = os.fork()
    if child == 0:
        while True:
            libc.open(b"/usr/gone", os.O_WRONLY | os.O_CREAT, 0)
    libc.usleep(n * 10)
    os.kill(child, 9)
    os.waitpid(child, 0)
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
for n in range(2000):
    opened("own-%d" % (n % 10), os.O_WRONLY | os.O_CREAT)
signal.setitimer(signal.ITIMER_REAL, 0)
print(subprocess.run(["/bin/sh", "-c", "echo started"], capture_output=True, text=True).stdout, end="")
"#;
    let Some(ran) = attack(&workshop, program) else {
        return;
    };
    assert_eq!(ran.stdout, "started\n", "{ran:?}");
    let other = |what: &str, target: &str| (what, target) != ("open for writing", "/usr/gone");
    let attempts = ran.attempts.iter().filter(|a| a.what != "exec");
    let others: Vec<_> = attempts.filter(|a| other(&a.what, &a.target)).collect();
    assert!(others.is_empty(), "{others:?}");
    assert_eq!(ran.outcome.recorded.unwrap().blind, 0);
}

#[test]
fn a_recorder_needs_a_root_of_its_own() {
    let mut request = script("true");
    request.recorder = Recorder::On;
    let error = try_run(&launcher(), &request).unwrap_err().to_string();
    assert!(
        error.contains("the recorder needs a root of its own"),
        "{error}"
    );
}

#[test]
fn where_somebody_else_listens_already_the_recorder_is_missing_and_says_so() {
    if !has_namespaces() || !has_file(PYTHON) {
        return;
    }
    // The kernel gives one listener to a process and all that it starts.
    let listen = r#"
import ctypes, os, platform, struct, sys
libc = ctypes.CDLL(None)
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]
allow = Filter(1, struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
libc.prctl(38, 1, 0, 0, 0)
listener = libc.syscall(277 if platform.machine() == "aarch64" else 317, 1, 8, ctypes.byref(allow))
os.set_inheritable(listener, True)
os.execv(sys.argv[1], sys.argv[1:])
"#;
    let said = play_under(
        &[PYTHON, "-I", "-c", listen],
        "describe-built",
        Path::new("/"),
    );
    assert!(
        said.starts_with("Full as ")
            && said.ends_with(" made made: without resource_limits recorder egress_forwarder"),
        "{said}"
    );
}
