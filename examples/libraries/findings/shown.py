# SPDX-License-Identifier: Apache-2.0
"""What a finding is made of: the definition in NumPy, in double, and a pair of
expected and actual that it shows."""
import dataclasses
import typing

import numpy as np

# What a finding is; its words are those of the page.
KINDS = ("bug", "undocumented convention", "looser than documented",
         "crash on legal input", "silent nonsense on illegal input",
         "documented, easily missed")


@dataclasses.dataclass
class Pair:
    what: str
    expected: object
    actual: object  # an array, or the text of a refusal
    dtype: str
    differs: bool  # whether the two are apart, as the finding says they are
    wanted: bool  # whether they should be


@dataclasses.dataclass
class Finding:
    name: str
    library: str
    kind: str
    summary: str
    thread: str  # the address of a public thread, "" where none was found
    show: typing.Callable


class NotHere(Exception):
    """The machine is none on which the finding shows: why."""


# The calls shown have at most 16 keys and 16 channels of numbers that the type
# holds: 16 + 1 roundings in a scaled score, 2 of its exponential, 16 in a sum of
# them, 16 in a sum of values and 3 beside. Arithmetic of half types is that of f32.
ROUNDINGS = 64

FINDINGS = {}
pairs = []  # of the finding that runs


def finding(kind, summary, thread=""):
    """Lists a function LIBRARY_what_it_does as a finding."""
    assert kind in KINDS, kind

    def listed(function):
        library = function.__module__.split("of_")[-1]
        FINDINGS[function.__name__] = Finding(
            function.__name__, library, kind, summary, thread, function)
        return function
    return listed


def plain(value):
    """A NumPy array of any library's, and the name of its type; a number of Python
    comes out of a tensor of f32."""
    dtype = str(getattr(value, "dtype", "float32")).rpartition(".")[2]
    if hasattr(value, "detach"):
        value = value.detach().float() if dtype == "bfloat16" else value.detach()
    array = np.asarray(value)
    if dtype == "bfloat16" or array.dtype.kind == "V":
        array = array.astype(np.float32)
    return array.astype(np.float64), dtype


def show(what, expected, actual, same=False):
    """Prints the two. They are apart, which is the finding, or with `same` they
    are not: the control beside it."""
    expected = np.asarray(expected, np.float64)
    if isinstance(actual, str):
        array, dtype, differs = actual, "", True
        shown = actual
    else:
        array, dtype = plain(actual)
        u = 2.0 ** -53 if dtype == "float64" else 2.0 ** -24
        differs = not np.allclose(array, expected, rtol=ROUNDINGS * u,
                                  atol=ROUNDINGS * u, equal_nan=True)
        shown = np.array2string(array, separator=", ", precision=8)
    if differs == same:
        shown += "    NO LONGER SO"
    print(f"  {what}: expected "
          f"{np.array2string(expected, separator=', ', precision=8)}, "
          f"actual {shown}")
    pairs.append(Pair(what, expected, array, dtype, differs, not same))


def refused(call, expected):
    """What call() returns, or the last words of the refusal. `expected` is how
    these begin; any other exception is none that the finding knows."""
    try:
        return call()
    except Exception as why:  # noqa: BLE001: every library has its own
        text = (str(why).splitlines() or [""])[0]
        line = f"{type(why).__name__}: {text.rpartition(' was false. ')[2].strip()}"
        if not line.startswith(expected):
            raise
        return line


def defined(q, k, v, scale=None, seen=None, bias=None, softcap=None):
    """o and lse by the definition; [T, d] each, seen: booleans [Tq, Tk]."""
    q, k, v = (plain(x)[0] for x in (q, k, v))
    scores = q @ k.T * (q.shape[1] ** -0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * np.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if seen is not None:
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(axis=1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(axis=1, keepdims=True)
    return weights / total @ v, (np.log(total) + top)[:, 0]


def causal(rows, keys, bottom_right=False):
    return np.tri(rows, keys, keys - rows if bottom_right else 0, dtype=bool)
