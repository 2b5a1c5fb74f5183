# SPDX-License-Identifier: Apache-2.0
"""Every block of README.md and guide.md, in order, in one script."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

PYTHON = pathlib.Path(__file__).parents[1]
TEXT = "".join((PYTHON / page).read_text() for page in ("README.md", "guide.md"))
BLOCKS = re.findall(r"^```(python[^\n]*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def run(script):
    path = os.pathsep.join([str(PYTHON), os.environ.get("PYTHONPATH", "")])
    return subprocess.run([sys.executable, str(script)], text=True, check=False,
                          env={**os.environ, "PYTHONPATH": path},
                          cwd=script.parent, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)


def script_of(kinds):
    return "\n".join(block for kind, block in BLOCKS if kind in kinds)


def test_no_block_is_left_out():
    assert {kind for kind, _ in BLOCKS} == {"python", "python torch", "python pytest"}


def test_the_blocks_run(tmp_path):
    script = tmp_path / "tutorial.py"
    script.write_text(script_of(["python"]))
    done = run(script)
    assert done.returncode == 0, done.stdout
    assert "no_scale" in done.stdout


def test_the_blocks_of_torch_run(tmp_path):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("the package torch is not installed")
    script = tmp_path / "tutorial.py"
    script.write_text("import numpy as np\nimport qkvet\n"
                      + script_of(["python torch"]))
    done = run(script)
    assert done.returncode == 0, done.stdout


def test_the_block_of_pytest_collects(tmp_path):
    first = BLOCKS[0][1].split("report =")[0]
    (tmp_path / "attention.py").write_text(first)
    (tmp_path / "test_it.py").write_text(
        dict(BLOCKS)["python pytest"].replace('dtypes="f32"', "cases=200"))
    path = os.pathsep.join([str(PYTHON), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "qkvet.pytest_plugin",
         "-p", "no:cacheprovider"], cwd=tmp_path, text=True, check=False,
        env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout
