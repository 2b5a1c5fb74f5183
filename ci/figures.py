#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the figures of ci/long.sh into README.md, between its markers.

Usage: ci/figures.py FOLDER, where FOLDER holds correct.jsonl, faults.jsonl
and small.jsonl as `qkvet check --json` writes them; ci/figures.py alone puts
in the summary of properties/others.md and nothing else.
"""
import json
import pathlib
import re
import sys

FAMILIES = ("scalar", "eigen", "avx2", "kv_cache", "controls")

README = pathlib.Path(__file__).resolve().parent.parent / "README.md"
MARKED = re.compile(r"(<!-- figures -->\n).*?(<!-- end of figures -->)", re.S)
OTHERS = README.parent / "properties" / "others.md"
SUMMARY = re.compile(r"(<!-- summary -->\n).*?(<!-- end of summary -->)", re.S)
TABLE = re.compile(r"(<!-- table -->\n).*?(<!-- end of table -->)", re.S)


def read(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    results = [line for line in lines if line["type"] == "result"]
    return results, lines[-1]


def cell(results):
    """Checked cases of one law over the kernels of one family."""
    judged = [r for r in results if r["verdict"] != "unsupported"]
    if not judged:
        return "-"
    if any(r["verdict"] != "passed" for r in judged):
        return "FAILED"
    return f"{sum(r['checked'] for r in judged):,}"


def law_table(correct, faults):
    """Laws by families, and the faults that each law kills."""
    rows = ["| law | " + " | ".join(FAMILIES) + " | faults killed |",
            "|---|" + "---:|" * (len(FAMILIES) + 1)]
    laws = list(dict.fromkeys(r["law"] for r in correct))
    for law in laws:
        mine = [r for r in correct if r["law"] == law]
        cells = [cell([r for r in mine if r["kernel"].startswith(f + "/")])
                 for f in FAMILIES]
        kills = sum(r["law"] == law and r["verdict"] == "FAILED"
                    for r in faults)
        rows.append(f"| `{law}` | " + " | ".join(cells) + f" | {kills} |")
    return "\n".join(rows) + "\n"


def put_summary() -> None:
    """What README.md repeats of properties/others.md."""
    summary = SUMMARY.search(OTHERS.read_text())[0]
    README.write_text(SUMMARY.sub(lambda m: summary, README.read_text()))


def main() -> int:
    put_summary()
    if len(sys.argv) < 2:
        return 0
    folder = pathlib.Path(sys.argv[1])
    correct, correct_end = read(folder / "correct.jsonl")
    faults, _ = read(folder / "faults.jsonl")
    small, small_end = read(folder / "small.jsonl")

    checked = sum(r["checked"] for r in correct)
    alarms = sum(r["verdict"] not in ("passed", "unsupported") for r in correct)
    kernels = len({r["kernel"] for r in correct})
    worst = max(r["worst_error_over_bound"] for r in correct)
    names = {r["kernel"] for r in faults}
    killed = {r["kernel"] for r in faults if r["verdict"] == "FAILED"}
    rate = (sum(r["checked"] for r in small) /
            sum(small_end["thread_seconds"].values()))

    spent = small_end["thread_seconds"]
    share = ", ".join(f"{name} {100 * seconds / sum(spent.values()):.0f} %"
                      for name, seconds in spent.items())

    text = (
        f"Trust: {alarms} false alarms in {checked:,} checked cases over "
        f"{kernels} correct kernels\n"
        f"(largest error/bound {worst:.2f}); {len(killed)} of {len(names)} "
        f"faults killed. {rate:,.0f} checked cases per second and\n"
        f"core at small shapes (T, d <= 24), "
        f"{len({r['kernel'] for r in small})} kernels, everything "
        f"included:\n{share}. Written by `ci/long.sh`.\n")
    readme = README.read_text()
    if not MARKED.search(readme) or not TABLE.search(readme):
        print("README.md: the markers of the figures are missing",
              file=sys.stderr)
        return 2
    readme = MARKED.sub(lambda m: m[1] + text + m[2], readme)
    table = law_table(correct, faults)
    README.write_text(TABLE.sub(lambda m: m[1] + table + m[2], readme))
    print(text, end="")
    return 0 if alarms == 0 and killed == names else 1


if __name__ == "__main__":
    sys.exit(main())
