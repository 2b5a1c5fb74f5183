# SPDX-License-Identifier: Apache-2.0
"""Inputs of sets that no source brings along, and sets that a library of the
field has answered."""
import zlib

import numpy as np

from golden.generate import case_text
from golden.generate.storage import store


def lists_of_keys(rng, shape, keys):
    """Each in an order of its own, none twice, with -1 among them."""
    lists = np.full(shape, -1)
    for at in np.ndindex(*shape[:3]):
        entries = rng.permutation(keys + 2)[:shape[3]]
        lists[at][:len(entries)] = np.where(entries < keys, entries, -1)
    return lists


def draw(name, case, sizes):
    """Normal numbers from a seed that the set's name gives, times a size."""
    rng = np.random.RandomState(zlib.crc32(name.encode()))
    drawn = {}
    shapes = case_text.input_shapes(case)
    for tensor, (shape, dtype) in shapes.items():
        values = rng.randn(*shape)
        if tensor == "mask":
            values = rng.randint(0, 100, shape) < 60
        elif tensor == "slopes":
            values = 2.0 ** -(1 + np.arange(np.prod(shape)).reshape(shape))
        elif tensor == "key_indices":
            block = case_text.keys_of_entry(case)
            values = lists_of_keys(rng, shape, -(-case.Tk // block))
        elif tensor == "topk_length":
            values = rng.randint(0, shapes["key_indices"][0][3] + 1, shape)
        drawn[tensor] = store(values * sizes.get(tensor, 1), dtype)
    return drawn


def add_answered(generator, name, case, pins, answer, dialect="", sizes=None,
                 mask=None, finding=""):
    """`answer(case, values)` gives the outputs of a library, in double;
    `values` are the stored inputs, in double. `mask` replaces
    the one that is drawn."""
    parsed = case_text.parse(case)
    inputs = draw(name, parsed, sizes or {})
    if mask is not None:
        shape = inputs["mask"].shape
        inputs["mask"] = store(np.reshape(mask, shape), "u8")
    outputs = answer(parsed, {key: t.values() for key, t in inputs.items()})
    # A kernel returns its lse in f32 or f64.
    wide = "f64" if parsed.o_type == "f64" else "f32"
    generator.add_set(name, case, pins, "storage", inputs,
                      {key: store(values, wide if key == "lse"
                                  else parsed.o_type)
                       for key, values in outputs.items()},
                      dialect=dialect, finding=finding)
