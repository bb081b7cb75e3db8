# 54: an agent whose init is killed from outside, once it has spoken.
do_the_task()
works(54, "alive", lambda: os.kill(os.getpid(), 0))
print(json.dumps({"schema": "cto.agent/v1", "type": "plan", "steps": ["wait"]}), flush=True)
while True:
    time.sleep(1000)
