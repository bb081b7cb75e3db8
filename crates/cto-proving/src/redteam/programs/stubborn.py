# 39: an agent that does not stop when it is asked to.
do_the_task()
for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    works(39, "ignored", lambda: signal.signal(name, signal.SIG_IGN))
while True:
    time.sleep(1000)
