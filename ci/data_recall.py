#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The share of the faults that each kind of data finds: the same calls with other numbers.

Usage: ci/data_recall.py QKVET OUT.jsonl [FAULTS]

QKVET is the program. Cases of agrees_with_oracle are those of `qkvet judge --ask`, for
the options that every kernel takes, and for each further option with them. Each fault
that names a law about attention runs these cases with the data of the plan and, with
everything else unchanged, with the data of each strategy. A line of OUT is a fault: the
number of cases that it takes, and for each strategy the number that failed. Faults that
OUT already has are skipped. The order mixes the faults; FAULTS is the number of faults
to run (all).
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import zlib

from first_reports import asked_before

LAW = "agrees_with_oracle"
COMMON = ["attention", "causal", "gqa", "lse", "value_width", "cross_lengths"]
# Together with the common ones; some options need a second one.
OPTIONS = [["window"], ["mask"], ["bias"], ["softcap"], ["sink"], ["alibi"],
           ["rope"], ["lengths"], ["packed"], ["window", "mask"],
           ["key_lists", "key_list_lengths", "key_list_blocks"]]
CASES_COMMON, CASES_OPTION = 60, 24
MOST_CASES = 60  # of a fault, those with an option first
# None: as it was drawn, of all data presets. Several: in turns.
STRATEGIES = {
    "all recipes": None,
    "N(0,1)": ["normal"],
    "one-hot": ["onehotv", "onehotk"],
    "exact": ["lattice", "count"],
    "extreme": ["ascending", "descending", "dominant", "large", "offset",
                "cancelling", "heavy"],
}
OF_DATA = ("q=", "k=", "v=", "data=")


def planned(program: str, words: list, cases: int) -> list:
    with tempfile.TemporaryDirectory() as folder:
        plan = pathlib.Path(folder) / "plan"
        subprocess.run([program, "judge", "--ask", plan, "--law", LAW, "--sizes", "medium",
                        "--cases", str(cases), "--format", "recipe",
                        "--options", ",".join(words)],
                       check=True, capture_output=True)
        asked = json.loads((plan / "plan.json").read_text())["cases"]
    return [one["case"] for one in asked]


def with_data(case: str, number: int, presets) -> str:
    if presets is None:
        return case
    tokens = [one for one in case.split(",") if not one.startswith(OF_DATA)]
    # Data comes before the seed; any order is read.
    return ",".join(tokens + ["data=" + presets[number % len(presets)]])


def verdicts(program: str, fault: str, cases: list) -> list:
    """A word for each case: passed, FAIL, CRASH, unsupported."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("".join(case + "\n" for case in cases))
        file.flush()
        run = subprocess.run([program, "replay", "@" + file.name, "--kernel",
                              fault, "--law", LAW, "--diagnose", "0"],
                             capture_output=True, text=True)
        begins = file.name + ":"
    words = []
    for line in run.stdout.splitlines():
        if line.startswith(("FAIL", "CRASH")):
            words.append(line.split()[0])
        elif line.startswith(begins):
            words.append(line.split()[1])
    if len(words) != len(cases):
        sys.exit(f"{fault}: {len(words)} verdicts of {len(cases)} cases\n"
                 f"{run.stderr}")
    return words


def names_of_faults(program: str) -> list:
    def listed(what: str) -> list:
        text = subprocess.run([program, "explain", what, "--json"], check=True,
                              capture_output=True, text=True).stdout
        return [json.loads(line) for line in text.splitlines()]
    laws = {one["id"] for one in listed("laws") if one["subject"] == "attention"}
    names = [one["name"] for one in listed("faults")
             if laws & set(one["killed_by"])]
    return sorted(names, key=lambda name: zlib.crc32(name.encode()))


def main() -> int:
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    program, out = sys.argv[1], pathlib.Path(sys.argv[2])
    known = asked_before(out)
    cases = [case for words in OPTIONS
             for case in planned(program, COMMON + words, CASES_OPTION)]
    cases += planned(program, COMMON, CASES_COMMON)
    names = names_of_faults(program)
    asked = names[:int(sys.argv[3])] if len(sys.argv) == 4 else names
    with open(out, "a") as lines:
        for fault in asked:
            if fault in known:
                continue
            drawn = verdicts(program, fault, cases)
            taken = [case for case, word in zip(cases, drawn)
                     if word not in ("unsupported", "gave")][:MOST_CASES]
            row = {"kernel": fault, "cases": len(taken), "faults": len(names),
                   "failed": {}}
            for strategy, presets in STRATEGIES.items():
                words = verdicts(program, fault,
                                 [with_data(case, n, presets)
                                  for n, case in enumerate(taken)])
                row["failed"][strategy] = sum(word in ("FAIL", "CRASH")
                                              for word in words)
            print(json.dumps(row), file=lines, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
