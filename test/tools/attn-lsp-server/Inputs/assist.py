#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An editor that asks a language server for completions and hovers.

    python3 assist.py SERVER FILE

FILE has a module for each request, separated by lines `// -----`. The first line of each is a comment with the request,
`completion` or `hover`, and `|` in the lines behind marks its place. Prints the answers, and then those to messages
that are malformed.
"""

import json
import pathlib
import sys

import session


def print_items(items):
    for item in sorted(items, key=lambda item: item["label"]):
        edit = item["textEdit"]
        start, end = edit["range"]["start"], edit["range"]["end"]
        assert start["line"] == end["line"]
        print(f"  {item['label']} ({item['detail']}): {edit['newText']!r} at {start['line']}:{start['character']}"
              f"-{end['character']}")


def print_hover(result):
    if result is None:
        print("  nothing")
        return
    start, end = result["range"]["start"], result["range"]["end"]
    print(f"  at {session.position(start)}-{session.position(end)}")
    for line in result["contents"]["value"].splitlines():
        print(f"  {line}".rstrip())


def ask(server, number, text):
    request, text = text.split("\n", 1)
    request = request.removeprefix("// ")
    before, after = text.split("|")
    uri = f"file:///{number}.mlir"
    document = {"uri": uri, "languageId": "mlir", "version": 1, "text": before + after}
    server.notify("textDocument/didOpen", textDocument=document)
    server.receive()
    lines = before.split("\n")
    column = len(lines[-1].encode("utf-16-le")) // 2
    place = {"line": len(lines) - 1, "character": column}
    print(f"{request} {lines[-1].strip()!a}")
    result = server.request(f"textDocument/{request}", textDocument={"uri": uri}, position=place)
    if request == "completion":
        print_items(result["items"])
    else:
        print_hover(result)


def main():
    path, file = sys.argv[1:]
    server = session.Server(path)
    info = server.request("initialize", processId=None, rootUri=None, capabilities={})["serverInfo"]
    print("server:", info["name"], info["version"])
    server.notify("initialized")
    for number, text in enumerate(pathlib.Path(file).read_text().split("// -----\n")):
        ask(server, number, text)

    for body in (b"{", b"[]", b"{}", b'{"jsonrpc": "2.0", "id": 7}', b"\xff", b"[" * 100000):
        server.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        server.process.stdin.flush()
        answer = server.receive()
        print(f"{body[:30]!r}: {answer['id']} {json.dumps(answer['error'])}")
    server.process.stdin.write(b"No-Length: 1\r\n\r\n")
    server.send(id="a", method="no/method", params={})
    print("no/method:", server.receive()["error"]["message"])

    print("shutdown:", server.request("shutdown"))
    server.notify("exit")
    print("exit status:", server.process.wait(session.TIMEOUT_S))

    ended = session.Server(path)
    ended.process.stdin.close()
    print("exit status at the end of the input:", ended.process.wait(session.TIMEOUT_S))


if __name__ == "__main__":
    main()
