# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of benchmarks/corpus.py, and of what the kernel corpus covers."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess

import corpus
import pytest
from conftest import BUILD, ROOT

MODULES = ROOT / "test" / "Corpus"
CACHE = BUILD / "CMakeCache.txt"
OWN = ["--old-corpus", str(MODULES), "--new-corpus", str(MODULES)]
# A few compilations for every target: kernels of attention and its gradient, a choice of kernels, and a GEMM.
SOME = r"^(mask-causal|grad-deterministic|overlap-fused|schedule-by-alignment|decode)\.mlir"

needs_build = pytest.mark.skipif(not (BUILD / "bin" / "attn-compile").is_file(), reason="needs a build")


def run(*arguments):
    """The exit code, with usage errors of the command line as such."""
    try:
        return corpus.main([str(argument) for argument in arguments])
    except SystemExit as exit:
        return exit.code


def make_build(folder, program=None, home=None):
    """A folder that looks like a build, with the programs of the tested build, or with a script as attn-compile."""
    (folder / "bin").mkdir(parents=True)
    (folder / "CMakeCache.txt").write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={home or ROOT}\n")
    for tool in ("attn-compile", "attn-opt"):
        (folder / "bin" / tool).symlink_to(BUILD.resolve() / "bin" / tool)
    if program:
        script = folder / "bin" / "attn-compile"
        script.unlink()
        script.write_text(f"#!/bin/sh\n{program}\n")
        script.chmod(0o755)
    return folder


def make_corpus(folder, *names):
    """A folder with some modules of the corpus."""
    folder.mkdir(parents=True)
    for name in names:
        shutil.copy(MODULES / f"{name}.mlir", folder)
    return folder


def describe_recording():
    """A name for what the recording of the corpus depends on: the compiler, the modules and the program."""
    files = [BUILD / "bin" / "attn-compile", BUILD / "bin" / "attn-opt", *sorted(MODULES.glob("*.mlir"))]
    digest = hashlib.sha256()
    for path in [*files, ROOT / "benchmarks" / "corpus.py"]:
        digest.update(path.name.encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The whole corpus, compiled; kept in ATTN_TEST_CACHE_DIR for runs with the same compiler and modules."""
    if not (BUILD / "bin" / "attn-compile").is_file():
        pytest.skip("needs a build")
    folder = tmp_path_factory.mktemp("recorded")
    if "ATTN_TEST_CACHE_DIR" in os.environ:
        kept = pathlib.Path(os.environ["ATTN_TEST_CACHE_DIR"]) / f"corpus-{describe_recording()}"
        if kept.is_dir():
            return kept
    assert run("--record", BUILD, folder, "--new-corpus", MODULES) == corpus.SAME
    if "ATTN_TEST_CACHE_DIR" in os.environ:
        for old in kept.parent.glob("corpus-*"):
            shutil.rmtree(old)
        shutil.copytree(folder, kept.with_suffix(".new"))
        kept.with_suffix(".new").rename(kept)
    return folder


@pytest.fixture
def altered(recorded, tmp_path):
    """Changes a file of a copy of the recorded folder: altered(key, old text, new text)."""
    copy = tmp_path / "altered"

    def alter(key, old, new):
        shutil.copytree(recorded, copy, dirs_exist_ok=True)
        file = copy / f"{key}.ll"
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new, 1))
        return copy

    return alter


def test_a_build_does_not_differ_from_its_recorded_code(recorded, capsys):
    assert run(recorded, BUILD, *OWN, "--only", SOME) == corpus.SAME
    count = re.fullmatch(r"(\d+) compilations, (\d+) kernels, (\d+) host functions: "
                         r"0 kernels and 0 host parts differ, 0 failures\n", capsys.readouterr().out)
    compilations, kernels, functions = map(int, count.groups())
    assert compilations == 10 and kernels > 10 and functions > 20


@needs_build
def test_names_do_not_count(tmp_path, capsys):
    names = ("grad-deterministic", "overlap-fused", "dropout-mask", "differentiate")
    old, new = (make_corpus(tmp_path / side, *names) for side in ("old", "new"))
    for module in new.iterdir():
        text = re.sub(r"@(\w+)", r"@renamed_\1", module.read_text())
        text = re.sub("(function|exclude)=layer", r"\1=renamed_layer", text)
        text = re.sub(r"%(query|value|seed|w)\b", r"%the_\1", text)
        module.write_text(text)
    assert run(BUILD, BUILD, "--old-corpus", old, "--new-corpus", new) == corpus.SAME
    assert "0 kernels and 0 host parts differ" in capsys.readouterr().out


def test_a_kernel_that_differs_is_listed(altered, recorded, tmp_path, capsys):
    folder = altered("mask-causal.1", r"\0A\09ret;", r"\0A\09bar.sync 0;\0A\09ret;")
    report = tmp_path / "report.json"
    assert run(folder, recorded, "--only", SOME, "--no-ptxas", "--diff", 20, "--json", report) == corpus.DIFFERENT
    out = capsys.readouterr().out
    assert out.startswith("mask-causal.mlir --target=sm_80\n  kernel attention_kernel")
    assert "bar.sync" in out and "1 kernels and 0 host parts differ, 0 failures" in out
    row, = json.loads(report.read_text())["differences"]
    assert row["old"]["instructions"] == row["new"]["instructions"] + 1
    assert row["old"]["name"] == row["new"]["name"] and row["kind"] == "kernel"


@pytest.mark.skipif(not corpus.find_ptxas(), reason="needs ptxas")
def test_machine_code_is_measured(altered, recorded, tmp_path):
    folder = altered("mask-causal.1", r"\0A\09ret;", r"\0A\09bar.sync 0;\0A\09ret;")
    report = tmp_path / "report.json"
    assert run(folder, recorded, "--only", "mask-causal", "--json", report) == corpus.DIFFERENT
    row, = json.loads(report.read_text())["differences"]
    for side in ("old", "new"):
        assert row[side]["instructions"] > 100 and 16 < row[side]["registers"] <= 255 and row[side]["spills"] >= 0


def test_a_host_part_that_differs_is_listed(altered, recorded, capsys):
    # The shared memory and the threads of a kernel stand in a global, its grid is computed in a function.
    folder = altered("mask-causal.0", "i32 384", "i32 256")
    assert run(folder, recorded, "--only", SOME) == corpus.DIFFERENT
    assert "  host globals and declarations" in capsys.readouterr().out
    folder = altered("mask-causal.0", "icmp eq i32", "icmp ne i32")
    assert run(folder, recorded, "--only", SOME) == corpus.DIFFERENT
    assert re.search(r"  host attention  instructions (\d+) -> \1\n", capsys.readouterr().out)


def test_parts_that_are_missing_are_listed(altered, recorded, capsys):
    more = "define void @more() {\n  ret void\n}\n\n"
    folder = altered("mask-causal.0", "!llvm.module.flags", more + "!llvm.module.flags")
    assert run(folder, recorded, "--only", SOME) == corpus.DIFFERENT
    assert "  host more: only in the old build\n" in capsys.readouterr().out


@needs_build
def test_each_build_has_the_corpus_of_its_own_source(tmp_path, capsys):
    sides = []
    for side, name in (("old", "causal"), ("new", "lower_triangle")):
        home = tmp_path / side
        make_corpus(home / "test" / "Corpus", "mask-causal")
        module = home / "test" / "Corpus" / "mask-causal.mlir"
        module.write_text(module.read_text().replace("@attention", f"@{name}"))
        sides.append(make_build(home / "build", home=home))
    assert run(*sides) == corpus.SAME
    assert capsys.readouterr().out.startswith("3 compilations")


@needs_build
def test_modules_that_do_not_compile_are_named(tmp_path, capsys):
    folder = make_corpus(tmp_path / "corpus", "mask-causal")
    (folder / "broken.mlir").write_text("// attn-compile: --target=sm_80\n\nfunc.func @f() { attn.attend }\n")
    (folder / "passes.mlir").write_text("// attn-opt: --no-such-pass\n// attn-compile: --target=host\n")
    assert run(BUILD, BUILD, "--old-corpus", folder, "--new-corpus", folder) == corpus.FAILED
    out, err = capsys.readouterr()
    assert "0 kernels and 0 host parts differ, 4 failures" in out
    assert "error: broken.mlir --target=sm_80: old: attn-compile failed with exit code 1\n" in err
    assert "attn.attend" in err
    assert "error: passes.mlir --target=host: new: attn-opt failed with exit code 1\n" in err
    assert run("--record", BUILD, tmp_path / "out", "--new-corpus", folder) == corpus.FAILED
    assert "recorded 3 of 5 compilations" in capsys.readouterr().out


@needs_build
def test_modules_that_one_side_lacks_are_named(tmp_path, capsys):
    old = make_corpus(tmp_path / "old", "mask-causal", "mask-none")
    new = make_corpus(tmp_path / "new", "mask-causal")
    assert run(BUILD, BUILD, "--old-corpus", old, "--new-corpus", new, "--only", "host") == corpus.FAILED
    assert "error: mask-none.mlir --target=host: new: is in the old corpus alone" in capsys.readouterr().err


@needs_build
@pytest.mark.parametrize("program, message", [
    ("exec env -u LD_PRELOAD sh -c 'kill -SEGV $$'", "attn-compile crashed (SIGSEGV)"),
    ("echo 'assertion failed' >&2; kill -ABRT $$", "attn-compile crashed (SIGABRT)\n    assertion failed"),
    ("exec sleep 60", "attn-compile took more than 1 s"),
])
def test_crashes_are_reported(tmp_path, capsys, program, message):
    build = make_build(tmp_path / "build", program)
    assert run(build, build, *OWN, "--only", "mask-none.mlir --target=host", "--timeout", 1) == corpus.FAILED
    err = capsys.readouterr().err
    for side in ("old", "new"):
        assert f"error: mask-none.mlir --target=host: {side}: {message}" in err


@pytest.mark.parametrize("arguments, message", [
    ([], "expected two builds (got 0)"),
    (["missing", "missing"], "there is no folder 'missing'"),
    (["empty", "empty"], "'empty' is neither a build, with a CMakeCache.txt, nor a folder that --record has written"),
    (["unbuilt", "unbuilt"], "'unbuilt' has no bin/attn-compile; build it first"),
    (["build", "build", "--old-corpus", "missing"], "there is no corpus in 'missing'"),
    (["build", "build", "--old-corpus", "empty"], "the corpus is empty"),
    (["build", "build", "--old-corpus", "silent"], "has no line '// attn-compile: OPTIONS'"),
    (["build", "build", "--only", "no such module"], "no compilation matches 'no such module'"),
    (["build", "build", "--only", "("], "'(' is no regular expression"),
    (["build", "build", "--jobs", "0"], "expected a positive number (was 0)"),
    (["--record", "build", "silent"], "'silent' is not empty, and was not written by --record"),
    (["build", "--record", "build", "empty"], "--record takes a build and a folder, and nothing else"),
    (["index", "index"], "was not written by --record"),
])
def test_usage_errors(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    for folder in ("empty", "silent", "unbuilt", "index"):
        pathlib.Path(folder).mkdir()
    pathlib.Path("index", "corpus.json").write_text("[]")
    pathlib.Path("silent", "a.mlir").write_text("module {}\n")
    pathlib.Path("unbuilt", "CMakeCache.txt").write_text("")
    build = make_build(tmp_path / "build", "exit 1")
    (build / "bin" / "attn-opt").unlink()
    if arguments[-2:] == ["--old-corpus", "empty"]:
        arguments = [*arguments, "--new-corpus", "empty"]
    assert run(*arguments) == corpus.USAGE
    assert message in capsys.readouterr().err


# ---------------------------------------------------------------------------
# Normal forms
# ---------------------------------------------------------------------------

PTX = """//
// Generated by LLVM
//
.version 8.0
.target sm_80
.shared .align 16 .b8 kernel_shared[1024];
.visible .entry kernel(
	.param .u64 .ptr .global .align 16 kernel_param_0,
	.param .u64 kernel_param_1
)
{
	.reg .b32 	%r<3>;
	.loc	1 3 7
$L__BB0_1:                              // %loop
	ld.param.b64 	%rd1, [kernel_param_0];
	mov.b32 	%r1, kernel_shared;
	add.s32 	%r2, %r1, 4;
	bra 	$L__BB0_1;
}
	.file	1 "a.mlir"
	.section	.debug_str	{
	.b8 107
	}
"""


def test_names_and_debug_information_are_no_part_of_ptx():
    bare = re.sub(r"//.*|\t\.(?:loc|file).*\n|\t\.section(?s:.*)\}", "", PTX)
    assert corpus.normalize_ptx(PTX) == corpus.normalize_ptx(bare)
    assert corpus.normalize_ptx(PTX) == corpus.normalize_ptx(PTX.replace("kernel", "causal_attention"))
    normal = corpus.normalize_ptx(PTX)
    assert "kernel" not in normal and "debug" not in normal and "Generated" not in normal


@pytest.mark.parametrize("old, new", [
    ("add.s32", "sub.s32"), ("%r1, 4", "%r1, 8"), ("[1024]", "[2048]"), ("%r<3>", "%r<4>"),
    ("kernel_param_0]", "kernel_param_1]"), (".align 16 .b8", ".align 32 .b8"), ("sm_80", "sm_90a"),
])
def test_code_is_part_of_ptx(old, new):
    assert corpus.normalize_ptx(PTX) != corpus.normalize_ptx(PTX.replace(old, new, 1))


# ---------------------------------------------------------------------------
# Coverage
# ---------------------------------------------------------------------------


def find_tablegen():
    """llvm-tblgen, and the folder of its headers."""
    match = re.search(r"^MLIR_DIR:\w+=(.*)/lib/cmake/mlir$", CACHE.read_text(), re.M) if CACHE.is_file() else None
    tablegen = pathlib.Path(match[1]) / "bin" / "llvm-tblgen" if match else None
    if not tablegen or not tablegen.is_file():
        pytest.skip("needs the llvm-tblgen of the build")
    return tablegen, pathlib.Path(match[1]) / "include"


@pytest.fixture(scope="module")
def records():
    """All TableGen records of both dialects."""
    tablegen, include = find_tablegen()
    found = {}
    operations = [f"Attn/IR/Attn{name}.td" for name in ("HeadOps", "MergeOps", "QuantizeOp")]
    for name in (*operations, "AttnTile/IR/AttnTileAttrs.td"):
        source = ROOT / "include" / "attn" / "Dialect" / name
        command = [tablegen, "--dump-json", f"-I{ROOT / 'include'}", f"-I{include}", source]
        dump = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        classes = dump.pop("!instanceof")
        wanted = {*classes["AttrDef"], *classes.get("Op", ()), *classes["EnumInfo"], "Attn_HeadTensor"}
        for record in wanted & set(dump):
            members = {name for name, records in classes.items() if record in records}
            found[record] = {**dump[record], "classes": members}
            if "EnumInfo" in members:
                found[record]["cases"] = [dump[case["def"]]["str"] for case in dump[record]["enumerants"]]
    return found


@pytest.fixture(scope="module")
def code():
    """The text of all modules, without comments."""
    return "\n".join(re.sub(r"//.*", "", module.read_text()) for module in sorted(MODULES.glob("*.mlir")))


def list_mnemonics(records):
    """Attributes that a module may spell: prefix, mnemonic and record. Passes alone write register layouts."""
    for record in records.values():
        if "AttrDef" not in record["classes"] or "EnumAttr" in record["classes"]:
            continue
        dialect = {"Attn_Dialect": "attn", "AttnTile_Dialect": "attn_tile"}[record["dialect"]["def"]]
        if dialect == "attn" or not record["traits"]:
            yield dialect, record["mnemonic"], record


def read_parameters(code, attribute):
    """The text between the brackets behind each use of an attribute."""
    texts = []
    for match in re.finditer(re.escape(attribute) + r"<", code):
        depth, end = 1, match.end()
        while depth:
            depth += {"<": 1, ">": -1}.get(code[end], 0)
            end += 1
        texts.append(code[match.end():end])
    return "\n".join(texts)


def test_every_operation_is_covered(records, code):
    operations = {record["opName"] for record in records.values() if "Op" in record["classes"]}
    assert len(operations) > 10
    assert {name for name in operations if not re.search(rf"\battn\.{name}\b", code)} == set()


def test_every_clause_is_covered(records, code):
    missing, count = set(), 0
    for record in records.values():
        if "Op" not in record["classes"] or not record.get("assemblyFormat"):
            continue
        # An operation ends where the next one begins, which may be in its region.
        end = r"\n\s*(?:return|func\.func|%[\w, ]+(?::\d+)? = attn)\b|\Z"
        uses = "\n".join(re.findall(rf"\battn\.{record['opName']}\b(?s:.*?)(?={end})", code))
        for keyword in re.findall(r"`(\w+)`", record["assemblyFormat"]):
            count += 1
            if not re.search(rf"\b{keyword}\b", uses):
                missing.add(f"{record['opName']} {keyword}")
    assert count > 40 and missing == set()


def is_derived(mnemonic):
    """Whether an attribute is in no module: operands of attention say how keys and values are addressed."""
    return mnemonic.endswith("_kv")


def test_every_attribute_is_covered(records, code):
    attributes = [
        (f"#{dialect}.{mnemonic}", record)
        for dialect, mnemonic, record in list_mnemonics(records)
        if not is_derived(mnemonic)
    ]
    assert len(attributes) > 25
    assert {name for name, _ in attributes if not re.search(re.escape(name) + r"\b", code)} == set()


def test_every_parameter_is_covered(records, code):
    missing, count = set(), 0
    for dialect, mnemonic, record in list_mnemonics(records):
        # Some are lists or have forms of their own, which do not name parameters.
        if is_derived(mnemonic) or "struct" not in (record["assemblyFormat"] or ""):
            continue
        used = read_parameters(code, f"#{dialect}.{mnemonic}")
        for _, name in record["parameters"]["args"]:
            count += 1
            if not re.search(rf"\b{name} = ", used):
                missing.add(f"#{dialect}.{mnemonic} {name}")
    assert count > 60 and missing == set()


def test_every_case_of_enumerations_is_covered(records, code):
    # Passes decide which role a warp has.
    cases = {f"{record['className']} {case}": case for record in records.values() if "cases" in record
             and "attn" in record["cppNamespace"] and record["className"] != "RoleKind" for case in record["cases"]}
    assert len(cases) > 8
    assert {name for name, case in cases.items() if not re.search(rf"\b{case}\b", code)} == set()


def test_every_dtype_is_covered(records, code):
    dtypes = set(re.findall(r"\bb?f\d+\b", records["Attn_HeadTensor"]["summary"]))
    assert {"bf16", "f16"} < dtypes
    for operation in ("attention", "attention_grad"):
        modules = [module.read_text() for module in MODULES.glob("*.mlir")]
        modules = [text for text in modules if f"attn.{operation} " in text]
        found = {dtype for text in modules for dtype in re.findall(r"!q = tensor<[\dx?]*x(\w+)>", text)}
        assert dtypes - found == set()


@needs_build
@pytest.mark.parametrize("option", ["target", "dropout"])
def test_every_value_of_options_is_covered(option):
    text = subprocess.run([BUILD / "bin" / "attn-compile", "--help"], check=True, capture_output=True, text=True).stdout
    description = re.search(rf"--{option}=<\w+>\s+- .*?: (.*(?:\n {{20,}}[^-\s].*)*)", text)[1]
    values = set(re.split(r",\s+|\s+or\s+", re.sub(r"\s*\([^)]*\)", "", description).strip()))
    assert len(values) > 2
    text = "\n".join(module.read_text() for module in MODULES.glob("*.mlir"))
    lines = "\n".join(re.findall(r"^// attn-compile:.*", text, re.M))
    assert {value for value in values if f"--{option}={value}" not in lines} == set()
