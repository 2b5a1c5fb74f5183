#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the code against its floors.

A file includes only lower floors; siblings on a floor do not see each other;
impl/ sees nothing but include/; libraries of others are known to few files
each. Also: no file over 500 lines, but for tables, an SPDX line in every
source, and no two types of one name in headers of one namespace: each would
compile, and the linker would take the functions of either.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Which folders each folder may include, itself apart.
MAY_INCLUDE = {
    "include": set(),
    "core": {"include"},
    "reference": {"include", "core"},
    "impl": {"include"},
    "properties": {"include", "core", "reference"},
    "diagnosis": {"include", "core", "reference", "properties"},
    "fuzz": {"include", "core", "reference", "properties"},
    "golden": {"include", "core", "reference", "properties"},
    "tools": {"include", "core", "reference", "properties", "diagnosis",
              "fuzz", "golden"},
    "examples": {"include"},
}

# Third-party headers that only some files may name.
RESERVED = {
    "rapidcheck": {"properties/cases/case_generator.h", "properties/run/shrink.cpp"},
    "CLI/": {"tools/commands/main.cpp", "tools/commands/main_golden.cpp", "tools/commands/main_golden.h", "tools/commands/main_inspect.cpp",
             "tools/judge/main_judge.cpp", "tools/commands/main_kernels.cpp"},
    "sha2.h": {"core/base/sha256.cpp"},
    "minizip/": {"core/files/npz.cpp"},
    "protozero/": {"core/files/onnx_reading.h"},
    "png.h": {"tools/pictures/heat_png.cpp", "tools/pictures/heat_test.cpp"},
    "Eigen/": {"impl/eigen/attend.cpp", "impl/eigen/eigen_exp_test.cpp",
               "impl/eigen/gradient.cpp", "impl/eigen/layer_matrices.h"},
}

MAX_LINES = 500
# Folders whose .cpp files are tables: rows of one form, each complete in itself,
# that are looked up and not read through. They may be longer.
TABLES = {"impl/faulty"}
MAX_TABLE_LINES = 800
# Headers that stand in the place of others, in a program of their own.
SHADOWS = "impl/faulty/rebuilt/"
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{", re.M)
TYPE = re.compile(r"^(?:struct|class|enum class|union) (\w+)(?: : [^;\n]*)? \{", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)


def folder_of_include(name: str) -> str:
    top = name.split("/")[0]
    return "include" if top == "qkvet" else top


def problems_of(path: str, text: str) -> list:
    found = []
    folder = path.split("/")[0]
    allowed = MAY_INCLUDE.get(folder)
    if allowed is None:
        return [f"{path}: {folder}/ stands on no floor (ci/floors.py)"]
    for name in INCLUDE.findall(text):
        target = folder_of_include(name)
        if target in MAY_INCLUDE and target != folder and target not in allowed:
            found.append(f"{path}: {folder}/ must not include {name}")
        for prefix, files in RESERVED.items():
            if name.startswith(prefix) and path not in files:
                found.append(f"{path}: {name} is reserved to {sorted(files)}")
    lines = text.count("\n")
    most = MAX_LINES
    if path.rsplit("/", 1)[0] in TABLES and path.endswith(".cpp"):
        most = MAX_TABLE_LINES
    if lines > most:
        found.append(f"{path}: {lines} lines, at most {most} are allowed")
    if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(
            text.split("\n")[:3]):
        found.append(f"{path}: no SPDX line at the top")
    return found


def types_of(text: str) -> set:
    """Names of the types that a header defines at the level of its one
    namespace."""
    namespace = NAMESPACE.search(text)
    return {f"{namespace[1]}::{name}" for name in TYPE.findall(text)
            } if namespace else set()


def doubled_types(headers: dict) -> list:
    """`headers`: text by path."""
    where, found = {}, []
    for path, text in headers.items():
        for name in types_of(text):
            if name in where:
                found.append(f"{path}: {name} is defined in {where[name]}, too")
            where[name] = path
    return found


def self_test() -> None:
    """The checker itself must see a broken floor."""
    spdx = "// SPDX-License-Identifier: Apache-2.0\n"
    bad = {
        "impl/x.cpp": spdx + '#include "core/case/case.h"\n',
        "reference/x.cpp": spdx + '#include "impl/abi/declare.h"\n',
        "core/x.cpp": spdx + "#include <rapidcheck.h>\n",
        "core/y.cpp": spdx + "\n" * MAX_LINES,
        "impl/faulty/y.cpp": spdx + "\n" * MAX_TABLE_LINES,
        "impl/faulty/y.h": spdx + "\n" * MAX_LINES,
        "impl/faulty/z/y.cpp": spdx + "\n" * MAX_LINES,
        "core/z.cpp": "int x;\n",
        "attic/x.cpp": spdx,
        "examples/x.cpp": spdx + '#include "impl/abi/declare.h"\n',
    }
    for path, text in bad.items():
        assert problems_of(path, text), f"{path} should have been refused"
    good = spdx + '#include "qkvet/kernel.h"\n#include <vector>\n'
    assert not problems_of("impl/x.cpp", good)
    assert not problems_of("impl/faulty/x.cpp", good + "\n" * MAX_LINES)
    one = "namespace qkvet {\nstruct A {\n};\nstruct B;\n}\n"
    assert doubled_types({"a.h": one, "b.h": one})
    assert not doubled_types({"a.h": one, "b.h": one.replace("A", "C")})
    assert not doubled_types({"a.h": one,
                              "b.h": one.replace("qkvet", "qkvet::impl")})


def main() -> int:
    self_test()
    listed = subprocess.run(
        ["git", "ls-files", "*.h", "*.cpp", "*.c"], cwd=ROOT, check=True,
        capture_output=True, text=True).stdout.split()
    problems = []
    texts = {path: (ROOT / path).read_text() for path in listed}
    for path, text in texts.items():
        problems += problems_of(path, text)
    problems += doubled_types(
        {path: text for path, text in texts.items()
         if path.endswith(".h") and not path.startswith(SHADOWS)})
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
