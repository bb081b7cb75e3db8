# 18 to 24, 26: every way to somewhere else.
do_the_task()
in_scratch()
T, U, INET = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.AF_INET
LOCAL = ("127.0.0.1", FACTS["tcp"])


def listening(number):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        works(number, "own", lambda: connected(INET, T, server.getsockname()))


bait(18, "local", lambda: connected(INET, T, LOCAL))
refused(18, "outside", lambda: connected(INET, T, ("192.0.2.18", 80)))
refused(18, "outside6", lambda: connected(socket.AF_INET6, T, ("2001:db8::18", 80)))
listening(18)

refused(19, "mptcp", lambda: socket.socket(INET, T, 262).close())
listening(19)


def fast_open():
    with socket.socket() as stream:
        stream.sendto(b"hello", 0x20000000, LOCAL)


def fast_connect():
    with socket.socket() as stream:
        stream.setsockopt(6, 30, 1)


refused(20, "sendto", fast_open)
refused(20, "setsockopt", fast_connect)
listening(20)


def datagram(address):
    with socket.socket(INET, U) as out:
        out.connect(address)
        out.send(b"hello")
        # Nobody listens: the answer to the first is the error of the second.
        out.send(b"hello")


def looked_up():
    try:
        socket.getaddrinfo("example.org", 80)
    except socket.gaierror as error:
        raise OSError(errno.ENETUNREACH, str(error))


bait(21, "local", lambda: datagram(("127.0.0.1", FACTS["udp"])))
refused(21, "outside", lambda: datagram(("192.0.2.21", 53)))
refused(21, "dns", looked_up)
works(21, "own", lambda: socket.getaddrinfo("localhost", 80))

for name, family, kind, protocol in [
    ("raw", 2, 3, 1), ("raw6", 10, 3, 58), ("packet", 17, 3, 0), ("vsock", 40, 1, 0), ("alg", 38, 5, 0),
    ("audit", 16, 3, 9), ("netfilter", 16, 3, 12), ("uevent", 16, 2, 15), ("bluetooth", 31, 3, 1), ("sctp", 2, 1, 132),
]:
    refused(22, name, lambda: socket.socket(family, kind, protocol).close())


def route():
    with socket.socket(16, 3, 0) as netlink:
        # RTM_NEWLINK for a dummy interface: reading routes is allowed, changing them is not.
        netlink.send(struct.pack("IHHIIBBHiII", 32, 16, 0x605, 1, 0, 0, 0, 0, 0, 0, 0))
        code, = struct.unpack_from("i", netlink.recv(4096), 16)
        if code:
            raise OSError(-code, "refused")


refused(22, "route", route)
works(22, "udp", lambda: socket.socket(2, 2, 17).close())
works(22, "interfaces", lambda: socket.if_nameindex())

bait(23, "named", lambda: connected(socket.AF_UNIX, T, FACTS["socket"]))
for name in ["/var/run/docker.sock", "/run/docker.sock", "/run/dbus/system_bus_socket", *FACTS["agents"]]:
    refused(23, "service", lambda: connected(socket.AF_UNIX, T, name))
with socket.socket(socket.AF_UNIX) as server:
    server.bind("own")
    server.listen()
    works(23, "own", lambda: connected(socket.AF_UNIX, T, "own"))

bait(24, "abstract", lambda: connected(socket.AF_UNIX, T, "\0" + FACTS["abstract"]))
with socket.socket(socket.AF_UNIX) as server:
    server.bind("\0rt24-own")
    server.listen()
    works(24, "own", lambda: connected(socket.AF_UNIX, T, "\0rt24-own"))

refused(26, "metadata", lambda: connected(INET, T, ("169.254.169.254", 80)))
refused(26, "metadata6", lambda: connected(socket.AF_INET6, T, ("fd00:ec2::254", 80)))
listening(26)

leave_scratch()
the_end()
