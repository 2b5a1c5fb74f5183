#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Executions per second of every fuzz target, beside a bare libFuzzer loop.

    ci/fuzz_speed.py build/release [build/asan-ubsan] [--time 5]

Each target hunts on one kernel (differential on two) for so many seconds, with
kernels in a worker and in the process, in every build that is named, one after
the other in rounds of three; the median counts. The bare loop is fuzz_bare: a
fixed shape, nothing judged. Prints a Markdown table.
"""
import argparse
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

KERNELS = {
    "shapes": ["scalar/plain"],
    "stability": ["scalar/plain"],
    "stories": ["kv_cache/paged"],
    "layer": ["scalar/layer"],
    "differential": ["scalar/plain", "eigen/plain"],
    "case_text": [], "story_text": [], "condition_text": [],
    "worker_reply": [], "npy": [], "safetensors": [],
    "npz": [], "onnx_tensor": [],
}
ROOT = pathlib.Path(__file__).resolve().parent.parent
ROUNDS = 3


def hunt(build, target, seconds, in_process):
    words = [f"{build}/bin/qkvet", "fuzz", target, "--budget", f"{seconds}s"]
    for kernel in KERNELS[target]:
        words += ["--kernel", kernel]
    for seeds in (ROOT / "fuzz/corpus" / f"{target}.txt",
                  ROOT / "fuzz/corpus" / target):
        if seeds.exists() and not KERNELS[target]:
            words += ["--seeds", str(seeds)]
    if in_process:
        words.append("--in-process")
    done = subprocess.run(words, capture_output=True, text=True)
    found = re.search(r"([\d.]+) s, (\d+) a second", done.stdout)
    if done.returncode != 0 or not found:
        sys.exit(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    return int(found.group(2))


def bare(build, seconds):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [f"{pathlib.Path(build).resolve()}/fuzz-bin/fuzz_bare",
             f"-max_total_time={seconds}", "-max_len=1728", "-seed=1"],
            capture_output=True, text=True, cwd=folder)
    return int(re.search(r"exec/s: (\d+) rss.*\nDone", done.stderr).group(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("builds", nargs="+")
    parser.add_argument("--time", type=int, default=5)
    args = parser.parse_args()
    columns = [(b, p) for b in args.builds for p in (False, True)]
    names = [f"{pathlib.Path(b).name}, {'in the process' if p else 'worker'}"
             for b, p in columns]
    loop = {b: [] for b in args.builds}
    speeds = {}
    for _ in range(ROUNDS):
        for build in args.builds:
            loop[build].append(bare(build, args.time))
        for target, kernels in KERNELS.items():
            for build, in_process in columns:
                if in_process and not kernels:
                    continue
                speeds.setdefault((target, build, in_process), []).append(
                    hunt(build, target, args.time, in_process))
    print("| target | " + " | ".join(names) + " |\n|---|" +
          "---:|" * len(names))
    for target in KERNELS:
        cells = [f"{statistics.median(speeds[target, b, p]):,.0f}"
                 if (target, b, p) in speeds else "" for b, p in columns]
        print(f"| `{target}` | " + " | ".join(cells) + " |")
    print("| bare loop | " + " | ".join(
        "" if not p else f"{statistics.median(loop[b]):,.0f}"
        for b, p in columns) + " |")


if __name__ == "__main__":
    main()
