# SPDX-License-Identifier: Apache-2.0
"""Every block of the page on interpreted and compiled kernels, each a script."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

PAGE = pathlib.Path(__file__).parents[1] / "interpreted.md"
BLOCKS = dict(re.findall(r"^```python ([a-z]+)\n(.*?)^```$", PAGE.read_text(),
                         re.MULTILINE | re.DOTALL))
NEEDED = {"triton": ("triton", "torch"), "pallas": ("jax",), "compile": ("torch",)}


def test_each_block_has_its_packages():
    assert set(BLOCKS) == set(NEEDED)


@pytest.mark.parametrize("kind", NEEDED)
def test_the_block_runs(tmp_path, kind):
    for package in NEEDED[kind]:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the package {package} is not installed")
    script = tmp_path / f"{kind}_kernels.py"
    script.write_text(BLOCKS[kind])
    path = os.pathsep.join([str(PAGE.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, str(script)], text=True, check=False,
                          env={**os.environ, "PYTHONPATH": path}, cwd=tmp_path,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
