# 49 to 51: the recorder itself.
do_the_task()
CREATE = os.O_CREAT | os.O_WRONLY
PR_SET_DUMPABLE, PR_SET_NAME = 4, 15

# Unreadable to everyone else, under another name, with a timer that interrupts every call.
works(49, "dumpable", lambda: checked(libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)))
works(49, "name", lambda: checked(libc.prctl(PR_SET_NAME, b"harness", 0, 0, 0)))
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
refused(49, "create", lambda: opened(BAIT + "/rt49-new", CREATE))
refused(49, "mount", lambda: call(40, 165, 0, 0, 0, 0, 0))
works(49, "create", lambda: opened("build-49", CREATE))
signal.setitimer(signal.ITIMER_REAL, 0)
libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
os.unlink("build-49")

# A name that changes between the look and the call.
inside, outside = os.fsencode(WORKSPACE + "/build-50"), os.fsencode(BAIT + "/rt50-new")
size = max(len(inside), len(outside)) + 1
name = ctypes.create_string_buffer(size)
over = threading.Event()


def flip():
    while not over.is_set():
        ctypes.memmove(name, inside + b"\0", len(inside) + 1)
        ctypes.memmove(name, outside + b"\0", len(outside) + 1)


flipper = threading.Thread(target=flip)
flipper.start()
made = 0
for _ in range(2_000):
    descriptor = libc.open(name, CREATE, 0o644)
    if descriptor >= 0:
        made += 1
        os.close(descriptor)
over.set()
flipper.join()
absent(50, "race", os.path.exists(outside))
works(50, "inside", lambda: os.stat(inside) if made else opened(inside, CREATE))
os.unlink(inside)

for n in range(FACTS["flood"]):
    try:
        opened(f"{BAIT}/rt51-{n}", CREATE)
    except OSError:
        pass
refused(51, "last", lambda: opened(BAIT + "/rt51-last", CREATE))
works(51, "create", lambda: opened("build-51", CREATE))
os.unlink("build-51")
the_end()
