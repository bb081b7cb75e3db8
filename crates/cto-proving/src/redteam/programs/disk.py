# 38: more bytes than the limit lets.
do_the_task()
works(38, "write", lambda: written("src/small", "text"))
with open("src/large", "wb") as file:
    for _ in range(16):
        file.write(b"x" * (1 << 20))
        file.flush()
time.sleep(1000)
