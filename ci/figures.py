#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the figures of pages from the records in ci/records.

    ci/figures.py                  # README.md, python/README.md, properties/*.md
    ci/figures.py --check          # a line for each page that differs, exit code 1
    ci/figures.py --record FOLDER  # the records of ci/long.sh, then the pages
    ci/figures.py --living FOLDER  # faults that the run in FOLDER did not kill

FOLDER holds the results of ci/long.sh: correct.jsonl and faults.jsonl of `qkvet check
--json`, again.jsonl, a second run of faults that lived in the first, which counts
instead, sabotage.jsonl of `sabotage`, first.jsonl and recall.jsonl. Exit code of
--record: 1 if a correct kernel fails or a fault lives.
"""
import json
import pathlib
import re
import sys
import textwrap

import records
import sharpness

FAMILIES = ("scalar", "eigen", "avx2", "simt", "kv_cache", "serving",
            "controls")
ROOT = records.ROOT
OTHERS = ROOT / "properties/others.md"
LIBRARIES = ROOT / "examples/libraries/README.md"
AGREEMENT = re.compile(r"(\w+_)?agrees_with_(oracle|history)")
KILLS_PAGE = """\
# What the laws kill

Written by `ci/figures.py` from the records of `ci/long.sh` (`ci/records`): the faults at
{faults_source}, the pairs at {pairs_source}.

## Agreement on and off

{with_and_without}

## An oracle that shares the fault

A fault is paired with the seeded fault of a reference (`reference/seeded/seeded.h`)
that has the same mechanism, and this reference replaces the oracle,
without a twin, in cases in which the two do the same (`cli/hunt/sabotage.cpp`).
Agreement kills {agreed} of {pairs} pairs then, and the other laws {blind}.

| fault | oracle | killed by |
|---|---|---|
{pair_rows}

{promises}

## Law by law

{table}"""

# Verdicts of a dead fault: its answer was wrong, or it took the worker with it.
DEAD = ("FAILED", "crash")


# ---- Records out of runs -----------------------------------------------------


def read(path):
    """Results, first line and last line of a run."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if line["type"] == "result"], lines[0], lines[-1]


def read_faults(folder):
    """Results of all faults; of those that were run again, the second ones."""
    results, _, _ = read(folder / "faults.jsonl")
    again = folder / "again.jsonl"
    if again.exists():
        second, _, _ = read(again)
        names = {r["kernel"] for r in second}
        results = [r for r in results if r["kernel"] not in names] + second
    return results


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
    judged = [r for r in results if r["verdict"] not in ("unsupported",
                                                         "not declared")]
    if not judged:
        return None
    if any(r["verdict"] in DEAD for r in judged):
        return "FAILED"
    return sum(r["checked"] for r in judged)


def correct_values(folder):
    results, first, last = read(folder / "correct.jsonl")
    laws = list(dict.fromkeys(r["law"] for r in results))
    return first["seed"], {
        "cases": last["planned_cases"],
        "kernels": len({r["kernel"] for r in results}),
        "checked": sum(r["checked"] for r in results),
        "failed": sorted({r["kernel"] for r in results if r["verdict"] in DEAD}),
        "mistrusted": sum(r["verdict"] == "mistrusted" for r in results),
        "worst": round(max(float(r.get("worst_error_over_bound") or 0)
                           for r in results), 4),
        "laws": {law: {family: cell([r for r in results if r["law"] == law
                                     and family_of(r["kernel"]) == family])
                       for family in FAMILIES} for law in laws}}


def faults_values(folder):
    _, first, last = read(folder / "faults.jsonl")
    results = read_faults(folder)
    failed = [r for r in results if r["verdict"] in DEAD]
    without = {r["kernel"] for r in failed if not AGREEMENT.fullmatch(r["law"])}
    names = sorted({r["kernel"] for r in results})
    again = None
    if (folder / "again.jsonl").exists():
        second, _, end = read(folder / "again.jsonl")
        again = {"faults": len({r["kernel"] for r in second}),
                 "cases": end["planned_cases"]}
    return first["seed"], {
        "faults": len(names), "cases": last["planned_cases"], "again": again,
        "living": living(results),
        "living_without_agreement": [n for n in names if n not in without],
        "laws": {law: sum(r["law"] == law for r in failed)
                 for law in dict.fromkeys(r["law"] for r in results)}}


def broken_promises(lines):
    """Laws that claim to need no oracle, kill a pair with the right one and
    none with an oracle that shares its fault."""
    def laws(is_right):
        return {line["law"] for line in lines
                if line["needs_no_oracle"] and line["killed"]
                and (line["oracle"] == "plain") == is_right}
    return sorted(laws(True) - laws(False))


def pairs_values(folder):
    lines = [json.loads(line) for line in
             (folder / "sabotage.jsonl").read_text().splitlines()]
    pairs = dict.fromkeys((line["fault"], line["seeded"]) for line in lines)
    laws = {}
    for law in dict.fromkeys(line["law"] for line in lines):
        mine = [line for line in lines if line["law"] == law]
        laws[law] = [
            sum(line["killed"] for line in half) if half else None
            for half in ([line for line in mine if line["oracle"] == "plain"],
                         [line for line in mine if line["oracle"] != "plain"])]
    return {"pairs": [{"fault": fault, "oracle": seeded, "killed_by": [
                line["law"] for line in lines if line["killed"]
                and (line["fault"], line["oracle"]) == (fault, seeded)]}
                      for fault, seeded in pairs],
            "laws": laws, "promises": broken_promises(lines)}


def sweep_values(folder):
    """One value a run of correct kernels: seed, cases, what it ended with."""
    runs = []
    for path in sorted(folder.glob("sweep-*.jsonl")):
        results, first, last = read(path)
        runs.append({"seed": first["seed"], "cases": last["planned_cases"],
                     "checked": sum(r["checked"] for r in results),
                     "kernels": len({r["kernel"] for r in results}),
                     "failed": sum(r["verdict"] in DEAD for r in results),
                     "mistrusted": sorted(
                         f"{r['kernel']} {r['law']}" for r in results
                         if r["verdict"] == "mistrusted")})
    return sorted(runs, key=lambda run: (run["cases"], run["seed"]))


def take_records(folder):
    """Everything that FOLDER has a run of. Whether all is as it should be."""
    def words(name):
        path = folder / f"{name}.command"
        return path.read_text().strip() if path.exists() else "ci/long.sh"
    good = True
    if (folder / "correct.jsonl").exists():
        seed, values = correct_values(folder)
        good = good and not values["failed"]
        records.write("correct", words("correct"), seed, values)
        records.write("bounds", words("correct"), seed, sharpness.bound_over_error(
            sharpness.lines_of(folder / "correct.jsonl")))
    if (folder / "faults.jsonl").exists():
        seed, values = faults_values(folder)
        good = good and not values["living"]
        records.write("faults", words("faults"), seed, values)
    if (folder / "sabotage.jsonl").exists():
        records.write("pairs", "sabotage", None, pairs_values(folder))
    for name, make, lines in (
            ("first_reports", sharpness.first_reports, "first.jsonl"),
            ("data_recall", sharpness.recall, "recall.jsonl")):
        if (folder / lines).exists():
            records.write(name, f"ci/{name}.py", None,
                          make(sharpness.lines_of(folder / lines)))
    if list(folder.glob("sweep-*.jsonl")):
        runs = sweep_values(folder)
        good = good and not any(run["failed"] for run in runs)
        records.write("sweep", words("sweep"), None, runs)
    return good


# ---- Pages out of records ----------------------------------------------------


def law_table():
    """Laws by families, and the faults that each law kills."""
    kills = records.read("faults")["values"]["laws"]
    rows = ["| law | " + " | ".join(FAMILIES) + " | faults killed |",
            "|---|" + "---:|" * (len(FAMILIES) + 1)]
    for law, families in records.read("correct")["values"]["laws"].items():
        cells = ["-" if (checked := families[family]) is None else checked
                 if isinstance(checked, str) else f"{checked:,}"
                 for family in FAMILIES]
        rows.append(f"| `{law}` | " + " | ".join(cells)
                    + f" | {kills.get(law, 0)} |")
    return "\n".join(rows) + "\n"


def listed(names):
    return ", ".join(f"`{name}`" for name in names) or "none"


def paragraph(text, columns=80):
    return textwrap.fill(text, columns, break_long_words=False,
                         break_on_hyphens=False)


def kill_table(faults, pairs):
    """Laws by faults killed, and by pairs killed with either oracle."""
    rows = [f"| law | faults killed | of {len(pairs['pairs'])} pairs, right oracle "
            "| of them, oracle with the same fault |", "|---|---:|---:|---:|"]
    for law, kills in faults["laws"].items():
        halves = pairs["laws"].get(law, [None, None])
        cells = ["-" if half is None else str(half) for half in halves]
        rows.append(f"| `{law}` | {kills} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def kills_page():
    """properties/kills.md."""
    faults_record, pairs_record = records.read("faults"), records.read("pairs")
    faults, pairs = faults_record["values"], pairs_record["values"]
    by = [one["killed_by"] for one in pairs["pairs"]]
    agreement = filter(AGREEMENT.fullmatch, faults["laws"])
    return KILLS_PAGE.format(
        faults_source=records.source(faults_record),
        pairs_source=records.source(pairs_record),
        with_and_without=paragraph(
            f"Agreement is {listed(agreement)}. With it "
            f"{faults['faults'] - len(faults['living'])} of {faults['faults']} "
            "faults of `impl/faulty` are killed; these live: "
            f"{listed(faults['living'])}. Without it "
            f"{faults['faults'] - len(faults['living_without_agreement'])} are "
            "killed; these live: "
            f"{listed(faults['living_without_agreement'])}. All faults share "
            "one plan here; run alone, the laws that a fault names kill it "
            "(`kill_test`)."),
        pairs=len(by),
        agreed=sum(bool(AGREEMENT.fullmatch(law)) for laws in by for law in laws),
        blind=sum(any(not AGREEMENT.fullmatch(law) for law in laws) for laws in by),
        pair_rows="\n".join(
            f"| `{one['fault']}` | `{one['oracle']}` | "
            f"{listed(one['killed_by'])} |" for one in pairs["pairs"]),
        promises=paragraph(
            "Laws that claim to need no oracle, kill a pair with the right "
            "one, and none with an oracle that shares its fault: "
            f"{listed(pairs['promises'])}."),
        table=kill_table(faults, pairs))


def trust_rows():
    """README.md: a figure a row, with where it comes from."""
    correct, faults = records.read("correct"), records.read("faults")
    one = correct["values"]
    rows = [("correct kernels that fail",
             f"{len(one['failed'])} of {one['kernels']}, and {one['mistrusted']} "
             f"mistrusted verdicts, in {one['checked']:,} checked cases of "
             f"{len(one['laws'])} laws ({one['cases']:,} planned a kernel); largest error/bound {one['worst']:.2f}, <= 1 passes", correct)]
    if (records.FOLDER / "sweep.json").exists():
        sweep = records.read("sweep")
        rows.append(("the same, other seeds", sweep_text(sweep["values"]), sweep))
    one = faults["values"]
    again = one["again"]
    rows.append(("known faults killed",
                 f"{one['faults'] - len(one['living'])} of {one['faults']} "
                 f"({one['cases']:,} cases planned a fault" + (
                     f", {again['faults']} of them again with {again['cases']:,})"
                     if again else ")"), faults))
    if (records.FOLDER / "speed.json").exists():
        speed = records.read("speed")
        rows.append(("speed", speed_text(speed["values"]), speed))
    return "\n".join(["| | | recorded |", "|---|---|---|"] + [
        f"| {what} | {text} | {records.source(record)} |"
        for what, text, record in rows]) + "\n"


def sweep_text(runs):
    seeds = sorted({run["seed"] for run in runs})
    cases = sorted({run["cases"] for run in runs})
    mistrusted = sum(len(run["mistrusted"]) for run in runs)
    return (f"{sum(run['failed'] for run in runs)} failures and {mistrusted} mistrusted "
            f"verdicts in {sum(run['checked'] for run in runs):,} checked cases: seeds "
            f"{', '.join(map(str, seeds))}; {', '.join(f'{n:,}' for n in cases)} cases "
            "planned a kernel")


def speed_text(values):
    suite = values["suite"]
    shares = ", ".join(f"{name} {100 * share:.0f} %"
                       for name, share in suite["shares"].items())
    return (f"{suite['per_second']:,.0f} checked cases a second of CPU time, at small "
            f"shapes, {suite['kernels']} kernels, {values['machine']}: {shares}")


def python_speed():
    """python/README.md: callables of Python."""
    record = records.read("speed")
    values = record["values"]
    rows = [f"| {name} | {one['per_second']:,.0f} |"
            for name, one in values["python"].items()]
    return "\n".join([
        "| callable, small shapes, one law | checked cases a second of CPU time |",
        "|---|---:|", *rows]) + (
        f"\n\nBy `ci/speed.py`: {values['machine']}, {records.source(record)}.\n")


NUMBER = re.compile(r"^\| (.+?) \| (\d+) \| (\d+) \| (\d+) \|$", re.M)


def others_summary():
    """README.md: what two published rules and the bound notice of five defects."""
    page = OTHERS.read_text()
    pairs = re.search(r"^(\d+) pairs of a rule and a defect", page, re.M)
    tallies = {row[1]: row.groups()[1:] for row in NUMBER.finditer(page)}
    same = tallies.get("the same, the bound judges lse as well")
    alarms = re.search(r"^Alarms on the correct kernel.*?: (\d+) of the rules, and on "
                       r"all data (\d+) of the bound", page, re.M)

    def cells(defect, rule):
        """The rule, and the bound on targeted data, from a rule's row."""
        table = page.split(f"\n### {defect}\n", 1)[1].split("\n### ", 1)[0]
        row = re.search(rf"^\| {re.escape(rule)} \|(.*)\|$", table, re.M)
        own, *_, targeted = (cell.strip() for cell in row[1].split("|"))
        return own, targeted

    if not pairs or not same or not alarms:
        raise ValueError(f"{OTHERS}: not a page of `acceptance --out`")
    rows = []
    for defect, text in (("scale off", "smallest error of the softmax scale"),
                         ("lost key", "the last key is lost: Tk"),
                         ("key counted twice", "the first key counts twice: Tk"),
                         ("unmasked pads", "24 padding keys are seen: Tk"),
                         ("mean of V", "the output is the mean of V: Tk")):
        narrow, bound = cells(defect, "FlashInfer 1e-3, f16")
        wide, _ = cells(defect, "KernelBench, f16")
        rows.append(f"| {text} | {narrow} | {wide} | {bound} |")
    return ("| noticed in f16 | `allclose(1e-3)`, as FlashInfer | "
            "`allclose(1e-2)`, as KernelBench | the bound |\n|---|---:|---:|---:|\n"
            + "\n".join(rows) + "\n\n" + paragraph(
                "Each rule meets the data of its suite, the bound data that targets the "
                f"defect. On the same data, of {pairs[1]} pairs of a rule and a defect, "
                f"the bound notices more in {same[0]}, the same in {same[1]} and less in "
                f"{same[2]}. Neither refused the correct kernel: {alarms[1]} and "
                f"{alarms[2]} alarms ([all rules and defects](properties/others.md)).",
                100) + "\n")


def libraries_sentence():
    """README.md: a summary of the page of ci/libraries.py."""
    page = LIBRARIES.read_text()
    judged = re.search(r"^\d+ entries of (\d+) libraries ", page, re.M)
    failed = re.search(r"^\*\*Laws fail on (\d+) findings\*\* in (\d+) released "
                       r"libraries.*?(\d+) bug\b", page, re.M)
    if not judged or not failed:
        raise ValueError(f"{LIBRARIES}: not a page of ci/libraries.py")
    return paragraph(
        f"QKVet has judged {judged[1]} released libraries (PyTorch, ONNX Runtime, JAX, "
        f"Transformers, Flax, ...). Laws fail on [{failed[1]} findings]"
        f"(examples/libraries/README.md#findings) in {failed[2]} of them; {failed[3]} "
        "are bugs. Three of the bugs:", 100) + "\n"


def marked(path, text, mark, inside):
    """The text of a page with `inside` between <!-- mark --> and
    <!-- end of mark -->."""
    begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{path}: no {begin.strip()} and {end}")
    return before + begin + inside + end + after


def pages():
    """Path -> text of every page that has figures."""
    written = {ROOT / "properties/kills.md": kills_page(),
               ROOT / "properties/sharpness.md": sharpness.page(records.read)}
    for name, mark, inside in (
            ("README.md", "figures", trust_rows()),
            ("README.md", "summary", others_summary()),
            ("README.md", "libraries", libraries_sentence()),
            ("properties/judged.md", "table", law_table()),
            ("python/README.md", "speed", python_speed())):
        path = ROOT / name
        text = written[path] if path in written else path.read_text()
        written[path] = marked(path, text, mark, inside)
    return written


def main() -> int:
    words = sys.argv[1:]
    if words[:1] == ["--living"] and len(words) == 2:
        print("\n".join(living(read_faults(pathlib.Path(words[1])))))
        return 0
    good = True
    if words[:1] == ["--record"] and len(words) == 2:
        good = take_records(pathlib.Path(words[1]))
    elif words not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        written = pages()
    except ValueError as why:
        print(f"figures.py: {why}", file=sys.stderr)
        return 2
    for path, text in written.items():
        if words == ["--check"]:
            if path.read_text() != text:
                print(f"{path.relative_to(ROOT)}: not what ci/figures.py writes")
                good = False
        else:
            path.write_text(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
