# 37: a memory bomb, spread over processes of which none is large.
do_the_task()
works(37, "allocate", lambda: bytearray(1 << 20))
for _ in range(20):
    if os.fork() == 0:
        keep = bytearray(os.urandom(1) * (16 << 20))
        time.sleep(1000)
time.sleep(1000)
