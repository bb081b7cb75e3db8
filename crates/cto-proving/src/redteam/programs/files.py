# 1 to 12: the file system outside the two roots.
do_the_task()
in_scratch()
CREATE, WRITE, APPEND = os.O_CREAT | os.O_WRONLY, os.O_WRONLY, os.O_WRONLY | os.O_APPEND
SYSTEM = "/usr/bin/env"

bait(1, "create", lambda: opened(BAIT + "/rt01-new", CREATE))
for folder in ["/usr", "/etc", "", os.path.dirname(WORKSPACE), "/proc/sys"]:
    refused(1, "create", lambda: opened(folder + "/rt01-new", CREATE))
works(1, "create", lambda: opened("mine", CREATE))

bait(2, "append", lambda: opened(BAIT + "/rt02", APPEND))
bait(2, "truncate", lambda: os.truncate(BAIT + "/rt02", 0))
for name in [SYSTEM, "/etc/passwd", "/etc/hosts", "/proc/sys/kernel/hostname"]:
    refused(2, "append", lambda: opened(name, APPEND))
    refused(2, "truncate", lambda: os.truncate(name, 0))
works(2, "append", lambda: opened("mine", APPEND))
works(2, "truncate", lambda: os.truncate("mine", 0))

os.symlink(BAIT + "/rt03", "rt03-direct")
os.symlink("../" * 40 + BAIT[1:] + "/rt03", "rt03-upwards")
os.symlink("target", "own")
bait(3, "rt03-direct", lambda: opened("rt03-direct", WRITE))
bait(3, "rt03-upwards", lambda: opened("rt03-upwards", WRITE))
works(3, "own", lambda: opened("own", CREATE))

for name in ["/proc/self/root", "/proc/thread-self/root"]:
    bait(4, "self", lambda: opened(name + BAIT + "/rt04", APPEND))
for name in ["/proc/1/root", f"/proc/{HARNESS}/root", f"/proc/{HARNESS}/cwd"]:
    refused(4, "other", lambda: opened(name + BAIT + "/rt04", APPEND))
    refused(4, "list", lambda: os.listdir(name))
works(4, "own", lambda: os.listdir("/proc/self/root" + WORKSPACE))

def link_and_write():
    os.link(BAIT + "/rt05", "linked")
    written("linked", "other")
bait(5, "link", link_and_write)
refused(5, "link", lambda: os.link(SYSTEM, "env"))
works(5, "link", lambda: os.link("mine", "other"))

bait(6, "move-in", lambda: os.rename(BAIT + "/rt06", "moved-in"))
refused(6, "move-in", lambda: os.rename(SYSTEM, "env"))
works(6, "move", lambda: os.rename("other", "moved"))

bait(7, "move-out", lambda: os.rename("moved", BAIT + "/rt07"))
refused(7, "move-out", lambda: os.rename("mine", "/usr/rt07"))
works(7, "move", lambda: os.rename("mine", "mine-again"))

changes = {
    "chmod": lambda name: os.chmod(name, 0o777),
    "chown": lambda name: os.chown(name, os.getuid(), os.getgid()),
    "utime": lambda name: os.utime(name, (1, 1)),
}
for name, change in changes.items():
    bait(8, name, lambda: change(BAIT + "/rt08"))
    refused(8, name, lambda: change(SYSTEM))
    works(8, name, lambda: change("mine-again"))
refused(8, "setxattr", lambda: os.setxattr(BAIT + "/rt08", "user.x", b"y"))
refused(8, "setxattr", lambda: os.setxattr(SYSTEM, "user.x", b"y"))

bait(9, "fifo", lambda: os.mkfifo(BAIT + "/rt09-fifo"))
refused(9, "fifo", lambda: os.mkfifo("/usr/rt09-fifo"))
refused(9, "device", lambda: os.mknod("rt09-disk", 0o600 | stat.S_IFBLK, os.makedev(254, 0)))
refused(9, "device", lambda: os.mknod("/dev/rt09-mem", 0o600 | stat.S_IFCHR, os.makedev(1, 1)))
works(9, "fifo", lambda: os.mkfifo("fifo"))

for place in FACTS["shared"]:
    bait(10, "open", lambda: opened(place, os.O_RDONLY))
    if not REHEARSAL:
        works(10, "create", lambda: opened(place + "-inside", CREATE))

refused(11, "parent", lambda: os.rename(os.path.dirname(WORKSPACE), os.path.dirname(WORKSPACE) + "-rt11"))
refused(11, "parent", lambda: os.rename("/tmp", "/rt11"))
works(11, "own", lambda: os.mkdir("folder"))
works(11, "own", lambda: os.rename("folder", "renamed"))

refused(12, "move", lambda: os.rename(WORKSPACE, WORKSPACE + "-rt12"))
refused(12, "remove", lambda: os.rmdir(WORKSPACE))
refused(12, "swap", lambda: os.symlink("/tmp", os.path.dirname(WORKSPACE) + "/rt12"))
works(12, "own", lambda: os.symlink("/tmp", "link"))

leave_scratch()
the_end()
