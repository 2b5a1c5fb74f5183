# SPDX-License-Identifier: Apache-2.0
"""The laws of a callable over the processes of pytest-xdist."""
import pytest

pytest.importorskip("xdist", reason="the package pytest-xdist is not installed")

from test_pytest_plugin import run


def test_each_law_by_itself(tmp_path):
    said = run(tmp_path, "-k", "test_right and (weights or hull or oracle)",
               "-n", "2", "-p", "xdist")
    assert "passed" in said and "failed" not in said, said
