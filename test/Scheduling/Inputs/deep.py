"""Prints a database of schedules with one more schedule in its last entry, which is nested deeply."""

import json
import sys

with open(sys.argv[1]) as file:
    database = json.load(file)
deep = "#attn.not<" * 50000 + "#attn.causal" + ">" * 50000
database["entries"][-1]["microseconds"][deep] = 1
print(json.dumps(database))
