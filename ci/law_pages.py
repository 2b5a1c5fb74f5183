#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes properties/laws.md out of what the program knows of laws and faults.

    ci/law_pages.py PROGRAM                 writes the page
    ci/law_pages.py PROGRAM --check [PAGE]  1 if the page says something else

PROGRAM is a qkvet beside which the family faulty was built.
"""
import json
import pathlib
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "properties/laws.md"
HEAD = """# The laws

What QKVet asks of every correct kernel, as the program has it (`qkvet list laws`,
`qkvet explain LAW`): this page is written by `ci/law_pages.py`, and a test compares. The laws of
a subject stand from specific to general, in which order they are reported: of what fails, the first
names the failure. A kernel is judged by the laws about what it declares. [audit.md](audit.md) asks of
each what it assumes of the algorithm, [judged.md](judged.md) how often it was asked.
"""
KINDS = """
What a law is kept for: (a) it is exact, (b) its bound is tighter than two bounds added, (c) it
reaches what agreement with the oracle does not, (d) it needs no oracle.
"""


def listed(program: str, what: str) -> list:
    text = subprocess.run([program, "list", what, "--json"], check=True,
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


def page(program: str) -> str:
    laws, killed = listed(program, "laws"), kills(listed(program, "faults"))
    out = [HEAD, KINDS]
    subject = ""
    for law in laws:
        if law["subject"] != subject:
            subject = law["subject"]
            out.append(f"\n## About {subject}\n")
        out.append(entry(law, killed.pop(law["id"], [])))
    assert not killed, f"faults name laws that there are not: {sorted(killed)}"
    return "".join(out)


def main() -> int:
    if len(sys.argv) not in (2, 3, 4) or sys.argv[2:3] not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    text = page(sys.argv[1])
    if sys.argv[2:]:
        looked_at = pathlib.Path(sys.argv[3]) if sys.argv[3:] else PAGE
        if looked_at.read_text() == text:
            return 0
        print(f"{looked_at} is not what the program says: "
              "ci/law_pages.py PROGRAM writes it", file=sys.stderr)
        return 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
