# SPDX-License-Identifier: Apache-2.0
"""Tests of ci/sharpness.py: its figures by hand, and a declaration that leaves
room beside one that does not; and how ci/data_recall.py changes data."""
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import data_recall
import sharpness

QKVET = str(pathlib.Path(os.environ.get("QKVET_HOME", "build/release"))
            / "bin" / "qkvet")


def group_of(quarters, no_error=0):
    group = sharpness.Group()
    group.add("a/b", {"without_error": no_error, "quarters": quarters})
    return group


def test_quotients_are_those_of_the_class_in_the_middle():
    group = group_of({"0": 19, "4": 30, "40": 1}, no_error=50)
    assert group.cases() == 100
    assert group.quotient(0.38) == 2 ** 0.125
    assert group.quotient(0.39) == group.quotient(0.98) == 2 ** 1.125
    assert group.quotient(0.99) == 2 ** 10.125
    assert group.nearest() == 1
    row = sharpness.row_of(sharpness.row_values("f32", "`cpu_f32`", group))
    assert row == "| `f32` | `cpu_f32` | 1 | 100 | 50 % | 2.2 | 2.2 | 1 |"


def test_arithmetic_is_the_preset_and_what_is_narrower():
    kernel = {"precision_declared": True,
              "precision": ["preset = cpu_f32", "p_dtype = f16", "tile = 8"]}
    assert sharpness.arithmetic_of(kernel) == "`cpu_f32`, p f16"
    kernel["precision"] += [f"field{n} = 1" for n in range(8)]
    assert sharpness.arithmetic_of(kernel) == "`cpu_f32` in detail, p f16"
    assert "generic" in sharpness.arithmetic_of({"precision_declared": False})


def record_of(values):
    return {"commit": "0" * 8, "date": "2026-11-29", "seed": None, "values": values}


def first_text(rows):
    return sharpness.first_text(record_of(sharpness.first_reports(rows)))


def test_a_fault_that_lives_is_named():
    rows = [{"kernel": f"faulty/{n}", "case": n, "cpu_seconds": n / 10,
             "faults": 100} for n in range(1, 101)]
    said = first_text(rows + [{"kernel": "faulty/alive", "cpu_seconds": 99}])
    assert said["first"].splitlines() == [
        "| cases | 50 | 95 | 100 | `faulty/100` |",
        "| seconds | 5.0 | 9.5 | 10.0 | `faulty/100` |"]
    assert "`faulty/alive`" in said["living"]
    said = first_text(rows)
    assert said["faults"] == "100" and "All" in said["living"]
    assert first_text(rows[:9])["faults"] == "9 of 100"


def test_recall_is_of_faults_that_some_data_finds():
    rows = [{"kernel": f"faulty/{n}", "cases": 10, "faults": 9,
             "failed": {"all recipes": all_, "N(0,1)": normal}}
            for n, (all_, normal) in enumerate([(4, 8), (2, 0), (0, 0)])]
    said = sharpness.recall_text(record_of(sharpness.recall(rows)))
    assert said["recall"].splitlines() == ["| all recipes | 2 | 100 % | 20 % |",
                                           "| N(0,1) | 1 | 50 % | 80 % |"]
    assert said["not_by_normal"].endswith("`faulty/1`.")
    assert "3 of 9 faults" in said["recall_text"]


def test_data_is_all_that_changes():
    case = "f32,B1,H2,Tq3,Tk4,d8,causal=br,q=lead,k=offset1,seed=7"
    assert data_recall.with_data(case, 0, None) == case
    assert [data_recall.with_data(case, n, ["normal", "large"])
            for n in range(3)] == [
        f"f32,B1,H2,Tq3,Tk4,d8,causal=br,seed=7,data={one}"
        for one in ("normal", "large", "normal")]


def median_of(folder, *arguments):
    record = folder / "run.jsonl"
    subprocess.run([QKVET, "check", "--kernel", "scalar/plain", "--law",
                    "agrees_with_oracle", "--cases", "300", "--json",
                    str(record), *arguments], check=True, capture_output=True)
    groups = sharpness.groups_of(sharpness.lines_of(record))
    one, = (group for (storage, _), group in groups.items()
            if storage == "f32")
    return one.quotient(0.5)


def test_a_declaration_that_leaves_room_is_less_sharp(tmp_path):
    loose = tmp_path / "loose.txt"
    loose.write_text("preset = cpu_f32\naccumulator_u = 1.9073486328125e-06\n")
    own = median_of(tmp_path)
    assert 1 <= own < 20
    assert median_of(tmp_path, "--precision", str(loose)) > 8 * own
