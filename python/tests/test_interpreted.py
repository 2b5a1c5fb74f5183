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


def run(script, **more):
    return subprocess.run([sys.executable, str(script)], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)


def why_not_compiled(folder):
    """"" or why this PyTorch cannot compile: Debian 13 has it without headers."""
    script = folder / "compiles.py"
    script.write_text("import torch\n"
                      "torch.compile(lambda x: x + 1)(torch.ones(2))\n")
    done = run(script, cwd=folder)
    wrong = re.search(r"^.*(?:fatal error|Error): .*$", done.stdout, re.MULTILINE)
    return "" if done.returncode == 0 else wrong[0] if wrong else done.stdout[-200:]


def test_each_block_has_its_packages():
    assert set(BLOCKS) == set(NEEDED)


@pytest.mark.parametrize("kind", NEEDED)
def test_the_block_runs(tmp_path, kind):
    for package in NEEDED[kind]:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the package {package} is not installed")
    if kind == "compile" and (why := why_not_compiled(tmp_path)):
        pytest.skip(f"torch.compile: {why}")
    script = tmp_path / f"{kind}_kernels.py"
    script.write_text(BLOCKS[kind])
    path = os.pathsep.join([str(PAGE.parent), os.environ.get("PYTHONPATH", "")])
    done = run(script, env={**os.environ, "PYTHONPATH": path}, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
