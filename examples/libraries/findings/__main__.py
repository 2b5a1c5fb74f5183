#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What QKVet found in released libraries, each in the library alone, with NumPy
in double beside it, and without QKVet:

    python3 findings [NAME...]

Exit code: 0 every finding that could be tried is there, 1 a library no longer does
what a line says, 2 wrong use. Libraries that are not installed are said.
"""
import importlib
import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import shown  # noqa: E402


def load():
    """All findings by name; no library is imported by that."""
    for path in sorted(HERE.glob("of_*.py")):
        importlib.import_module(path.stem)
    return shown.FINDINGS


def tried(one):
    """Whether the library still does what the finding says; None if it is not
    here."""
    print(f"{one.name}: {one.kind}")
    shown.pairs.clear()
    try:
        one.show()
    except ImportError as why:
        print(f"  not installed here ({why})")
        return None
    except shown.NotHere as why:
        print(f"  not on this machine ({why})")
        return None
    except Exception as why:  # noqa: BLE001: every library has its own
        print(f"  {type(why).__name__}: {why}")
        return False
    return all(pair.differs == pair.wanted for pair in shown.pairs)


def main(names):
    findings = load()
    for name in names:
        if name not in findings:
            print(f"{name}: no such finding; allowed: " + ", ".join(findings),
                  file=sys.stderr)
            return 2
    gone = [name for name in names or findings if tried(findings[name]) is False]
    for name in gone:
        print(f"{name}: the library no longer does that")
    return 1 if gone else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
