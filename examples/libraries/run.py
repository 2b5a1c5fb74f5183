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


def emit_words(emit, folder, words):
    """Those of the declaration that `words` do not replace, and `words`."""
    declared = [("--options", emit["options"]), ("-n", emit["cases"])]
    declared += [("--dtype", dtype) for dtype in emit["dtype"].split()]
    declared += [(f"--{word}", emit[word]) for word in ("pin", "sizes")
                 if word in emit]
    declared += [(f"--{part}", str(folder / f"{part}.txt"))
                 for part in ("dialect", "precision")]
    return [part for pair in declared if pair[0] not in words
            for part in pair] + words


def main(words):
    if not words:
        raise SystemExit(__doc__.strip())
    name = answer.entry_of(words[0])[1]
    sections, emit = answer.declaration(name)
    folder = pathlib.Path(os.environ.get("QKVET_PLAN") or tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("dialect", "precision"):
        (folder / f"{part}.txt").write_text(sections[part] + "\n")
    qkvet, plan = os.environ.get("QKVET", "qkvet"), str(folder / "plan")
    script = str(answer.HERE / "answer.py")
    for step in ([qkvet, "emit", plan, "--force", "--name",
                  name.replace("-", "/"), *emit_words(emit, folder, words[1:])],
                 [sys.executable, script, words[0], plan],
                 [qkvet, "judge", plan]):
        code = subprocess.run(step).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
