# SPDX-License-Identifier: Apache-2.0
#!/usr/bin/env python3
"""Holds actual_*.npy against what is expected of a layer. Needs numpy.

    python3 check.py

Exit: 1 if something is wrong, else 0. To judge another layer, write what it
gives over actual_y.npy (actual_q.npy, ..., actual_attended.npy: leave out what
it does not give), and into answers.json with what reason it refuses.
"""
import json
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
LETTERS = {"o": "bhtc", "y": "btc"}
BEFORE_ROUNDING = False  # bounds count how numbers are stored


# NUMBERS


# REFUSALS


def is_recorded(folder, names):
    """Whether the kernel has made these stages bit for bit as recorded."""
    return all((folder / f"actual_{name}.npy").exists() and np.array_equal(
        load(folder, f"actual_{name}"), load(folder, f"recorded_{name}"),
        equal_nan=True) for name in names)


def judge_stages(place, folder):
    """The first stage that is wrong says where to look: q, k and v are one, and
    later ones are not judged."""
    before = {"attended": ("q", "k", "v"), "y": ("attended",)}
    for names in (("q", "k", "v"), ("attended",), ("y",)):
        failed = False
        for name in names:
            if not (folder / f"actual_{name}.npy").exists():
                continue
            staged = (folder / f"staged_expected_{name}.npy").exists()
            staged = staged and is_recorded(folder, before[name])
            failed |= judge(place, folder, name, "staged_" if staged else "")
        if failed:
            return True
    return False


def main():
    np.seterr(all="ignore")
    calls = json.loads((HERE / "calls.json").read_text())["calls"]
    answers = json.loads((HERE / "answers.json").read_text())
    failed = False
    for n, (call, answer) in enumerate(zip(calls, answers)):
        folder = HERE / f"call{n}" if len(calls) > 1 else HERE
        place = call["place"] or ("" if folder == HERE else folder.name)
        place += ": " if place else ""
        if judge_end(place, call, answer):
            failed = True
        elif call["refusal"] is None:
            failed |= judge_stages(place, folder)
    print("FAILED" if failed else "passed")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
