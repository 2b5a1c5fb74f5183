# SPDX-License-Identifier: Apache-2.0
"""Inputs of sets from a source without inputs, and sets with the answers of a library of
the field."""
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


def ranges_apart(rng, shape, keys):
    """One in each part of the keys, some of them empty, in another order."""
    ranges = np.zeros(shape, int)
    for b, r in np.ndindex(*shape[:2]):
        part = shape[1] - 1 - r
        first, end = part * keys // shape[1], (part + 1) * keys // shape[1]
        ranges[b, r] = np.sort(rng.randint(first, end + 1, 2))
    return ranges


def a_tree(rng, shape):
    """Each draft follows the history or a draft before it."""
    tree = np.zeros(shape, int)
    for b, i in np.ndindex(*shape[:2]):
        parent = rng.randint(-1, i) if i > 0 else -1
        tree[b, i] = tree[b, parent] if parent >= 0 else 0
        tree[b, i, i] = 1
    return tree


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
        elif tensor.startswith("segments_"):
            values = np.sort(rng.randint(-1, 3, shape), axis=1)
            if dtype == "i64":  # the same lower halves
                values = np.where(values < 0, values, values << 32)
        elif tensor == "full_ranges":
            values = ranges_apart(rng, shape, case.Tk)
        elif tensor == "tree_mask":
            values = a_tree(rng, shape)
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
