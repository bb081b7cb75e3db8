#!/usr/bin/env python3
"""A stand-in for docker: notes its command line, and builds the container with bwrap."""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
argv = sys.argv[1:]
with open(os.path.join(here, "calls"), "a") as calls:
    calls.write(" ".join(argv) + "\n")

if argv[0] == "image":
    sys.exit(0 if os.path.exists(os.path.join(here, "image")) else "Error: No such image")
if argv[0] == "import":
    os.link(argv[1], os.path.join(here, "image"))
    sys.exit(0)
if argv[0] == "ps":
    sys.exit(0)
if argv[0] != "run":
    sys.exit("Error: unknown command " + argv[0])

line = ["bwrap", "--unshare-all", "--as-pid-1", "--die-with-parent", "--proc", "/proc", "--dev", "/dev"]
line += ["--hostname", "localhost", "--cap-drop", "ALL"]
for name in ("bin", "sbin", "lib", "lib64"):
    if os.path.islink("/" + name):
        line += ["--symlink", os.readlink("/" + name), "/" + name]
words = iter(argv[1:])
for word in words:
    if word == "--mount":
        parts = dict(part.partition("=")[::2] for part in next(words).split(","))
        if parts["type"] == "tmpfs":
            line += ["--tmpfs", parts["dst"]]
        else:
            line += ["--ro-bind" if "readonly" in parts else "--bind", parts["src"], parts["dst"]]
    elif word == "--tmpfs":
        line += ["--tmpfs", next(words).split(":")[0]]
    elif word == "--user":
        user, group = next(words).split(":")
        line += ["--uid", user, "--gid", group]
    elif word == "/.cto/cto-launcher":
        line += ["--remount-ro", "/", "--", word]
if os.path.exists(os.path.join(here, "refuse")):
    sys.exit("docker: Error response from daemon: no space left")
os.execvp("bwrap", line)
