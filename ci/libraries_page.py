# SPDX-License-Identifier: Apache-2.0
"""The pages of ci/libraries.py, only from verdicts.json: verdicts.md, and the
parts between marks of README.md beside it."""
import collections
import json

GROUPS = {"attention": "forward", "gradients of attention": "gradients",
          "KV caches": "cache", "layers": "layer",
          "gradients of layers": "layer gradients"}


def read_json(path):
    """Entry -> row; {} where nothing is recorded. ValueError with a line if the
    file is none of ours."""
    if not path.exists():
        return {}
    try:
        read = json.loads(path.read_text())
        if read["schema"] != 1:
            raise ValueError(f"schema {read['schema']}; allowed: 1")
        rows = read["entries"]
        for name, row in rows.items():
            if "reason" not in row and not {"groups", "failures", "checked",
                                            "version"} <= row.keys():
                raise ValueError(f"{name} has neither a verdict nor a reason")
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as why:
        raise ValueError(f"no verdicts of ci/libraries.py: {why!r}") from None
    return rows


def write_json(path, rows):
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps({"schema": 1, "entries": rows}, indent=1) + "\n")
    beside.replace(path)  # whole, or not at all


def group_cell(row, subject):
    """"29" laws passed, "28, 1 failed", or nothing."""
    group = row["groups"].get(subject)
    if group is None:
        return ""
    passed = group.get("passed", 0)
    rest = [f"{count} {verdict}" for verdict, count in sorted(group.items())
            if verdict not in ("passed", "checked", "unsupported",
                               "not declared", "skipped")]
    return ", ".join([str(passed), *rest])


def findings_in(row):
    return list(dict.fromkeys(finding for one in row["failures"]
                              for finding in one["findings"]))


def counted(rows, findings):
    """The findings on which QKVet itself fails, from the verdicts of entries with
    an unchanged declaration. findings: as shown.FINDINGS."""
    failed = {finding for row in rows.values()
              if "groups" in row and not row.get("stale")
              for finding in findings_in(row)}
    return {name: one for name, one in findings.items() if name in failed}


CONTROL = "numpy"  # our own functions, which must conform


def libraries_of(rows):
    return {name.split(":")[0] for name, row in rows.items()
            if "groups" in row} - {CONTROL}


def table(rows):
    """The table of everything that was judged, as Markdown."""
    judged = {name: row for name, row in rows.items() if "groups" in row}
    columns = {subject: short for subject, short in GROUPS.items()
               if any(subject in row["groups"] for row in judged.values())}
    head = ["entry", "version", *columns.values(), "checked cases",
            "error/bound", "s", "findings"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, row in judged.items():
        lines.append("| " + " | ".join([
            f"`{name}`", row["version"] + (", stale" if row.get("stale") else ""),
            *(group_cell(row, subject) for subject in columns),
            f"{row['checked']:,}", f"{row['error_over_bound']:.2g}",
            f"{row['seconds']:.0f}", ", ".join(
                f"`{finding}`" for finding in findings_in(row))]) + " |")
    return lines


def summary(rows):
    judged = [row for row in rows.values() if "groups" in row]
    findings = {finding for row in judged if not row.get("stale")
                for finding in findings_in(row)}
    machines = sorted({row.get("machine", "?") for row in judged})
    stale = [f"`{name}`" for name, row in rows.items() if row.get("stale")]
    return (f"{len(judged)} entries of {len(libraries_of(rows))} libraries and of a "
            "control in NumPy, "
            f"{sum(row['checked'] for row in judged):,} checked cases on "
            f"{' and '.join(machines)}; the failures are {len(findings)} findings."
            + (f" Stale, and counted for no finding, since what it declares has "
               f"changed: {', '.join(stale)}." if stale else ""))


def missing(rows):
    lines = [f"- `{name}`: {row['reason']}" for name, row in rows.items()
             if "reason" in row]
    return ["", "Not to be had:", "", *lines] if lines else []


def failure_lines(one):
    lines = [f"- **{one['law']}** ({one['verdict']}): "
             + (", ".join(f"`{finding}`" for finding in one["findings"])
                or "NO FINDING EXPLAINS THIS")]
    for word in ("case", "expected", "allowed", "actual", "looks", "reason"):
        if word in one:
            lines.append(f"  - {word}: `{one[word]}`")
    if "cause" in one:
        lines.append(f"  - cause: `{one['cause']}`, {one['certainty']}")
    return lines


def entry_lines(name, row):
    lines = ["", f"## {name} {row['version']}", ""]
    lines.append(f"{row['cases']:,} cases asked, {row['checked']:,} checked, on "
                 f"{row.get('machine', '?')}, {row['on']}"
                 + (f", commit {row['commit']}." if "commit" in row else "."))
    if row.get("stale"):
        lines += ["", "Stale: what is declared of it, or the file that calls it, has "
                  "changed since."]
    for word, title in (("assumed", "Assumed"), ("not_judged", "Not judged")):
        if row.get(word):
            lines += ["", f"{title}: {row[word]}"]
    if row["refused"]:
        lines += ["", "Refused: " + "; ".join(
            f"{why} ({calls} calls)" for why, calls in row["refused"].items())]
    elif row.get("refused_cases"):
        lines += ["", f"Refused: {row['refused_cases']}"]
    if row["failures"]:
        lines.append("")
    for one in row["failures"]:
        lines += failure_lines(one)
    return lines


def page(rows):
    lines = ["# Released libraries, judged", "",
             "Written by `ci/libraries.py`. [README.md](README.md) says how, and has "
             "the findings.", "", summary(rows), "", *table(rows),
             *missing(rows)]
    for name, row in rows.items():
        if "groups" in row:
            lines += entry_lines(name, row)
    return "\n".join(lines) + "\n"


def between(text, mark, lines):
    """The text with these lines between <!-- mark --> and <!-- end of mark -->.
    ValueError if it has no such marks."""
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"no {begin} and {end}")
    return "\n".join([before + begin, *lines, end + after])


def of_kinds(findings):
    """"8 bug, 2 looser than documented"."""
    kinds = collections.Counter(one.kind for one in findings.values())
    return ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())


def findings_rows(findings):
    lines = ["", "| finding | kind | what | public thread |", "|---|---|---|---|"]
    for one in findings.values():
        thread = f"[{short(one.thread)}]({one.thread})" if one.thread else ""
        lines.append(f"| `{one.name}` | {one.kind} | {one.summary} | {thread} |")
    return lines


def findings_table(rows, findings):
    """Those that a verdict has, and apart from them the others."""
    here = counted(rows, findings)
    others = {name: one for name, one in findings.items() if name not in here}
    libraries = {one.library for one in here.values()}
    return [f"**Laws fail on {len(here)} findings** in {len(libraries)} released "
            f"libraries, as [verdicts.md](verdicts.md) records: {of_kinds(here)}.",
            *findings_rows(here), "",
            f"**Met on the way, {len(others)}**: an adapter, a declaration or a test of "
            "the library came upon it, and no recorded verdict is a failure for it: "
            f"{of_kinds(others)}.", *findings_rows(others)]


def short(address):
    """owner/name#7 of an address at GitHub."""
    parts = address.split("/")
    return f"{parts[3]}/{parts[4]}#{parts[-1]}"


def write_pages(folder, rows, findings):
    (folder / "verdicts.md").write_text(page(rows))
    readme = folder / "README.md"
    if readme.exists():
        text = between(readme.read_text(), "verdicts", [summary(rows)])
        readme.write_text(between(text, "findings",
                                  findings_table(rows, findings)))
