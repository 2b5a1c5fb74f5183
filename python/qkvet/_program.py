# SPDX-License-Identifier: Apache-2.0
"""The program `qkvet`, and the library through which Python becomes a worker."""
import contextlib
import ctypes
import functools
import os
import pathlib
import signal
import subprocess
import sys

from . import _abi
from .declare import WrongUse, as_text


@functools.lru_cache(maxsize=None)
def home():
    """The folder with bin/qkvet and lib/qkvet: that of the wheel, or a build tree
    named by $QKVET_HOME."""
    own = pathlib.Path(__file__).parent / "_program"
    named = os.environ.get("QKVET_HOME")
    for folder in ([pathlib.Path(named)] if named else []) + [own]:
        if (folder / "bin" / "qkvet").exists():
            return folder.resolve()
    raise WrongUse(f"no program in {own}; allowed: an installed wheel, or "
                   "$QKVET_HOME as the folder of a build with bin/qkvet")


def program():
    return str(home() / "bin" / "qkvet")


@functools.lru_cache(maxsize=None)
def library():
    """The shared library of the door; cli/embedded/python_door.cpp describes its
    functions."""
    lib = ctypes.CDLL(str(home() / "lib" / "qkvet" / "libqkvet_python.so"))
    lib.qkvet_python_begin.restype = None
    lib.qkvet_python_armour.restype = None
    lib.qkvet_python_armour.argtypes = [ctypes.c_char_p, ctypes.c_char_p,
                                        ctypes.c_size_t]
    lib.qkvet_python_serve.argtypes = [ctypes.c_char_p, ctypes.c_char_p,
                                       _abi.OpenFunction]
    lib.qkvet_python_declare.argtypes = [
        ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(_abi.Capabilities),
        ctypes.POINTER(_abi.Dialect), ctypes.POINTER(_abi.Precision),
        ctypes.POINTER(ctypes.c_uint64), ctypes.c_char_p, ctypes.c_size_t]
    lib.qkvet_python_check.argtypes = [
        ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, _abi.OpenFunction,
        Say]
    lib.qkvet_python_reference.argtypes = [ctypes.c_char_p] * 5 + [
        Give, ctypes.c_char_p, ctypes.c_size_t]
    lib.qkvet_python_case.argtypes = [ctypes.c_char_p, Say, GiveInput,
                                      ctypes.c_char_p, ctypes.c_size_t]
    return lib


Say = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_char_p)
Give = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.POINTER(ctypes.c_double),
                        ctypes.POINTER(ctypes.c_double), ctypes.c_int64)
GiveInput = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p,
                             ctypes.c_int32, ctypes.POINTER(ctypes.c_int64),
                             ctypes.POINTER(ctypes.c_double))


def resolve(fields):
    """Capabilities, dialect, precision and options of a layer. WrongUse with one
    line if a word is unknown."""
    capabilities, dialect, precision = (_abi.Capabilities(), _abi.Dialect(),
                                        _abi.Precision())
    layer_options = ctypes.c_uint64()
    for struct in (capabilities, dialect, precision):
        struct.struct_size = ctypes.sizeof(struct)
    text, precision_text = as_text(fields)
    why = ctypes.create_string_buffer(1000)
    if library().qkvet_python_declare(
            text.encode(), precision_text.encode(), capabilities, dialect,
            precision, layer_options, why, len(why)) != 0:
        raise WrongUse(why.value.decode(errors="replace"))
    return capabilities, dialect, precision, layer_options.value


def environment():
    """The environment of the program: its workers are this interpreter with this
    package."""
    path = str(pathlib.Path(__file__).parent.parent)
    paths = [path] + [p for p in os.environ.get("PYTHONPATH", "").split(
        os.pathsep) if p]
    # One thread for NumPy's products: there is a worker for each core, and a
    # process with threads cannot be forked (_forks.py).
    return {"OPENBLAS_NUM_THREADS": "1", **os.environ,
            "QKVET_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


@contextlib.contextmanager
def started(words, env, descriptors=(), **more):
    """The program with these words, as a process that ends with this one, however
    this one ends: it holds the reading end of a pipe, and the operating system
    kills it when no writer is left. It inherits the descriptors."""
    theirs, ours = os.pipe()
    try:
        with subprocess.Popen([program(), *words],
                              env={**env, "QKVET_LIFELINE": str(theirs)},
                              pass_fds=[theirs, *descriptors], text=True, errors="replace",
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, **more) as process:
            os.close(theirs)
            theirs = None
            try:
                yield process
            except BaseException:
                process.kill()
                raise
    finally:
        os.close(ours)
        if theirs is not None:
            os.close(theirs)


def run(words, paths=()):
    """The program with these words: exit code, stdout, stderr. `paths` come first
    in the search for modules. Ctrl-C lets it report its findings so far; a second
    one ends it."""
    env = environment()
    env["PYTHONPATH"] = os.pathsep.join([*paths, env["PYTHONPATH"]])
    # In a new session: interrupts are forwarded to it here.
    with started(words, env, start_new_session=True) as running:
        try:
            said = running.communicate()
        except KeyboardInterrupt:
            running.send_signal(signal.SIGINT)
            said = running.communicate()
    return running.returncode, *said


def main():
    """The command `qkvet` of the wheel."""
    os.execve(program(), [program(), *sys.argv[1:]], environment())
