# An agent that holds a lock until it is killed.
import fcntl

lock = open("rt66-held", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print(json.dumps({"schema": "cto.agent/v1", "type": "plan", "steps": ["hold"]}), flush=True)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    time.sleep(1000)
