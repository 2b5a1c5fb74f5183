#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers a plan of `qkvet judge --ask` with a released library.

    python3 answer.py LIBRARY[:ENTRY] PLAN

LIBRARY is a module of adapters/, ENTRY one of the functions in its ENTRIES, the
first of them if none is named. What the library can do stands in
declarations/LIBRARY/ENTRY.txt, or in that of the entry which DECLARED_AS names;
all else is refused.
"""
import importlib
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent


def wrong_use(line):
    print(line, file=sys.stderr)
    sys.exit(2)


def libraries():
    return sorted(path.stem for path in (HERE / "adapters").glob("[a-z]*.py"))


def declared_name(name):
    """"torch:math" -> "torch-math", which is declarations/torch/math.txt."""
    return name.replace(":", "-")


def declaration_path(declared):
    return HERE / "declarations" / (declared.replace("-", "/", 1) + ".txt")


def declarations(section):
    """The names of those that have this section, "emit" or "check"; None: of
    all."""
    return [f"{path.parent.name}-{path.stem}"
            for path in sorted((HERE / "declarations").glob("*/*.txt"))
            if section is None or f"[{section}]" in path.read_text().splitlines()]


def pairs(text):
    """The lines `word = value` of a text; what is behind # is a comment."""
    found = {}
    for line in text.splitlines():
        word, _, value = line.split("#")[0].partition("=")
        if value.strip():
            found[word.strip()] = value.strip()
    return found


def declaration(name):
    """Of a name as declared_name() gives it: the text of each [section], and the lines
    `word = value` of [emit] as a dictionary."""
    sections, text = {}, []
    for line in declaration_path(name).read_text().splitlines():
        if line.startswith("["):
            text = sections.setdefault(line.strip("[]"), [])
        else:
            text.append(line)
    sections = {name: "\n".join(lines) for name, lines in sections.items()}
    return sections, pairs(sections.get("emit", ""))


def entry_of(name):
    """"torch:math" -> its function, "torch/math" for reports, and the name of its
    declaration."""
    library, _, entry = name.partition(":")
    if library not in libraries():
        wrong_use(f"{library}: no adapter; allowed: " + ", ".join(libraries()))
    try:
        adapter = importlib.import_module(f"adapters.{library}")
    except ImportError as why:
        wrong_use(f"{library}: not installed here: {why}")
    entry = entry or next(iter(adapter.ENTRIES))
    if entry not in adapter.ENTRIES:
        wrong_use(f"{name}: no such entry; allowed: "
                  + ", ".join(adapter.ENTRIES))
    declared = getattr(adapter, "DECLARED_AS", {}).get(entry, entry)
    return adapter.ENTRIES[entry], f"{library}/{entry}", f"{library}-{declared}"


def main(words):
    if len(words) != 2:
        wrong_use("usage: answer.py LIBRARY[:ENTRY] PLAN")
    if not (pathlib.Path(words[1]) / "plan.json").exists():
        wrong_use(f"{words[1]}: no plan; `qkvet judge --ask` makes one")
    # One thread each: a plan has many small calls.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    attention, _, name = entry_of(words[0])
    from plan import answer_plan  # NumPy, behind the number of threads
    options = declaration(name)[1]["options"].split(",")
    refused = answer_plan(words[1], attention, options)
    for why, calls in refused.most_common():
        print(f"refused {calls} calls: {why}")


if __name__ == "__main__":
    main(sys.argv[1:])
