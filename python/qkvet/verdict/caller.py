# SPDX-License-Identifier: Apache-2.0
"""The process in which a candidate is called at served shapes, watched and timed. The
parent is Calls below.

Both share a block of memory for tensors; requests and answers are lines of JSON. The
parent writes the inputs, and takes the time itself.
"""
import json
import mmap
import os
import pathlib
import select
import signal
import sys
import tempfile
import time

import numpy as np

from .. import _program
from ..arrays import framework
from ..call import as_numpy, dtype_of
from ..imported import find
from .computed import LIBRARIES

_ALIGNED = 64
_WATCHED_SECONDS = 0.2  # twenty ticks of the clock of CPU time


def armoured(visible):
    """Confines this process (core/sandbox/armour.h). The parts that the system
    denies, "" for none."""
    import ctypes
    missing = ctypes.create_string_buffer(1000)
    _program.library().qkvet_python_armour(visible.encode(), missing, len(missing))
    os.environ.update({name: "/tmp" for name in (
        "HOME", "TMPDIR", "XDG_CACHE_HOME", "TRITON_CACHE_DIR",
        "TORCHINDUCTOR_CACHE_DIR")})
    tempfile.tempdir = None
    return missing.value.decode(errors="replace")


def _functions():
    """The functions that a judge in this process would rely on, by name."""
    import numpy.testing
    found = {}
    for module in [time, np, numpy.testing, *(
            one for name, one in list(sys.modules.items())
            if name.partition(".")[0] == "qkvet")]:
        for name, one in list(vars(module).items()):
            if callable(one) and not name.startswith("__"):
                found[f"{module.__name__}.{name}"] = one
    return found


class Watched:
    """What the candidate imports, loads and calls beside its own code."""

    def __init__(self, file):
        self.file = os.path.realpath(file) if file else None
        self.imports, self.loads, self.calls, self.ops = {}, {}, {}, {}
        self.returned = ""
        self.functions = _functions()
        sys.addaudithook(self._audit)

    def _from_candidate(self):
        """Whether the nearest frame outside of the import machinery is the
        candidate's."""
        frame = sys._getframe(2)
        while frame is not None:
            name = frame.f_code.co_filename
            if not name.startswith("<frozen importlib"):
                return os.path.realpath(name) == self.file
            frame = frame.f_back
        return False

    def _audit(self, event, arguments):
        if event == "import" and self._from_candidate():
            self.imports[str(arguments[0]).partition(".")[0]] = True
        elif event in ("ctypes.dlopen", "subprocess.Popen", "os.system",
                       "os.exec", "socket.connect") and arguments:
            self.loads[f"{event} {str(arguments[0])[:80]}"] = True

    def _is_own(self, file):
        """Whether it is the candidate's file, or one beside it."""
        return self.file is not None and os.path.dirname(
            os.path.realpath(file)) == os.path.dirname(self.file)

    def _profile(self, frame, event, argument):
        if event == "c_call":
            self.calls[f"{getattr(argument, '__module__', None) or ''}."
                       f"{getattr(argument, '__qualname__', '')}"] = True
        elif event == "call":
            module = frame.f_globals.get("__name__", "")
            if module.partition(".")[0] not in ("qkvet", "json", "threading") and (
                    not self._is_own(frame.f_code.co_filename)
                    or LIBRARIES.search(module)):
                self.calls[f"{module}.{frame.f_code.co_name}"] = True

    def run(self, function):
        """function() with every call noted, also in threads, and every operation
        of PyTorch."""
        import contextlib
        import threading
        mode = contextlib.nullcontext()
        if "torch" in sys.modules:
            from torch.utils._python_dispatch import TorchDispatchMode
            ops = self.ops

            class Ops(TorchDispatchMode):
                def __torch_dispatch__(self, op, _types, args=(), kwargs=None):
                    ops[str(op)] = True
                    return op(*args, **(kwargs or {}))

            mode = Ops()
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            with mode:
                return function()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def told(self):
        with open("/proc/self/maps", encoding="utf-8") as maps:
            libraries = {line.split(None, 5)[5].strip() for line in maps
                         if line.count("/") and ".so" in line}
        now = _functions()
        replaced = [name for name, one in self.functions.items()
                    if now.get(name) is not one]
        return {"imports": sorted(self.imports), "loads": sorted(self.loads),
                "replaced": replaced[:20], "returned": self.returned,
                "calls": sorted(self.calls), "ops": sorted(self.ops),
                "libraries": sorted(libraries)}


def _serve(requests, answers, memory, target, arrays):
    def answer(**words):
        answers.write(json.dumps(words) + "\n")
        answers.flush()

    visible = os.environ.get("QKVET_ARMOUR")
    missing = armoured(visible) if visible is not None else "not asked for"
    watched = Watched(target.rpartition(":")[0])
    try:
        function = find(target)
        give = framework(arrays).give
    except BaseException as error:  # also SystemExit: it is no success
        answer(error=f"{type(error).__name__}: {error}"[:300], missing=missing)
        return
    answer(missing=missing)
    for line in requests:
        request = json.loads(line)
        if "tell" in request:
            answer(**watched.told())
            continue
        given = {}
        for name, (dtype, shape, at) in request["tensors"].items():
            kind = dtype_of(dtype)
            count = int(np.prod(shape, dtype=np.int64))
            given[name] = give(np.frombuffer(memory, kind, count, at).reshape(shape))
        qkv = [given.pop(name) for name in "qkv"]
        options = {**given, **{name: tuple(one) if isinstance(one, list) else one
                               for name, one in request["options"].items()}}

        def call():
            out = function(*qkv, **options)
            if isinstance(out, dict):
                out = out["o"]
            out = out[0] if isinstance(out, (tuple, list)) else out
            kind = type(out)
            watched.returned = f"{kind.__module__}.{kind.__qualname__}"
            out = np.ascontiguousarray(as_numpy(out))
            if out.nbytes > request["room"]:
                raise ValueError(f"returned {out.shape} of {out.dtype}")
            memory[request["out"]:request["out"] + out.nbytes] = out.tobytes()
            return out.dtype.name, out.shape

        try:
            dtype, shape = watched.run(call) if request["watch"] else call()
            answer(dtype=dtype, shape=shape,
                   **(watched.told() if request["watch"] else {}))
        except BaseException as error:
            answer(error=f"{type(error).__name__}: {error}"[:300])


def main(given, target, arrays):
    """In a process that was forked for it (warm.py)."""
    requests, answers, block = given
    memory = mmap.mmap(block, 0)
    os.close(block)
    with os.fdopen(requests) as lines, os.fdopen(answers, "w") as out:
        _serve(lines, out, memory, target, arrays)
    return 0


class Died(Exception):
    """The process of the candidate ended, or took too long."""


class Calls:
    """The parent's side: one process, one candidate.

        with Calls(warm, target, "numpy", paths, confined, room, load_seconds) as calls:
            o, told = calls.call(inputs, options, out_bytes, seconds)
    """

    def __init__(self, warm, target, arrays, paths, confined, room, load_seconds):
        self.warm = warm
        self.block = os.memfd_create("call", os.MFD_CLOEXEC)
        os.ftruncate(self.block, room)
        self.memory = mmap.mmap(self.block, room)
        self.seconds = 0.0
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        try:
            self.pid = warm.fork("call", [theirs_in, theirs_out, self.block], [
                target, arrays], paths, confined)
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self.requests = os.fdopen(ours_out, "w")
        self.answers = os.fdopen(ours_in, "rb", buffering=0)
        self.pending = b""
        try:
            told = self._answer(load_seconds)
            self.missing, self.error = told.get("missing", ""), told.get("error", "")
        except Died as died:
            self.missing, self.error = "", str(died)

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        if self.pid is not None:
            self.warm.end(self.pid)
        for one in (self.answers, self.memory):
            one.close()
        try:
            self.requests.close()
        except OSError:
            pass  # it died with a request unread
        os.close(self.block)

    def _answer(self, seconds):
        end = time.monotonic() + seconds
        while b"\n" not in self.pending:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.answers], [], [], left)[0]:
                raise Died(f"hangs: no answer in {seconds:g} s")
            data = self.answers.read(1 << 16)
            if not data:
                code, self.pid = self.warm.end(self.pid, kill=False), None
                raise Died("crashes: " + (signal.Signals(-code).name if code < 0
                                          else f"exited with status {code}"))
            self.pending += data
        line, _, self.pending = self.pending.partition(b"\n")
        try:
            return json.loads(line)
        except ValueError:
            raise Died("crashes: its answers are no JSON") from None

    def _cpu(self):
        """CPU seconds of the process."""
        stat = pathlib.Path(f"/proc/{self.pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def call(self, inputs, options, out_bytes, seconds, watch=False):
        """The output and what was seen (with `watch`). Died, or ValueError with
        the exception of the candidate."""
        at, tensors = 0, {}
        for name, array in inputs.items():
            data = np.ascontiguousarray(array).tobytes()
            self.memory[at:at + len(data)] = data
            tensors[name] = [array.dtype.name, list(array.shape), at]
            at += -(-len(data) // _ALIGNED) * _ALIGNED
        # A candidate that returns nothing leaves NaN.
        self.memory[at:at + out_bytes] = b"\xff" * out_bytes
        line = json.dumps({"tensors": tensors, "options": options, "out": at,
                           "room": out_bytes, "watch": watch}) + "\n"
        began = time.perf_counter()
        try:
            self.requests.write(line)
            self.requests.flush()
        except OSError:
            raise Died("crashes: it has ended") from None
        told = self._answer(seconds)
        self.seconds = time.perf_counter() - began
        if "error" in told:
            raise ValueError(told["error"])
        count = int(np.prod(told["shape"], dtype=np.int64))
        kind = dtype_of(told["dtype"])
        out = np.frombuffer(self.memory[at:at + count * kind.itemsize], kind)
        return out.reshape(told["shape"]), told

    def told(self):
        """What was seen of its import alone."""
        try:
            self.requests.write('{"tell": true}\n')
            self.requests.flush()
        except OSError:
            raise Died("crashes: it has ended") from None
        return self._answer(10)

    def goes_on(self):
        """The part of a core that the candidate uses after it has returned."""
        before = self._cpu()
        time.sleep(_WATCHED_SECONDS)
        return (self._cpu() - before) / _WATCHED_SECONDS
