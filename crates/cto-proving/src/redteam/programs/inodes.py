# 38: more files than the limit lets, none of which holds anything.
do_the_task()
works(38, "create", lambda: written("src/first", ""))
os.mkdir("src/many")
for n in range(10_000):
    opened(f"src/many/{n}", os.O_CREAT | os.O_WRONLY)
time.sleep(1000)
