# 35: a process in its own session, forked twice, that ignores every polite signal.
do_the_task()
seen, ready = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(name, signal.SIG_IGN)
        os.write(ready, b"x")
        os.close(ready)
        for stream in (0, 1, 2):
            os.close(stream)
        time.sleep(1000)
    os._exit(0)
works(35, "started", lambda: os.read(seen, 1))
the_end()
