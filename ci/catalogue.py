#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds impl/faulty/CATALOGUE.md against the faults that there are.

Every row has a state, every fault that it names has its block in a theme file,
and the figures in front of the tables are those of the rows.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS = 257
STATES = ("covered by ", "not expressible: ", "not yet: ")
COVERED = re.compile(r"covered by `(\w+)`")
BLOCK = re.compile(r"^QKVET_FAULT\((\w+)\) = {$", re.M)


def rows_of(text: str) -> list:
    """The cells of all rows: mechanism, source, state."""
    lines = [line for line in text.split("\n") if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in lines]
    return [row for row in rows if row[0] != "mechanism"]


def problems_of(text: str, faults: set) -> list:
    rows, found = rows_of(text), []
    if len(rows) != ROWS:
        found.append(f"{len(rows)} rows, not {ROWS}")
    for row in rows:
        if len(row) != 3 or not all(row):
            found.append(f"{row}: a row has a mechanism, a source and a state")
        elif not row[2].startswith(STATES):
            found.append(f"{row[0]}: the state is none of {STATES}")
        elif row[2].startswith(STATES[0]) and not COVERED.fullmatch(row[2]):
            found.append(f"{row[0]}: covered by one fault, and no more said")
    mechanisms = [row[0] for row in rows]
    for name in {m for m in mechanisms if mechanisms.count(m) > 1}:
        found.append(f"{name}: more than one row")
    for row in rows:
        for name in re.findall(r"`(\w+)`", row[-1]):
            if name not in faults:
                found.append(f"{row[0]}: no fault is named {name}")
    covering = [m[1] for row in rows if (m := COVERED.fullmatch(row[-1]))]
    count = [sum(row[-1].startswith(state) for row in rows)
             for state in STATES]
    figures = (f"{len(rows)} mechanisms: {count[0]} covered by "
               f"{len(set(covering))} faults, {count[1]} not expressible, "
               f"{count[2]} not yet.")
    if figures not in text.split("\n")[:5]:
        found.append(f"the first lines do not say: {figures}")
    return found


def check_itself(text: str, faults: set) -> None:
    """What is wrong must be found."""
    for wrong in (text.replace("`no_mask`", "`no_such_fault`"),
                  text.replace(" not yet.", "0 not yet.", 1),
                  re.sub(r"\n\| the .*", "", text, count=1),
                  text.replace("not yet: ", "soon: ", 1)):
        assert problems_of(wrong, faults), "a mistake was not found"


def main() -> int:
    folder = ROOT / "impl" / "faulty"
    text = (folder / "CATALOGUE.md").read_text()
    faults = set()
    for theme in sorted(folder.glob("*.cpp")):
        faults.update(BLOCK.findall(theme.read_text()))
    found = problems_of(text, faults)
    for line in found:
        print(f"impl/faulty/CATALOGUE.md: {line}", file=sys.stderr)
    if not found:
        check_itself(text, faults)
        print(f"catalogue: {ROWS} rows are fine")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
