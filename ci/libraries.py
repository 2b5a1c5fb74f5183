#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judges released attention libraries, an entry for each file of
examples/libraries/declarations, and writes the results: verdicts.json, and from
it the page verdicts.md and the marked parts of README.md (ci/libraries_page.py).

    python3 ci/libraries.py                       # what this Python can import
    python3 ci/libraries.py --environment ~/libs  # makes it, installs, judges
    python3 ci/libraries.py --only 'torch:*' --cases 2000 --again

An entry with the same version and declaration and with at least as many cases is only
judged again with --again. An unavailable library is a line with the reason. Exit
code: 0 every failure is a finding that a declaration names, 1 one is not, 2 wrong
use, 3 nothing was judged.
"""
import argparse
import collections
import contextlib
import datetime
import fcntl
import fnmatch
import hashlib
import importlib
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[1]
LIBRARIES = ROOT / "examples/libraries"
sys.path[:0] = [str(LIBRARIES), str(LIBRARIES / "findings"), str(ROOT / "ci")]

import answer  # noqa: E402
import libraries_page  # noqa: E402
import records  # noqa: E402

SECONDS = 1800  # an entry that takes longer is a line with the reason


def wrong_use(line):
    print(f"libraries.py: {line}", file=sys.stderr)
    sys.exit(2)


def entries():
    """"torch:math" for each declaration, in the order of packages.txt."""
    order = list(packages())
    names = [name.replace("-", ":", 1) for name in answer.declarations(None)]
    return sorted(names, key=lambda name: order.index(name.split(":")[0]))


def packages():
    """Words for pip install, by library."""
    text = (LIBRARIES / "packages.txt").read_text()
    return {name: words.split() for name, words in answer.pairs(text).items()}


def chosen(globs):
    names = entries()
    for glob in globs:
        if not fnmatch.filter(names, glob):
            wrong_use(f"--only {glob}: no such entry; allowed: a glob of "
                      + ", ".join(names))
    return [name for name in names
            if not globs or any(fnmatch.fnmatch(name, glob) for glob in globs)]


# ---- The environment ---------------------------------------------------------


def environment(folder, names):
    """The Python of a virtual environment with the packages of these entries. Packages
    that pip could not install are reported, and fail again when they are imported."""
    python = folder / "bin" / "python"
    if not python.exists():
        ran = subprocess.run([sys.executable, "-m", "venv", str(folder)],
                             capture_output=True, text=True)
        if ran.returncode != 0:
            said = (ran.stderr.strip() or ran.stdout.strip()).splitlines()
            wrong_use(f"--environment {folder}: no virtual environment: "
                      + (said[-1] if said else f"exit {ran.returncode}"))
    wanted = dict.fromkeys(["numpy", "ml_dtypes"])
    for name in names:
        wanted.update(dict.fromkeys(packages()[name.split(":")[0]]))
    for package in wanted:  # one by one: one that fails leaves the others
        print(f"{package}: pip installs it", flush=True)  # minutes, for some
        ran = subprocess.run([str(python), "-m", "pip", "install", "-q", package],
                             capture_output=True, text=True)
        if ran.returncode != 0:
            print(f"{package}: not installed: "
                  + ran.stderr.strip().splitlines()[-1], flush=True)
    return str(python)


def versions(python):
    """The version of the first package of each library, where it is installed."""
    firsts = {name: words[0].split("[")[0] for name, words in packages().items()}
    program = ("import importlib.metadata as m, json, sys\n"
               "out = {}\n"
               "for name, package in json.loads(sys.argv[1]).items():\n"
               "    try: out[name] = m.version(package)\n"
               "    except m.PackageNotFoundError: pass\n"
               "print(json.dumps(out))\n")
    try:
        ran = subprocess.run([python, "-c", program, json.dumps(firsts)],
                             capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as why:
        wrong_use(f"--python {python}: does not run: {why}")
    return json.loads(ran.stdout)


# ---- One entry ---------------------------------------------------------------


def digest(name):
    """A digest of the declaration, without the number of cases and the findings, and
    of the file that calls the library."""
    sections, _ = answer.declaration(answer.declared_name(name))
    words = {part: {word: value for word, value in answer.pairs(text).items()
                    if word != "cases"}
             for part, text in sections.items() if part != "findings"}
    kind = "callables" if "check" in sections else "adapters"
    called = (LIBRARIES / kind / f"{name.split(':')[0]}.py").read_text()
    return hashlib.sha256((json.dumps(words) + called).encode()).hexdigest()[:12]


def declared_cases(name):
    sections, _ = answer.declaration(answer.declared_name(name))
    return int(answer.pairs(sections.get("emit") or sections["check"])["cases"])


def findings_of(name):
    """Law (or a glob) -> the names of findings that explain its failure."""
    sections, _ = answer.declaration(answer.declared_name(name))
    return {law: names.split() for law, names in answer.pairs(
        sections.get("findings", "")).items()}


def all_findings():
    """By name; no library is imported by that, but for NumPy."""
    try:
        import shown
    except ImportError as why:
        wrong_use(f"the findings cannot be listed: {why}")
    for path in sorted((LIBRARIES / "findings").glob("of_*.py")):
        importlib.import_module(path.stem)
    return shown.FINDINGS


def explained(name, law):
    """The findings that a declaration names for the failure of a law."""
    return [finding for glob, names in findings_of(name).items()
            if fnmatch.fnmatch(law, glob) for finding in names]


def groups_of(rows, subjects):
    """Counts of laws and checked cases by group, from the rows of a run."""
    groups = {}
    for row in rows:
        group = groups.setdefault(subjects[row["law"]], collections.Counter())
        group[row["verdict"]] += 1
        group["checked"] += row["checked"]
    return {name: dict(group) for name, group in groups.items()
            if group["checked"] or group["failed"] or group["crash"]}


def largest(rows):
    """The largest error/bound of what passed; JSON writes infinity as a text."""
    numbers = [float(row["worst_error_over_bound"]) for row in rows
               if row["verdict"] == "passed"
               and row.get("worst_error_over_bound") is not None]
    return max(numbers, default=0.0)


def failure(name, row):
    found = row.get("failure", {})
    cause = found.get("diagnosis", {})
    known = cause.get("cause", "")
    return {"law": row["law"], "verdict": row["verdict"],
            **{word: found[word] for word in (
                "case", "expected", "actual", "allowed", "looks")
               if found.get(word)},
            **({"cause": known, "certainty": cause["certainty"]}
               if known and cause.get("certainty") in ("sure", "likely") else {}),
            **({"reason": row["reason"]} if row.get("reason") else {}),
            "findings": explained(name, row["law"])}


def paragraph(text, word):
    """The text of the program's report after a word at the beginning of a line."""
    out, inside = [], False
    for line in text.splitlines():
        begins = line.startswith("  ") and line[2:14].strip() != ""
        inside = line.startswith(f"  {word} ") if begins else (
            inside and line.startswith(" " * 14))
        if inside:
            out.append(line[14:].strip())
    return " ".join(out)


def refused(text):
    """"refused 64 calls: why" of answer.py, by reason."""
    out = {}
    for line in text.splitlines():
        words = line.split(" ", 3)
        if line.startswith("refused ") and len(words) == 4 and words[2] == "calls:":
            out[words[3]] = int(words[1])
    return out


def refused_cases(results):
    """"mine/fast: 64 cases; the first: why", of laws that are not refused whole."""
    some = [row for row in results
            if row["unsupported"] and row["verdict"] != "unsupported"]
    if not some:
        return ""
    cases = sum(row["unsupported"] for row in some)
    return (f"{some[0]['kernel']}: {cases:,} case{'s' if cases != 1 else ''}; "
            f"the first: {some[0]['refusal']}")


def judged(name, python, qkvet, cases, subjects):
    """One entry by examples/libraries/run.py: what came out, or {"reason"}."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        lines = pathlib.Path(folder) / "report.jsonl"
        words = ["-n", str(cases)] if cases else []
        try:
            ran = subprocess.run(
                [python, str(LIBRARIES / "run.py"), name, "--json", str(lines),
                 *words], capture_output=True, text=True, timeout=SECONDS,
                env={**os.environ, "QKVET": qkvet, "QKVET_PLAN": folder,
                     "PYTHONDONTWRITEBYTECODE": "1"})
        except subprocess.TimeoutExpired:
            return {"reason": f"more than {SECONDS} s"}
        if not lines.exists() or ran.returncode == 2:
            said = (ran.stderr.strip() or ran.stdout.strip()).splitlines()
            return {"reason": said[-1] if said else f"exit {ran.returncode}"}
        rows = [json.loads(line) for line in lines.read_text().splitlines()]
    results = [{**row, "verdict": row["verdict"].lower()} for row in rows
               if row["type"] == "result"]
    return {
        "exit": ran.returncode,
        "cases": next(row["cases"] for row in rows if row["type"] == "start"),
        "checked": sum(row["checked"] for row in results),
        "seconds": round(time.monotonic() - begun, 1),
        "error_over_bound": largest(results),
        "groups": groups_of(results, subjects),
        "failures": [failure(name, row) for row in results
                     if row["verdict"] not in (
                         "passed", "unsupported", "not declared", "skipped",
                         "gave up")],  # of few cases none may be judged
        "not_judged": "; ".join(rows[-1].get("not_judged", [])),
        "assumed": paragraph(ran.stdout, "assumed"),
        "refused": refused(ran.stdout),
        "refused_cases": refused_cases(results)}


def machine():
    """The architecture, and the largest of the extensions by which libraries choose
    kernels: verdicts depend on it."""
    flags = ""
    try:
        flags = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        pass
    words = set(flags.split())
    found = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "sve")
             if flag in words]
    return " ".join([platform.machine(), *found[-1:]])


def subjects_of(qkvet):
    """Law -> group, as the program groups them."""
    try:
        ran = subprocess.run([qkvet, "explain", "laws", "--json"],
                             capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as why:
        wrong_use(f"--qkvet {qkvet}: does not run: {why}")
    rows = map(json.loads, ran.stdout.splitlines())
    return {row["id"]: row["subject"] for row in rows}


def program(named):
    built = ROOT / "build/release/bin/qkvet"
    return named or os.environ.get("QKVET") or (
        str(built) if built.exists() else "qkvet")


# ---- All of them -------------------------------------------------------------


def unexplained(row):
    return [one["law"] for one in row.get("failures", []) if not one["findings"]]


def line(name, row):
    if "reason" in row:
        return f"{name:34} not judged: {row['reason']}"
    alone = unexplained(row)
    return (f"{name:34} {row['version']:10} {row['checked']:7,} checked, "
            f"{len(row['failures'])} failed, {row['seconds']:.0f} s"
            + ("; no finding for " + ", ".join(alone) if alone else ""))


@contextlib.contextmanager
def nobody_else(folder):
    """Several may judge into one folder, and lose no row of each other's."""
    door = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(door, fcntl.LOCK_EX)
        yield
    finally:
        os.close(door)


def run_all(words, names, results, path):
    """Judges the entries that need it and writes `results` after each of them.
    Returns their number."""
    python, qkvet = words.python, program(words.qkvet)
    subjects, installed, count = subjects_of(qkvet), versions(python), 0
    for name in names:
        version = installed.get(name.split(":")[0])
        key = {"version": version, "declaration": digest(name)}
        old = results.get(name, {})
        if (not words.again and "groups" in old
                and old["cases"] >= (words.cases or declared_cases(name))
                and all(old[word] == value for word, value in key.items())):
            print(f"{name:34} {version:10} judged already", flush=True)
            count += 1
            continue
        row = (judged(name, python, qkvet, words.cases, subjects) if version
               else {"reason": packages()[name.split(":")[0]][0]
                     + " is not installed"})
        print(line(name, {**row, **key}), flush=True)
        count += "groups" in row
        if "groups" in row or "groups" not in old:  # a verdict is not lost
            with nobody_else(path.parent):
                results.update(libraries_page.read_json(path))
                results[name] = {**key, **row, "machine": machine(),
                                 "commit": records.commit(), "on": datetime.date.today().isoformat()}
                libraries_page.write_json(path, results)
    return count


def arguments(argv):
    parser = argparse.ArgumentParser(add_help=False, usage=__doc__)
    parser.error = wrong_use
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--only", action="append", default=[], metavar="GLOB")
    parser.add_argument("--cases", type=int, metavar="N")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--pages", action="store_true")
    parser.add_argument("--python", default=sys.executable, metavar="FILE")
    parser.add_argument("--environment", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--qkvet", metavar="FILE")
    parser.add_argument("--results", type=pathlib.Path, default=LIBRARIES,
                        metavar="FOLDER")
    words = parser.parse_args(argv)
    if words.cases is not None and words.cases < 1:
        wrong_use(f"--cases {words.cases}; allowed: 1 and more")
    if not words.results.is_dir():
        wrong_use(f"--results {words.results}: no folder; allowed: an existing one")
    return words


def in_environment(words, argv, names):
    """Continues in the Python of the environment: the pages also need NumPy."""
    python = environment(words.environment, names)
    at = next(n for n, word in enumerate(argv) if word.startswith("--env"))
    rest = argv[:at] + argv[at + (1 if "=" in argv[at] else 2):]
    sys.stdout.flush()
    os.execv(python, [python, __file__, *rest, "--python", python])


def main(argv):
    words = arguments(argv)
    if words.help:
        print(__doc__)
        return 0
    names = chosen(words.only)
    if words.list:
        print("\n".join(names))
        return 0
    if words.environment:
        in_environment(words, argv, names)
    path = words.results / "verdicts.json"
    try:
        results = libraries_page.read_json(path)
    except ValueError as why:
        wrong_use(f"{path}: {why}")
    count = (sum("groups" in results.get(name, {}) for name in names)
             if words.pages else run_all(words, names, results, path))
    with nobody_else(words.results):
        results = {**results, **libraries_page.read_json(path)}
        # Findings and declarations of today explain what was judged before.
        for name, row in results.items():
            for one in row.get("failures", []) if name in entries() else []:
                one["findings"] = explained(name, one["law"])
        results = {name: results[name] for name in entries() if name in results}
        for name, row in results.items():
            row.pop("stale", None)
            if "groups" in row and row.get("declaration", digest(name)) != digest(name):
                row["stale"] = True
        libraries_page.write_json(path, results)
        libraries_page.write_pages(words.results, results, all_findings())
    alone = {name: unexplained(results[name]) for name in names
             if name in results and unexplained(results[name])}
    for name, laws in alone.items():
        print(f"{name}: no finding explains " + ", ".join(laws))
    return 3 if count == 0 else 1 if alone else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
