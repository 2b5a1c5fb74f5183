# SPDX-License-Identifier: Apache-2.0
"""The figures of pages are those of the records, and the records those of runs."""
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

import figures
import libraries
import libraries_page
import records

QKVET = str(pathlib.Path(os.environ.get("QKVET_HOME", "build/release")) / "bin/qkvet")


def test_pages_are_what_the_script_writes():
    for path, text in figures.pages().items():
        assert path.read_text() == text, f"{path}: run ci/figures.py"


def test_every_record_says_where_it_comes_from():
    names = sorted(path.stem for path in records.FOLDER.glob("*.json"))
    assert {"bounds", "correct", "data_recall", "faults", "first_reports", "pairs",
            "speed"} <= set(names)
    for name in names:
        one = records.read(name)
        assert re.fullmatch(r"[0-9a-f]{8}\+?", one["commit"]), name
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", one["date"]), name
        assert one["command"] and one["values"], name


def test_a_page_that_was_changed_by_hand_is_seen(monkeypatch, capsys):
    """The control: another figure in a record, and none of its pages is right."""
    read = records.read

    def other(name, folder=records.FOLDER):
        one = json.loads(json.dumps(read(name, folder)))
        if name == "faults":
            one["values"]["faults"] += 1
        if name == "speed":
            one["values"]["python"]["NumPy"]["per_second"] += 1
        if name == "bounds":
            one["values"]["kernels"] += 1
        return one
    monkeypatch.setattr(records, "read", other)
    monkeypatch.setattr("sys.argv", ["figures.py", "--check"])
    assert figures.main() == 1
    said = capsys.readouterr().out
    for page in ("README.md", "properties/kills.md", "properties/sharpness.md",
                 "python/README.md"):
        assert f"\n{page}: not what" in "\n" + said


def lines_of_run(path, *words):
    ran = subprocess.run([QKVET, "check", "--cases", "120", "--seed", "3", "--json",
                          str(path), *words], capture_output=True, text=True)
    assert ran.returncode in (0, 1, 3), ran.stderr
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_records_of_a_run_are_its_sums(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "FOLDER", tmp_path / "records")
    monkeypatch.setattr(records.write, "__defaults__", (tmp_path / "records",))
    lines = lines_of_run(tmp_path / "correct.jsonl", "--kernel", "scalar/*")
    shutil.copy(tmp_path / "correct.jsonl", tmp_path / "sweep-3-120.jsonl")
    assert figures.take_records(tmp_path)
    one = json.loads((tmp_path / "records/correct.json").read_text())
    assert one["seed"] == 3
    values, results = one["values"], [r for r in lines if r["type"] == "result"]
    assert values["checked"] == sum(r["checked"] for r in results) > 0
    assert values["checked"] == sum(
        checked or 0 for law in values["laws"].values() for checked in law.values())
    assert values["cases"] == 120 and values["failed"] == []
    run, = json.loads((tmp_path / "records/sweep.json").read_text())["values"]
    assert (run["seed"], run["cases"], run["checked"], run["failed"]) == (
        3, 120, values["checked"], 0)


def test_a_kernel_that_fails_is_in_the_record():
    results = [{"kernel": f"a/{verdict}", "law": "x", "verdict": verdict,
                "checked": 5} for verdict in ("passed", "FAILED", "mistrusted")]
    assert figures.cell(results) == "FAILED"
    assert figures.cell([results[0], results[2]]) == 10
    assert figures.cell([{**results[0], "verdict": "not declared"}]) is None
    assert figures.living(results) == ["a/mistrusted", "a/passed"]


# ---- Released libraries ------------------------------------------------------


@pytest.fixture
def judged():
    folder = libraries.LIBRARIES
    return folder, libraries_page.read_json(folder / "verdicts.json")


def test_pages_of_libraries_are_those_of_the_record(judged, tmp_path):
    folder, rows = judged
    shutil.copy(folder / "README.md", tmp_path)
    libraries_page.write_pages(tmp_path, rows, libraries.all_findings())
    for name in ("README.md", "verdicts.md"):
        assert (tmp_path / name).read_text() == (folder / name).read_text(), (
            f"{name}: run ci/libraries.py --pages")


def test_an_entry_is_stale_where_what_it_declares_has_changed(judged):
    _, rows = judged
    for name, row in rows.items():
        if "groups" in row:
            assert row.get("stale", False) == (
                row["declaration"] != libraries.digest(name)), name


def test_a_finding_counts_where_a_recorded_verdict_is_a_failure(judged):
    _, rows = judged
    findings = libraries.all_findings()
    here = libraries_page.counted(rows, findings)
    assert 0 < len(here) < len(findings)
    one = next(iter(here))
    without = {name: row for name, row in rows.items()
               if one not in libraries_page.findings_in(row)}
    assert one not in libraries_page.counted(without, findings)
    stale = {name: {**row, "stale": True} for name, row in rows.items()}
    assert libraries_page.counted(stale, findings) == {}


def test_only_the_expected_refusal_is_a_finding():
    spec = importlib.util.find_spec("shown")
    assert spec is not None
    import shown

    def raises():
        raise TypeError("no such mask")
    assert shown.refused(raises, "TypeError: no such mask") == "TypeError: no such mask"
    for other in ("ValueError", "TypeError: no such scale"):
        with pytest.raises(TypeError):
            shown.refused(raises, other)
    assert shown.refused(lambda: 3, "TypeError") == 3
