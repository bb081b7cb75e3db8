# 13 to 17 and 48: secrets, the harness itself, and its evidence.
do_the_task()
TOKEN = FACTS["token"]

for name in FACTS["secrets"]:
    bait(13, "read", lambda: opened(name, os.O_RDONLY))
for name in [".ssh", ".aws", ".config", ".netrc", ".gnupg", ".docker", ".kube"]:
    refused(13, "home", lambda: os.stat(FACTS["real_home"] + "/" + name))
for name in ["/etc/shadow", "/etc/ssh", "/etc/ssl/private", "/var/lib", "/run/secrets", "/sys/kernel", "/boot"]:
    refused(13, "system", lambda: os.stat(name))

def holds_token(path):
    try:
        with open(path, "rb") as file:
            return TOKEN.encode() in file.read(1 << 20)
    except OSError:
        return False

if not REHEARSAL:
    tops = ["/tmp", "/home", "/var", "/run", "/dev/shm", "/etc", "/srv", "/mnt", os.path.dirname(WORKSPACE)]
    walked = (os.path.join(at, name) for top in tops for at, _, names in os.walk(top) for name in names)
    # This program itself has to know what it looks for.
    found = [path for path in walked if os.path.isfile(path) and path != sys.argv[0] and holds_token(path)]
    absent(13, "found", found)
works(13, "read", lambda: opened("other.txt", os.O_RDONLY))

bait(14, "cmdline", lambda: opened(f"/proc/{HARNESS}/cmdline", os.O_RDONLY))
for name in ["mem", "maps", "environ"]:
    refused(14, name, lambda: opened(f"/proc/{HARNESS}/{name}", os.O_RDONLY))
    refused(14, "init-" + name, lambda: opened(f"/proc/1/{name}", os.O_RDONLY))
    works(14, "own-" + name, lambda: opened(f"/proc/self/{name}", os.O_RDONLY))
if not REHEARSAL:
    processes = [name for name in os.listdir("/proc") if name.isdigit()]
    absent(14, "process", str(HARNESS) in processes or len(processes) > 2)

if not REHEARSAL:
    absent(15, "value", any(TOKEN in value for value in os.environ.values()))
    for name in FACTS["environment"]:
        absent(15, "name", name in os.environ)
works(15, "path", lambda: os.stat(os.environ["PATH"].split(":")[0] and "/"))

if not REHEARSAL:
    # Beside the three streams only the descriptor that lists the directory.
    absent(16, "descriptors", set(os.listdir("/proc/self/fd")) - {"0", "1", "2", "3"})
works(16, "own", lambda: opened("/proc/self/status", os.O_RDONLY))

bait(17, "signal", lambda: os.kill(HARNESS, 0))
refused(17, "signal-init", lambda: os.kill(1, signal.SIGKILL))
PTRACE_SEIZE = 0x4206
refused(17, "ptrace-init", lambda: call(117, 101, PTRACE_SEIZE, 1, 0, 0))
refused(17, "ptrace", lambda: call(117, 101, PTRACE_SEIZE, HARNESS, 0, 0))
refused(17, "write-memory", lambda: call(271, 311, HARNESS, 0, 0, 0, 0, 0))
refused(17, "pidfd", lambda: call(434, 434, HARNESS, 0))
works(17, "signal", lambda: os.kill(os.getpid(), 0))

EVIDENCE = FACTS["evidence"]
bait(48, "list", lambda: os.listdir(EVIDENCE))
refused(48, "create", lambda: opened(EVIDENCE + "/rt48", os.O_CREAT | os.O_WRONLY))
refused(48, "through-proc", lambda: os.listdir("/proc/1/root" + EVIDENCE))
for at, _, names in os.walk(EVIDENCE):
    for name in names:
        refused(48, "append", lambda: opened(os.path.join(at, name), os.O_WRONLY | os.O_APPEND))
if not REHEARSAL:
    # An event of the log, as the harness writes them.
    print(json.dumps({"schema_version": "cto.event/v1", "seq": 3, "type": "run.completed", "data": {"status": "pass", "rt48": "forged"}}))
works(48, "print", lambda: None)
the_end()
