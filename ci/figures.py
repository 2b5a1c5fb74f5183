#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the figures of ci/long.sh into README.md and properties/judged.md.

Usage: ci/figures.py FOLDER, where FOLDER holds correct.jsonl, faults.jsonl
and small.jsonl as `qkvet check --json` writes them, and sabotage.jsonl as
`sabotage` does; again.jsonl, if it is there, is a second run of faults that
lived in the first, and counts in its place. ci/figures.py --living FOLDER
prints those faults; ci/figures.py --kills FOLDER needs faults.jsonl and
sabotage.jsonl and writes properties/kills.md alone; ci/figures.py without a
folder puts in the summary of properties/others.md and nothing else.
"""
import json
import pathlib
import re
import sys
import textwrap

FAMILIES = ("scalar", "eigen", "avx2", "simt", "kv_cache", "serving",
            "controls")

README = pathlib.Path(__file__).resolve().parent.parent / "README.md"
MARKED = re.compile(r"(<!-- figures -->\n).*?(<!-- end of figures -->)", re.S)
OTHERS = README.parent / "properties" / "others.md"
JUDGED = README.parent / "properties" / "judged.md"
SUMMARY = re.compile(r"(<!-- summary -->\n).*?(<!-- end of summary -->)", re.S)
TABLE = re.compile(r"(<!-- table -->\n).*?(<!-- end of table -->)", re.S)

KILLS = README.parent / "properties" / "kills.md"
AGREEMENT = re.compile(r"(\w+_)?agrees_with_(oracle|history)")
KILLS_PAGE = """\
# What the laws kill

Written by `ci/figures.py`, from the runs of `ci/long.sh`.

## Agreement on and off

{with_and_without}

## An oracle that shares the fault

A fault is paired with the seeded fault of a reference (`reference/seeded/seeded.h`)
that has the same mechanism, and this reference stands in for the oracle,
without a twin, in cases in which the two do the same (`tools/hunt/sabotage.cpp`).
Agreement kills {agreed} of {pairs} pairs then, and the other laws {blind}.

| fault | oracle | killed by |
|---|---|---|
{pair_rows}

{promises}

## Law by law

{table}"""


def read(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    results = [line for line in lines if line["type"] == "result"]
    return results, lines[-1]


# Verdicts of a dead fault: its answer was wrong, or it took the worker with it.
DEAD = ("FAILED", "crash")


def read_faults(folder):
    """Results of all faults; of those that were run again, the second ones."""
    results, _ = read(folder / "faults.jsonl")
    again = folder / "again.jsonl"
    if again.exists():
        second, _ = read(again)
        names = {r["kernel"] for r in second}
        results = [r for r in results if r["kernel"] not in names] + second
    return results


def cases_of_faults(folder):
    """'12,000 a fault, one of them alone with 60,000'"""
    results, end = read(folder / "faults.jsonl")
    text = f"{end['planned_cases']:,} a fault"
    again = folder / "again.jsonl"
    if again.exists():
        second, end = read(again)
        count = len({r["kernel"] for r in second})
        text += f", {count} of them again with {end['planned_cases']:,}"
    return text


def living(results):
    names = {r["kernel"] for r in results}
    return sorted(names - {r["kernel"] for r in results
                           if r["verdict"] in DEAD})


def family_of(kernel):
    """A family that is built twice, with and without AVX2, is one."""
    family = kernel.split("/")[0]
    return family if family in FAMILIES else family.removesuffix("_avx2")


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
        cells = [cell([r for r in mine if family_of(r["kernel"]) == f])
                 for f in FAMILIES]
        kills = sum(r["law"] == law and r["verdict"] in DEAD for r in faults)
        rows.append(f"| `{law}` | " + " | ".join(cells) + f" | {kills} |")
    return "\n".join(rows) + "\n"


def listed(names):
    return ", ".join(f"`{name}`" for name in names) or "none"


def paragraph(text):
    return textwrap.fill(text, 80, break_long_words=False,
                         break_on_hyphens=False)


def kill_table(faults, lines):
    """Laws by faults killed, and by pairs killed with either oracle."""
    pairs = len({(line["fault"], line["seeded"]) for line in lines})
    rows = [f"| law | faults killed | of {pairs} pairs, right oracle "
            "| of them, oracle with the same fault |", "|---|---:|---:|---:|"]
    for law in dict.fromkeys(r["law"] for r in faults):
        kills = sum(r["law"] == law and r["verdict"] in DEAD for r in faults)
        mine = [line for line in lines if line["law"] == law]
        right = [line for line in mine if line["oracle"] == "plain"]
        wrong = [line for line in mine if line["oracle"] != "plain"]
        cells = [str(sum(line["killed"] for line in half)) if half else "-"
                 for half in (right, wrong)]
        rows.append(f"| `{law}` | {kills} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def broken_promises(lines):
    """Laws that claim to need no oracle, kill a pair with the right one and
    none with an oracle that shares the fault."""
    def laws(is_right):
        return {line["law"] for line in lines
                if line["needs_no_oracle"] and line["killed"]
                and (line["oracle"] == "plain") == is_right}
    return sorted(laws(True) - laws(False))


def put_kills(folder) -> None:
    """properties/kills.md, whole."""
    faults = read_faults(folder)
    lines = [json.loads(line) for line in
             (folder / "sabotage.jsonl").read_text().splitlines()]
    names = sorted({r["kernel"] for r in faults})
    failed = [r for r in faults if r["verdict"] in DEAD]
    killed = {r["kernel"] for r in failed}
    without = {r["kernel"] for r in failed if not AGREEMENT.fullmatch(r["law"])}
    pairs = list(dict.fromkeys((line["fault"], line["seeded"])
                               for line in lines))
    dead = [line for line in lines
            if line["killed"] and line["oracle"] != "plain"]
    blind = {(line["fault"], line["seeded"]) for line in dead
             if not AGREEMENT.fullmatch(line["law"])}
    agreed = sum(bool(AGREEMENT.fullmatch(line["law"])) for line in dead)
    agreement = filter(AGREEMENT.fullmatch,
                       dict.fromkeys(r["law"] for r in faults))
    pair_rows = []
    for fault, seeded in pairs:
        killers = [line["law"] for line in lines
                   if (line["fault"], line["oracle"]) == (fault, seeded)
                   and line["killed"]]
        pair_rows.append(f"| `{fault}` | `{seeded}` | {listed(killers)} |")
    KILLS.write_text(KILLS_PAGE.format(
        with_and_without=paragraph(
            f"Agreement is {listed(agreement)}. With it {len(killed)} of "
            f"{len(names)} faults of `impl/faulty` are killed; these live: "
            f"{listed(n for n in names if n not in killed)}. Without it "
            f"{len(without)} are killed; these live: "
            f"{listed(n for n in names if n not in without)}. Every fault is "
            "killed by the laws that it names where they alone are run "
            "(`kill_test`); here all faults share one plan."),
        pairs=len(pairs), blind=len(blind), agreed=agreed,
        pair_rows="\n".join(pair_rows),
        promises=paragraph(
            "Laws that claim to need no oracle, kill a pair with the right "
            "one, and none with an oracle that shares its fault: "
            f"{listed(broken_promises(lines))}."),
        table=kill_table(faults, lines)))


def put_summary() -> None:
    """What README.md repeats of properties/others.md."""
    summary = SUMMARY.search(OTHERS.read_text())[0]
    README.write_text(SUMMARY.sub(lambda m: summary, README.read_text()))


def main() -> int:
    if sys.argv[1:2] == ["--living"]:
        print("\n".join(living(read_faults(pathlib.Path(sys.argv[2])))))
        return 0
    if sys.argv[1:2] == ["--kills"]:
        put_kills(pathlib.Path(sys.argv[2]))
        return 0
    put_summary()
    if len(sys.argv) < 2:
        return 0
    folder = pathlib.Path(sys.argv[1])
    put_kills(folder)
    correct, correct_end = read(folder / "correct.jsonl")
    faults = read_faults(folder)
    small, small_end = read(folder / "small.jsonl")

    checked = sum(r["checked"] for r in correct)
    alarms = sum(r["verdict"] not in ("passed", "unsupported") for r in correct)
    kernels = len({r["kernel"] for r in correct})
    worst = max(r["worst_error_over_bound"] for r in correct)
    names = {r["kernel"] for r in faults}
    killed = names - set(living(faults))
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
        f"included:\n{share}. Written by `ci/long.sh`:\n"
        f"{correct_end['planned_cases']:,} cases a correct kernel, "
        f"{cases_of_faults(folder)}.\n")
    table = law_table(correct, faults)
    for page, marked, written in ((README, MARKED, text),
                                  (JUDGED, TABLE, table)):
        page_text = page.read_text()
        if not marked.search(page_text):
            print(f"{page}: the markers of the figures are missing",
                  file=sys.stderr)
            return 2
        page.write_text(marked.sub(lambda m: m[1] + written + m[2], page_text))
    print(text, end="")
    return 0 if alarms == 0 and killed == names else 1


if __name__ == "__main__":
    sys.exit(main())
