# Outside: a segment that nobody inside may find, and its end.
if FACTS["remove"]:
    IPC_RMID = 0
    segment = call(194, 29, FACTS["segment"], 4096, 0o600)
    call(195, 31, segment, IPC_RMID, 0)
    bait(55, "sysv", lambda: None)
else:
    call(194, 29, FACTS["segment"], 4096, 0o600 | 0o1000 | 0o2000)
the_end()
