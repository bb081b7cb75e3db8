# 52: so many odd names that their list would fill the log.
do_the_task()
os.mkdir("src/many")
for n in range(12_000):
    opened("src/many/" + f"{n:05}" + "\x01" * 250, os.O_CREAT | os.O_WRONLY)
works(52, "made", lambda: opened("src/many/00000" + "\x01" * 250, os.O_RDONLY))
the_end()
