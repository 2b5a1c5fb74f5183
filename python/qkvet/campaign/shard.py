# SPDX-License-Identifier: Apache-2.0
"""One shard, as a process of the program. This is all that a worker needs, here or
on another machine."""
import ctypes
import dataclasses
import json
import os
import pathlib
import signal
import socket
import tempfile
import time

from .. import _program
from ..declare import WrongUse
from ..report import VERDICTS

PR_SET_PDEATHSIG = 1  # linux/prctl.h
_libc = ctypes.CDLL(None, use_errno=True)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a shard. Either `record` is there, whole, or `lost` is how
    its process ended, or `wrong` is the line of a wrong use, which would be the
    same for every shard."""
    number: int
    record: bytes = b""
    text: str = ""  # the report, as the program prints it
    exit: int = 0
    seconds: float = 0.0
    host: str = ""
    lost: str = ""
    wrong: str = ""


def is_whole(record, number, of):
    """True for the record of this shard with its last line, of a run without an
    interrupt."""
    lines = record.splitlines()
    try:
        first, last = json.loads(lines[0]), json.loads(lines[-1])
    except (IndexError, ValueError):
        return False
    return (first.get("shard") == {"number": number, "of": of}
            and last.get("type") == "end" and not last.get("interrupted"))


def _die_with_parent():
    # A killed worker ends its shard, too, even before the program reads its
    # lifeline: the record would have no reader.
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _why_lost(code, said):
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    last = said.strip().splitlines()[-1:]
    return f"ended with {code}" + "".join(f": {line}" for line in last)


def run(words, number, of, folder, jobs=1, devices=None, started=None):
    """Runs shard `number` of `of` in `folder` with these words of `qkvet check`
    and returns its Outcome. `devices` goes to CUDA_VISIBLE_DEVICES. `started` is
    called with the process, and again with None once it is over."""
    host = socket.gethostname()
    if not os.path.isdir(folder):
        return Outcome(number, host=host, wrong=(
            f"{folder}: there is no such folder on {host}; allowed: to start a "
            "campaign in a folder that all machines share"))
    try:
        _program.program()
    except WrongUse as wrong:
        return Outcome(number, host=host, wrong=f"{host}: {wrong}")
    env = _program.environment()
    if devices is not None:
        env["CUDA_VISIBLE_DEVICES"] = devices
    started = started or (lambda _process: None)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="qkvet-shard-") as own:
        file = pathlib.Path(own) / "record.jsonl"
        line = ["check", *words, "--shard", f"{number}/{of}", "--jobs",
                str(jobs), "--json", str(file)]
        with _program.started(line, env, cwd=folder,
                              preexec_fn=_die_with_parent) as process:
            started(process)
            try:
                text, said = process.communicate()
            finally:
                process.kill()
                started(None)
        code = process.returncode
        record = file.read_bytes() if file.exists() else b""
    seconds = time.monotonic() - began
    if code == 2:
        return Outcome(number, host=host, wrong=said.strip())
    lost = ""
    if code not in VERDICTS:
        lost = _why_lost(code, said)
    elif not is_whole(record, number, of):
        lost = "ended before its plan did"
    if lost:
        return Outcome(number, host=host, seconds=seconds, lost=lost)
    return Outcome(number, record, text, code, seconds, host)
