"""Compares the report of attn-explain with the remarks of attn-choose-schedule: compare-explain.py FILES...

For each file, each target and the sizes for which a remark has an estimate, the report must have the chosen schedule,
with the same estimate.
"""

import json
import re
import subprocess
import sys

REMARK = re.compile(r"chose (#attn\S+<.*?>): (.*?)(?=\"|\n|$)")
# The numbers of queries for which a remark has times, below and from a bound.
TIME = re.compile(r"estimated (\d+) us for (\d+) queries")
# As in TypicalSizes: all queries of a batch, by target; one length takes at least the shortest typical one.
QUERIES = {"host": 4096, "sm_80": 16384, "sm_90a": 16384}
SHORTEST = {"host": 32, "sm_80": 1024, "sm_90a": 1024}


def explain(path, target, options):
    command = ["attn-opt", path, f"--attn-choose-schedule=target={target}",
               f"--attn-explain=target={target} format=json output=- {options}", "-o", "/dev/null",
               "--remarks-filter=attn-choose-schedule", "--remark-format=emitRemark"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    entries = [entry for function in report["functions"] for entry in function["operations"] if "schedule" in entry]
    return REMARK.findall(done.stderr), entries


def main():
    count = 0
    for path in sys.argv[1:]:
        for target, queries in QUERIES.items():
            remarks, entries = explain(path, target, "")
            remarks = [remark for remark in remarks if "matmul" not in remark[0]]
            assert remarks and len(remarks) == len(entries), (path, target, remarks, entries)
            for i, (schedule, reason) in enumerate(remarks):
                times = TIME.findall(reason)
                assert times, (path, target, reason)
                for microseconds, length in times:
                    is_gradient = "gradient" in schedule
                    batch = 4 if is_gradient else max(1, queries // max(int(length), SHORTEST[target]))
                    options = f"dynamic-size={length} dynamic-batch={batch}"
                    entry = explain(path, target, options)[1][i]
                    assert entry["schedule"] in schedule, (path, target, entry["schedule"], schedule)
                    assert abs(entry["seconds"] * 1e6 - int(microseconds)) <= 0.5, (path, target, entry, reason)
                    count += 1
    print(f"{count} estimates agree")


main()
