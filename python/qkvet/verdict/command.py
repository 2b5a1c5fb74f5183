# SPDX-License-Identifier: Apache-2.0
"""`qkvet verdict TASK [CANDIDATE...]`: one line of JSON for each candidate."""
import argparse
import os
import sys

from ..declare import WrongUse
from .judge import Verdict, to_json
from .server import serve_lines, serve_socket

# Exit codes of the program: all conform, some do not, nothing could be judged.
_CONFORMS, _FAILED, _WRONG_USE, _OPEN = 0, 1, 2, 3


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="qkvet verdict", description="Judge candidates of a task, one line of "
        "JSON each (python/verdict.md)")
    parser.add_argument("task", help="task file (task.toml)")
    parser.add_argument("candidates", nargs="*", metavar="CANDIDATE",
                        help="FILE.py, FILE.cpp, FILE.so or MODULE:NAME; none: read "
                        "requests as JSON Lines from standard input; unix:PATH: "
                        "from a socket")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N",
                        help="candidates at a time [one per core]")
    parser.add_argument("--seed", type=int, metavar="N",
                        help="seed [random; the answer names it]")
    parser.add_argument("--without", action="append", choices=["armour"],
                        default=[], help="armour: do not confine candidates")
    words = parser.parse_intermixed_args(arguments)
    try:
        judge = Verdict(words.task, armour="armour" not in words.without)
        if [one for one in words.candidates if one.startswith("unix:")]:
            if len(words.candidates) > 1:
                raise WrongUse(f"{words.candidates[1]}: allowed: unix:PATH alone")
            return serve_socket(judge, words.candidates[0][len("unix:"):],
                                words.jobs)
        if not words.candidates:
            return serve_lines(judge, sys.stdin, sys.stdout, words.jobs)
        return _judge_all(judge, words)
    except WrongUse as wrong:
        print(f"qkvet: {wrong}", file=sys.stderr)
        return _WRONG_USE


def _judge_all(judge, words):
    worst = _CONFORMS
    for one in words.candidates:
        answer = judge.judge(one, seed=words.seed)
        print(to_json(answer), flush=True)
        if answer["status"] == "infrastructure":
            worst = max(worst, _OPEN)
        elif answer["status"] != "conforms":
            worst = max(worst, _FAILED)
    return worst
