# Tools of the programs that try to get out. Each attempt prints its behaviour, its kind, its name and what the kernel said:
# `refused` must not work inside, `bait` neither but must work outside, `works` must work inside.
import ctypes, errno, json, os, platform, shutil, signal, socket, stat, struct, subprocess, sys, threading, time

FACTS = json.loads(FACTS)
PLACE, BAIT, HARNESS = FACTS["place"], FACTS["bait"], FACTS["harness"]
# Outside, on a decoy: only what is tried on the bait is done there.
REHEARSAL = FACTS["rehearsal"]
WORKSPACE = os.getcwd()
ARM = platform.machine() == "aarch64"
libc = ctypes.CDLL(None, use_errno=True)


def said(number, kind, name, result):
    print("rt", number, kind, name, result, flush=True)


def tried(act):
    try:
        act()
    except OSError as error:
        return errno.errorcode.get(error.errno, "refused")
    return "ALLOWED"


def works(number, name, act):
    said(number, "works", name, tried(act))


def refused(number, name, act):
    if not REHEARSAL:
        said(number, "refused", name, tried(act))


def bait(number, name, act):
    said(number, "bait", name, tried(act))


def absent(number, name, is_there):
    said(number, "refused", name, "ALLOWED" if is_there else "ABSENT")


def checked(result):
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def call(arm, intel, *arguments):
    return checked(libc.syscall(arm if ARM else intel, *arguments))


def opened(path, flags, mode=0o644):
    os.close(os.open(path, flags, mode))


def written(path, text):
    with open(path, "w") as file:
        file.write(text)


def connected(family, kind, address):
    with socket.socket(family, kind) as stream:
        stream.settimeout(5)
        stream.connect(address)


def do_the_task():
    written("src/a.txt", "new\n")


# Ignored by the repository, so that nothing of it is part of the change.
def in_scratch():
    os.makedirs("build")
    os.chdir("build")


def leave_scratch():
    os.chdir(WORKSPACE)
    shutil.rmtree("build")


def the_end():
    print("rt end", flush=True)
