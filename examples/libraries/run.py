#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judges a released library: emits a plan for what is declared of it, answers
it, judges it.

    python3 run.py LIBRARY[:ENTRY] [WORD...]

WORDs go to `qkvet emit`, in the place of those of the declaration: -n 400,
--seed 2, --pin Tk=4096. $QKVET is the program (qkvet, if it is not set), $QKVET_PLAN the
folder of the plan and the two files of the declaration, a new one if it is not
set. The exit code is that of `qkvet judge`.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import answer


def qkvet():
    return os.environ.get("QKVET", "qkvet")


def emit_words(fields, folder, words):
    """Those of the declaration that `words` do not replace, and `words`."""
    declared = [("--options", fields["options"]), ("-n", fields["cases"])]
    declared += [("--dtype", dtype) for dtype in fields["dtype"].split()]
    declared += [(f"--{word}", fields[word]) for word in ("pin", "sizes")
                 if word in fields]
    declared += [(f"--{part}", str(folder / f"{part}.txt"))
                 for part in ("dialect", "precision")]
    return [part for pair in declared if pair[0] not in words
            for part in pair] + words


def emit(name, declared, folder, words):
    """Writes the plan into folder/plan. The exit code of `qkvet emit`."""
    sections, fields = answer.declaration(declared)
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("dialect", "precision"):
        (folder / f"{part}.txt").write_text(sections[part] + "\n")
    return subprocess.call([qkvet(), "emit", str(folder / "plan"), "--force",
                            "--name", name, *emit_words(fields, folder, words)])


def main(words):
    if not words:
        answer.wrong_use("usage: run.py LIBRARY[:ENTRY] [WORD...]")
    _, name, declared = answer.entry_of(words[0])
    folder = pathlib.Path(os.environ.get("QKVET_PLAN") or tempfile.mkdtemp())
    plan = str(folder / "plan")
    return (emit(name, declared, folder, words[1:])
            or subprocess.call([sys.executable, str(answer.HERE / "answer.py"),
                                words[0], plan])
            or subprocess.call([qkvet(), "judge", plan]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
