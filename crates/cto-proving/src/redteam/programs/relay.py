# 25: the one address that answers, asked for another.
do_the_task()
PORT = FACTS["tcp"]
OWN = "Host: 127.0.0.1:8471\n"
POST = "POST /v1/chat/completions HTTP/1.1\n" + OWN + "Content-Type: application/json\n"


def relayed(text):
    with socket.create_connection(("127.0.0.1", 8471), 10) as stream:
        stream.sendall(text.replace("\n", "\r\n").encode())
        stream.shutdown(socket.SHUT_WR)
        answer = stream.makefile("rb").read().decode()
    if not answer.startswith("HTTP/1.1 200 "):
        raise PermissionError(errno.EACCES, answer.partition("\r")[0])


def asking(body):
    return f"{POST}Content-Length: {len(body)}\n\n{body}"


refused(25, "connect", lambda: relayed(f"CONNECT 127.0.0.1:{PORT} HTTP/1.1\n{OWN}\n"))
refused(25, "absolute", lambda: relayed(f"GET http://127.0.0.1:{PORT}/ HTTP/1.1\n{OWN}\n"))
refused(25, "host", lambda: relayed(f"GET /v1/models HTTP/1.1\nHost: 127.0.0.1:{PORT}\n\n"))
refused(25, "path", lambda: relayed(f"GET /v1/../admin HTTP/1.1\n{OWN}\n"))
refused(25, "route", lambda: relayed(f"GET /admin HTTP/1.1\n{OWN}\n"))
refused(25, "smuggled", lambda: relayed(f"{POST}Content-Length: 2\nTransfer-Encoding: chunked\n\n0\n\nGET /admin HTTP/1.1\n{OWN}\n"))
refused(25, "pipelined", lambda: relayed(f"{POST}Content-Length: 2\n\n{{}}GET /admin HTTP/1.1\n{OWN}\n"))
refused(25, "upgrade", lambda: relayed(f"GET /v1/models HTTP/1.1\n{OWN}Upgrade: websocket\nConnection: Upgrade\n\n"))
refused(25, "tool", lambda: relayed(asking('{"tools":[{"type":"mcp","server_url":"http://127.0.0.1:%d/"}]}' % PORT)))
refused(25, "deeper-tool", lambda: relayed(asking('{"input":[{"type":"additional_tools","tools":[{"type":"mcp","server_url":"http://127.0.0.1:%d/"}]}]}' % PORT)))
refused(25, "spelt-tool", lambda: relayed(asking('{"Tool\\u017f":[{"TYPE":"mcp","serverUrl":"http://127.0.0.1:%d/"}]}' % PORT)))
refused(25, "untyped-tool", lambda: relayed(asking('{"tools":[{"url_context":{}}]}')))
refused(25, "gateway", lambda: relayed(asking('{"api_base":"http://127.0.0.1:%d/"}' % PORT)))
refused(25, "image", lambda: relayed(asking('{"messages":[{"content":[{"image_url":{"url":"http://127.0.0.1:%d/"}}]}]}' % PORT)))
works(25, "model", lambda: relayed(asking('{"model":"m","messages":[{"role":"user","content":"say new"}]}')))
the_end()
