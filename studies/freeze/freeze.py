#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a change of the house may not change: what every kernel is asked, takes and
answers, and which laws kill each fault.

Usage: studies/freeze/freeze.py QKVET FOLDER PART...

A part writes FOLDER/PART.txt, a line a kernel and law. Run it before a change and
after it, with two folders, and compare them: `diff -r before after` prints nothing.

    kernels   of each kernel here: cases checked, refused and without information,
              the largest error over its bound to all digits, and the histogram of
              it (2 min)
    controls  the same of the controls, which are correct (12 min)
    faults    of each deliberate fault: the laws that fail (20 min)

Answers are doubles of the same operations, so that the largest error over bound is
the same to the last digit where outputs are the same bits.
"""
import json
import pathlib
import subprocess
import sys

PARTS = {
    "kernels": (["avx2/*", "eigen/*", "kv_cache/*", "scalar/*", "serving/*"], 4000),
    "controls": (["controls/*"], 600),
    "faults": (["faulty/*"], 600),
}
FIELDS = ("verdict", "planned", "checked", "unsupported", "not_applicable",
          "compared", "vacuous", "worst_error_over_bound",
          "error_over_bound_powers", "reason")


def results(program, kernels, cases):
    """Cells of a run, as its record has them."""
    words = [word for kernel in kernels for word in ("--kernel", kernel)]
    record = pathlib.Path(program).resolve().parents[1] / "freeze.jsonl"
    subprocess.run([program, "check", *words, "--cases", str(cases), "--seed", "1",
                    "--diagnose", "0", "--json", str(record)],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(record, encoding="utf-8") as lines:
        return [cell for cell in map(json.loads, lines) if cell["type"] == "result"]


def lines_of(part, program):
    kernels, cases = PARTS[part]
    for cell in results(program, kernels, cases):
        name = f"{cell['kernel']} {cell['law']}"
        if part != "faults":
            yield name + " " + json.dumps({f: cell.get(f) for f in FIELDS})
        elif cell["verdict"] == "failed":
            yield name


def main():
    if len(sys.argv) < 4 or not set(sys.argv[3:]) <= set(PARTS):
        sys.exit(f"usage: freeze.py QKVET FOLDER PART...; parts: {' '.join(PARTS)}")
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for part in sys.argv[3:]:
        lines = sorted(lines_of(part, sys.argv[1]))
        (folder / f"{part}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{part}: {len(lines)} lines")


if __name__ == "__main__":
    main()
