# SPDX-License-Identifier: Apache-2.0
#!/usr/bin/env python3
"""Holds actual_*.npy against what is expected. Needs numpy.

    python3 check.py

Exit: 1 if a number is wrong, else 0. To judge another kernel, write what it
gives over actual_o.npy (actual_lse.npy, ...).
"""
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
OUTPUTS = ("o", "lse", "weights")


def load(folder, name):
    """As float64 where it is bf16, which numpy lacks: uint16 with its bits."""
    values = np.load(folder / f"{name}.npy")
    if values.dtype == np.uint16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values


def rounding(x, dtype):
    """By how much storing may have moved a number that is now x."""
    if dtype not in ("float16", "uint16"):
        return 0
    bits, least = (11, -25) if dtype == "float16" else (8, -134)
    exponent = np.frexp(np.where(np.isfinite(x), x, 0))[1] - 1 - bits
    return np.ldexp(1.0, np.where(x == 0, least, np.maximum(exponent, least)))


def text(x, double):
    """The shortest text that reads back as the number."""
    x = np.float64(x) if double else np.float32(x)
    if not np.isfinite(x):
        return str(x)
    plain = np.format_float_positional(x, trim="-")
    short = np.format_float_scientific(x, trim="-", exp_digits=2)
    return plain if len(plain) <= len(short) else short


def element(folder, name, index):
    letters = "bhij" if name == "weights" else "bhic"
    place = ",".join(f"{x}={n}" for x, n in zip(letters, index))
    call = "" if folder == HERE else f"{folder.name}: "
    return f"{call}{name}[{place}]"


def judge(folder, name):
    """Prints the worst element; whether there is a wrong one."""
    value, bound, low, high = (
        load(folder, f"{part}_{name}")
        for part in ("expected", "bound", "least", "largest"))
    dtype = np.load(folder / f"actual_{name}.npy").dtype
    actual = load(folder, f"actual_{name}").astype(np.float64)
    right = np.isinf(bound) | ((low <= actual) & (actual <= high))
    right |= np.isnan(value) & np.isnan(actual)
    if right.all():
        return False
    error = np.abs(actual - value) - rounding(actual, dtype.name)
    ratio = np.where(error > 0, error / bound, np.inf)
    at = np.unravel_index(np.argmax(np.where(right, -1, ratio)), right.shape)
    double = dtype == np.float64
    print(f"{element(folder, name, at)} expected {text(value[at], double)}"
          f" allowed {text(low[at], double)} .. {text(high[at], double)}"
          f" actual {text(actual[at], double)}")
    return True


def judge_pairs(folders):
    """Numbers that must be those of another call, bit for bit."""
    if not (HERE / "same_bits.npy").exists():
        return False
    for output, call, other, n, m, factor in np.load(HERE / "same_bits.npy"):
        name = OUTPUTS[int(output)]
        one, two = (load(folders[int(c)], f"actual_{name}")
                    for c in (call, other))
        first, second = one.ravel()[int(n)] * factor, two.ravel()[int(m)]
        if first == second or (np.isnan(first) and np.isnan(second)):
            continue
        at = element(folders[int(call)], name, np.unravel_index(int(n), one.shape))
        to = element(folders[int(other)], name,
                     np.unravel_index(int(m), two.shape))
        print(f"{at} is {text(first, True)}, and must have the same bits as "
              f"{to}, which is {text(second, True)}")
        return True
    return False


def main():
    np.seterr(all="ignore")
    folders = sorted(HERE.glob("call*/"), key=lambda x: int(x.name[4:])) or [HERE]
    failed = False
    for folder in folders:
        for name in OUTPUTS:
            if (folder / f"actual_{name}.npy").exists():
                failed |= judge(folder, name)
    failed |= judge_pairs(folders)
    print("FAILED" if failed else "passed")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
