#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judges a released library by what is declared of it.

    python3 run.py LIBRARY[:ENTRY] [--json FILE] [WORD...]

An entry with a section [emit] answers a plan: WORDs go to `qkvet judge --ask`, in the
place of those of the declaration: -n 400, --seed 2, --pin Tk=4096. One with a
section [check] is a callable: WORDs go to `qkvet check`. FILE gets JSON
Lines. $QKVET is the program (qkvet, if it is not set), $QKVET_PLAN the folder of
the plan and the files of the declaration, a new one if it is not set. The exit
code is that of `qkvet judge` or `qkvet check`.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import answer

# Words of [check] that are flags of the program; all others describe the callable.
CHECK_FLAGS = {"cases": "-n", "pin": "--pin", "sizes": "--sizes"}


def qkvet():
    return os.environ.get("QKVET", "qkvet")


def words_of(declared, words):
    """The pairs of a declaration that `words` do not replace, and `words`."""
    return [part for pair in declared if pair[0] not in words
            for part in pair] + words


def emit_words(fields, folder, words):
    declared = [("--options", fields["options"]), ("-n", fields["cases"])]
    declared += [("--dtype", dtype) for dtype in fields["dtype"].split()]
    declared += [(f"--{word}", fields[word]) for word in ("pin", "sizes")
                 if word in fields]
    declared += [(f"--{part}", str(folder / f"{part}.txt"))
                 for part in ("dialect", "precision")]
    return words_of(declared, words)


def write_sections(sections, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("dialect", "precision"):
        (folder / f"{part}.txt").write_text(sections.get(part, "") + "\n")


def emit(name, declared, folder, words):
    """Writes the plan into folder/plan. The exit code of `qkvet judge --ask`."""
    sections, fields = answer.declaration(declared)
    write_sections(sections, folder)
    return subprocess.call([qkvet(), "judge", "--ask", str(folder / "plan"), "--force",
                            "--kernel", name, *emit_words(fields, folder, words)])


def answer_and_judge(name, folder, words, out):
    _, shown, declared = answer.entry_of(name)
    plan = str(folder / "plan")
    return (emit(shown, declared, folder, words)
            or subprocess.call([sys.executable, str(answer.HERE / "answer.py"),
                                name, plan])
            or subprocess.call([qkvet(), "judge", plan, *out]))


def callable_words(name, declared):
    """What `qkvet check` is told of a callable, and the flags of its run."""
    sections, _ = answer.declaration(declared)
    fields = answer.pairs(sections["check"])
    # One worker: importing a library takes longer than most runs.
    flags = [(flag, fields.pop(word)) for word, flag in CHECK_FLAGS.items()
             if word in fields] + [("-j", "1")]
    # A dialect is part of what a callable declares; its precision is a text.
    fields.update(answer.pairs(sections.get("dialect", "")))
    precision = answer.pairs(sections.get("precision", ""))
    if precision:
        fields["precision"] = "\n".join(f"{k} = {v}"
                                        for k, v in precision.items())
    fields["name"] = name.replace(":", "/")
    return fields, flags


def environment():
    """That of workers which find the callables, and the package of a clone."""
    program = shutil.which(qkvet())
    home = pathlib.Path(program or qkvet()).resolve().parents[1]
    clone = answer.HERE.parents[1] / "python"
    paths = [str(answer.HERE)] + ([str(clone)] if clone.is_dir() else [])
    paths += [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep)
              if part]
    one = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    return {**one, **os.environ, "PYTHONPATH": os.pathsep.join(paths),
            "QKVET_HOME": os.environ.get("QKVET_HOME", str(home)),
            "QKVET_PYTHON": sys.executable, "PYTHONDONTWRITEBYTECODE": "1"}


def check(name, declared, words, out):
    """The exit code of `qkvet check` of a callable."""
    library, _, entry = name.partition(":")
    fields, flags = callable_words(name, declared)
    target = f"callables.{library}:{entry}:{json.dumps(fields)}"
    env = environment()
    code = subprocess.call(
        [qkvet(), "check", target, *words_of(flags, words), *out],
        env=env)
    if code == 2:  # where the library is not there, that is the reason
        tried = subprocess.run(
            [sys.executable, "-c", f"import callables.{library} as m; m.{entry}"],
            env=env, capture_output=True, text=True)
        if tried.returncode != 0:
            answer.wrong_use(f"{library}: not installed here: "
                             + tried.stderr.strip().splitlines()[-1])
    return code


def main(words):
    if not words:
        answer.wrong_use("usage: run.py LIBRARY[:ENTRY] [--json FILE] [WORD...]")
    name, words, out = words[0], list(words[1:]), []
    if "--json" in words:
        at = words.index("--json")
        out, words = words[at:at + 2], words[:at] + words[at + 2:]
    declared = answer.declared_name(name)
    if declared in answer.declarations("check"):
        return check(name, declared, words, out)
    folder = pathlib.Path(os.environ.get("QKVET_PLAN") or tempfile.mkdtemp())
    return answer_and_judge(name, folder, words, out)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
