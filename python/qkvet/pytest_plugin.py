# SPDX-License-Identifier: Apache-2.0
"""pytest: one test for each law that a callable declares enough for.

    @qkvet.laws(my_attention, dtypes="f32 f16")
    def test_attention(law):
        law.check()

Options: --qkvet-seed, --qkvet-budget and --qkvet-known, for all callables. The
text of a failure is that of the command line. One run judges all selected laws of
a callable, when the first of them is needed; under xdist each law has its own run.
"""
import os

import pytest

from .report import LawFailed
from .run import check


class Law:
    """A law of a callable, the argument of a test: `law.check()`."""

    def __init__(self, family, name):
        self._family = family
        self.name = name

    def check(self):
        """Judges the law. Raises LawFailed with the report, pytest's xfail for an
        accepted failure, or its skip with the reason if nothing was judged."""
        report = self._family.report(self.name)
        result = report.law(self.name)
        if result.known is not None:
            self._as_known(result.known, report)
            return
        if result.failure is not None or result.verdict in ("failed", "crash"):
            text = report.text
            if len(report.results) > 1:
                text = self._family.judged([self.name]).text
            raise LawFailed("\n" + text)
        if result.verdict != "passed":
            pytest.skip(f"{result.verdict}: {result.reason}")

    def _as_known(self, known, report):
        """An accepted failure that matches its line is expected. Everything else
        fails, including a law that holds now."""
        if not known["holds"]:
            raise LawFailed("; ".join(known.get("problems", ()))
                            + "\n" + report.text)
        pytest.xfail(f"known since {known['since']}: {known['why']}")

    def __repr__(self):
        return self.name


class _Family:
    """A callable and its laws; each law is judged once."""

    def __init__(self, function, words):
        self.function = function
        self.words = words
        self.options = {}
        self.selected = []
        self.done = {}

    def names(self):
        """Names of the laws that apply to the declaration."""
        report = check(self.function, **{**self.words, "cases": 1,
                                         "budget": None, "diagnose": 0})
        return [one.law for one in report.results
                if one.verdict != "unsupported"]

    def judged(self, names):
        return check(self.function, laws=names, **{**self.words, **self.options})

    def report(self, name):
        if name not in self.done:
            alone = "PYTEST_XDIST_WORKER" in os.environ
            names = [name] if alone or name not in self.selected else (
                self.selected)
            report = self.judged(names)
            self.done.update((one, report) for one in names)
        return self.done[name]


_families = []


def laws(function, **words):
    """The decorator qkvet.laws; `words` are the arguments of qkvet.check."""
    family = _Family(function, words)
    _families.append(family)
    names = family.names()
    return pytest.mark.parametrize("law", [
        pytest.param(Law(family, name), id=name) for name in names])


def pytest_addoption(parser):
    group = parser.getgroup("qkvet")
    group.addoption("--qkvet-seed", default=None, help="a number, or random")
    group.addoption("--qkvet-budget", default=None, help="time a callable: 60s")
    group.addoption("--qkvet-known", default=None,
                    help="file of accepted failures")


def pytest_collection_modifyitems(config, items):
    """Selected laws are judged in one run."""
    options = {name: config.getoption(f"--qkvet-{name}")
               for name in ("seed", "budget", "known")}
    for family in _families:
        family.options = {name: value for name, value in options.items()
                          if value is not None}
        family.selected = []
    for item in items:
        law = getattr(item, "callspec", None) and item.callspec.params.get("law")
        if isinstance(law, Law) and law.name not in law._family.selected:
            law._family.selected.append(law.name)
