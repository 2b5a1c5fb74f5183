#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the code against its floors.

A file includes only lower floors; siblings on a floor do not see each other;
impl/ sees only include/; third-party libraries are included by a few files each.
Within a floor, no two folders include one another, directly or around; tests may
include any folder. A floor has a namespace of its own, so that two types of one
name cannot meet in the linker, which would take the functions of either. Every
source has an SPDX line.
"""
import collections
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
    "report": {"include", "core", "reference", "properties", "diagnosis"},
    "cli": {"include", "core", "reference", "properties", "diagnosis",
            "fuzz", "golden", "report"},
    "examples": {"include"},
    "studies": {"include", "core", "reference", "properties"},
}

# The namespace of a floor is qkvet::<floor>; all floors see the names of core. The
# visibility in core/base/floors.h is compared with MAY_INCLUDE.
NAMESPACES = {"core": "qkvet", "impl": "qkvet::impl"}
FLOORS = "core/base/floors.h"
# The emulator of a GPU, which could be separate, and its benchmark; names that
# include/qkvet/linked.h declares and the program defines.
OTHER_NAMESPACES = {"impl": {"simt", "qkvet::bench"},
                    "cli": {"qkvet::linked_detail"}}

# Third-party headers that only some files may name.
RESERVED = {
    "rapidcheck": {"properties/cases/case_generator.h",
                   "properties/run/shrink.cpp"},
    "CLI/": {"cli/describe/command_line.h", "cli/describe/pages.h"},
    "sha2.h": {"core/base/sha256.cpp"},
    "minizip/": {"core/files/npz.cpp"},
    "protozero/": {"core/files/onnx_reading.h"},
    "Eigen/": {"impl/eigen/attend.cpp", "impl/eigen/eigen_exp_test.cpp",
               "impl/eigen/gradient.cpp", "impl/eigen/layer_matrices.h"},
}

# Headers that replace others, in a program of their own.
SHADOWS = "impl/faulty/rebuilt/"
# Classes in them have linkage, so that no row needs a namespace.
FAULTS = "impl/faulty/"
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{", re.M)
SEES = re.compile(r"^namespace (\w+) \{(.*?)\}", re.M | re.S)
# A forward declaration of another floor's names without its header.
DECLARED = re.compile(r"^namespace [\w:]+ \{\n(?:(?:struct|class) \w+;\n)+\}",
                      re.M)
TYPE = re.compile(r"^(?:struct|class|enum class|union) (\w+)(?: : [^;\n]*)? \{", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)


def folder_of_include(name: str) -> str:
    top = name.split("/")[0]
    return "include" if top == "qkvet" else top


def parent_of(path: str) -> str:
    return path.rsplit("/", 1)[0]


def namespace_of(floor: str) -> str:
    return NAMESPACES.get(floor, f"qkvet::{floor}")


def namespace_problems(path: str, text: str) -> list:
    floor = path.split("/")[0]
    if floor in ("include", "examples") or "/testdata/" in path \
            or "/templates/" in path or path == FLOORS:
        return []
    own = namespace_of(floor)
    others = OTHER_NAMESPACES.get(floor, set())
    return [f"{path}: namespace {name} is not within {own}"
            for name in NAMESPACE.findall(DECLARED.sub("", text))
            if name.startswith("qkvet") and name not in others
            and not (name + "::").startswith(own + "::")]


def problems_of(path: str, text: str) -> list:
    found = []
    folder = path.split("/")[0]
    allowed = MAY_INCLUDE.get(folder)
    if allowed is None:
        return [f"{path}: {folder}/ has no floor (ci/floors.py)"]
    for name in INCLUDE.findall(text):
        target = folder_of_include(name)
        if target in MAY_INCLUDE and target != folder and target not in allowed:
            found.append(f"{path}: {folder}/ must not include {name}")
        for prefix, files in RESERVED.items():
            if name.startswith(prefix) and path not in files:
                found.append(f"{path}: {name} is reserved to {sorted(files)}")
    if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(
            text.split("\n")[:3]):
        found.append(f"{path}: no SPDX line at the top")
    return found + namespace_problems(path, text)


def arrows(texts: dict) -> dict:
    """Folder -> folder of its floor -> a file and what it includes there."""
    found = collections.defaultdict(dict)
    for path, text in sorted(texts.items()):
        if path.endswith("_test.cpp") or path.startswith(SHADOWS):
            continue
        for name in INCLUDE.findall(text):
            if name in texts and name.split("/")[0] == path.split("/")[0] \
                    and parent_of(name) != parent_of(path):
                found[parent_of(path)].setdefault(
                    parent_of(name), f"{path} includes {name}")
    return found


def circles(texts: dict) -> list:
    """A line for each arrow that leads back to where it begins."""
    graph = arrows(texts)

    def reaches(start: str, end: str) -> bool:
        seen, todo = set(), [start]
        while todo:
            folder = todo.pop()
            if folder == end:
                return True
            if folder not in seen:
                seen.add(folder)
                todo += graph.get(folder, {})
        return False

    return [f"{why}, and {target}/ needs {folder}/, directly or around"
            for folder, targets in sorted(graph.items())
            for target, why in targets.items() if reaches(target, folder)]


def sights(text: str) -> list:
    """The differences between core/base/floors.h and MAY_INCLUDE."""
    sees = {floor: set(re.findall(r"using namespace (\w+);", body))
            for floor, body in SEES.findall(text)}
    found = []
    for floor, below in MAY_INCLUDE.items():
        if floor in ("include", "core", "impl", "examples", "studies"):
            continue
        wanted = below - {"include", "core"}
        if sees.get(floor, set()) != wanted:
            found.append(f"{FLOORS}: {floor} sees {sorted(sees.get(floor, []))}"
                         f", MAY_INCLUDE says {sorted(wanted)}")
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
        "reference/x.cpp": spdx + '#include "impl/call/declare.h"\n',
        "core/x.cpp": spdx + "#include <rapidcheck.h>\n",
        "core/z.cpp": "int x;\n",
        "attic/x.cpp": spdx,
        "examples/x.cpp": spdx + '#include "impl/call/declare.h"\n',
        "cli/x.cpp": spdx + "namespace qkvet {\n",
        "golden/x.cpp": spdx + "namespace qkvet::goldenrod {\n",
    }
    for path, text in bad.items():
        assert problems_of(path, text), f"{path} should have been refused"
    good = spdx + '#include "qkvet/kernel.h"\n#include <vector>\n'
    assert not problems_of("impl/x.cpp", good)
    assert not problems_of("cli/x.cpp", good + "namespace qkvet::cli::a {\n")
    assert not problems_of("cli/x.cpp", good + "namespace qkvet::properties {\n"
                           "struct Law;\n}\n")
    one = "namespace qkvet {\nstruct A {\n};\nstruct B;\n}\n"
    assert doubled_types({"a.h": one, "b.h": one})
    assert not doubled_types({"a.h": one, "b.h": one.replace("A", "C")})
    assert not doubled_types({"a.h": one,
                              "b.h": one.replace("qkvet", "qkvet::impl")})
    round_trip = {"core/a/x.h": '#include "core/b/y.h"\n',
                  "core/b/y.h": '#include "core/c/z.h"\n',
                  "core/c/z.h": '#include "core/a/w.h"\n', "core/a/w.h": ""}
    assert len(circles(round_trip)) == 3
    assert not circles({**round_trip, "core/c/z.h": ""})
    assert not circles({**round_trip, "core/c/z.h": "",
                        "core/c/z_test.cpp": '#include "core/a/w.h"\n'})
    assert sights("")


def main() -> int:
    self_test()
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.split()
    texts = {path: (ROOT / path).read_text() for path in listed
             if path.endswith((".h", ".cpp", ".c"))}
    problems = circles(texts) + sights(texts[FLOORS])
    for path, text in texts.items():
        problems += problems_of(path, text)
    problems += doubled_types(
        {path: text for path, text in texts.items()
         if (path.endswith(".h") or path.startswith(FAULTS))
         and not path.startswith(SHADOWS)})
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
