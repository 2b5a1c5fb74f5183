#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The effect of guidance by error: time to the first finding, with and without.

    ci/fuzz_guidance.py build/release/bin/qkvet [--seeds 7] [--cap 120] [--jobs 2]

The faults are those of scores.cpp, softmax.cpp, rounding.cpp, tiles.cpp and parts.cpp
of impl/faulty that a bug report names. They are hunted with data N(0,1) and single
values alone (--without recipes). A hunt begins with planned cases (its first 40
executions). Faults that these find for most of the seeds need no extreme numbers and
are left out. The others are hunted with each seed, guided and --without guide in turn,
until the first finding or the cap. Prints a Markdown table; losers are those that were
not found in time.
"""
import argparse
import concurrent.futures
import json
import re
import statistics
import subprocess
import sys

FILES = {f"impl/faulty/{theme}.cpp"
         for theme in ("scores", "softmax", "rounding", "tiles", "parts")}
SURVEY = 40
# Faults that no number can show to a law of this target.
NO_MATTER_OF_NUMBERS = {
    "parts_without_lse": "shows only where the caller asks for no lse",
}


def reported(qkvet):
    text = subprocess.run([qkvet, "explain", "faults", "--json"], check=True,
                          capture_output=True, text=True).stdout
    faults = [json.loads(line) for line in text.splitlines()]
    return [fault["name"].split("/")[-1] for fault in faults
            if fault["source"] in FILES and "#" in fault["seen_in"]]


def hunt(qkvet, fault, seed, guided, limit):
    """Seconds and executions to the first finding; None where there is none."""
    words = [qkvet, "fuzz", "stability", "--kernel", "faulty/" + fault,
             "--without", "recipes", "--fail-fast", "--diagnose", "0", "--seed",
             str(seed)] + limit
    if not guided:
        words += ["--without", "guide"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode not in (0, 1, 4):
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    found = re.search(r"in (\d+) executions?, ([\d.]+) s", done.stdout)
    first = re.search(r"execution (\d+), ([\d.]+) s", done.stdout)
    if done.returncode == 0 or not first:
        return None, int(found.group(1))
    # The whole hunt, its start included; it ends within 20 ms of the finding.
    return float(found.group(2)), int(first.group(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("qkvet")
    parser.add_argument("--seeds", type=int, default=7)
    parser.add_argument("--cap", type=int, default=120)
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    faults = []
    names = reported(args.qkvet)
    for name in names:
        found = [hunt(args.qkvet, name, seed, False, ["--cases", str(SURVEY)])[0]
                 is not None for seed in range(1, args.seeds + 1)]
        if 2 * sum(found) < len(found):
            faults.append(name)
    print(f"{len(names)} faults, of which {len(faults)} are not found "
          f"by what most hunts begin with", flush=True)
    for name in [f for f in faults if f in NO_MATTER_OF_NUMBERS]:
        print(f"left out: {name}, which {NO_MATTER_OF_NUMBERS[name]}")
        faults.remove(name)
    print("\n| fault | guided, s | median | unguided, s | median | ratio |\n"
          "|---|---|---:|---|---:|---:|")
    limit = ["--budget", f"{args.cap}s"]
    medians = []
    everything = {True: [], False: []}
    for name in faults:
        times = {True: [], False: []}
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            jobs = [(guided, pool.submit(hunt, args.qkvet, name, seed, guided,
                                         limit))
                    for seed in range(1, args.seeds + 1)
                    for guided in (True, False)]
            for guided, job in jobs:
                times[guided].append(job.result()[0])
        def text(guided):
            return " ".join("-" if t is None else f"{t:.2f}"
                            for t in times[guided])
        def median(values):
            return statistics.median(args.cap if t is None else t
                                     for t in values)
        a, b = median(times[True]), median(times[False])
        medians.append(b / a)
        for guided in times:
            everything[guided] += times[guided]
        print(f"| `{name}` | {text(True)} | {a:.2f} | {text(False)} | {b:.2f} "
              f"| {b / a:.1f} |", flush=True)
    lost = {g: sum(t is None for t in v) for g, v in everything.items()}
    a, b = (statistics.median(args.cap if t is None else t
                              for t in everything[g]) for g in (True, False))
    print(f"\nmedian of all hunts: {a:.2f} s guided, {b:.2f} s unguided, ratio "
          f"{b / a:.1f}; median ratio of a fault {statistics.median(medians):.1f}"
          f"; not found in {args.cap} s: {lost[True]} of "
          f"{len(everything[True])} guided, {lost[False]} of "
          f"{len(everything[False])} unguided hunts")


if __name__ == "__main__":
    main()
