# SPDX-License-Identifier: Apache-2.0
"""The output of pytest for the laws of a callable."""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent

RIGHT = '''
import kernels
import qkvet

@qkvet.laws(kernels.attention, cases=150)
def test_right(law):
    law.check()
'''

WRONG = RIGHT.replace("attention", "forgets_scale").replace("right", "wrong")


def run(folder, *words, laws=RIGHT):
    (folder / "test_laws.py").write_text(laws)
    path = os.pathsep.join([str(HERE.parent), str(HERE)])
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "qkvet.pytest_plugin", "-rs",
         "-p", "no:cacheprovider", "test_laws.py", *words], cwd=folder,
        env={**os.environ, "PYTHONPATH": path}, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout


def test_a_test_for_each_law(tmp_path):
    # Two laws of the wrong one, each of which is judged again for its text.
    said = run(tmp_path, "-v", "-k", "test_right or agrees_with_oracle or "
               "weights_sum_to_one", laws=RIGHT + WRONG)
    assert "test_right[weights_sum_to_one] PASSED" in said, said
    assert "test_wrong[agrees_with_oracle] FAILED" in said
    assert "test_right[agrees_with_oracle] PASSED" in said
    # The text of the command line.
    assert "no_scale" in said
    assert "error/bound" in said


def test_options(tmp_path):
    said = run(tmp_path, "-k", "test_right and weights_sum", "--qkvet-seed", "x")
    assert "seed" in said, said
    said = run(tmp_path, "-k", "test_right and weights_sum", "--qkvet-seed", "9")
    assert "1 passed" in said, said


def test_accepted_failures_are_expected_and_must_stay(tmp_path):
    known = tmp_path / "known.txt"
    known.write_text(
        "kernels/forgets_scale agrees_with_oracle no_scale 2026-11-01 old one\n")
    words = ("-k", "test_wrong and agrees_with_oracle", "-rx", "--qkvet-known",
             str(known))
    said = run(tmp_path, *words, laws=WRONG)
    assert "1 xfailed" in said, said
    assert "known since 2026-11-01: old one" in said, said
    known.write_text(
        "kernels/attention agrees_with_oracle no_scale 2026-11-01 mended\n")
    said = run(tmp_path, "-k", "test_right and agrees_with_oracle", *words[2:])
    assert "1 failed" in said, said
