"""Writes calibration files with one problem each: break-calibration.py FILE FOLDER."""

import copy
import json
import pathlib
import sys

source, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
good = json.loads(source.read_text())


def write(name, change):
    data = copy.deepcopy(good)
    change(data, data["terms"], data["terms"]["score"])
    (folder / f"{name}.json").write_text(json.dumps(data))


(folder / "text.json").write_text("terms")
(folder / "array.json").write_text("[1]")
write("format", lambda file, terms, term: file.update(format="other"))
write("version", lambda file, terms, term: file.update(version=0))
write("device", lambda file, terms, term: file.update(device="h300"))
write("no-device", lambda file, terms, term: file.pop("device"))
write("kind", lambda file, terms, term: file.update(kind="tpu"))
write("terms", lambda file, terms, term: file.pop("terms"))
write("missing", lambda file, terms, term: terms.pop("score"))
write("unknown", lambda file, terms, term: terms.update(scores=terms.pop("score")))
write("number", lambda file, terms, term: terms.update(score=14))
write("unit", lambda file, terms, term: term.update(unit="second"))
write("source", lambda file, terms, term: term.pop("source"))
write("fit", lambda file, terms, term: term.update(fit=""))
write("value", lambda file, terms, term: term.update(value="many"))
write("range", lambda file, terms, term: term.update(value=-1))
host = json.loads((source.parent / "host.json").read_text())
host["device"] = "h200"
(folder / "host.json").write_text(json.dumps(host))
