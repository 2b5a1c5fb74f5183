# SPDX-License-Identifier: Apache-2.0
"""Golden sets: files with a call and its outputs from another source.

    for one in qkvet.golden.sets():
        print(one.name, one.case, one.pins)
    report = qkvet.golden.verify(my_attention)
    report.raise_on_failure()
"""
import dataclasses
import json
import os
import pathlib
import tempfile
from typing import List

from . import _program
from .call import read_safetensors
from .declare import WrongUse
from .imported import in_worker
from .report import LawFailed, VERDICTS
from .run import ran, where_of


@dataclasses.dataclass(frozen=True)
class GoldenSet:
    """name; case: its text; pins: the property that it fixes; source: its origin."""
    name: str
    case: str
    pins: str
    source: str
    path: pathlib.Path

    def arrays(self):
        """Inputs and recorded outputs by name, as NumPy arrays."""
        return read_safetensors(self.path)


@dataclasses.dataclass(frozen=True)
class SetResult:
    """correct: the verdict by the definition ("passed", "failed", "crash",
    "unsupported"); expected: the verdict by the set; reason: why it was not
    judged."""
    name: str
    case: str
    correct: str
    expected: str
    error_over_bound: float
    reason: str


@dataclasses.dataclass(frozen=True)
class GoldenReport:
    """The result of `verify`. `text` is the output of the program."""
    exit_code: int
    text: str
    results: List[SetResult]

    @property
    def verdict(self):
        """"conforms", "failed", "nothing checked" or "died"."""
        return VERDICTS[self.exit_code]

    @property
    def ok(self):
        return self.exit_code == 0

    def raise_on_failure(self):
        """Raises LawFailed with the text unless all judged sets hold."""
        if not self.ok:
            raise LawFailed("\n" + self.text)
        return self

    def __str__(self):
        return self.text


def _brought():
    """The folder of the sets of QKVet."""
    return _program.home() / "share" / "qkvet" / "golden"


def sets(folder=None) -> List[GoldenSet]:
    """The golden sets of a folder [those of QKVet]. WrongUse without a manifest."""
    folder = pathlib.Path(folder or _brought())
    manifest = folder / "MANIFEST.jsonl"
    if not manifest.exists():
        raise WrongUse(f"{folder}: no MANIFEST.jsonl; allowed: a folder of golden "
                       "sets")
    rows = [json.loads(line) for line in
            manifest.read_text(encoding="utf-8").splitlines()[1:] if line]
    return [GoldenSet(row["name"], row["case"], row["pins"], row["source"],
                      folder / (row["name"] + ".safetensors")) for row in rows]


def verify(function, *, sets=None, names=(), adapter=None, unchanged=False,
           **fields) -> GoldenReport:
    """Compares a callable that a worker can import with the definition and with the
    recorded outputs of golden sets.

    sets: a folder or a file [those of QKVet]. names: names of sets, or globs
    [all]. unchanged: True to fail if any bit changed, or the largest allowed change
    in ulps. fields: declarations as in `kernel`. Returns a GoldenReport.
    """
    if (nothing := in_worker()) is not None:
        return nothing
    where, paths = where_of(function, adapter, True, fields)
    words = ["golden", "verify", *([str(sets)] if sets else []), *where]
    for name in [names] if isinstance(names, str) else names:
        words.append(name)
    if unchanged is not False:
        words.append("--unchanged" if unchanged is True else f"--unchanged={unchanged}")
    with tempfile.TemporaryDirectory() as folder:
        lines = os.path.join(folder, "golden.jsonl")
        code, text = ran([*words, "--json", lines], paths)
        rows = [json.loads(line) for line in
                pathlib.Path(lines).read_text(encoding="utf-8").splitlines()]
    return GoldenReport(code, text, [
        SetResult(row["set"], row["case"], row["correct"].lower(),
                  row["expected"].lower(), float(row["worst_error_over_bound"]),
                  row.get("reason", ""))
        for row in rows if row["type"] == "set"])
