# 40: more output than anybody wants, and words for a terminal in it.
do_the_task()
ESCAPES = "\x1b]0;rt40-title\x07\x1b[2Jrt40-shown\x1b[31m\u202ert40"
works(40, "said", lambda: print(json.dumps({"schema": "cto.agent/v1", "type": "plan", "steps": [ESCAPES]}), flush=True))
the_end()
print(ESCAPES, flush=True)
line = b"y" * 65535 + b"\n"
for _ in range(64):
    os.write(1, line)
