# SPDX-License-Identifier: Apache-2.0
"""This interpreter as a worker of the program: `python -m qkvet.worker`.

The program starts it for `qkvet check MODULE:NAME`; there is nothing to do by
hand. A crash, a hang or an exit of the callable is a verdict about the case and
ends this process alone.
"""
import os
import sys


def main(argv):
    if len(argv) != 4 or argv[1] not in ("--inherited", "--forks"):
        print("qkvet.worker: runs callables for qkvet, which starts it itself; "
              "there is nothing to do by hand", file=sys.stderr)
        return 2
    target, config = argv[2:]
    if (visible := os.environ.get("QKVET_ARMOUR")) is not None:
        from .verdict.caller import armoured
        armoured(visible)
    if argv[1] == "--forks":
        from ._door import callable_of
        from ._forks import serve
        if not serve(lambda: callable_of(target, config)):
            return 0
    # First of all: the callable must not see the program's open files.
    from ._program import library
    door = library()
    door.qkvet_python_begin()
    from ._door import named_library, opener
    return door.qkvet_python_serve(
        target.encode(), config.encode(),
        opener(lambda config: named_library(target, config)))


if __name__ == "__main__":
    sys.exit(main(sys.argv))
