//! Programs that try to get out of a root from nothing, one for each behaviour of the corpus that this crate decides.
//!
//! Each ends with a control: the same call where it is allowed, so that no test passes because nothing works.

use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;

use cto_sandbox::End;

use crate::support::{Ran, has_file, has_namespaces, run};
use crate::workshop::Workshop;

const TOOLS: &str = include_str!("attack.py");

/// Runs Python in the workspace; `None` where this machine has none, or no namespaces.
fn attack(workshop: &Workshop, program: &str) -> Option<Ran> {
    let python = "/usr/bin/python3";
    if !has_namespaces() || !has_file(python) {
        return None;
    }
    let program = format!("{TOOLS}\n{program}");
    Some(run(&workshop.request(&[python, "-I", "-c", &program])))
}

/// Runs an attack and compares what each attempt gave.
#[track_caller]
fn gives(program: &str, expected: &str) {
    for workshop in Workshop::both() {
        gives_in(&workshop, program, expected);
    }
}

#[track_caller]
fn gives_in(workshop: &Workshop, program: &str, expected: &str) {
    let Some(ran) = attack(workshop, program) else {
        return;
    };
    let wanted: Vec<_> = expected.split_whitespace().collect();
    let seen: Vec<_> = ran.stdout.split_whitespace().collect();
    assert_eq!(seen, wanted, "{ran:?}");
    let secret = std::fs::read_to_string(workshop.outside().join("secret")).unwrap();
    assert_eq!(secret, "untouched");
    let outside = std::fs::read_dir(workshop.outside()).unwrap().count();
    assert_eq!(outside, 1, "something was made outside");
}

#[test]
fn rt_01_a_file_cannot_be_created_outside() {
    gives(
        r#"
for name in [OUTSIDE + "/new", "/usr/new", "/etc/new", "/new", "/case/new", "/proc/sys/new", "mine"]:
    attempt("create", lambda: opened(name, os.O_CREAT | os.O_WRONLY))
"#,
        "create ENOENT create EROFS create EROFS create EROFS create EROFS create ENOENT create ALLOWED",
    );
}

#[test]
fn rt_02_a_file_outside_cannot_be_changed() {
    gives(
        r#"
open("mine", "w").write("text")
for name in [OUTSIDE + "/secret", "/usr/bin/env", "/etc/passwd", "/etc/hosts", "/proc/sys/kernel/hostname", "mine"]:
    attempt("append", lambda: opened(name, os.O_WRONLY | os.O_APPEND))
    attempt("truncate", lambda: os.truncate(name, 0))
"#,
        "append ENOENT truncate ENOENT append EACCES truncate EACCES append EROFS truncate EROFS append EROFS truncate EROFS
         append EACCES truncate EACCES append ALLOWED truncate ALLOWED",
    );
}

#[test]
fn rt_03_a_link_leads_nowhere_else() {
    gives(
        r#"
os.symlink(OUTSIDE + "/secret", "direct")
os.symlink("../" * 40 + OUTSIDE[1:] + "/secret", "upwards")
os.symlink("target", "mine")
for name in ["direct", "upwards", "mine"]:
    attempt("write", lambda: opened(name, os.O_WRONLY | os.O_CREAT))
"#,
        "write ENOENT write ENOENT write ALLOWED",
    );
}

#[test]
fn rt_04_proc_shows_no_other_root() {
    gives(
        r#"
for name in ["/proc/self/root", "/proc/thread-self/root", "/proc/1/root", "/proc/1/cwd", "/proc/1/fd"]:
    attempt("open", lambda: opened(name + OUTSIDE + "/secret", os.O_RDONLY))
attempt("list", lambda: os.listdir("/proc/1/fd"))
attempt("list", lambda: os.listdir("/proc/1/root"))
attempt("list", lambda: os.listdir("/proc/self/root" + os.getcwd()))
"#,
        "open ENOENT open ENOENT open EACCES open EACCES open EACCES list EACCES list EACCES list ALLOWED",
    );
}

#[test]
fn rt_05_to_07_nothing_is_linked_or_moved_across_the_border() {
    gives(
        r#"
open("mine", "w").write("text")
attempt("link-in", lambda: os.link("/usr/bin/env", "env"))
attempt("link-in", lambda: os.link(OUTSIDE + "/secret", "secret"))
attempt("move-in", lambda: os.rename("/usr/bin/env", "env"))
attempt("move-in", lambda: os.rename(OUTSIDE + "/secret", "secret"))
attempt("move-out", lambda: os.rename("mine", "/usr/mine"))
attempt("move-out", lambda: os.rename("mine", OUTSIDE + "/mine"))
attempt("link", lambda: os.link("mine", "other"))
attempt("move", lambda: os.rename("mine", "moved"))
"#,
        "link-in EXDEV link-in ENOENT move-in EXDEV move-in ENOENT move-out EXDEV move-out ENOENT link ALLOWED move ALLOWED",
    );
}

#[test]
fn rt_08_attributes_of_what_is_outside_stay() {
    gives(
        r#"
open("mine", "w").write("text")
for name in [OUTSIDE + "/secret", "/usr/bin/env", "mine"]:
    attempt("chmod", lambda: os.chmod(name, 0o777))
    attempt("utime", lambda: os.utime(name, (1, 1)))
    attempt("setxattr", lambda: os.setxattr(name, "user.x", b"y"))
for name in ["/usr/bin/env", "mine"]:
    attempt("chown", lambda: os.chown(name, 0, 0))
"#,
        "chmod ENOENT utime ENOENT setxattr ENOENT chmod EROFS utime EROFS setxattr EROFS
         chmod ALLOWED utime ALLOWED setxattr ALLOWED chown EROFS chown EINVAL",
    );
}

#[test]
fn rt_09_devices_are_made_nowhere_and_pipes_only_inside() {
    gives(
        r#"
import stat
attempt("device", lambda: os.mknod("disk", 0o600 | stat.S_IFBLK, os.makedev(254, 0)))
attempt("device", lambda: os.mknod("/dev/mem", 0o600 | stat.S_IFCHR, os.makedev(1, 1)))
attempt("fifo", lambda: os.mkfifo("/usr/fifo"))
attempt("fifo", lambda: os.mkfifo(OUTSIDE + "/fifo"))
attempt("fifo", lambda: os.mkfifo("fifo"))
"#,
        "device EPERM device EROFS fifo EROFS fifo ENOENT fifo ALLOWED",
    );
}

#[test]
fn rt_10_temporary_places_are_not_shared() {
    let name = format!("cto-shared-{}", std::process::id());
    let places = ["/tmp", "/dev/shm"].map(|place| std::path::Path::new(place).join(&name));
    for place in &places {
        std::fs::File::create(place).unwrap();
    }
    gives(
        &format!(
            r#"
for place in ["/tmp", "/dev/shm"]:
    attempt("open", lambda: opened(place + "/{name}", os.O_RDONLY))
    attempt("create", lambda: opened(place + "/{name}-inside", os.O_WRONLY | os.O_CREAT))
"#
        ),
        "open ENOENT create ALLOWED open ENOENT create ALLOWED",
    );
    for place in &places {
        std::fs::remove_file(place).unwrap();
        assert!(!place.with_file_name(format!("{name}-inside")).exists());
    }
}

#[test]
fn rt_11_and_12_a_root_stays_where_it_is() {
    gives(
        r#"
attempt("parent", lambda: os.rename("/case", "/elsewhere"))
attempt("root", lambda: os.rename("/case/space", "/case/elsewhere"))
attempt("root", lambda: os.rmdir("/case/space"))
attempt("swap", lambda: os.symlink("/tmp", "/case/other"))
attempt("inside", lambda: os.mkdir("folder"))
attempt("inside", lambda: os.rename("folder", "renamed"))
"#,
        "parent EROFS root EROFS root EROFS swap EROFS inside ALLOWED inside ALLOWED",
    );
}

#[test]
fn rt_13_secrets_of_the_owner_are_not_there() {
    gives(
        r#"
for name in ["/root", "/home", "/etc/shadow", "/etc/ssh", "/etc/ssl/private", "/var", "/run", "/sys", "/mnt", "/srv", OUTSIDE]:
    attempt("stat", lambda: os.stat(name))
attempt("stat", lambda: os.stat("/etc/passwd"))
print(open("/etc/passwd").read().count("\n"), open("/etc/resolv.conf").read() == "")
"#,
        "stat ENOENT stat ENOENT stat ENOENT stat ENOENT stat ENOENT stat ENOENT stat ENOENT stat ENOENT stat ENOENT
         stat ENOENT stat ENOENT stat ALLOWED 1 True",
    );
}

#[test]
fn rt_14_to_17_the_harness_cannot_be_seen_or_touched() {
    let harness = std::process::id();
    gives(
        &format!(
            r#"
harness = {harness}
attempt("signal", lambda: os.kill(harness, 9))
for name in ["environ", "mem", "cmdline", "maps", "exe"]:
    attempt(name, lambda: opened("/proc/1/" + name, os.O_RDONLY))
attempt("signal", lambda: os.kill(1, 9))
call("ptrace", 117 if ARM else 101, 16, 1, 0, 0)
call("read", 270 if ARM else 310, os.getpid(), 0, 0, 0, 0, 0)
print(sorted(p for p in os.listdir("/proc") if p.isdigit()) == ["1", str(os.getpid())])
print(sorted(os.environ) == ["HOME", "LC_ALL", "OUTSIDE", "PATH"])
print(sorted(os.listdir("/proc/self/fd")))
attempt("signal", lambda: os.kill(os.getpid(), 0))
"#
        ),
        "signal ESRCH environ EACCES mem EACCES cmdline ALLOWED maps EACCES exe EACCES signal EPERM ptrace EPERM read EPERM
         True True ['0', '1', '2', '3'] signal ALLOWED",
    );
}

#[test]
fn rt_17_no_process_writes_the_memory_of_another() {
    gives(
        r#"
parent = os.getpid()
child = os.fork()
if child == 0:
    for process in [parent, "self"]:
        attempt("mem", lambda: opened("/proc/%s/mem" % process, os.O_RDWR))
    call("write", 271 if ARM else 311, parent, 0, 0, 0, 0, 0)
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
"#,
        "mem EACCES mem EACCES write EPERM",
    );
}

#[test]
fn rt_18_to_21_and_26_no_address_outside_is_reached() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let (port, udp_port) = (
        tcp.local_addr().unwrap().port(),
        udp.local_addr().unwrap().port(),
    );
    gives(
        &format!(
            r#"
T, U = socket.SOCK_STREAM, socket.SOCK_DGRAM
attempt("tcp", lambda: connected(socket.AF_INET, T, ("127.0.0.1", {port})))
attempt("tcp", lambda: connected(socket.AF_INET, T, ("192.0.2.1", 80)))
attempt("tcp6", lambda: connected(socket.AF_INET6, T, ("2001:db8::1", 80)))
attempt("metadata", lambda: connected(socket.AF_INET, T, ("169.254.169.254", 80)))
attempt("mptcp", lambda: socket.socket(socket.AF_INET, T, 262))
def fast_open():
    with socket.socket() as stream:
        stream.sendto(b"hello", 0x20000000, ("127.0.0.1", {port}))
attempt("fast-open", fast_open)
def fast_connect():
    with socket.socket() as stream:
        stream.setsockopt(6, 30, 1)
attempt("fast-open", fast_connect)
def datagram(address):
    with socket.socket(socket.AF_INET, U) as out:
        out.sendto(b"hello", address)
attempt("udp", lambda: datagram(("192.0.2.1", 53)))
datagram(("127.0.0.1", {udp_port}))
try:
    socket.getaddrinfo("example.org", 80)
except socket.gaierror:
    print("dns none")
print(sorted({{a[4][0] for a in socket.getaddrinfo("localhost", 80)}}))
with socket.socket() as server:
    server.bind(("127.0.0.1", 0))
    server.listen()
    attempt("own", lambda: connected(socket.AF_INET, T, server.getsockname()))
"#
        ),
        "tcp ECONNREFUSED tcp ENETUNREACH tcp6 ENETUNREACH metadata ENETUNREACH mptcp EPERM fast-open EPERM fast-open EPERM
         udp ENETUNREACH dns none ['127.0.0.1', '::1'] own ALLOWED",
    );
    let received = udp.recv(&mut [0; 16]);
    assert!(received.is_err(), "{received:?}");
}

#[test]
fn rt_22_special_sockets_are_refused() {
    gives(
        r#"
for name, family, kind, protocol in [
    ("raw", 2, 3, 1), ("raw6", 10, 3, 58), ("packet", 17, 3, 0), ("vsock", 40, 1, 0), ("alg", 38, 5, 0),
    ("audit", 16, 3, 9), ("netfilter", 16, 3, 12), ("uevent", 16, 2, 15), ("bluetooth", 31, 3, 1),
    ("sctp", 2, 1, 132), ("udp", 2, 2, 17), ("unix", 1, 5, 0),
]:
    attempt(name, lambda: socket.socket(family, kind, protocol).close())
def route():
    with socket.socket(16, 3, 0) as netlink:
        # RTM_NEWLINK for a dummy interface: reading routes is allowed, changing them is not.
        netlink.send(struct.pack("IHHIIBBHiII", 32, 16, 0x605, 1, 0, 0, 0, 0, 0, 0, 0))
        code, = struct.unpack_from("i", netlink.recv(4096), 16)
        if code:
            raise OSError(-code, "refused")
attempt("route", route)
print(socket.if_nameindex())
"#,
        "raw EPERM raw6 EPERM packet EPERM vsock EPERM alg EPERM audit EPERM netfilter EPERM uevent EPERM bluetooth EPERM
         sctp EPERM udp ALLOWED unix ALLOWED route EPERM [(1, 'lo')]",
    );
}

#[test]
fn rt_23_and_24_no_service_of_the_host_answers_on_a_local_socket() {
    use std::os::linux::net::SocketAddrExt;
    let workshop = Workshop::new();
    // Beside the folder that must stay as it is.
    let path = workshop.path().join("agent.sock");
    let _named = UnixListener::bind(&path).unwrap();
    let name = format!("cto-redteam-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract = UnixListener::bind_addr(&address).unwrap();
    gives_in(
        &workshop,
        &format!(
            r#"
for path in [{path:?}, "/var/run/docker.sock", "/run/docker.sock", "/run/dbus/system_bus_socket"]:
    attempt("named", lambda: connected(socket.AF_UNIX, socket.SOCK_STREAM, path))
attempt("abstract", lambda: connected(socket.AF_UNIX, socket.SOCK_STREAM, "\0{name}"))
with socket.socket(socket.AF_UNIX) as server:
    server.bind("own")
    server.listen()
    attempt("own", lambda: connected(socket.AF_UNIX, socket.SOCK_STREAM, "own"))
"#
        ),
        "named ENOENT named ENOENT named ENOENT named ENOENT abstract ECONNREFUSED own ALLOWED",
    );
}

#[test]
fn rt_27_no_new_namespaces() {
    gives(
        r#"
NEWUSER, NEWNS, NEWNET, NEWTIME = 0x10000000, 0x20000, 0x40000000, 0x80
for flag in [NEWUSER, NEWNS, NEWNET, NEWTIME, NEWUSER | NEWNS]:
    call("unshare", 97 if ARM else 272, flag)
    call("clone", 220 if ARM else 56, NEWUSER | 17, 0, 0, 0, 0)
namespace = os.open("/proc/self/ns/net", os.O_RDONLY)
call("setns", 268 if ARM else 308, namespace, 0)
call("clone3", 435, 0, 0)
attempt("clone3", lambda: clone3(0))
child = os.fork()
if child == 0:
    os._exit(7)
print("fork", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#,
        "unshare EPERM clone EPERM unshare EPERM clone EPERM unshare EPERM clone EPERM unshare EPERM clone EPERM
         unshare EPERM clone EPERM setns EPERM clone3 ENOSYS clone3 ENOSYS fork 7",
    );
}

#[test]
fn rt_27_clone3_makes_no_namespace_and_threads_do_without_it() {
    let program = r#"
import threading
for flag in [0x10000000, 0x20000, 0x40000000, 0x20000000, 0x80]:
    attempt("clone3", lambda: clone3(flag))
call("nowhere", 435, ctypes.c_void_p(0xdead000), 64)
thread = threading.Thread(target=lambda: print("thread"))
thread.start()
thread.join()
child = os.posix_spawn("/bin/true", ["true"], {})
print("spawn", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;
    let [plain, recorded] = Workshop::both();
    for (workshop, answer) in [(plain, "ENOSYS"), (recorded, "EPERM")] {
        let refused = format!("clone3 {answer} ").repeat(5);
        let expected = format!("{refused} nowhere {answer} thread spawn 0");
        gives_in(&workshop, program, &expected);
    }
}

#[test]
fn rt_28_to_31_whole_families_of_calls_are_refused() {
    gives(
        r#"
families = {
    "mount": (40, 165), "umount2": (39, 166), "pivot_root": (41, 155), "chroot": (51, 161),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "bpf": (280, 321), "perf_event_open": (241, 298), "add_key": (217, 248), "request_key": (218, 249),
    "keyctl": (219, 250), "userfaultfd": (282, 323), "open_by_handle_at": (265, 304),
    "name_to_handle_at": (264, 303), "init_module": (105, 175), "kexec_load": (104, 246), "reboot": (142, 169),
    "swapon": (224, 167), "settimeofday": (170, 164), "acct": (89, 163), "quotactl": (60, 179),
}
refused = 0
for name, (arm, intel) in families.items():
    result = libc.syscall(arm if ARM else intel, 0, 0, 0, 0, 0)
    if result == -1 and ctypes.get_errno() == errno.EPERM:
        refused += 1
    else:
        print(name, result, errno.errorcode.get(ctypes.get_errno()))
print(refused == len(families))
call("getpid", 172 if ARM else 39)
"#,
        "True getpid ALLOWED",
    );
}

#[test]
fn rt_32_no_characters_are_pushed_into_a_terminal() {
    gives(
        r#"
import fcntl, pty, termios
master, slave = pty.openpty()
attempt("push", lambda: fcntl.ioctl(slave, termios.TIOCSTI, b"x"))
attempt("linux", lambda: fcntl.ioctl(slave, 0x541c, b"x"))
attempt("size", lambda: fcntl.ioctl(slave, termios.TIOCGWINSZ, b"12345678"))
attempt("terminal", lambda: opened("/dev/tty", os.O_RDWR))
"#,
        "push EPERM linux EPERM size ALLOWED terminal ENXIO",
    );
}

#[test]
#[cfg(target_arch = "x86_64")]
fn rt_33_calls_of_another_architecture_are_killed() {
    const SIGKILL: i32 = 9;
    const SIGSYS: i32 = 31;
    // getpid as a 32-bit call, and as an x32 call.
    let foreign = r#"
import mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
print("before", flush=True)
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
print("after")
"#;
    let x32 = r#"
print("before", flush=True)
libc.syscall(0x40000000 + 39)
print("after")
"#;
    for program in [foreign, x32] {
        // By the kernel itself, or by the recorder.
        for (workshop, signal) in Workshop::both().iter().zip([SIGSYS, SIGKILL]) {
            let Some(ran) = attack(workshop, program) else {
                return;
            };
            assert_eq!(ran.stdout, "before\n", "{ran:?}");
            assert_eq!(ran.outcome.end, End::Signaled(signal), "{ran:?}");
        }
    }
}

#[test]
fn rt_34_a_set_user_id_program_gains_nothing() {
    gives(
        r#"
import shutil, subprocess
shutil.copy("/usr/bin/id", "id")
os.chmod("id", 0o6755)
def numbers(program):
    return subprocess.run([program, "-u"], capture_output=True, text=True).stdout.strip()
print(numbers("./id") == numbers("/usr/bin/id") != "0")
print([line.split()[1] for line in open("/proc/self/status") if line.startswith(("NoNewPrivs", "CapBnd", "CapEff"))])
"#,
        "True ['0000000000000000', '0000000000000000', '1']",
    );
}

#[test]
fn rt_55_shared_memory_of_the_host_is_not_there() {
    gives(
        r#"
call("sysv", 194 if ARM else 29, 0x63746f, 4096, 0o666)
IPC_CREAT = 0o1000
call("own", 194 if ARM else 29, 0x63746f, 4096, 0o666 | IPC_CREAT)
from multiprocessing import shared_memory
memory = shared_memory.SharedMemory(create=True, size=4096)
memory.buf[0] = 7
print(memory.buf[0])
memory.close()
memory.unlink()
"#,
        "sysv ENOENT own ALLOWED 7",
    );
}
