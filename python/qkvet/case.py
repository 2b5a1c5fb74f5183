# SPDX-License-Identifier: Apache-2.0
"""Cases: one line of text that determines one call.

    one = qkvet.case.parse("f32,B1,H4,Tq5,Tk7,d16,causal=br,seed=3")
    q, k, v = (one.inputs[name] for name in "qkv")
    same = qkvet.case.make("f32", B=1, H=4, Tq=5, Tk=7, d=16, seed=3,
                           causal="bottom_right")

The data depends only on the case: the same bits on every machine.
"""
import ctypes
import dataclasses
import json
from typing import Any, Dict

import numpy as np

from . import _program
from .arrays import ml_dtypes
from .declare import WrongUse

_DTYPES = {"f16": "float16", "f32": "float32", "f64": "float64",
           "bool": "bool", "int32": "int32", "int64": "int64"}
_CAUSAL = {"top_left": "tl", "bottom_right": "br"}


@dataclasses.dataclass(frozen=True)
class Case:
    """A case and its data.

    text: the canonical spelling, also `str(case)`.
    subject: "attention", "cache", "layer", "backward" or "layer_backward".
    extents: B, H, Hkv, Tq, Tk, d, dv; of a layer also D.
    inputs: NumPy arrays by name: q [B, H, Tq, d], k and v [B, Hkv, T, ...], of a
        layer x, w_q, ..., and those of the options (mask and bias have extents
        of 1 if they are broadcast; with pages block_table or page_indices locate
        the tokens of k and v).
    digest: that of the inputs, as reports print it; "" if there is none."""
    text: str
    subject: str
    extents: Dict[str, int]
    inputs: Dict[str, Any]
    digest: str

    def __str__(self):
        return self.text


def parse(text) -> Case:
    """The Case of a text, with the keys in any order. WrongUse, one line, for an
    invalid text, or for data without a generator."""
    said, inputs = {}, {}

    def say(what, line):
        said[what] = line.decode()

    def give(name, dtype, rank, extents, values):
        shape = tuple(extents[:rank])
        count = int(np.prod(shape, dtype=np.int64))
        numbers = np.ctypeslib.as_array(values, (count,))
        name, dtype = name.decode(), dtype.decode()
        kind = (ml_dtypes().bfloat16 if dtype == "bf16" else _DTYPES[dtype])
        inputs[name] = numbers.astype(kind).reshape(shape)

    why = ctypes.create_string_buffer(1000)
    if _program.library().qkvet_python_case(
            str(text).encode(), _program.Say(say), _program.GiveInput(give), why,
            len(why)) != 0:
        raise WrongUse(why.value.decode(errors="replace"))
    told = json.loads(said[1])
    return Case(told["case"], told["subject"], told["extents"], inputs,
                told.get("digest", ""))


def make(dtype="f32", **words) -> Case:
    """A Case from arguments: extents by name (B=1, Tq=5), causal ("top_left" or
    "bottom_right"), window (left, right), and all others in the spelling of cases
    (mask="random", kvlen=[3, 5], q="onehot", seed=7). WrongUse as for
    `parse`."""
    parts = [dtype]
    for name, value in words.items():
        if value is None:
            continue
        if name == "causal":
            value = _CAUSAL.get(value, value)
        elif name == "window":
            value = "{}.{}".format(*value)
        elif not isinstance(value, str) and hasattr(value, "__iter__"):
            value = ".".join(map(str, value))
        glued = isinstance(value, int) and (name[0].isupper() or name in ("d", "dv"))
        parts.append(f"{name}{value}" if glued else f"{name}={value}")
    return parse(",".join(parts))
