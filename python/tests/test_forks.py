# SPDX-License-Identifier: Apache-2.0
"""Workers that end: an import is not repeated for each of them."""
import qkvet

MODULE = '''
import os
import threading
import time

import kernels

def say(what):
    with open({path!r}, "a") as file:
        file.write(f"{{what}} {{os.getpid()}}\\n")

say("import")
calls = []
{more}

def wrong(q, k, v):
    calls.append(1)
    if len(calls) == 1:
        say("begins")
    if q.shape[2] > {queries}:
        say("dies")
        kernels.{ending}(q.repeat(3, 2), k, v)
    return kernels.attention(q, k, v)
'''
THREAD = "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"


def judged(tmp_path, monkeypatch, name, ending, queries=2, more="",
           cases=20):
    """The report, and the module's output: (text, process)."""
    path = tmp_path / "said"
    (tmp_path / f"{name}.py").write_text(MODULE.format(
        path=str(path), ending=ending, queries=queries, more=more))
    monkeypatch.syspath_prepend(tmp_path)
    function = __import__(name).wrong
    path.unlink()  # of this process
    report = qkvet.check(function, cases=cases, laws="agrees_with_oracle",
                         diagnose=0, jobs=1)
    return report, [line.split() for line in path.read_text().splitlines()]


def count(said, what):
    return len({process for one, process in said if one == what})


def test_workers_that_end_are_forked_from_one_import(tmp_path, monkeypatch):
    report, said = judged(tmp_path, monkeypatch, "dies_often", "exits")
    assert report.verdict == "died", report.text
    assert "exited with status 3" in report.text
    assert "Tq3" in report.failures[0].case, report.text
    assert count(said, "dies") > 10
    # To read the module's contents, for the first worker and for all others.
    assert count(said, "import") <= 3, said
    # Each began as the import left it.
    assert count(said, "begins") >= count(said, "dies")


def test_where_an_import_leaves_threads_behind_workers_are_not_forked(
        tmp_path, monkeypatch):
    # All calls die, and the first that is tried is the smallest.
    report, said = judged(tmp_path, monkeypatch, "has_threads", "crashes",
                          queries=0, more=THREAD, cases=3)
    assert report.verdict == "died", report.text
    assert "SIGSEGV" in report.text
    assert count(said, "import") > count(said, "dies") > 1, said


KEEPS = '''
import kernels
kept = {}

def attention(q, k, v):
    key = q.ctypes.data, k.ctypes.data, v.ctypes.data, q.shape, k.shape
    if key not in kept:
        kept[key] = kernels.attention(q, k, v)
    return kept[key]
'''


def test_a_callable_that_keeps_answers_by_address_fails(tmp_path, monkeypatch):
    (tmp_path / "keeps_answers.py").write_text(KEEPS)
    monkeypatch.syspath_prepend(tmp_path)
    report = qkvet.check(__import__("keeps_answers").attention, cases=40, jobs=1,
                         laws="calls_before_change_nothing", diagnose=0)
    assert report.exit_code == 1, report.text
