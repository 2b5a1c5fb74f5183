# SPDX-License-Identifier: Apache-2.0
"""A campaign on Ray: four workers, one of them killed, then the head with
everything else. The cluster comes back, and each shard is in the result once."""
import collections
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import pytest

pytest.importorskip("ray", reason="the package ray is not installed")

from test_campaign import lines_of, rest_of, start, verdicts

from qkvet import _program

PLAN = ["--kernel", "scalar/plain", "--kernel", "faulty/no_scale", "--cases", "400"]
SHARDS = 8
# Both ends of the cluster are of this user and of this machine.
os.environ["RAY_AUTH_MODE"] = "disabled"


class Head:
    """`ray start --head` with four CPUs, in the foreground of a process group."""

    def __init__(self, port, folder):
        self._line = [
            str(pathlib.Path(sys.executable).parent / "ray"), "start", "--head",
            "--block", f"--port={port}", "--num-cpus=4", "--disable-usage-stats",
            "--include-dashboard=false", "--node-ip-address=127.0.0.1",
            f"--temp-dir={folder}"]
        self._log = open(pathlib.Path(folder) / "head.log", "ab")
        self._process = None

    def start(self):
        self._process = subprocess.Popen(
            self._line, stdin=subprocess.DEVNULL, stdout=self._log,
            stderr=subprocess.STDOUT, start_new_session=True)
        time.sleep(5)

    def stop(self):
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def parent_of_a_shard(folder):
    """The worker of Ray that is the parent of a shard of the campaign in `folder`.
    """
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            words = (status.parent / "cmdline").read_bytes().split(b"\0")
            inside = os.readlink(status.parent / "cwd") == str(folder)
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            of_ray = b"ray" in pathlib.Path(f"/proc/{parent}/cmdline").read_bytes()
        except OSError:
            continue
        if inside and b"--shard" in words and of_ray:
            return parent
    return None


def read_until(night, pattern, said):
    while not re.search(pattern, "".join(said)):
        line = night.stderr.readline()
        assert line, "".join(said)
        said.append(line)


def test_each_shard_is_there_once_whatever_is_killed(tmp_path):
    with tempfile.TemporaryDirectory(prefix="qkvet-ray-") as of_ray:
        port = free_port()
        head = Head(port, of_ray)
        head.start()
        said = []
        try:
            with start(tmp_path, "night", "--shards", str(SHARDS), "--ray",
                       f"127.0.0.1:{port}", "--patience", "300",
                       plan=PLAN) as night:
                worker = None
                while worker is None:
                    assert night.poll() is None, night.stderr.read()
                    worker = parent_of_a_shard(tmp_path)
                os.kill(worker, signal.SIGKILL)
                read_until(night, r"lost: \w+", said)
                read_until(night, r"\(2 of 8 done\)", said)
                head.stop()
                read_until(night, "the cluster is lost", said)
                head.start()
                out, more = rest_of(night)
        finally:
            head.stop()
    said = "".join(said) + more
    print(said, out, sep="\n")
    assert night.returncode == 1, said
    ended = collections.Counter(re.findall(r"^shard (\d)/8  exit", said, re.M))
    assert ended == {str(number): 1 for number in range(1, SHARDS + 1)}, said
    lines = lines_of(tmp_path / "night/all.jsonl")
    assert lines[0]["shards"] == {"of": SHARDS, "missing": [],
                                  "merged": list(range(1, SHARDS + 1))}
    # The same shards without Ray: a whole run replaces refused cases.
    shards = [str(tmp_path / f"{n}.jsonl") for n in range(1, SHARDS + 1)]
    for n, shard in enumerate(shards, 1):
        code, _, said = _program.run(
            ["check", *PLAN, "--shard", f"{n}/{SHARDS}", "--json", shard])
        assert code == 1, said
    code, _, said = _program.run(["report", *shards, "-o", str(tmp_path / "all.jsonl")])
    assert code == 1, said
    assert verdicts(lines) == verdicts(lines_of(tmp_path / "all.jsonl"))
