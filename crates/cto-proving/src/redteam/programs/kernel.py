# 27 to 34, 55, 56: doors of the kernel. Nothing of this is tried outside.
import fcntl, mmap, pty, termios

do_the_task()
in_scratch()

NEWUSER, NEWNS, NEWNET, NEWTIME = 0x10000000, 0x20000, 0x40000000, 0x80
for flag in [NEWUSER, NEWNS, NEWNET, NEWTIME, NEWUSER | NEWNS]:
    refused(27, "unshare", lambda: call(97, 272, flag))
# For the result alone: a child that came to be would go on here.
def cloned():
    if call(220, 56, NEWUSER | 17, 0, 0, 0, 0) == 0:
        os._exit(0)
refused(27, "clone", cloned)
refused(27, "setns", lambda: call(268, 308, os.open("/proc/self/ns/net", os.O_RDONLY), 0))
def cloned_anew(flags):
    arguments = struct.pack("8Q", flags, 0, 0, 0, 17, 0, 0, 0)
    if call(435, 435, arguments, len(arguments)) == 0:
        os._exit(0)
for flag in [0, NEWUSER, NEWNS, NEWNET, NEWTIME, NEWUSER | NEWNS]:
    refused(27, "clone3", lambda: cloned_anew(flag))
refused(27, "clone3", lambda: call(435, 435, 0, 0))
works(27, "fork", lambda: os.waitpid(os.fork() or os._exit(0), 0))
works(27, "thread", lambda: threading.Thread(target=getattr, args=(os, "name")).start())

FAMILIES = {
    28: {
        "mount": (40, 165), "umount2": (39, 166), "pivot_root": (41, 155), "chroot": (51, 161), "open_tree": (428, 428),
        "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
        "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467),
    },
    29: {"io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427)},
    30: {
        "bpf": (280, 321), "perf_event_open": (241, 298), "add_key": (217, 248), "request_key": (218, 249),
        "keyctl": (219, 250), "userfaultfd": (282, 323),
    },
    31: {"open_by_handle_at": (265, 304), "name_to_handle_at": (264, 303)},
}
for number, family in FAMILIES.items():
    for name, (arm, intel) in family.items():
        # Not every error is a refusal: a call that got as far as its arguments would say so.
        outcome = tried(lambda: call(arm, intel, 0, 0, 0, 0, 0))
        said(number, "refused", name, outcome if outcome in ("EPERM", "ENOSYS") else "ALLOWED")
    works(number, "getpid", lambda: call(172, 39))

_, terminal = pty.openpty()
refused(32, "push", lambda: fcntl.ioctl(terminal, termios.TIOCSTI, b"x"))
refused(32, "linux", lambda: fcntl.ioctl(terminal, 0x541C, b"\x03"))
refused(32, "open", lambda: opened("/dev/tty", os.O_RDWR))
works(32, "size", lambda: fcntl.ioctl(terminal, termios.TIOCGWINSZ, b"12345678"))


def ended(act):
    child = os.fork()
    if child == 0:
        act()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "ALLOWED"


def compatible():
    # mov eax, 20 (getpid of i386); int 0x80; ret
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()


if not ARM:
    said(33, "refused", "i386", ended(compatible))
    said(33, "refused", "x32", ended(lambda: libc.syscall(0x40000000 + 39)))
    said(33, "works", "own", ended(lambda: libc.syscall(39)))


def numbers(program):
    return subprocess.run([program, "-u"], capture_output=True, text=True).stdout.strip()


shutil.copy(shutil.which("id"), "rt34-id")
works(34, "chmod", lambda: os.chmod("rt34-id", 0o6755))
absent(34, "user", numbers("./rt34-id") != numbers("id") or numbers("id") == "0")
STATUS = dict(line.split(":\t") for line in open("/proc/self/status") if ":\t" in line)
absent(34, "capabilities", int(STATUS["CapEff"], 16) or int(STATUS["CapBnd"], 16))
absent(34, "new-privileges", STATUS["NoNewPrivs"].strip() != "1")

refused(55, "sysv", lambda: call(194, 29, FACTS["segment"], 4096, 0o600))
works(55, "sysv", lambda: call(194, 29, FACTS["segment"], 4096, 0o600 | 0o1000))
refused(55, "posix", lambda: opened(FACTS["shared"][-1], os.O_RDWR))
works(55, "posix", lambda: opened("/dev/shm/own", os.O_CREAT | os.O_RDWR))

nested = shutil.which("unshare")
if nested:
    ran = subprocess.run([nested, "--user", "--map-root-user", "--mount", "true"], capture_output=True, text=True)
    print("rt56 the nested sandbox said:", ran.stderr.strip(), file=sys.stderr, flush=True)
    said(56, "refused", "unshare", "ALLOWED" if ran.returncode == 0 else "EPERM")
works(56, "program", lambda: subprocess.run(["true"], check=True))

leave_scratch()
the_end()
