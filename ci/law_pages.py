#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes properties/laws.md and properties/faults.md from the program's list of laws
and faults; the number of bugs without a fault is that of impl/faulty/CATALOGUE.md.

    ci/law_pages.py PROGRAM                 writes the pages
    ci/law_pages.py PROGRAM --check [PAGE]  1 if a page, or PAGE instead of both, is
                                            out of date

PROGRAM is a qkvet with the family faulty built beside it.
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEAD = """# The laws

For users: the requirements of every correct kernel, from `qkvet explain laws` (`qkvet explain LAW`);
`ci/law_pages.py` writes this page. The laws of a subject are in the order of reports, from specific to
general: the first that fails names the failure. A kernel is judged by the laws about what it declares.
[audit.md](audit.md) has the assumptions of each, [judged.md](judged.md) how often it was tested.

Kept for: (a) it is exact, (b) its bound is tighter than two bounds added, (c) it reaches what agreement
with the oracle does not, (d) it needs no oracle.
"""


def listed(program: str, what: str) -> list:
    text = subprocess.run([program, "explain", what, "--json"], check=True,
                          capture_output=True, text=True).stdout
    return [json.loads(line) for line in text.splitlines()]


def kills(faults: list) -> dict:
    """Names of faults by law, of those that the fault's author names."""
    found = {}
    for fault in faults:
        for law in fault["killed_by"]:
            found.setdefault(law, []).append(fault["name"].split("/")[-1])
    return found


def entry(law: dict, killed: list) -> str:
    rows = [("formula", f"`{law['formula']}`"), ("holds for", law["precondition"]),
            ("because", law["reason"]), ("rounding", law["rounding"]),
            ("kept for", law["earns"])]
    if killed:
        rows.append((f"kills {len(killed)}",
                     ", ".join(f"`{name}`" for name in killed)))
    lines = [f"- *{name}*: {text}" for name, text in rows]
    return "\n".join([f"\n### {law['id']}\n", law["sentence"], "", *lines]) + "\n"


def laws_page(laws: list, faults: list) -> str:
    killed = kills(faults)
    out = [HEAD]
    subject = ""
    for law in laws:
        if law["subject"] != subject:
            subject = law["subject"]
            out.append(f"\n## About {subject}\n")
        out.append(entry(law, killed.pop(law["id"], [])))
    assert not killed, f"faults name laws that there are not: {sorted(killed)}"
    return "".join(out)


FAULTS_HEAD = """# The faults

For users: {count} kernels with one mistake each, from `qkvet explain faults` (`qkvet explain FAULT`);
`ci/law_pages.py` writes this page. *Shows where* is the condition without which no law may fail it
([the language](../impl/faulty/README.md)); without one the data alone decides, or it always shows. The
[laws](laws.md) after it must fail it. *Seen in* names bug reports; without one, textbooks warn of it.
{reported} faults are of {reports} reports; {open} more mistakes have [no fault](../impl/faulty/CATALOGUE.md).
Kills without agreement with the oracle: [kills.md](kills.md).
"""
REPORT = re.compile(r"[\w.-]+/[\w.-]+#\d+")
UNCOVERED = ROOT / "impl/faulty/CATALOGUE.md"
STATES = ("not expressible: ", "not yet: ")


def uncovered() -> list:
    """The cells of all rows: mistake, source, the reason why it has no fault."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in UNCOVERED.read_text().split("\n") if line.startswith("| ")]
    rows = rows[1:]
    for row in rows:
        assert len(row) == 3 and all(row) and row[2].startswith(STATES), \
            f"{UNCOVERED}: not a mistake, a source and one of {STATES}: {row}"
    return rows


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "\\<")


def fault_row(fault: dict) -> str:
    when = fault["when"].replace("|", "\\|")
    laws = ", ".join(f"`{law}`" for law in fault["killed_by"])
    seen = "" if fault["seen_in"] == "textbook" else fault["seen_in"]
    return (f"| `{fault['name'].split('/')[-1]}` | {cell(fault['cause'])} | "
            f"{f'`{when}`' if when else ''} | {laws} | {cell(seen)} |\n")


def faults_page(_: list, faults: list) -> str:
    reports = [REPORT.findall(fault["seen_in"].split("cf.")[0]) for fault in faults]
    out, source = [FAULTS_HEAD.format(
        count=len(faults), reported=sum(map(bool, reports)),
        reports=len(set(sum(reports, []))), open=len(uncovered()))], ""
    for fault in faults:
        if fault["source"] != source:
            source = fault["source"]
            name = source.split("/")[-1]
            out.append(f"\n## {name.split('.')[0].replace('_', ' ').capitalize()}\n\n"
                       f"[{source}](../{source})\n\n| fault | cause | shows where | "
                       "killed by | seen in |\n|---|---|---|---|---|\n")
        out.append(fault_row(fault))
    return "".join(out)


PAGES = {"properties/laws.md": laws_page, "properties/faults.md": faults_page}


def main() -> int:
    if len(sys.argv) not in (2, 3, 4) or sys.argv[2:3] not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    laws, faults = listed(sys.argv[1], "laws"), listed(sys.argv[1], "faults")
    wrong = False
    for name, page in PAGES.items():
        text = page(laws, faults)
        if not sys.argv[2:]:
            (ROOT / name).write_text(text)
            continue
        looked_at = pathlib.Path(sys.argv[3]) if sys.argv[3:] else ROOT / name
        if not looked_at.exists() or looked_at.read_text() != text:
            wrong = True
            print(f"{looked_at} is not what the program says: "
                  "ci/law_pages.py PROGRAM writes it", file=sys.stderr)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
