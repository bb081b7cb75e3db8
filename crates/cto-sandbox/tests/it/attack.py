# Tools for the programs that try to get out. Each attempt prints its name and what the kernel said.
import ctypes, errno, os, platform, socket, struct, sys

libc = ctypes.CDLL(None, use_errno=True)
OUTSIDE = os.environ["OUTSIDE"]
ARM = platform.machine() == "aarch64"


def attempt(name, act):
    try:
        act()
    except OSError as error:
        print(name, errno.errorcode.get(error.errno, error.errno))
    else:
        print(name, "ALLOWED")


def checked(result):
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def call(name, number, *arguments):
    attempt(name, lambda: checked(libc.syscall(number, *arguments)))


def opened(path, flags, mode=0o644):
    os.close(os.open(path, flags, mode))


def connected(family, kind, address):
    with socket.socket(family, kind) as stream:
        stream.settimeout(5)
        stream.connect(address)


# The flags stand first; the rest is its oldest form, with the signal that a fork sends at its end.
def clone3(flags):
    arguments = struct.pack("8Q", flags, 0, 0, 0, 17, 0, 0, 0)
    if checked(libc.syscall(435, arguments, len(arguments))) == 0:
        os._exit(0)
