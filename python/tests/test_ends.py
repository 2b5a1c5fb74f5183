# SPDX-License-Identifier: Apache-2.0
"""The end of a Python process is the end of the program and of its workers."""
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import qkvet

HANGS = '''
import qkvet


@qkvet.kernel(options="default_scale")
def attention(q, k, v):
    open("began", "w").close()
    while True:
        pass


if __name__ == "__main__":
    qkvet.check("hangs:attention", cases=100, {more})
'''


def running(folder):
    """Processes that work in the folder."""
    found = []
    for process in pathlib.Path("/proc").iterdir():
        try:
            if process.name.isdigit() and os.readlink(process / "cwd") == str(folder):
                found.append(int(process.name))
        except OSError:
            pass
    return found


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_goes_on(tmp_path, how):
    (tmp_path / "hangs.py").write_text(HANGS.replace("{more}", ""))
    package = pathlib.Path(qkvet.__file__).parents[1]
    with subprocess.Popen([sys.executable, "hangs.py"], cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(package)},
                          stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        end = time.monotonic() + 60
        while not (tmp_path / "began").exists() and time.monotonic() < end:
            time.sleep(0.02)
        assert (tmp_path / "began").exists()
        assert len(running(tmp_path)) >= 3  # this one, the program, a worker
        process.send_signal(how)
        process.wait()
    end = time.monotonic() + 10
    while running(tmp_path) and time.monotonic() < end:
        time.sleep(0.02)
    assert running(tmp_path) == []
