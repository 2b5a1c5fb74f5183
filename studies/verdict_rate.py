# SPDX-License-Identifier: Apache-2.0
"""Candidates that the judge of a task takes in a minute: wrong ones, right ones, and
both (python/verdict.md has the figures).

    QKVET_HOME=build/release PYTHONPATH=python python3 studies/verdict_rate.py

CPU seconds are those of a candidate: an idle machine judges 60 * jobs / CPU of them in
a minute.
"""
import argparse
import concurrent.futures
import itertools
import pathlib
import re
import resource
import statistics
import threading
import time

import qkvet.verdict

EXPLOITS = pathlib.Path(__file__).resolve().parents[1] / "examples" / "exploits"


def files(status):
    """Those that end without waiting for a limit."""
    return [path for path in sorted(EXPLOITS.glob("*.py"))
            if re.search(f"^# status: {status}$", path.read_text(encoding="utf-8"), re.M)
            and not path.stem.startswith("writes_later")]


def cpu():
    return sum(sum(resource.getrusage(who)[:2])
               for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def measure(task, paths, right, seconds, jobs):
    """Seconds of each verdict, seconds in all, CPU seconds, and unexpected ones."""
    judge, took, false = qkvet.verdict.Verdict(task), [], []
    began, before = time.monotonic(), cpu()
    turns, lock = itertools.cycle(paths), threading.Lock()

    def run():
        while time.monotonic() - began < seconds:
            with lock:
                path = next(turns)
            start = time.monotonic()
            status = judge.judge(path)["status"]
            took.append(time.monotonic() - start)
            if (status == "conforms") != (path in right):
                false.append((path.stem, status))

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for one in [pool.submit(run) for _ in range(jobs)]:
            one.result()
    in_all = time.monotonic() - began
    judge.warm.close()  # children of a new one count from now on
    return took, in_all, cpu() - before, false


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", nargs="?", default="prefill_causal_f16")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--jobs", type=int, default=2)
    words = parser.parse_args()
    wrong, right = files("wrong"), files("conforms")
    print("| candidates | a minute | median s | CPU s | false |\n|---|---|---|---|---|")
    for name, paths in (("wrong", wrong), ("right", right), ("both", [
            path for pair in zip(wrong, itertools.cycle(right)) for path in pair])):
        took, in_all, used, false = measure(words.task, paths, right, words.seconds, words.jobs)
        print(f"| {name} | {60 * len(took) / in_all:.0f} | {statistics.median(took):.1f} "
              f"| {used / len(took):.2f} | {len(false)} |", flush=True)
        for one in false:
            print(one)


if __name__ == "__main__":
    main()
