//! What the recorder sees: every refused call and every likely refused attempt, and nothing of honest work but its executions.
//!
//! Numbers are those of the corpus. That the attempts fail is `redteam.rs`'s matter, which runs with the recorder too.

use cto_sandbox::LayerName;

use crate::support::{Ran, has_file, has_namespaces, run};
use crate::workshop::Workshop;

const TOOLS: &str = include_str!("attack.py");
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// Runs Python under the recorder; `None` where this machine has none, or no namespaces.
pub(crate) fn attack(workshop: &Workshop, program: &str) -> Option<Ran> {
    if !has_namespaces() || !has_file(PYTHON) {
        return None;
    }
    // Not below a place that is writable inside, where a missing name is nothing.
    let program = format!("{TOOLS}\nOUTSIDE = '/srv/outside'\n{program}");
    let ran = run(&workshop.request(&[PYTHON, "-I", "-c", &program]));
    let confinement = &ran.outcome.confinement;
    assert!(confinement.in_force(LayerName::Recorder), "{confinement:?}");
    Some(ran)
}

/// Everything that was noted but executions, in order, with counts above one.
fn noted(ran: &Ran) -> Vec<String> {
    let attempts = ran.attempts.iter().filter(|a| a.what != "exec");
    attempts
        .map(|a| {
            assert!(a.argv.is_empty(), "{a:?}");
            assert!(a.process.starts_with("python3 (pid "), "{a:?}");
            let count = match a.count {
                1 => String::new(),
                count => format!(" x{count}"),
            };
            format!("{} {}: {}{count}", a.kind.as_str(), a.what, a.target)
        })
        .collect()
}

/// Compares what was noted with these lines.
#[track_caller]
fn notes(program: &str, expected: &str) {
    let workshop = Workshop::recorded();
    if let Some(ran) = attack(&workshop, program) {
        let expected: Vec<_> = expected.trim().lines().map(str::trim).collect();
        assert_eq!(noted(&ran), expected, "{ran:?}");
    }
}

#[test]
fn rt_01_to_04_writing_outside_is_noted_whatever_the_path_is_called() {
    notes(
        r#"
W, C = os.O_WRONLY, os.O_WRONLY | os.O_CREAT
for name in [OUTSIDE + "/new", "/usr/new", "/new", "../new", "/proc/sys/kernel/hostname", "mine"]:
    attempt("create", lambda: opened(name, C))
for name in [OUTSIDE + "/secret", "/etc/passwd", "mine"]:
    attempt("append", lambda: opened(name, W | os.O_APPEND))
    attempt("truncate", lambda: os.truncate(name, 0))
attempt("new", lambda: opened("/etc/other", C | os.O_EXCL))
attempt("nameless", lambda: opened("/usr", os.O_RDWR | 0o20200000))
os.symlink(OUTSIDE + "/secret", "link")
os.symlink("/usr", "folder")
os.symlink("link", "second")
for name in ["link", "folder/file", "second", "folder/../etc/passwd"]:
    attempt("link", lambda: opened(name, C))
for name in ["/proc/self/root", "/proc/thread-self/root", "/proc/%d/root" % os.getpid(), "/proc/1/root", "/proc/self/cwd/.."]:
    attempt("proc", lambda: opened(name + "/usr/bin/env", W))
attempt("own", lambda: opened("/proc/self/cwd/mine", W))
attempt("own", lambda: opened("/proc/self/root/case/space/mine", W))
attempt("init", lambda: opened("/proc/1/mem", W))
folder = os.open("/usr", os.O_RDONLY)
attempt("at", lambda: os.open("below", C, dir_fd=folder))
attempt("read", lambda: opened(OUTSIDE + "/secret", os.O_RDONLY))
"#,
        "attempt open for writing: /srv/outside/new
         attempt open for writing: /usr/new
         attempt open for writing: /new
         attempt open for writing: /case/space/../new
         attempt open for writing: /proc/sys/kernel/hostname
         attempt open for writing: /srv/outside/secret
         attempt truncate: /srv/outside/secret
         attempt open for writing: /etc/passwd
         attempt truncate: /etc/passwd
         attempt open for writing: /etc/other
         attempt open for writing: /usr
         attempt open for writing: /case/space/link
         attempt open for writing: /case/space/folder/file
         attempt open for writing: /case/space/second
         attempt open for writing: /case/space/folder/../etc/passwd
         attempt open for writing: /proc/self/root/usr/bin/env
         attempt open for writing: /proc/thread-self/root/usr/bin/env
         attempt open for writing: /proc/2/root/usr/bin/env
         attempt open for writing: /proc/1/root/usr/bin/env
         attempt open for writing: /proc/self/cwd/../usr/bin/env
         attempt open for writing: /proc/1/mem
         attempt open for writing: /usr/below",
    );
}

#[test]
fn rt_05_to_07_and_09_names_outside_are_noted() {
    notes(
        r#"
import stat
open("mine", "w").write("text")
attempt("link-in", lambda: os.link("/usr/bin/env", "env"))
attempt("link-in", lambda: os.link(OUTSIDE + "/secret", "secret"))
attempt("move-in", lambda: os.rename("/usr/bin/env", "env"))
attempt("move-out", lambda: os.rename("mine", "/usr/mine"))
attempt("move-out", lambda: os.rename("mine", OUTSIDE + "/mine"))
attempt("remove", lambda: os.unlink("/usr/bin/env"))
attempt("remove", lambda: os.rmdir("/usr/bin"))
attempt("make", lambda: os.mkdir("/usr/folder"))
attempt("link", lambda: os.symlink("x", "/etc/link"))
attempt("device", lambda: os.mknod("/dev/mem", 0o600 | stat.S_IFCHR, os.makedev(1, 1)))
attempt("fifo", lambda: os.mkfifo(OUTSIDE + "/fifo"))
os.mkdir("a"); os.rename("a", "b"); os.link("mine", "b/other"); os.unlink("mine"); os.mkfifo("fifo")
"#,
        "attempt link: /usr/bin/env -> /case/space/env
         attempt link: /srv/outside/secret -> /case/space/secret
         attempt rename: /usr/bin/env -> /case/space/env
         attempt rename: /case/space/mine -> /usr/mine
         attempt rename: /case/space/mine -> /srv/outside/mine
         attempt remove: /usr/bin/env
         attempt remove: /usr/bin
         attempt make directory: /usr/folder
         attempt symlink: /etc/link
         attempt make node: /dev/mem
         attempt make node: /srv/outside/fifo",
    );
}

#[test]
fn rt_08_attributes_outside_are_noted() {
    notes(
        r#"
open("mine", "w").write("text")
file = os.open("/usr/bin/env", os.O_RDONLY)
own = os.open("mine", os.O_RDONLY)
memory = os.memfd_create("x")
for name in ["/usr/bin/env", "mine", file, own, memory]:
    attempt("chmod", lambda: os.chmod(name, 0o700))
    attempt("chown", lambda: os.chown(name, os.getuid(), -1))
    attempt("utime", lambda: os.utime(name, (1, 1)))
    attempt("setxattr", lambda: os.setxattr(name, "user.x", b"y"))
    attempt("removexattr", lambda: os.removexattr(name, "user.x"))
os.symlink("/usr/bin/env", "link")
attempt("follow", lambda: os.chown("link", 1, 1))
attempt("lchown", lambda: os.lchown("link", os.getuid(), -1))
attempt("utime", lambda: os.utime("link", (1, 1), follow_symlinks=False))
attempt("utime", lambda: os.utime(OUTSIDE, (1, 1)))
"#,
        "attempt change mode: /usr/bin/env x2
         attempt change owner: /usr/bin/env x2
         attempt change times: /usr/bin/env x2
         attempt set attribute: /usr/bin/env x2
         attempt remove attribute: /usr/bin/env x2
         attempt change owner: /case/space/link
         attempt change times: /srv/outside",
    );
}

#[test]
fn rt_11_and_12_moving_a_root_is_noted() {
    notes(
        r#"
attempt("parent", lambda: os.rename("/case", "/elsewhere"))
attempt("root", lambda: os.rename("/case/space", "/case/elsewhere"))
attempt("root", lambda: os.rmdir("/case/space"))
attempt("swap", lambda: os.symlink("/tmp", "/case/other"))
"#,
        "attempt rename: /case -> /elsewhere
         attempt rename: /case/space -> /case/elsewhere
         attempt remove: /case/space
         attempt symlink: /case/other",
    );
}

#[test]
fn rt_17_signals_to_the_outside_and_to_the_init_are_noted() {
    let harness = std::process::id();
    notes(
        &format!(
            r#"
attempt("signal", lambda: os.kill({harness}, 9))
attempt("signal", lambda: os.kill(1, 9))
call("thread", 131 if ARM else 234, 1, 1, 9)
call("ptrace", 117 if ARM else 101, 16, 1, 0, 0)
call("read", 270 if ARM else 310, 1, 0, 0, 0, 0, 0)
child = os.fork()
if child == 0:
    os.pause() if hasattr(os, "pause") else __import__("signal").pause()
os.kill(child, 15)
os.waitpid(child, 0)
attempt("gone", lambda: os.kill(child, 0))
"#
        ),
        &format!(
            "attempt signal: process {harness}
             attempt signal: process 1 x2
             denied ptrace: request 16, process 1
             denied process_vm_readv: 0x1"
        ),
    );
}

#[test]
fn rt_18_to_22_and_26_addresses_outside_are_noted() {
    notes(
        r#"
T, U, I = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.AF_INET
attempt("tcp", lambda: connected(I, T, ("192.0.2.1", 80)))
attempt("tcp6", lambda: connected(socket.AF_INET6, T, ("2001:db8::1", 80)))
attempt("metadata", lambda: connected(I, T, ("169.254.169.254", 80)))
attempt("mptcp", lambda: socket.socket(I, T, 262))
with socket.socket() as stream:
    attempt("fast-open", lambda: stream.sendto(b"hello", 0x20000000, ("127.0.0.1", 9)))
    attempt("fast-open", lambda: stream.setsockopt(6, 30, 1))
with socket.socket(I, U) as out:
    attempt("udp", lambda: out.sendto(b"hello", ("192.0.2.1", 53)))
    attempt("message", lambda: out.sendmsg([b"hello"], [], 0, ("192.0.2.2", 53)))
    attempt("loopback", lambda: out.sendto(b"hello", ("127.0.0.1", 9)))
try:
    socket.getaddrinfo("example.org", 80)
except socket.gaierror:
    pass
for family, kind, protocol in [(2, 3, 1), (17, 3, 0), (40, 1, 0), (16, 3, 9)]:
    attempt("special", lambda: socket.socket(family, kind, protocol))
with socket.socket() as server:
    server.bind(("127.0.0.1", 0))
    server.listen()
    attempt("own", lambda: connected(I, T, server.getsockname()))
    attempt("nobody", lambda: connected(I, T, ("localhost", 1)))
"#,
        "attempt connect: 192.0.2.1:80
         attempt connect: [2001:db8::1]:80
         attempt connect: 169.254.169.254:80
         denied socket: family 2, type 0x80001, protocol 262
         denied sendto: 127.0.0.1:9, fast open
         denied setsockopt: level 6, option 30
         attempt send: 192.0.2.1:53
         attempt send: 192.0.2.2:53
         attempt connect: 127.0.0.1:53 x2
         denied socket: family 2, type 0x80003, protocol 1
         denied socket: family 17, type 0x80003, protocol 0
         denied socket: family 40, type 0x80001, protocol 0
         denied socket: family 16, type 0x80003, protocol 9",
    );
}

#[test]
fn rt_23_and_24_services_that_are_not_there_are_noted() {
    notes(
        r#"
L, T = socket.AF_UNIX, socket.SOCK_STREAM
for path in ["/run/docker.sock", OUTSIDE + "/agent", "\0bus", "none-here"]:
    attempt("connect", lambda: connected(L, T, path))
with socket.socket(L) as server:
    attempt("bind", lambda: server.bind("/usr/own"))
    server.bind("own")
    server.listen()
    attempt("own", lambda: connected(L, T, "own"))
with socket.socket(L) as server:
    server.bind("\0mine")
    server.listen()
    attempt("own", lambda: connected(L, T, "\0mine"))
"#,
        "attempt connect: /run/docker.sock
         attempt connect: /srv/outside/agent
         attempt connect: @bus
         attempt bind: /usr/own",
    );
}

#[test]
fn rt_27_to_32_refused_calls_are_noted_with_what_they_wanted() {
    notes(
        r#"
import fcntl, pty, termios
call("unshare", 97 if ARM else 272, 0x10000000)
call("clone", 220 if ARM else 56, 0x10000011, 0, 0, 0, 0)
call("setns", 268 if ARM else 308, 0, 0)
attempt("clone3", lambda: clone3(0x10000000))
attempt("clone3", lambda: clone3(0x80))
attempt("fork", lambda: clone3(0))
call("mount", 40 if ARM else 165, b"none", b"/mnt", b"tmpfs", 0, 0)
call("umount", 39 if ARM else 166, b"/proc", 0)
call("pivot", 41 if ARM else 155, b"/a", b"/b")
call("open_tree", 428, -100, b"/usr", 1)
for number in [425, 280 if ARM else 321, 241 if ARM else 298, 219 if ARM else 250, 282 if ARM else 323, 265 if ARM else 304]:
    call("number", number, 0, 0, 0, 0, 0)
master, slave = pty.openpty()
attempt("push", lambda: fcntl.ioctl(slave, termios.TIOCSTI, b"x"))
"#,
        "denied unshare: flags 0x10000000
         denied clone: flags 0x10000011
         denied setns: 0x0
         denied clone3: flags 0x10000000
         denied clone3: flags 0x80
         denied mount: /mnt
         denied umount2: /proc
         denied pivot_root: /a
         denied open_tree: /usr
         denied io_uring_setup: 0x0
         denied bpf: 0x0
         denied perf_event_open: 0x0
         denied keyctl: 0x0
         denied userfaultfd: 0x0
         denied open_by_handle_at: 0x0
         denied ioctl: request 0x5412",
    );
}

#[test]
#[cfg(target_arch = "x86_64")]
fn rt_33_a_foreign_call_is_noted_also_of_a_child() {
    notes(
        r#"
child = os.fork()
if child == 0:
    libc.syscall(0x40000000 + 39)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#,
        "killed foreign call: call 0x40000027 of architecture 0xc000003e",
    );
}
