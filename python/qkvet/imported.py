# SPDX-License-Identifier: Apache-2.0
"""Imports the callable in a worker. Workers also import a script that defines a
callable and judges it further down: there it must end, or continue without
judging, at the point at which it would begin a run."""
import importlib
import importlib.util
import os
import sys

from .declare import WrongUse


class Defined(BaseException):
    """The script being imported has defined the wanted name."""


class Nothing:
    """The report of a run that was not made: every attribute and result of it is
    another one, and true."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_args, **_words):
        return self

    def __getitem__(self, _index):
        return self

    def __iter__(self):
        return iter(())

    def __len__(self):
        return 1

    def __eq__(self, _other):
        return True

    def __gt__(self, _other):
        return True

    __hash__ = None
    __lt__ = __ge__ = __le__ = __contains__ = __gt__

    def __str__(self):
        return ""


class _Import:
    """The import that a worker is making now; None elsewhere."""
    wanted = None  # "name.of.it"
    script = None  # the namespace of a file


def in_worker():
    """The result of check() and similar functions in a worker that imports their
    script; None if a run is to be made."""
    if _Import.wanted is None:
        return None
    if _Import.script is not None and (
            _Import.wanted.split(".")[0] in _Import.script):
        raise Defined
    return Nothing()


def find(target):
    """The object "module:name" or "path/file.py:name". WrongUse, one line, if
    there is none; exceptions of the import are passed on."""
    module, _, name = target.partition(":")
    if not module or not name:
        raise WrongUse(f"{target!r}: allowed: MODULE:NAME or FILE.py:NAME")
    _Import.wanted = name
    try:
        found = (_script(module) if module.endswith(".py")
                 else importlib.import_module(module))
    finally:
        _Import.wanted = _Import.script = None
    for part in name.split("."):
        if not hasattr(found, part):
            raise WrongUse(f"{target!r}: {module} has no {name}")
        found = getattr(found, part)
    return found


def _script(path):
    path = os.path.abspath(path)
    if not os.path.exists(path):
        raise WrongUse(f"{path}: no such file")
    sys.path.insert(0, os.path.dirname(path))
    sys.argv = [path]
    stem = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(stem, path)
    loaded = sys.modules[stem] = importlib.util.module_from_spec(spec)
    _Import.script = loaded.__dict__
    try:
        spec.loader.exec_module(loaded)
    except Defined:
        pass
    return loaded
