#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A session of an editor whose file is nested too deeply for MLIR's parser, for a while.

    python3 deep.py SERVER
"""

import sys

from session import URI, Server

DEEP = "#mask = " + "#attn.not<" * 50000 + "#attn.causal" + ">" * 50000 + "\n"
WRONG = "func.func @f(%x: f32) -> f32 {\n  return %y : f32\n}\n"


def change(server, version, *changes):
    server.notify(
        "textDocument/didChange", textDocument={"uri": URI, "version": version}, contentChanges=list(changes)
    )
    server.print_diagnostics()


def main():
    server = Server(sys.argv[1])
    server.request("initialize", processId=None, rootUri=None, capabilities={})
    server.notify("initialized")
    document = {"uri": URI, "languageId": "mlir", "version": 1, "text": "\n" + DEEP}
    server.notify("textDocument/didOpen", textDocument=document)
    server.print_diagnostics()
    at = {"textDocument": {"uri": URI}}
    print("hover:", server.request("textDocument/hover", position={"line": 1, "character": 30000}, **at))
    print("symbols:", server.request("textDocument/documentSymbol", **at))
    # The deep line becomes another one, and comes back.
    line = {"start": {"line": 1, "character": 0}, "end": {"line": 2, "character": 0}}
    change(server, 2, {"range": line, "text": WRONG})
    change(server, 3, {"text": DEEP})
    change(server, 4, {"text": WRONG.replace("%y", "%x")})
    print("symbols:", [symbol["name"] for symbol in server.request("textDocument/documentSymbol", **at)])
    server.notify("textDocument/didClose", **at)
    server.print_diagnostics()
    print("shutdown:", server.request("shutdown"))
    server.notify("exit")
    print("exit status:", server.process.wait(60))


if __name__ == "__main__":
    main()
