# SPDX-License-Identifier: Apache-2.0
"""Verdicts about candidates of a task, for loops that write kernels.

    judge = qkvet.verdict.Verdict("task.toml")
    answer = judge.judge("candidate.py")
    answer["status"], answer["score"]

python/verdict.md explains tasks, answers and the server.
"""
from .judge import Verdict
from .task import Task, load

__all__ = ["Task", "Verdict", "load"]
