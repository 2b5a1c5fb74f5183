# SPDX-License-Identifier: Apache-2.0
"""A judge that reads requests as JSON Lines and answers each with a line.

    {"id": 7, "source": "def attention(q, k, v): ..."}
    {"id": 8, "candidate": "kernels/mine.cpp", "seed": 3}

An answer is that of Verdict.judge() with the id of its request. Answers come as they
are ready. A request that is none is answered with {"error": "..."}.
"""
import concurrent.futures
import contextlib
import json
import os
import socket
import threading

from ..declare import WrongUse
from .judge import Verdict, to_json

_LONGEST = 1 << 20  # bytes of a request


def answer_to(judge: Verdict, line: str) -> str:
    """The answer to one request, one line."""
    given = None
    try:
        given = json.loads(line)
        if not isinstance(given, dict):
            raise ValueError("no JSON object")
        unknown = set(given) - {"id", "source", "candidate", "seed"}
        if unknown:
            raise ValueError(f"{sorted(unknown)[0]}: unknown; allowed: id, source, "
                             "candidate, seed")
        if ("source" in given) == ("candidate" in given):
            raise ValueError("allowed: one of source and candidate")
        candidate = given.get("source", given.get("candidate"))
        if not isinstance(candidate, str):
            raise ValueError("source, candidate: no text")
        if "source" in given and "\n" not in candidate:
            candidate += "\n"
        answer = judge.judge(candidate, seed=given.get("seed"))
    except (ValueError, TypeError) as error:
        answer = {"error": str(error)}
    except Exception as error:  # the next request must be answered
        answer = {"schema": 1, "task": judge.task.name, "candidate": "",
                  "status": "infrastructure", "score": 0, "tiers": {},
                  "why": f"{type(error).__name__}: {error}"[:600]}
    if isinstance(given, dict) and "id" in given:
        answer = {"id": given["id"], **answer}
    return to_json(answer)


def serve_lines(judge, lines, out, jobs, turns=None):
    """Until the end of `lines`; 0. turns: a semaphore that several of these
    share."""
    lock = threading.Lock()

    def reply(line):
        with turns or contextlib.nullcontext():
            answer = answer_to(judge, line)
        with lock:
            try:
                out.write(answer + "\n")
                out.flush()
            except (OSError, ValueError):
                pass  # the reader has gone

    with concurrent.futures.ThreadPoolExecutor(max(jobs, 1)) as pool:
        for line in lines:
            if line.strip():
                pool.submit(reply, line)
    return 0


def serve_socket(judge, path, jobs):
    """Serves each connection to a Unix socket, at most `jobs` candidates at a time
    over all of them, until interrupted; 0."""
    turns = threading.Semaphore(max(jobs, 1))

    def serve(connection):
        with connection, connection.makefile("r", encoding="utf-8",
                                             errors="replace") as lines, (
                connection.makefile("w", encoding="utf-8")) as out:
            serve_lines(judge, iter(lambda: lines.readline(_LONGEST), ""), out, jobs,
                        turns)

    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with socket.socket(socket.AF_UNIX) as server:
        old = os.umask(0o077)  # for this user alone
        try:
            server.bind(path)
        except OSError as error:
            raise WrongUse(f"{path}: {error.strerror}") from None
        finally:
            os.umask(old)
        server.listen()
        try:
            while True:
                connection, _ = server.accept()
                threading.Thread(target=serve, args=(connection,),
                                 daemon=True).start()
        except KeyboardInterrupt:
            return 0
        finally:
            os.unlink(path)
