# SPDX-License-Identifier: Apache-2.0
"""The results of a run as objects, with the content of the program's text."""
import dataclasses
import functools
import json
import os
import pathlib
import tempfile
from typing import Any, Dict, List, Optional

from . import _program

VERDICTS = {0: "conforms", 1: "failed", 3: "nothing checked", 4: "died"}


class LawFailed(AssertionError):
    """A callable does not conform; the message is the text of the report."""


@dataclasses.dataclass(frozen=True)
class Call:
    """One call as NumPy arrays by name: `arrays` has inputs and outputs ("q", "o"),
    `expected` each output by the definition, `bound` its largest allowed error,
    in float64. `call.q` is `call.arrays["q"]`."""
    case: str
    arrays: Dict[str, Any]
    expected: Dict[str, Any]
    bound: Dict[str, Any]

    def __getattr__(self, name):
        arrays = object.__getattribute__(self, "arrays")
        if name in arrays:
            return arrays[name]
        raise AttributeError(f"no tensor {name}; there are "
                             + ", ".join(sorted(arrays)))


@dataclasses.dataclass(frozen=True)
class Failure:
    """The smallest case in which a law fails, and its cause."""
    law: str
    case: str  # as `qkvet.replay` takes it
    expected: str
    actual: str
    allowed: str
    looks: str  # a pattern in the numbers; "" if none
    error_over_bound: float
    cause: str  # "" if none was found
    certainty: str  # "sure", "likely", "unknown" or ""
    fix: str
    again: str  # the command that shows it again
    fields: Dict[str, Any]  # the whole failure in JSON
    # Arguments of the program for the callable, and folders of its module.
    _words: Optional[List[str]] = dataclasses.field(default=None, repr=False)
    _paths: List[str] = dataclasses.field(default_factory=list, repr=False)

    @functools.cached_property
    def call(self) -> Call:
        """The failing call, repeated. WrongUse if the callable cannot be imported,
        or if the repeated call passes."""
        if self._words is None:
            raise _program.WrongUse(
                "the arrays of a call are there for callables that can be "
                "imported; allowed: module:name")
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "call")
            words = ["replay", self.case, "--law", self.law, *self._words,
                     "--diagnose", "0", "--out", out]
            code, text, wrong = _program.run(words, self._paths)
            if not os.path.isdir(out):
                raise _program.WrongUse(wrong.strip() or text.strip()
                                        or f"exit code {code}")
            return read_call(pathlib.Path(out), self.case)


def read_call(folder, case):
    """The first call of a folder of `qkvet replay --out`."""
    from .call import read_safetensors
    arrays, expected, bound = {}, {}, {}
    tensors = read_safetensors(folder / "call.safetensors")
    answer = read_safetensors(folder / "answer.safetensors")
    for path, array in (*tensors.items(), *answer.items()):
        call, _, name = path.partition("/")
        name, _, part = name.partition(".")
        into = {"": arrays, "expected": expected, "bound": bound}.get(part)
        if call == "c0000" and into is not None:
            # Reports call a gradient dq.
            is_gradient = name.startswith("d_") and name != "d_o"
            into[name.replace("_", "") if is_gradient else name] = array
    return Call(case, arrays, expected, bound)


@dataclasses.dataclass(frozen=True)
class LawResult:
    """The verdict of a law on one kernel."""
    law: str
    kernel: str
    verdict: str  # passed, failed, crash, unsupported, skipped, ...
    checked: int  # cases
    refused: int  # cases that the kernel declares, and refused
    error_over_bound: float  # the largest of them
    reason: str  # of a verdict that is neither passed nor failed
    failure: Optional[Failure] = None
    # Its line in the file of accepted failures: since, why, holds (it fails as
    # described there), and problems if it does not; None without a line.
    known: Optional[Dict[str, Any]] = None
    fields: Dict[str, Any] = dataclasses.field(default_factory=dict, repr=False)


@dataclasses.dataclass(frozen=True)
class Report:
    """The result of `check`. `text` is the output of the program, `exit_code` its
    exit code, `results` one entry for each law."""
    exit_code: int
    text: str
    results: List[LawResult]
    # Undeclared conventions that probes found, as arguments of `kernel`:
    # {"lse_base": "base2"}.
    assumed: Dict[str, str] = dataclasses.field(default_factory=dict)

    def to_json(self) -> str:
        """One JSON object: verdict, exit_code, checked, refused, assumed, and in
        `results` the record of each law (report/run.schema.json)."""
        return json.dumps({
            "verdict": self.verdict, "exit_code": self.exit_code,
            "checked": self.checked, "refused": self.refused,
            "assumed": self.assumed,
            "results": [one.fields for one in self.results]})

    @property
    def verdict(self) -> str:
        """"conforms", "failed", "incomplete" (some laws passed, others are open),
        "nothing checked" or "died"."""
        if self.exit_code == 3 and any(one.verdict == "passed"
                                       for one in self.results):
            return "incomplete"
        return VERDICTS[self.exit_code]

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    @property
    def failures(self) -> List[Failure]:
        """Failures that no file of accepted failures names."""
        return [one.failure for one in self.results if one.failure
                and not (one.known or {}).get("holds")]

    @property
    def checked(self) -> int:
        """Cases of all laws together."""
        return sum(one.checked for one in self.results)

    @property
    def refused(self) -> int:
        """Refused cases that the kernel declares, of all laws together."""
        return sum(one.refused for one in self.results)

    def law(self, name: str) -> LawResult:
        """The result of one law. KeyError if it was not in the run."""
        for one in self.results:
            if one.law == name:
                return one
        raise KeyError(name)

    def raise_on_failure(self) -> "Report":
        """Raises LawFailed with the text unless everything judged conforms."""
        __tracebackhide__ = True  # from pytest
        if not self.ok:
            raise LawFailed("\n" + self.text)
        return self

    def __str__(self):
        return self.text


def number(value):
    """JSON has no infinity: the program writes it as a text."""
    return float(value) if value is not None else float("nan")


def failure_of(row, words, paths):
    found = row["failure"]
    diagnosis = found.get("diagnosis", {})
    return Failure(
        law=row["law"], case=found["case"], expected=found.get("expected", ""),
        actual=found.get("actual", ""), allowed=found.get("allowed", ""),
        looks=found.get("looks", ""),
        error_over_bound=number(found.get("error_over_bound")),
        cause=diagnosis.get("cause", ""),
        certainty=diagnosis.get("certainty", ""), fix=diagnosis.get("fix", ""),
        again=found.get("again", ""), fields=found, _words=words,
        _paths=list(paths))


# First words of answers without an output (_answers.py).
_NO_OUTPUT = ("raised ", "returned: ", "wrote ")


def one_line(results):
    """The text of a report if one error of the callable explains it: no call
    returned an output. None otherwise."""
    failed = [one for one in results if one.failure]
    if len(failed) != 1 or any(one.verdict == "passed" for one in results):
        return None
    failure = failed[0].failure
    if not failure.actual.startswith(_NO_OUTPUT):
        return None
    return f"FAILED  {failed[0].kernel} {failure.actual}   case {failure.case}\n"


def report_of(code, text, lines, words=None, paths=()):
    """A Report from the program's text and its JSON Lines."""
    rows = [json.loads(line) for line in lines.splitlines() if line]
    results = [
        LawResult(law=row["law"], kernel=row["kernel"],
                  verdict=row["verdict"].lower(), checked=row["checked"],
                  refused=row.get("refused", 0),
                  error_over_bound=number(row["worst_error_over_bound"]),
                  reason=row.get("reason", ""),
                  failure=(failure_of(row, words, paths) if "failure" in row
                           else None),
                  known=row.get("known"), fields=row)
        for row in rows if row["type"] == "result"]
    assumed = {one["field"]: one.get("word", one["value"])
               for row in rows if row["type"] == "kernel"
               for one in row["assumed"]}
    return Report(code, one_line(results) or text, results, assumed)
