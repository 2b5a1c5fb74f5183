#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The time of the tests: the slowest ones, and groups of them.

    ci/test_times.py [FOLDER]     after ci/test.sh; FOLDER is build by default
    ci/test_times.py --write      puts the tables into ci/times.md

Times are wall-clock seconds from ctest, which runs as many tests at once as there
are cores. Tests of one name with other parameters are a group.
"""
import argparse
import collections
import pathlib
import re
import sys

from compile_times import put_into_page, table

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- test times -->\n", "<!-- end of test times -->"
SLOWEST, GROUPS = 20, 10


def times(folder: pathlib.Path) -> list:
    """Seconds and name of each test, the slowest first."""
    log = folder / "Testing" / "Temporary" / "LastTest.log"
    if not log.exists():
        sys.exit(f"{log}: is not there; ci/test.sh makes it")
    found, name = [], ""
    for line in log.read_text(errors="replace").splitlines():
        begin = re.match(r"\d+/\d+ Testing: (.*)", line)
        end = re.match(r"Test time = +([\d.]+) sec", line)
        if begin:
            name = begin.group(1).split("  # ")[0].strip()
        elif end:
            found.append((float(end.group(1)), name))
    return sorted(found, reverse=True)


def group_of(name: str) -> str:
    """"asan.Pairs/Sabotage.Sees/x" as "asan.Sabotage.Sees"."""
    build = re.match(r"(asan\.|tsan\.)?", name).group()
    parts = name[len(build):].split("/")
    with_dot = [part for part in parts if "." in part]
    return build + (with_dot[0] if with_dot else parts[0])


def text_of(found: list) -> str:
    sums, counts = collections.Counter(), collections.Counter()
    for seconds, name in found:
        sums[group_of(name)] += seconds
        counts[group_of(name)] += 1
    return table(("slowest tests", "s"),
                 [(f"`{name}`", f"{seconds:.1f}")
                  for seconds, name in found[:SLOWEST]]) + \
        table(("groups", "tests", "s"),
              [(f"`{group}`", str(counts[group]), f"{seconds:.0f}")
               for group, seconds in sums.most_common(GROUPS)]
              + [("**all**", str(len(found)),
                  f"**{sum(sums.values()):.0f}**")])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=pathlib.Path,
                        default=ROOT / "build")
    parser.add_argument("--write", action="store_true",
                        help="put the tables into ci/times.md")
    options = parser.parse_args()
    text = text_of(times(options.folder))
    print(text, end="")
    if options.write:
        put_into_page(text, BEGIN, END)
    return 0


if __name__ == "__main__":
    sys.exit(main())
