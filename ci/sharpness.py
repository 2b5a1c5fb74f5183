#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes properties/sharpness.md: how sharp the bounds are, how soon a fault is
reported, and what of that the data does.

Usage: ci/sharpness.py FOLDER, where FOLDER holds correct.jsonl as `qkvet check
--json` writes it, first.jsonl as ci/first_reports.py does, and recall.jsonl as
ci/data_recall.py does.
"""
import collections
import json
import math
import pathlib
import sys
import textwrap

PAGE = (pathlib.Path(__file__).resolve().parent.parent / "properties"
        / "sharpness.md")
# Cases of a row, below which a percentile says nothing.
FEWEST = 40
# Fields of a declaration that leaves little to its preset.
FIELDS_IN_DETAIL = 10
MEANING = """
What passes is at most as far off as its bound says, and a bound that is derived holds for the
worst case. How much further off a kernel might have been before it failed is bound/error, of the
number of a case that came nearest to its bound: 1 is a bound that is used up. Here are
{cases:,} cases of {kernels} correct kernels ({planned:,} cases a kernel, of {laws} laws) that
passed a law of agreement, by storage and by what the kernel declares of its arithmetic: a
preset, *in detail* where it says how it adds, scales and normalises as well, and what is rounded
to a narrower type on the way. In half formats the last rounding is no part of either; *no error*
are cases in which nothing else is left, or in which every number was exact. The medians and 95th
percentiles are of the others. *Nearest* is the least quotient of all. Quotients are counted in
classes that are 19 % wide.
"""
TEXT = """\
# How sharp

Written by `ci/sharpness.py`, from the runs of `ci/long.sh`.

## Bound over error

{meaning}

| storage | declared arithmetic | kernels | cases | no error | median | 95 % | nearest |
|---|---|---:|---:|---:|---:|---:|---:|
{rows}

{few}

## Time to the first report

Each fault of `impl/faulty` alone, by `qkvet check --kernel FAULT --fail-fast --jobs 1`, until the
report stands there with the smallest case and the cause. Cases are those of the plan up to the
first that fails, over all laws together; seconds are of CPU.

| {faults} faults | median | 95 % | worst | |
|---|---:|---:|---:|---|
{first}

{living}

## Input strategy against recall

{recall_text}

| data of q, k and v | faults found | of those that any finds | cases that show it |
|---|---:|---:|---:|
{recall}

{not_by_normal}

Which laws kill how many of them, with agreement on and off: [kills.md](kills.md).
"""


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def percentile(numbers, share):
    """The least number that is as large as `share` of them."""
    ordered = sorted(numbers)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


class Group:
    """Cases of one storage and one declared arithmetic."""

    def __init__(self):
        self.kernels, self.no_error = set(), 0
        self.quarters = collections.Counter()

    def add(self, kernel, one):
        self.kernels.add(kernel)
        self.no_error += one["without_error"]
        for quarter, cases in one["quarters"].items():
            self.quarters[int(quarter)] += cases

    def with_error(self):
        return sum(self.quarters.values())

    def cases(self):
        return self.no_error + self.with_error()

    def quotient(self, share):
        """In the middle of its class, which is 19 % wide."""
        seen = 0
        for quarter in sorted(self.quarters):
            seen += self.quarters[quarter]
            if seen >= share * self.with_error():
                return 2 ** ((quarter + 0.5) / 4)
        return math.nan

    def nearest(self):
        return 2 ** (min(self.quarters) / 4)


def arithmetic_of(kernel):
    """'cpu_f32 in detail, p f16': the preset, whether it says how it computes
    field by field, and what it rounds to a narrower type on its way."""
    if not kernel["precision_declared"]:
        return "nothing, so `generic`"
    fields = dict(line.split(" = ") for line in kernel["precision"])
    narrow = [f"{name.removesuffix('_dtype').replace('_', ' ')} {value}"
              for name, value in sorted(fields.items())
              if name.endswith("_dtype")]
    detail = " in detail" if len(fields) > FIELDS_IN_DETAIL else ""
    return ", ".join([f"`{fields['preset']}`{detail}", *narrow])


def groups_of(lines):
    """(storage, declared arithmetic) to a Group."""
    arithmetic = {line["kernel"]: arithmetic_of(line) for line in lines
                  if line["type"] == "kernel"}
    groups = collections.defaultdict(Group)
    for line in lines:
        for storage, one in line.get("bound_over_error", {}).items():
            groups[storage, arithmetic[line["kernel"]]].add(line["kernel"], one)
    return groups


def number(quotient):
    return f"{quotient:,.0f}" if quotient >= 9.95 else f"{quotient:.2g}"


def row_of(storage, arithmetic, group):
    share = f"{100 * group.no_error / group.cases():.0f} %"
    cells = [f"`{storage}`", arithmetic, len(group.kernels),
             f"{group.cases():,}", share, number(group.quotient(0.5)),
             number(group.quotient(0.95)), number(group.nearest())]
    return "| " + " | ".join(map(str, cells)) + " |"


def bound_over_error(lines):
    """What TEXT needs of the run of correct kernels."""
    groups = groups_of(lines)
    shown = {key: group for key, group in groups.items()
             if group.with_error() >= FEWEST}
    left = sum(group.cases() for key, group in groups.items()
               if key not in shown)
    meaning = MEANING.format(
        cases=sum(group.cases() for group in groups.values()),
        kernels=len(set().union(*(g.kernels for g in groups.values()))),
        planned=lines[-1]["planned_cases"], laws=len(lines[0]["laws"]))
    return {"meaning": paragraph(meaning.strip()),
            "rows": "\n".join(row_of(*key, shown[key]) for key in sorted(shown)),
            "few": paragraph(
                f"{left:,} cases of {len(groups) - len(shown)} further rows are "
                f"left out, in which fewer than {FEWEST} have an error.")}


def paragraph(text):
    return textwrap.fill(text, 100, break_long_words=False,
                         break_on_hyphens=False)


def first_reports(faults):
    """What TEXT needs of the runs of faults, each alone."""
    known = max(fault.get("faults", 0) for fault in faults)
    found = [fault for fault in faults if "case" in fault]
    names = sorted(fault["kernel"] for fault in faults if "case" not in fault)
    rows = []
    for field, text, digits in (("case", "cases", 0),
                                ("cpu_seconds", "seconds", 1)):
        numbers = [fault[field] for fault in found]
        worst = max(found, key=lambda fault: fault[field])
        cells = [f"{one:,.{digits}f}" for one in
                 (percentile(numbers, 0.5), percentile(numbers, 0.95),
                  worst[field])]
        rows.append(f"| {text} | {' | '.join(cells)} | `{worst['kernel']}` |")
    asked = f"{len(faults)}"
    return {"faults": asked if len(faults) == known else f"{asked} of {known}",
            "first": "\n".join(rows),
            "living": paragraph(
                "Not reported by the default plan of this one seed: "
                f"{', '.join(f'`{name}`' for name in names)}." if names else
                "All of them are reported.")}


RECALL = """
`ci/data_recall.py` asks {asked} of {faults} faults that name `agrees_with_oracle` up to {most}
cases of this law in f32 that they take: the calls that a plan draws, and then the same calls with
other data in q, k and v. Found is a fault that one of them shows. {some} are found by some data;
the others need what none of these calls has, such as an extent, a layout, an option or a half type.
The last column is of the faults that are found: the share of a fault's cases that show it, and the
median of these.
"""


def recall(rows):
    """What TEXT needs of the faults asked with other data."""
    strategies = list(rows[0]["failed"])
    found = [row for row in rows if any(row["failed"].values())]
    cells = []
    for strategy in strategies:
        shares = [row["failed"][strategy] / row["cases"] for row in found
                  if row["failed"][strategy] > 0]
        cells.append(f"| {strategy} | {len(shares)} | "
                     f"{100 * len(shares) / len(found):.0f} % | "
                     f"{100 * percentile(shares, 0.5):.0f} % |")
    alone = sorted(row["kernel"] for row in found
                   if not row["failed"]["N(0,1)"])
    text = RECALL.format(asked=len(rows), faults=rows[0]["faults"],
                         most=max(row["cases"] for row in rows),
                         some=len(found))
    return {"recall_text": paragraph(text.strip()), "recall": "\n".join(cells),
            "not_by_normal": paragraph(
                "Found, and not by N(0,1): "
                f"{', '.join(f'`{name}`' for name in alone) or 'none'}.")}


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[1])
    PAGE.write_text(TEXT.format(
        **bound_over_error(lines_of(folder / "correct.jsonl")),
        **first_reports(lines_of(folder / "first.jsonl")),
        **recall(lines_of(folder / "recall.jsonl"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
