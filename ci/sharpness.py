# SPDX-License-Identifier: Apache-2.0
"""properties/sharpness.md: how sharp the bounds are, how soon a fault is reported,
and what of that the data does. The first functions make records (ci/records.py) of
the lines that `qkvet check --json`, ci/first_reports.py and ci/data_recall.py
write, page() makes the page of the records."""
import collections
import json
import math
import textwrap

import records

# The number of cases of a row below which a percentile is meaningless.
FEWEST = 40
# Fields of a declaration that leaves little to its preset.
FIELDS_IN_DETAIL = 10
MEANING = """
Recorded at {source}: {cases:,} cases of {kernels} correct kernels ({planned:,} cases a kernel, of
{laws} laws) that passed a law of agreement. Bound/error, of the number of a case that is nearest to its
bound, is how much larger the error may be before the law fails; at 1 the bound is used up. Rows are
storage and declared arithmetic: a preset, *in detail* if the kernel declares how it adds, scales and
normalises, and what it rounds to a narrower type. The last rounding to half is in neither bound nor
error. *No error*: cases in which every number is exact, or has only that rounding; medians and
percentiles are of the others, in classes that are 19 % wide. *Nearest* is the least quotient of all.
"""
TEXT = """\
# How sharp

Written by `ci/figures.py` from the records of `ci/long.sh` (`ci/records`).

## Bound over error

{meaning}

| storage | declared arithmetic | kernels | cases | no error | median | 95 % | nearest |
|---|---|---:|---:|---:|---:|---:|---:|
{rows}

{few}

## Time to the first report

Recorded at {first_source}. `qkvet check --kernel FAULT --fail-fast --jobs 1`,
for each fault of `impl/faulty`, until the report with the smallest case and the cause. Cases are
those of the plan up to the first that fails, over all laws; seconds are of CPU.

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
    """'cpu_f32 in detail, p f16': the preset, whether the kernel declares its
    arithmetic field by field, and what it rounds to a narrower type on its way."""
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


def row_values(storage, arithmetic, group):
    return {"storage": storage, "arithmetic": arithmetic,
            "kernels": len(group.kernels), "cases": group.cases(),
            "no_error": round(group.no_error / group.cases(), 2),
            "median": number(group.quotient(0.5)),
            "largest": number(group.quotient(0.95)),
            "nearest": number(group.nearest())}


def row_of(row):
    cells = [f"`{row['storage']}`", row["arithmetic"], row["kernels"],
             f"{row['cases']:,}", f"{100 * row['no_error']:.0f} %",
             row["median"], row["largest"], row["nearest"]]
    return "| " + " | ".join(map(str, cells)) + " |"


def bound_over_error(lines):
    """The values of a record, from the lines of a run of correct kernels."""
    groups = groups_of(lines)
    shown = {key: group for key, group in groups.items()
             if group.with_error() >= FEWEST}
    return {"cases": sum(group.cases() for group in groups.values()),
            "kernels": len(set().union(*(g.kernels for g in groups.values()))),
            "planned": lines[-1]["planned_cases"],
            "laws": len(lines[0]["laws"]),
            "rows": [row_values(*key, shown[key]) for key in sorted(shown)],
            "left": {"rows": len(groups) - len(shown), "cases": sum(
                group.cases() for key, group in groups.items()
                if key not in shown)}}


def bound_text(record):
    """What TEXT needs of it."""
    values = record["values"]
    return {"meaning": paragraph(MEANING.strip().format(
                source=records.source(record), **values)),
            "rows": "\n".join(map(row_of, values["rows"])),
            "few": paragraph(
                f"{values['left']['cases']:,} cases of {values['left']['rows']} "
                f"further rows are left out, in which fewer than {FEWEST} have an "
                "error.")}


def paragraph(text):
    return textwrap.fill(text, 100, break_long_words=False,
                         break_on_hyphens=False)


def first_reports(faults):
    """The values of a record, from the runs of faults, each alone."""
    found = [fault for fault in faults if "case" in fault]
    rows = {}
    for field in ("case", "cpu_seconds"):
        numbers = [fault[field] for fault in found]
        worst = max(found, key=lambda fault: fault[field])
        rows[field] = {"median": percentile(numbers, 0.5),
                       "largest": percentile(numbers, 0.95),
                       "worst": worst[field], "of": worst["kernel"]}
    return {"asked": len(faults),
            "faults": max(fault.get("faults", 0) for fault in faults),
            "living": sorted(fault["kernel"] for fault in faults
                             if "case" not in fault), **rows}


def first_text(record):
    """What TEXT needs of it."""
    values = record["values"]
    rows = []
    for field, text, digits in (("case", "cases", 0),
                                ("cpu_seconds", "seconds", 1)):
        row = values[field]
        cells = [f"{row[one]:,.{digits}f}" for one in
                 ("median", "largest", "worst")]
        rows.append(f"| {text} | {' | '.join(cells)} | `{row['of']}` |")
    whole = values["asked"] == values["faults"]
    living = ", ".join(f"`{name}`" for name in values["living"])
    return {"first_source": records.source(record),
            "faults": f"{values['asked']}" + (
                "" if whole else f" of {values['faults']}"),
            "first": "\n".join(rows),
            "living": paragraph(
                f"Not reported by the default plan of this one seed: {living}."
                if living else "All of them are reported.")}


RECALL = """
Recorded at {source}. `ci/data_recall.py` asks {asked} of {faults} faults of attention up to {most}
cases of `agrees_with_oracle` in f32: the calls that a plan draws, and the same calls with other data in
q, k and v. {some} are found by some data; the others need an extent, a layout, an option or a half type
that none of these calls has. The last column is the median share of a found fault's cases that show it.
"""


def recall(rows):
    """The values of a record, from runs of faults with other data."""
    found = [row for row in rows if any(row["failed"].values())]
    strategies = {}
    for strategy in rows[0]["failed"]:
        shares = [row["failed"][strategy] / row["cases"] for row in found
                  if row["failed"][strategy] > 0]
        strategies[strategy] = {
            "found": len(shares),
            "share": round(percentile(shares, 0.5), 2) if shares else 0}
    return {"asked": len(rows), "faults": rows[0]["faults"],
            "most": max(row["cases"] for row in rows), "some": len(found),
            "strategies": strategies,
            "not_by_normal": sorted(row["kernel"] for row in found
                                    if not row["failed"]["N(0,1)"])}


def recall_text(record):
    """What TEXT needs of it."""
    values = record["values"]
    cells = [f"| {strategy} | {one['found']} | "
             f"{100 * one['found'] / values['some']:.0f} % | "
             f"{100 * one['share']:.0f} % |"
             for strategy, one in values["strategies"].items()]
    alone = ", ".join(f"`{name}`" for name in values["not_by_normal"])
    return {"recall_text": paragraph(RECALL.strip().format(
                source=records.source(record), **values)),
            "recall": "\n".join(cells),
            "not_by_normal": paragraph(
                f"Found, and not by N(0,1): {alone or 'none'}.")}


def page(read):
    """The page; read: the record of a name."""
    return TEXT.format(**bound_text(read("bounds")),
                       **first_text(read("first_reports")),
                       **recall_text(read("data_recall")))
