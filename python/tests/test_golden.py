# SPDX-License-Identifier: Apache-2.0
"""Golden sets, listed and compared with a callable."""
import numpy as np
import pytest

import kernels
import qkvet
from qkvet import golden

NAMES = "numpy_*"


def test_sets_are_listed_with_their_data():
    there = {one.name: one for one in golden.sets()}
    assert len(there) > 100
    one = there["hand_copies_four_fifths_f32"]
    assert one.source == "by hand" and one.pins
    assert qkvet.case.parse(one.case.replace("=file", "=normal")).extents["Tk"] == 5
    arrays = one.arrays()
    assert arrays["o"].shape == (1, 1, 1, 2)
    np.testing.assert_allclose(arrays["weights"].sum(-1), 1, rtol=1e-6)


def test_a_right_callable_holds():
    report = golden.verify(kernels.full, names=NAMES)
    assert report.ok, report.text
    assert sum(one.correct == "passed" for one in report.results) > 5
    assert any(one.correct == "unsupported" and one.reason
               for one in report.results)


def test_a_wrong_one_does_not():
    report = golden.verify(kernels.forgets_scale, names=NAMES,
                           options="scale default_scale cross_lengths")
    assert report.verdict == "failed", report.text
    assert any(one.correct == "failed" for one in report.results)
    with pytest.raises(qkvet.LawFailed):
        report.raise_on_failure()


def test_what_is_no_folder_of_sets_is_one_line(tmp_path):
    with pytest.raises(qkvet.WrongUse, match="no MANIFEST.jsonl"):
        golden.sets(tmp_path)
    with pytest.raises(qkvet.WrongUse):
        golden.verify(kernels.full, sets=tmp_path)
