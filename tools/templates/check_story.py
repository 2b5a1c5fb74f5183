# SPDX-License-Identifier: Apache-2.0
#!/usr/bin/env python3
"""Holds what a cache gave against what is expected. Needs numpy.

    python3 check.py

Exit: 1 if something is wrong, else 0. calls.json says what to do, call by call;
call1, call2, ... hold the tensors. To judge another cache, write what it gives
over callN/actual_o.npy (actual_lse.npy, ...), and into answers.json with what
reason it refuses and how many tokens its sequences then hold.
"""
import json
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
LETTERS = {"o": "bhic"}
BEFORE_ROUNDING = False  # bounds count how numbers are stored
OUTPUTS = ("o", "lse", "k", "v")


# NUMBERS


# REFUSALS


def judge_numbers(call, folder):
    failed = False
    for name in OUTPUTS:
        if (folder / f"actual_{name}.npy").exists():
            failed |= judge(call["place"] + ": ", folder, name)
    return failed


def judge_lengths(call, answer):
    for s, (wanted, found) in enumerate(zip(call["lengths"], answer["lengths"])):
        if wanted != found:
            print(f"{call['place']}: length of sequence {chr(97 + s)} expected "
                  f"{wanted} actual {found}")
            return True
    return False


def main():
    """Of each kind the first that is wrong in a story is shown: the rest of it
    follows from that."""
    np.seterr(all="ignore")
    calls = json.loads((HERE / "calls.json").read_text())["calls"]
    answers = json.loads((HERE / "answers.json").read_text())
    failed, wrong = False, {}
    for n, (call, answer) in enumerate(zip(calls, answers)):
        if call["command"] == "create":
            wrong = dict.fromkeys(("end", "length", "step", "read_back"), False)
        if not wrong["end"]:
            wrong["end"] = judge_end(call["place"] + ": ", call, answer)
        kind = "read_back" if call["command"] == "read_back" else "step"
        if not wrong["end"] and not wrong[kind] and answer["refused"] is None:
            wrong[kind] = judge_numbers(call, HERE / f"call{n}")
        if not wrong["end"] and not wrong["length"]:
            wrong["length"] = judge_lengths(call, answer)
        failed |= any(wrong.values())
    print("FAILED" if failed else "passed")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
