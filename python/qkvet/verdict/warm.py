# SPDX-License-Identifier: Apache-2.0
"""Processes of candidates, forked from one that has imported NumPy and this package:
`python -m qkvet.verdict.warm`. The judge's side is Warm below.

Only the two have the socket between them. A request is JSON with descriptors: fork a
process, or end one. A fork server (_forks.py) is the child of this process instead of
the program's, which is given its socket (core/sandbox/fork_server.h).
"""
import contextlib
import ctypes
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref

import numpy as np

from .. import _door, _forks, _program, worker
from . import caller

_LONGEST = 1 << 16  # bytes of a request
_DESCRIPTORS = 3
_PR_SET_CHILD_SUBREAPER = 36
_START_SECONDS = 60
_LAST_SECONDS = 1  # for an exit that has begun
_SERVER_SOCKET = 3
_WARM = (_door, _forks)  # imported for the children alone


class Lost(Exception):
    """There is no warm process to be had."""


def _child(request, given):
    os.setsid()
    os.environ.update(request["environment"])
    sys.path[:0] = request["paths"]
    np.random.seed()  # its generator is not that of the other children
    if request["fork"] == "server":
        os.dup2(given[0], _SERVER_SOCKET)
        os.closerange(_SERVER_SOCKET + 1, 256)
        return worker.main(["", "--forks", *request["words"]])
    return caller.main(given, *request["words"])


def _forked(request, given, judge):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            judge.close()
            code = _child(request, given)
        finally:
            os._exit(code)
    for one in given:
        os.close(one)
    return pid


def _ended(pid, known):
    """The exit code of a process that has ended, or is ended now, with all that it has
    started; None if it is the child of another process."""
    if pid not in known:
        return None
    end, status = time.monotonic() + _LAST_SECONDS, None
    while status is None:
        if time.monotonic() > end:
            _kill(pid)
        done, code = os.waitpid(pid, os.WNOHANG)
        status = code if done else time.sleep(0.001)
    _kill(pid)  # the rest of its group
    known.discard(pid)
    _end_orphans(known)
    return os.waitstatus_to_exitcode(status)


def _kill(pid):
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)


def _end_orphans(known):
    """Children of ended processes have become children of this one."""
    while True:
        with open(f"/proc/self/task/{os.getpid()}/children",
                  encoding="ascii") as children:
            orphans = {int(one) for one in children.read().split()} - known
        if not orphans:
            return
        for one in orphans:
            os.kill(one, signal.SIGKILL)
            os.waitpid(one, 0)


def main(argv):
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    judge = socket.socket(fileno=int(argv[1]))
    _program.library()
    known = set()
    gc.freeze()  # pages that the children share
    while True:
        data, given, _flags, _from = socket.recv_fds(judge, _LONGEST, _DESCRIPTORS)
        if not data:  # the judge has ended
            for pid in list(known):
                _kill(pid)
                _ended(pid, known)
            return 0
        request = json.loads(data)
        if "fork" in request:
            answer = _forked(request, given, judge)
            known.add(answer)
        else:
            if request["kill"]:
                _kill(request["end"])
            answer = _ended(request["end"], known)
        judge.send(json.dumps(answer).encode())


class Warm:
    """The judge's side: starts the warm process, and another one when it has died.

        with warm.forked("call", [requests, answers, memory], words, paths) as pid:
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._close = None

    def _start(self):
        self._socket, theirs = socket.socketpair(socket.AF_UNIX,
                                                 socket.SOCK_SEQPACKET)
        self._socket.settimeout(_START_SECONDS)
        environment = _program.environment()
        # Threads of OpenMP spin for a while after a parallel loop, which is no work.
        environment.update(OMP_WAIT_POLICY="passive", KMP_BLOCKTIME="0",
                           QKVET_WORKER="1")
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "qkvet.verdict.warm", str(theirs.fileno())],
                env=environment, pass_fds=[theirs.fileno()], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)
        self._close = weakref.finalize(self, _closed, self._socket, self.process)

    def asked(self, request, descriptors=()):
        """The answer. Lost after two attempts."""
        with self._lock:
            for _ in range(2):
                try:
                    if self._close is None:
                        self._start()
                    socket.send_fds(self._socket, [json.dumps(request).encode()],
                                    descriptors)
                    if data := self._socket.recv(_LONGEST):
                        return json.loads(data)
                except OSError:
                    pass
                self.close()
        raise Lost("the process that forks candidates does not start")

    def close(self):
        if self._close is not None:
            self._close()
            self._close = None

    def fork(self, kind, descriptors, words, paths=(), environment=()):
        """The id of a new process: a "server" or one for a "call"."""
        return self.asked({"fork": kind, "words": words, "paths": list(paths),
                           "environment": dict(environment)}, descriptors)

    def end(self, pid, kill=True):
        """The exit code of a process, negative if it was a signal; without `kill` it
        has a moment to end by itself."""
        with contextlib.suppress(Lost):
            if (code := self.asked({"end": pid, "kill": kill})) is not None:
                return code
        _kill(pid)  # its parent has died
        return -signal.SIGKILL


def _closed(judge, process):
    judge.close()
    try:
        process.wait(_LAST_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv))
