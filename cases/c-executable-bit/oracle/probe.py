"""Runs code under test as a child process and reports what came out of it.

The same file in every case. The process that judges never imports the code it
judges: a child does, and the only thing that comes back is text, which must
equal, byte for byte, the text that the judge worked out for itself. So nothing
a module does to its own process (objects equal to everything, a patched
runner, an early exit, junk on standard output) can turn a wrong answer into a
right one. The child may read the workspace and the standard library, nothing
else, so that it cannot look up the answers either: a fence for honest
programs and lazy cheats, not a sandbox.
"""

import ctypes
import json
import os
import resource
import secrets
import signal
import stat
import subprocess
import sys
import tempfile

CHILD_SECONDS_MAX = 15
CHILD_FILE_BYTES_MAX = 1 << 20
SHOWN_CHARS_MAX = 200

_failures = 0


def _close_memory():
    """Shuts the memory of this process to others of the same user, which the code under test is.

    Without this a child could open /proc/<parent>/mem and read the answers, or write them.
    """
    if sys.platform != "linux":
        return
    PR_SET_DUMPABLE = 4
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        sys.exit("the memory of the oracle can't be closed: " + os.strerror(ctypes.get_errno()))


_close_memory()

# Runs in the child, with -I -S: no environment, no site, no .pth, no sitecustomize.
_CHILD = r'''
import importlib, json, os, sys

def fence(roots):
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    reads = frozenset(["open", "os.listdir", "os.scandir"])
    denied = (
        "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.startfile", "os.system",
        "os.chdir", "os.fchdir", "os.chmod", "os.chown", "os.kill", "os.killpg", "os.link",
        "os.symlink", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate", "os.utime",
        "subprocess.", "socket.", "ctypes.", "gc.", "mmap.", "sqlite3.", "pty.", "shutil.",
        "signal.pthread_kill", "code.__new__", "cpython.",
    )
    modules = frozenset([
        "_ctypes", "ctypes", "_interpreters", "_posixsubprocess", "_sqlite3", "_testcapi",
        "_testinternalcapi", "_xxsubinterpreters", "_dbm", "_gdbm", "mmap",
    ])
    # Everything the hook uses is bound here: the code under test can rebind every global and builtin.
    def hook(event, args, type=type, len=len, str=str, int=int, refuse=PermissionError):
        if event in reads:
            path = args[0]
            if path is None or type(path) is int:
                return
            if type(path) is not str or (event == "open" and args[2] & writing):
                raise refuse(event)
            if path == ".." or path[:3] == "../" or path[-3:] == "/.." or "/../" in path:
                raise refuse(event)
            if path[:1] != "/":
                return
            for root in roots:
                if path == root or path[:len(root) + 1] == root + "/":
                    return
            raise refuse(event)
        if event == "import":
            # An extension is found by the last part of its name, whatever stands before it.
            if type(args[0]) is not str or args[0].rpartition(".")[2] in modules:
                raise refuse(event)
            return
        for start in denied:
            if event[:len(start)] == start:
                raise refuse(event)
    return hook

def plain(value):
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return True
    if kind is list:
        return all(plain(item) for item in value)
    if kind is dict:
        return all(type(key) is str and plain(item) for key, item in value.items())
    return False

def outcome(function, arguments):
    try:
        value = function(*arguments)
    except Exception as error:
        return {"error": type(error).__name__}
    return {"value": value} if plain(value) else {"type": type(value).__name__}

request = json.loads(sys.stdin.buffer.read())
sys.addaudithook(fence(tuple(path for path in sys.path + request["readable"] if path)))
sys.path.append(request["root"])
function = getattr(importlib.import_module(request["module"]), request["function"])
answer = {"nonce": request["nonce"], "results": [outcome(function, call) for call in request["calls"]]}
text = json.dumps(answer, sort_keys=True, separators=(",", ":")).encode()
while text:
    text = text[os.write(1, text):]
'''


def say(what, problem=None):
    """Prints one line for one check; a problem counts as a failure."""
    global _failures
    if problem is None:
        print("ok", what)
    else:
        _failures += 1
        print("FAIL", what + ":", problem)
    sys.stdout.flush()


def finish():
    """Ends the oracle: nonzero when any check failed."""
    sys.exit(1 if _failures else 0)


def shown(value):
    """Text of a value, plain ASCII and short."""
    text = ascii(value)
    return text if len(text) <= SHOWN_CHARS_MAX else text[:SHOWN_CHARS_MAX] + "..."


def _limit():
    resource.setrlimit(resource.RLIMIT_FSIZE, (CHILD_FILE_BYTES_MAX, CHILD_FILE_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(argv, stdin=b"", cwd=None, env=None, pass_fds=()):
    """Runs a program to its end. Returns (exit code or None for a time-out, stdout, stderr)."""
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1"}
    environment.update(env or {})
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        child = subprocess.Popen(
            argv, stdin=given, stdout=out, stderr=err, cwd=cwd, env=environment,
            start_new_session=True, preexec_fn=_limit, pass_fds=pass_fds,
        )
        try:
            code = child.wait(CHILD_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            code = None
        try:
            os.killpg(child.pid, signal.SIGKILL)  # whatever it left behind
        except (ProcessLookupError, PermissionError):
            pass
        child.wait()
        out.seek(0)
        err.seek(0)
        return code, out.read(), err.read()


def answers(what, module, function, pairs, root=None, readable=()):
    """Checks module.function(*arguments) for every (arguments, wanted) pair, all in one fresh child.

    `wanted` is a plain value, or an exception class that the call must raise.
    """
    root = root or os.getcwd()
    pairs = list(pairs)
    nonce = secrets.token_hex(16)
    request = {
        "nonce": nonce,
        "root": root,
        "readable": [root, *readable],
        "module": module,
        "function": function,
        "calls": [list(arguments) for arguments, _ in pairs],
    }
    wanted = [
        {"error": want.__name__} if isinstance(want, type) else {"value": want} for _, want in pairs
    ]
    expected = json.dumps({"nonce": nonce, "results": wanted}, sort_keys=True, separators=(",", ":")).encode()
    code, out, err = run([sys.executable, "-I", "-S", "-B", "-c", _CHILD], json.dumps(request).encode(), cwd=root)
    if code == 0 and out == expected:
        say(what)
    elif code is None:
        say(what, "no answer within %d seconds" % CHILD_SECONDS_MAX)
    elif code != 0:
        lines = err.decode("utf-8", "replace").strip().splitlines()
        say(what, "exit code %s, %s" % (code, shown(lines[-1] if lines else "")))
    else:
        say(what, _difference(pairs, wanted, nonce, out))


def _difference(pairs, wanted, nonce, out):
    try:
        answer = json.loads(out)
        results = answer["results"] if answer["nonce"] == nonce else None
    except (ValueError, KeyError, TypeError, RecursionError):
        results = None
    if not isinstance(results, list) or len(results) != len(wanted):
        return "no answer, but this on standard output: " + shown(out)
    for (arguments, _), want, got in zip(pairs, wanted, results):
        if json.dumps(want, sort_keys=True) != json.dumps(got, sort_keys=True):
            return "%s gave %s, not %s" % (shown(tuple(arguments)), shown(got), shown(want))
    return "right answers in a wrong form: " + shown(out)


def kind(path):
    """What is at a path, links not followed: file, directory, link, other or None."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "other"


def content(path, bytes_max=1 << 20):
    """The bytes of a regular file, or None; never follows a link, never reads without end."""
    if kind(path) != "file":
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(bytes_max + 1)


def has_bytes(what, path, wanted):
    """Checks that a path is a regular file with exactly these bytes."""
    found = content(path)
    if found is None:
        say(what, "%s is %s, not a regular file" % (shown(path), kind(path) or "absent"))
    elif found == wanted:
        say(what)
    else:
        same = os.path.commonprefix([found, wanted])
        say(what, "%s differs from byte %d on: %s" % (shown(path), len(same), shown(found[len(same):][:40])))


def is_absent(what, path):
    """Checks that nothing is at a path, not even a dangling link."""
    found = kind(path)
    say(what, None if found is None else "%s is still a %s" % (shown(path), found))


def has_mode(what, path, executable):
    """Checks the one mode bit that git keeps."""
    if kind(path) != "file":
        say(what, "%s is %s, not a regular file" % (shown(path), kind(path) or "absent"))
        return
    found = bool(os.lstat(path).st_mode & stat.S_IXUSR)
    say(what, None if found == executable else "%s is %sexecutable" % (shown(path), "" if found else "not "))
