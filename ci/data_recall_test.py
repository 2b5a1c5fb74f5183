# SPDX-License-Identifier: Apache-2.0
"""ci/data_recall.py against a program with known verdicts: its counts, the
faults that it leaves out and how its table mentions them; and records and
replies that it must refuse."""
import json
import pathlib
import re
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))
import data_recall
import sharpness

# Knows two faults of attention and one of something else. It plans cases of n keys for a
# plan of n; faulty/large_alone fails under large data, faulty/odd where there
# is an odd number of keys, and takes at most 40 of them.
PROGRAM = '''#!{python}
import json, pathlib, re, sys
command, words = sys.argv[1], sys.argv[2:]
if words[:1] == ["laws"]:
    for law, subject in (("agrees_with_oracle", "attention"),
                         ("lse_counts", "merges")):
        print(json.dumps({{"id": law, "subject": subject}}))
elif command == "explain":
    for name, law in (("large_alone", "agrees_with_oracle"),
                      ("odd", "agrees_with_oracle"), ("other", "lse_counts")):
        print(json.dumps({{"name": "faulty/" + name, "killed_by": [law]}}))
elif command == "judge":
    plan = pathlib.Path(words[words.index("--ask") + 1])
    plan.mkdir()
    cases = int(words[words.index("--cases") + 1])
    (plan / "plan.json").write_text(json.dumps({{"cases": [
        {{"case": f"f32,B1,H1,Tq1,Tk{{n + 1}},d8,q=normal,seed={{n}}"}}
        for n in range(cases)]}}))
elif command == "replay":
    file = words[0][1:]
    fault = words[words.index("--kernel") + 1]
    for number, case in enumerate(pathlib.Path(file).read_text().split()):
        keys = int(re.search("Tk([0-9]+)", case)[1])
        if fault == "faulty/odd":
            word = ("unsupported" if keys > 40 else
                    "FAIL" if keys % 2 else "passed")
        else:
            word = "CRASH" if "data=large" in case else "passed"
        if word in ("FAIL", "CRASH"):
            print(f"{{word}}  agrees_with_oracle  {{fault}}")
        else:
            print(f"{{file}}:{{number + 1}}: {{word}}")
    {last}
'''


@pytest.fixture(name="program")
def fixture_program(tmp_path):
    return program_of(tmp_path)


def program_of(folder, last="pass"):
    path = folder / "program"
    path.write_text(PROGRAM.format(python=sys.executable, last=last))
    path.chmod(0o755)
    return str(path)


def run(program, out, *faults):
    return subprocess.run([sys.executable, str(FOLDER / "data_recall.py"),
                           program, str(out), *faults],
                          capture_output=True, text=True)


def rows_of(out):
    return {row["kernel"]: row
            for row in map(json.loads, out.read_text().splitlines())}


def test_counts_what_fails_of_what_a_fault_takes(program, tmp_path):
    out = tmp_path / "recall.jsonl"
    assert run(program, out).returncode == 0
    rows = rows_of(out)
    # Faults of other laws are not run.
    assert sorted(rows) == ["faulty/large_alone", "faulty/odd"]
    assert {row["faults"] for row in rows.values()} == {2}
    odd, large = rows["faulty/odd"], rows["faulty/large_alone"]
    # Cases with an option come first, 24 of each, up to 60 in all: every second one has
    # an odd number of keys, whatever the data.
    assert odd["cases"] == large["cases"] == data_recall.MOST_CASES
    assert set(odd["failed"].values()) == {30}
    # One of seven presets in turns: of 60 the fourth of each seven.
    of_large = dict.fromkeys(data_recall.STRATEGIES, 0)
    of_large["extreme"] = len(range(3, 60, 7))
    assert large["failed"] == of_large


def test_the_table_is_of_these_records(program, tmp_path):
    out = tmp_path / "recall.jsonl"
    run(program, out)
    said = sharpness.recall_text({
        "commit": "0" * 8, "date": "2026-11-29", "seed": None,
        "values": sharpness.recall(list(rows_of(out).values()))})
    cells = dict(re.match(r"\| (.*?) \| (.*) \|$", line).groups()
                 for line in said["recall"].splitlines())
    assert cells["N(0,1)"] == "1 | 50 % | 50 %"
    assert cells["extreme"].startswith("2 | 100 % | ")
    assert said["not_by_normal"].endswith("`faulty/large_alone`.")
    assert "2 of 2 faults" in said["recall_text"]


def test_what_was_asked_is_not_asked_again(program, tmp_path):
    out = tmp_path / "recall.jsonl"
    run(program, out, "1")
    first = out.read_text()
    assert len(rows_of(out)) == 1
    run(program, out)
    assert out.read_text().startswith(first) and len(rows_of(out)) == 2
    whole = out.read_text()
    run(program, out)
    assert out.read_text() == whole


# The control: an answer that lacks a case, or has one too many, is no verdict
# of the others.
@pytest.mark.parametrize("last", ['print("FAIL  once more")',
                                  'print(f"{file}:99: passed")'])
def test_verdicts_that_are_no_verdict_a_case_end_it(tmp_path, last):
    out = tmp_path / "recall.jsonl"
    ran = run(program_of(tmp_path, last), out)
    assert ran.returncode != 0
    assert "verdicts of" in ran.stderr
    assert not out.read_text()


# The control: where other data is not given, no strategy differs from another.
def test_with_the_same_data_all_strategies_find_the_same(program, tmp_path,
                                                         monkeypatch):
    monkeypatch.setattr(data_recall, "with_data", lambda case, *_: case)
    monkeypatch.setattr(sys, "argv", ["", program, str(tmp_path / "same")])
    assert data_recall.main() == 0
    for row in rows_of(tmp_path / "same").values():
        assert len(set(row["failed"].values())) == 1
    assert rows_of(tmp_path / "same")["faulty/large_alone"]["failed"][
        "extreme"] == 0


def test_wrong_words_are_answered_by_the_usage():
    ran = subprocess.run([sys.executable, str(FOLDER / "data_recall.py")],
                         capture_output=True, text=True)
    assert ran.returncode == 2
    assert "Usage:" in ran.stderr
