#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A session of an editor with a language server, over its standard input and output.

    python3 session.py SERVER FILE

Opens FILE, whose mask is misspelt, corrects it, asks about values, and leaves. Prints what the server says, a line for
each message.
"""

import json
import queue
import subprocess
import sys
import threading

TIMEOUT_S = 60
URI = "file:///edited.mlir"


class Server:
    def __init__(self, path):
        self.process = subprocess.Popen(
            [path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.messages = queue.Queue()
        self.requests = 0
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        """Puts messages into a queue, and at the end None."""
        length = 0
        for line in self.process.stdout:
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
            elif not line.strip() and length:
                self.messages.put(json.loads(self.process.stdout.read(length)))
                length = 0
        self.messages.put(None)

    def send(self, **message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def notify(self, method, **params):
        self.send(method=method, params=params)

    def receive(self):
        message = self.messages.get(timeout=TIMEOUT_S)
        if message is None:
            sys.exit("the server ended")
        return message

    def request(self, method, **params):
        self.requests += 1
        self.send(id=self.requests, method=method, params=params)
        answer = self.receive()
        if answer.get("id") != self.requests or "result" not in answer:
            sys.exit(f"{method}: expected an answer, found {answer}")
        return answer["result"]

    def print_diagnostics(self):
        message = self.receive()
        if message.get("method") != "textDocument/publishDiagnostics" or message["params"]["uri"] != URI:
            sys.exit(f"expected diagnostics, found {message}")
        found = message["params"]["diagnostics"]
        print(f"diagnostics: {len(found)}")
        for each in found:
            print(f"  severity {each['severity']} at {position(each['range']['start'])}: {each['message']}")


def position(place):
    return f"{place['line']}:{place['character']}"


def find(lines, text, after=""):
    """The position of `text` in the first line that has it, behind `after`."""
    for number, line in enumerate(lines):
        if text in line and after in line:
            start = line.index(after) + len(after)
            return {"line": number, "character": line.index(text, start) + 1}
    raise ValueError(f"no '{text}'")


def main():
    path, file = sys.argv[1:]
    with open(file) as opened:
        wrong = opened.read()
    right = wrong.replace("#attn.causl", "#attn.causal")
    assert right != wrong
    server = Server(path)
    capabilities = server.request("initialize", processId=None, rootUri=None, capabilities={})["capabilities"]
    for name in ("hoverProvider", "definitionProvider", "referencesProvider"):
        print(f"{name}: {bool(capabilities.get(name))}")
    server.notify("initialized")

    document = {"uri": URI, "languageId": "mlir", "version": 1, "text": wrong}
    server.notify("textDocument/didOpen", textDocument=document)
    server.print_diagnostics()
    server.notify(
        "textDocument/didChange", textDocument={"uri": URI, "version": 2}, contentChanges=[{"text": right}]
    )
    server.print_diagnostics()

    lines = right.splitlines()
    at = {"textDocument": {"uri": URI}}
    hover = server.request("textDocument/hover", position=find(lines, "attn.attention"), **at)
    print("hover:", " ".join(hover["contents"]["value"].split()))
    for name, where in (("%0", find(lines, "%0", "return ")), ("%q", find(lines, "%q", "ins("))):
        for place in server.request("textDocument/definition", position=where, **at):
            print(f"definition of {name}: {position(place['range']['start'])}")
    uses = server.request(
        "textDocument/references", position=find(lines, "%q", "ins("), context={"includeDeclaration": False}, **at
    )
    print("uses of %q:", ", ".join(position(place["range"]["start"]) for place in uses))

    print("shutdown:", server.request("shutdown"))
    server.notify("exit")
    print("exit status:", server.process.wait(TIMEOUT_S))


if __name__ == "__main__":
    main()
