# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Names of the IR consist of words of the glossary, which defines each once and names places that exist."""

import json
import pathlib
import re
import subprocess

import pytest
from conftest import BUILD, ROOT

PAGE = ROOT / "docs" / "Glossary.md"
DIALECTS = {"attn": "include/attn/Dialect/Attn/IR/Attn.td", "attn_tile": "include/attn/Dialect/AttnTile/IR/AttnTile.td"}
LINKING = ["README.md", "docs/README.md", "docs/Architecture.md", "include/attn/Dialect/Attn/IR/AttnDialect.td",
           "include/attn/Dialect/AttnTile/IR/AttnTileDialect.td"]
ENTRY = re.compile(r"- (?P<terms>\*\*[^*]+\*\*(?:, \*\*[^*]+\*\*)*): (?P<definition>.+?[.`]) "
                   r"\*Source\*: (?P<source>[^*]+)\. \*Where\*: (?P<where>`[^`]+`(?:, `[^`]+`)*)\.")
# Words of names that say the same in any program. All others are terms.
PLAIN = set("""
    active after and any at before below by first from in is last left more most new not on once or others otherwise out
    right same than through to together top upper use whole within

    addition alternative arg argument attr body byte column condition count depth directory dynamic element extent
    factor feature figure flow format function gbps indices join kind list max mhz name ns num number operand option
    order parent per percent print rank res result row set shape size sixteenth source start sym table toolkit type
    unaligned

    allow apply arrive assume await check choose chosen create decompose define describe dispatch expand explain fail
    fork gather generate joined load make need read reduce return simplify store wait

    cos destination dest dim epsilon inverse lhs power rhs scalar sin subtrahend
""".split())
SUFFIX = re.compile(r"(?:ations?|at(?:es?|ed|ing)|ions?|ments?|ing|ies|ied|ed|es|[esy])$")


def words_of(name):
    """The words of a name or a term, small; numbers such as 16b are none."""
    words = re.findall(r"[A-Za-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", name))
    return [word.lower() for word in words if not word[0].isdigit()]


def stem_of(word):
    """A word without its endings: order, orders and ordered have one stem."""
    stem = SUFFIX.sub("", word)
    return stem_of(stem) if stem != word and (len(stem) > 2 or word == f"{stem}s") else word


def unknown_words(names, terms):
    """The words of `names` that are neither in `terms` nor plain, each with the names that have it."""
    known = {stem_of(word) for word in PLAIN} | {stem_of(word) for term in terms for word in words_of(term)}
    unknown = {}
    for name in sorted(names):
        for word in words_of(name):
            if stem_of(word) not in known:
                unknown.setdefault(word, []).append(name)
    return unknown


def sections_of(text):
    """The entries of a page as matches of ENTRY, by section; an entry that does not match is an error."""
    sections = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        items = [" ".join(item.split()) for item in re.split(r"^(?=- )", body, flags=re.MULTILINE) if item.strip()]
        matches = [ENTRY.fullmatch(item) for item in items]
        assert all(matches), [item for item, match in zip(items, matches) if not match]
        sections[title] = matches
    return sections


def terms_of(entry):
    return re.findall(r"\*\*([^*]+)\*\*", entry["terms"])


def not_alphabetical(terms):
    """The terms that stand behind a term that they should precede."""
    keys = [re.findall(r"[a-z0-9]+", term.casefold()) for term in terms]
    return [term for term, key, before in zip(terms[1:], keys[1:], keys) if key < before]


def repeated(terms):
    small = [term.casefold() for term in terms]
    return sorted({term for term in small if small.count(term) > 1})


def unknown_places(places, names, files, code):
    """The `places` that do not exist. A file may lack its first folders; other names are of the IR or in `code`."""
    code_words = set(re.findall(r"\w+", code))

    def exists(place):
        if re.search(r"\.(cpp|h|md|py|td)$", place):
            return any(f"/{file}".endswith(f"/{place}") for file in files)
        if re.fullmatch(r"attn(_tile)?\.\w+", place) and f'"{place}"' in code:
            return True
        if place.startswith("attn-") and any(file.startswith(f"tools/{place}/") for file in files):
            return True
        return place in names or (place != place.lower() and place in code_words)

    return [place for place in places if not exists(place)]


def find_tablegen():
    """llvm-tblgen and the folder of MLIR's definitions, of the LLVM that the build tree is built with."""
    cache = BUILD / "CMakeCache.txt"
    if not cache.exists():
        pytest.skip("there is no build")
    folders = dict(re.findall(r"^(LLVM_DIR|MLIR_DIR):\w+=(.+)$", cache.read_text(), re.MULTILINE))
    prefix = {name: pathlib.Path(folder).parents[2] for name, folder in folders.items()}
    return prefix["LLVM_DIR"] / "bin" / "llvm-tblgen", prefix["MLIR_DIR"] / "include"


@pytest.fixture(scope="module")
def names():
    """All names, as the IR spells them: operations, attributes, types, their parts, cases, passes and options."""
    tablegen, include = find_tablegen()

    def read(file):
        command = [tablegen, "--dump-json", "-I", include, "-I", ROOT / "include", ROOT / file]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    def instances(records, kind):
        return [records[name] for name in records["!instanceof"].get(kind, [])]

    def add_parts(dag):
        found.update(name for _, name in dag["args"] if name)

    found = set()
    for dialect, file in DIALECTS.items():
        records = read(file)
        for record in instances(records, "Op"):
            if records[record["opDialect"]["def"]]["name"] == dialect:
                found.add(f"{dialect}.{record['opName']}")
                for dag in ("arguments", "results", "regions"):
                    add_parts(record[dag])
        for sigil, kind in (("#", "AttrDef"), ("!", "TypeDef")):
            for record in instances(records, kind):
                if records[record["dialect"]["def"]]["name"] == dialect:
                    found.add(f"{sigil}{dialect}.{record['mnemonic']}")
                    add_parts(record["parameters"])
        for record in instances(records, "EnumInfo"):
            if "attn" in record["cppNamespace"]:
                found.update(records[case["def"]]["str"] for case in record["enumerants"])
    for file in sorted((ROOT / "include").rglob("Passes.td")):
        records = read(file.relative_to(ROOT))
        for record in instances(records, "PassBase"):
            found.add(record["argument"])
            found.update(records[option["def"]]["argument"] for option in record["options"])
    figures = (ROOT / "lib/Dialect/Attn/IR/DeviceAttr.cpp").read_text()
    found.update(re.findall(r'\{"(\w+)", &DeviceFigures::', figures))
    return found


@pytest.fixture(scope="module")
def sections():
    return sections_of(PAGE.read_text())


@pytest.fixture(scope="module")
def terms(sections):
    return [term for entries in sections.values() for entry in entries for term in terms_of(entry)]


def test_names_consist_of_terms(names, terms):
    assert names >= {"attn.attention", "#attn.causal", "!attn_tile.pipe", "query_tile", "mask_mod", "persistent",
                     "attn-fuse", "dq-workspace-bytes", "sms"}
    assert unknown_words(names, terms) == {}


def test_unknown_words_are_found():
    terms = ["kv tile", "ordered accumulation", "split-KV"]
    assert unknown_words({"kv_tiles", "ordered", "accumulate", "splits", "load", "16b"}, terms) == {}
    assert unknown_words({"attn_tile.await_turn", "turnTile"}, [*terms, "attn"]) == {
        "turn": ["attn_tile.await_turn", "turnTile"]}


def test_plain_words_are_no_terms(terms):
    assert sorted(PLAIN & {term.casefold() for term in terms}) == []


def test_terms_appear_once(terms):
    assert len(terms) > 200
    assert repeated(terms) == []


def test_sections_are_alphabetical(sections):
    assert {title: found for title, entries in sections.items()
            if (found := not_alphabetical([terms_of(entry)[0] for entry in entries]))} == {}


def test_order_and_repetitions_are_found():
    assert not_alphabetical(["alpha", "bias", "B", "cp.async", "CTA"]) == ["B"]
    assert repeated(["P", "p", "tile"]) == ["p"]
    with pytest.raises(AssertionError):
        sections_of("## One\n\n- **term**: No source.\n")


def test_places_exist(names, sections):
    files = [str(path.relative_to(ROOT)) for folder in ("include", "lib", "tools", "python", "benchmarks", "docs")
             for path in (ROOT / folder).rglob("*") if path.is_file()]
    code = "\n".join((ROOT / file).read_text() for file in files
                     if file.startswith(("include", "lib")) and file.endswith((".h", ".cpp", ".td")))
    places = [place for entries in sections.values() for entry in entries
              for place in re.findall(r"`([^`]+)`", entry["where"])]
    assert unknown_places(places, names, files, code) == []
    made_up = ["attn.none_such", "#attn.none_such", "!attn_tile.none_such", "attn-none-such", "none_such", "NoneSuch",
               "NoneSuch.cpp", "NoneSuch.md"]
    assert unknown_places(made_up, names, files, code) == made_up
    assert unknown_places(["SM90a.cpp", "MaskAnalysis", "attn.device", "attn-tune"], names, files, code) == []


@pytest.mark.parametrize("file", LINKING)
def test_glossary_is_linked(file):
    assert "Glossary.md" in (ROOT / file).read_text()


def test_columns():
    assert [number for number, line in enumerate(PAGE.read_text().splitlines(), 1) if len(line) > 120] == []
