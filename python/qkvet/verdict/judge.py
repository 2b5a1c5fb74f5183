# SPDX-License-Identifier: Apache-2.0
"""The verdict on one candidate: smoke, laws, served shapes, and who computed."""
import contextlib
import dataclasses
import json
import mmap
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from typing import Any, Dict, List, Optional

import numpy as np

from .. import _program
from ..declare import WrongUse, as_config
from ..report import read_call, report_of
from ..run import target_of
from . import answer, served
from .caller import Calls, Died
from .computed import computed_by, linked
from .task import Task, load
from .warm import Lost, Warm

_SMOKE = ["--cases", "60", "--sizes", "small"]
# The program also starts and shrinks.
_MORE_SECONDS = 60
_DIAGNOSIS_SECONDS = 10
_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".cu", ".rs")


@dataclasses.dataclass
class Candidate:
    """What is judged, as the program and a caller take it."""
    shown: str
    spec: str  # for the program
    target: Optional[str]  # "file.py:name" or "module:name"; None: native code
    config: str  # its declarations; "" of native code
    file: str  # "" if there is none
    paths: List[str]  # folders of modules
    text: str = ""  # of the source


@dataclasses.dataclass
class Found:
    """What the tiers found."""
    status: str = "conforms"
    why: str = ""
    tiers: Dict[str, float] = dataclasses.field(default_factory=dict)
    seconds: Dict[str, float] = dataclasses.field(default_factory=dict)
    failure: Any = None  # report.Failure
    call: Any = None  # report.Call of the failure, if it fails again
    place: Optional[Dict[str, Any]] = None  # of a served call
    laws: Dict[str, str] = dataclasses.field(default_factory=dict)  # sentences
    findings: List[str] = dataclasses.field(default_factory=list)
    checked: int = 0
    missing: str = ""  # parts of the armour


class Verdict:
    """The judge of a task.

        judge = qkvet.verdict.Verdict("task.toml")
        judge.judge("candidate.py")["status"]

    task: a path of a task file, or a Task. armour: whether candidates are confined
    (core/sandbox/armour.h). Errors: WrongUse for a bad task.
    """

    def __init__(self, task, *, armour=True):
        self.task: Task = task if isinstance(task, Task) else load(task)
        self.armour = armour
        self.warm = Warm()
        # The conventions and the precision are checked once, here.
        _program.resolve({key: value for key, value in self.task.declares.items()
                          if key not in ("device", "gradient")}
                         | {"precision": self.task.precision})
        self.served = [served.Call(one) for one in self.task.served]

    def judge(self, candidate, *, seed=None) -> Dict[str, Any]:
        """The answer of answer.schema.json, at most 2 kB as JSON.

        candidate: a file (.py, .c, .cpp, .cu, .rs, .so), "module:name", the text of
            a Python source, or a function of a module.
        seed: a number; default: a random one, which the answer names.
        """
        seed = secrets.randbelow(1 << 31) if seed is None else int(seed)
        began = time.monotonic()
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(_Folder())
            one = None
            try:
                one = self._candidate(candidate, folder)
                found = self._found(one, folder, seed)
            except WrongUse as wrong:
                found = Found("does_not_compile", str(wrong))
            except Lost as lost:
                found = Found("infrastructure", str(lost))
            found.seconds["all"] = time.monotonic() - began
            return answer.of(self.task, one, found, seed, folder)

    # ---- The candidate ------------------------------------------------------

    def _candidate(self, given, folder):
        if callable(given):
            target, above = target_of(given)
            if target is None:
                raise WrongUse(f"{given!r}: a worker cannot import it; allowed: a "
                               "function of a module or of a file")
            return self._python(target, [above] if above else [])
        text = os.fspath(given)
        if "\n" in text:
            source = pathlib.Path(folder, "candidate.py")
            source.write_text(text, encoding="utf-8")
            return self._python(f"{source}:{self.task.function}", [], "candidate.py")
        path, _, name = text.partition(":")
        if path.endswith(".py"):
            if not os.path.isfile(path):
                raise WrongUse(f"{path}: no such file")
            return self._python(f"{os.path.abspath(path)}:"
                                f"{name or self.task.function}", [], path)
        if path.endswith((*_SOURCES, ".so")):
            if not os.path.isfile(path):
                raise WrongUse(f"{path}: no such file")
            where = os.path.abspath(path)
            return Candidate(path, os.path.join(os.path.dirname(where) or "/",
                                                os.path.basename(where)),
                             None, "", where, [], _text_of(where))
        if name:
            return self._python(text, [os.getcwd()])
        raise WrongUse(f"{text}: no candidate; allowed: FILE.py, FILE.cpp, "
                       "FILE.so, MODULE:NAME, or the text of a source")

    def _python(self, target, paths, shown=None):
        config = as_config({**self.task.declares, "own": "ignored",
                            **({"precision": self.task.precision}
                               if self.task.precision else {})})
        file = target.rpartition(":")[0]
        file = file if file.endswith(".py") else ""
        return Candidate(shown or target, f"{target}:{config}", target, config, file,
                         paths, _text_of(file) if file else "")

    def _confined(self, one, folder):
        """The environment that confines a candidate: the folders that it still sees
        below /tmp, and its limits."""
        if not self.armour:
            return {}
        package = pathlib.Path(__file__).resolve().parents[2]
        places = [folder, str(_program.home()), str(package), *one.paths]
        if one.file:
            places.append(os.path.dirname(one.file))
        return {"QKVET_ARMOUR": ":".join(dict.fromkeys(map(os.path.realpath, places))),
                "QKVET_ARMOUR_LIMITS":
                f"{self.task.processes} {self.task.memory << 20}"}

    # ---- The tiers ----------------------------------------------------------

    def _found(self, one, folder, seed):
        found = Found()
        files = self._files(folder)
        tiers = (
            ("smoke", lambda: self._laws(one, folder, found, [
                *files, *_SMOKE, "--seed", str(seed)],
                self.task.load_seconds + _MORE_SECONDS)),
            ("served", lambda: self._served(one, folder, found, seed)),
            ("laws", lambda: self._laws(one, folder, found, [
                *files, "--budget", f"{self.task.seconds:g}s", "--seed",
                str(seed + 1)],
                self.task.load_seconds + self.task.seconds + _MORE_SECONDS)))
        for name, judge in tiers:
            began = time.monotonic()
            found.tiers[name] = judge()
            found.seconds[name] = time.monotonic() - began
            if found.status != "conforms":
                break
        return found

    def _files(self, folder):
        """The declaration of the task as arguments of the program."""
        declared = pathlib.Path(folder, "declared.txt")
        declared.write_text(self.task.declared, encoding="utf-8")
        words = ["--dialect", str(declared)]
        if self.task.precision:
            precision = pathlib.Path(folder, "precision.txt")
            precision.write_text(self.task.precision + "\n", encoding="utf-8")
            words += ["--precision", str(precision)]
        return words

    def _laws(self, one, folder, found, words, seconds):
        """The part of the laws that pass."""
        record = os.path.join(folder, "run.jsonl")
        words = ["check", one.spec, *words, "--fail-fast", "--diagnose", "0",
                 "--jobs", "1", "--json", record]
        try:
            code, text, wrong = self._run(one, folder, words, seconds)
        except subprocess.TimeoutExpired:
            found.status, found.why = "hangs", f"no verdict in {seconds:g} s"
            return 0.0
        if code < 0:
            found.status = "suspected_hack"
            found.why = f"the judge was ended by {signal.Signals(-code).name}"
            return 0.0
        if code == 2:
            found.status = "does_not_compile"
            found.why = wrong.strip().removeprefix("qkvet: ")[-600:]
            return 0.0
        lines = pathlib.Path(record).read_text(encoding="utf-8")
        for row in map(json.loads, lines.splitlines()):
            if row["type"] == "law":
                found.laws[row["law"]] = row["sentence"]
        report = report_of(code, text, lines, [one.spec], one.paths)
        return self._read(one, folder, found, report)

    def _read(self, one, folder, found, report):
        found.checked += report.checked
        asked = [row for row in report.results
                 if row.verdict in ("passed", "failed") or row.refused]
        refused = next((row for row in report.results if row.refused), None)
        # A law that looks at sequences of calls gives up at the first wrong one.
        spoilt = next((row for row in report.results if row.verdict == "gave up"
                       and "is wrong by itself" in row.reason), None)
        if report.failures:
            found.failure = report.failures[0]
            found.status = _status_of(found.failure)
            if found.status == "wrong":
                self._diagnose(one, folder, found)
            elif found.status == "suspected_hack":
                found.why = found.failure.actual
        elif refused is not None:
            found.status, found.why = "refuses_what_it_must_take", refused.reason
        elif spoilt is not None:
            found.status = "wrong"
            found.why = f"{spoilt.law}: {spoilt.reason}"
        elif not asked or report.exit_code not in (0, 3):
            found.status = "refuses_what_it_must_take"
            found.why = next((row.reason for row in report.results if row.reason),
                             report.text.strip()[-300:])
        passed = sum(row.verdict == "passed" for row in asked)
        return passed / len(asked) if asked else 0.0

    def _diagnose(self, one, folder, found):
        """The cause; and whether the failing case fails again, but is within the
        loosest bound."""
        failure, files = found.failure, self._files(folder)
        if self.task.precision:
            generic = pathlib.Path(folder, "generic.txt")
            generic.write_text("preset = generic\n", encoding="utf-8")
            loosest = self._replay(one, folder, failure, [
                *files[:2], "--precision", str(generic)], 0)
            if loosest is not None and loosest.exit_code == 0:
                again = self._replay(one, folder, failure, files, 0)
                if again is not None and again.failures:
                    found.status = "looser_than_required"
        shown = pathlib.Path(folder, "call")
        again = self._replay(one, folder, failure, [*files, "--out", str(shown)], 1)
        if again is not None and again.failures:
            found.failure = again.failures[0]
            if shown.is_dir():
                found.call = read_call(shown, failure.case)

    def _replay(self, one, folder, failure, files, diagnose):
        """The report on the failing case alone; None if that takes too long."""
        record = os.path.join(folder, "again.jsonl")
        try:
            code, text, _ = self._run(one, folder, [
                "replay", failure.case, one.spec, "--law", failure.law, *files,
                "--diagnose", str(diagnose), "--json", record], _DIAGNOSIS_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        if code not in (0, 1, 3):
            return None
        lines = pathlib.Path(record).read_text(encoding="utf-8")
        return report_of(code, text, lines, [one.spec], one.paths)

    def _run(self, one, folder, words, seconds):
        environment = _program.environment()
        environment["PYTHONPATH"] = os.pathsep.join(
            [*one.paths, environment["PYTHONPATH"]])
        confined = self._confined(one, folder)
        environment.update(confined)
        with self._server(one, environment, confined) as descriptors, _program.started(
                words, environment, descriptors, start_new_session=True) as run:
            try:
                said = run.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, signal.SIGKILL)
                raise
        return run.returncode, *said

    @contextlib.contextmanager
    def _server(self, one, environment, confined):
        """The descriptors through which the program has workers of the candidate, from
        a process that was warm; none of native code."""
        if one.target is None:
            yield []
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                pid = self.warm.fork(
                    "server", [theirs.fileno()], [one.target, one.config], one.paths,
                    confined)
            try:
                environment["QKVET_FORK_SERVER"] = f"{ours.fileno()}:{pid}"
                yield [ours.fileno()]
            finally:
                self.warm.end(pid)

    def _served(self, one, folder, found, seed):
        """The part of the served calls that are right; who computed."""
        if one.target is None:
            if self.task.computed_by != "anything" and one.file.endswith(".so"):
                self._accuse(found, linked(one.file))
            return self._served_natively(one, folder, found)
        right, random = 0, np.random.default_rng(seed)
        with Calls(self.warm, one.target, self.task.declares["arrays"], one.paths,
                   self._confined(one, folder),
                   max([call.room for call in self.served] or [mmap.PAGESIZE]),
                   self.task.load_seconds) as process:
            found.missing = process.missing
            if process.error:
                found.status, found.why = "does_not_compile", process.error
                return 0.0
            if not self.served:  # it is only imported
                self._accuse(found, computed_by(
                    {"own": pathlib.Path(one.file).stem, **process.told()},
                    self.task.computed_by, self.task.imports))
                return 1.0
            for call in self.served:
                part = self._one_served(one, found, call, process, random, right == 0)
                if part and call.unknown and found.status == "conforms":
                    part = self._replayed(one, folder, found, call)
                right += part
                if found.status != "conforms":
                    break
        return right / len(self.served)

    def _one_served(self, one, found, call, process, random, watch):
        limit = max(10.0, self.task.load_seconds)
        # The watched call first, and then the same addresses with other numbers:
        # an answer that was kept is wrong.
        for number in range(3):
            inputs = call.inputs if number == 0 else call.fresh(random, number)
            try:
                o, told = process.call(inputs, call.options, call.out_bytes, limit,
                                       watch and number == 0)
            except Died as died:
                found.status = str(died).partition(":")[0]
                found.why = f"{died} in {call.text}"
                return 0
            except ValueError as error:
                kind = str(error).partition(":")[0]
                found.status = {"Refused": "refuses_what_it_must_take",
                                "MemoryError": "crashes"}.get(kind, "wrong")
                found.why = f"{error} in {call.text}"
                return 0
            if watch and number == 0:
                told["own"] = pathlib.Path(one.file).stem
                self._accuse(found, computed_by(told, self.task.computed_by,
                                                self.task.imports))
            if call.unknown:
                return 1  # judged whole, by the program
            place, judged = call.judge(o, inputs, self.task.rows, random,
                                       self.task.precision)
            found.checked += judged
            if place is not None and place["ratio"] > 1:
                found.status, found.place = "wrong", {**place, "case": call.text}
                return 0
            if number == 2:
                found.seconds[call.text] = process.seconds
                more = process.goes_on()
                if more > 0.5:
                    self._accuse(found, [f"uses {more:.0%} of a core after it has "
                                         "returned"])
        return 1

    def _served_natively(self, one, folder, found):
        calls = self.served
        right = 0
        for call in calls:
            right += self._replayed(one, folder, found, call)
            if found.status != "conforms":
                break
        return right / len(calls) if calls else 1.0

    def _replayed(self, one, folder, found, call):
        """A served call that is judged whole, by the program."""
        words = ["replay", call.text, one.spec, "--law", "agrees_with_oracle",
                 *self._files(folder), "--diagnose", "0"]
        try:
            code, text, wrong = self._run(one, folder, words, 600)
        except subprocess.TimeoutExpired:
            found.status, found.why = "hangs", f"{call.text}: no verdict in 600 s"
            return 0
        if code != 0:
            found.status = "wrong" if code == 1 else "refuses_what_it_must_take"
            found.why = (text or wrong).strip()[:600]
        return int(code == 0)

    @staticmethod
    def _accuse(found, findings):
        found.findings += findings
        if findings and found.status == "conforms":
            found.status = "suspected_hack"
            found.why = findings[0]


class _Folder(tempfile.TemporaryDirectory):
    """A folder of one verdict."""

    def __init__(self):
        super().__init__(prefix="qkvet-verdict-")

    def cleanup(self):
        shutil.rmtree(self.name, ignore_errors=True)
        self._finalizer.detach()


def _text_of(path):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _status_of(failure):
    """The status of a failed law."""
    if failure.actual == "the kernel wrote over the memory of its host":
        return "suspected_hack"
    if failure.actual.startswith(("no end", "no progress")):
        return "hangs"
    if failure.actual.startswith(("exited with", "killed", "SIG", "raised ")) or (
            "OUT_OF_MEMORY" in failure.actual):
        return "crashes"
    return "wrong"


def to_json(given) -> str:
    """One line."""
    return json.dumps(given, ensure_ascii=False, separators=(",", ":"))
