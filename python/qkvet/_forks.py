# SPDX-License-Identifier: Apache-2.0
"""Workers forked from an interpreter that has imported the callable;
core/sandbox/fork_server.h has the other end and the reason."""
import array
import ctypes
import os
import signal
import socket
import struct

_FORK, _REAP = 1, 2
_SOCKET = 3
_REQUEST = struct.Struct("ii")
_DESCRIPTORS = 7
# File descriptors of a worker: core/door/worker_protocol.h; the last is its
# output.
_PLACES = (3, 4, 5, 6, 7, 8, 1)
_HIGH = 64
_PR_SET_PDEATHSIG = 1


def _has_threads():
    """A fork takes one thread along; locks that other threads held stay locked."""
    return len(os.listdir("/proc/self/task")) > 1


def _descriptors_of(ancillary):
    found = array.array("i")
    for _level, _kind, data in ancillary:
        found.frombytes(data[:len(data) - len(data) % found.itemsize])
    return list(found)


def _become_worker(program, given, server):
    import fcntl
    os.setpgid(0, 0)  # which the compilers that it may start are ended with
    # It ends with this server, the parent that a callable may kill.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:  # it has ended before that
        os._exit(1)
    # The descriptors first move up, so that no target number is in use.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH) for fd in given]
    program.close()
    for fd in given:
        os.close(fd)
    for fd, place in zip(high, _PLACES):
        os.dup2(fd, place)
        os.close(fd)
    os.dup2(1, 2)


def serve(imports):
    """Forks workers. Returns True in each of them, and False when the program has
    ended or if forking is impossible. `imports` imports the callable."""
    program = socket.socket(fileno=_SOCKET)
    imports()
    if _has_threads():
        return False
    while True:
        data, ancillary, _flags, _from = program.recvmsg(
            _REQUEST.size, socket.CMSG_SPACE(4 * _DESCRIPTORS))
        if len(data) < _REQUEST.size:
            return False
        what, worker = _REQUEST.unpack(data)
        if what == _REAP:
            answer = os.waitpid(worker, 0)[1]
        elif what == _FORK:
            given = _descriptors_of(ancillary)
            server = os.getpid()
            answer = os.fork()
            if answer == 0:
                _become_worker(program, given, server)
                return True
            for fd in given:
                os.close(fd)
            try:
                os.setpgid(answer, answer)
            except OSError:
                pass  # it has ended, or did so itself
        program.send(struct.pack("i", answer))
