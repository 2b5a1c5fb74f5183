# SPDX-License-Identifier: Apache-2.0
"""Compares every committed set with the definition in NumPy, from the root of
the repository:

    python3 -m golden.generate.cross_check [PREFIX]

Prints the worst relative distance of each set; exit 1 if one is beyond rough
sanity, or if a number that is off on purpose goes unseen. This is a tool for
authors: the product judges by the bound of reference/, not by these limits.
"""
import json
import sys

import numpy as np

from golden.generate import (case_text, definition, numpy_merges, sets, storage,
                             story)

# Relative to a set's largest number: what its arithmetic can do, and some more.
EXACT_LIMIT = 1e-11
STORAGE_LIMITS = {"f64": 1e-11, "f32": 2e-5, "f16": 1e-2, "bf16": 8e-2}


def expected(case, inputs, dialect):
    if case.is_layer:
        return {"y": definition.layer(case, inputs)}
    if case.is_story:
        return story.answers(case, inputs)
    if case.is_merge:
        return numpy_merges.answer(case, inputs)
    return definition.attention(case, inputs, dialect)


def distance(given, wanted, least):
    """The largest difference of elements that count, relative to the largest number,
    or to `least`; infinite where only one of the two is finite, or NaN."""
    if given.shape != wanted.shape:
        return np.inf
    same = (given == wanted) | (np.isnan(given) & np.isnan(wanted))
    if not np.all(np.isfinite(given) == np.isfinite(wanted)):
        return np.inf
    both = np.isfinite(given) & np.isfinite(wanted)
    if not np.all(same | both):
        return np.inf
    if not both.any():
        return 0.0
    size = max(np.abs(wanted[both]).max(), least)
    return float(np.abs(given[both] / size - wanted[both] / size).max())


def counted(case, shape):
    """Rows of an answer that count, as booleans of its shape."""
    if case.is_layer or case.is_story:
        return np.ones(shape, bool)
    rows = (definition.Places(case).row >= 0)[:, None, :]
    rows = rows.reshape(rows.shape + (1,) * (len(shape) - 3))
    return np.broadcast_to(rows, shape)


def limit_of(case, metadata):
    if metadata["arithmetic"] != "storage":
        return EXACT_LIMIT
    types = (case.q_type, case.kv_type, case.o_type)
    return max(STORAGE_LIMITS[dtype] for dtype in types)


def check(metadata, tensors):
    """Returns (worst distance, limit)."""
    case = case_text.parse(metadata["case"])
    names = case_text.input_shapes(case)
    inputs = {name: tensors[name].values() for name in names}
    with np.errstate(over="ignore"):
        wanted = expected(case, inputs, metadata["dialect"])
    given = {name: tensor.values() for name, tensor in tensors.items()
             if name not in names}
    if not given or (case.is_story and set(given) != set(wanted)):
        return np.inf, 0.0
    worst = 0.0
    for name, values in given.items():
        counts = counted(case, values.shape)
        worst = max(worst, distance(np.where(counts, values, 0),
                                    np.where(counts, wanted[name], 0),
                                    1.0 if name == "lse" else 2.0**-1022))
    return worst, limit_of(case, metadata)


def spoil(metadata, tensors):
    """The same set with one counted number of one answer off, or None if it has
    none."""
    case = case_text.parse(metadata["case"])
    name = [key for key in ("o", "y", *tensors) if key in tensors
            and key not in case_text.input_shapes(case)][0]
    values = tensors[name].values().copy()
    places = np.argwhere(counted(case, values.shape) & np.isfinite(values))
    if len(places) == 0:
        return None
    limit = limit_of(case, metadata)
    most = np.abs(values[np.isfinite(values)]).max()
    values[tuple(places[-1])] += 20 * limit * max(most, 2.0**-120)
    return {**tensors, name: storage.Tensor("f64", values)}


def main(prefix=""):
    bad = unseen = 0
    rows = (sets.SETS / "MANIFEST.jsonl").read_text().splitlines()[1:]
    for row in map(json.loads, rows):
        if not row["name"].startswith(prefix):
            continue
        path = sets.SETS / (row["name"] + ".safetensors")
        metadata, tensors = storage.read_file(path)
        worst, limit = check(metadata, tensors)
        beyond = not worst <= limit
        stated = "  finding stated" if metadata["finding"] else ""
        print(f"{'FAR ' if beyond else 'near'} {worst:9.2e}  {row['name']}"
              + stated)
        bad += beyond and not stated
        spoiled = spoil(metadata, tensors)
        if spoiled is not None and check(metadata, spoiled)[0] <= limit:
            print(f"UNSEEN     a spoiled number of {row['name']}")
            unseen += 1
    print(f"{bad} far, {unseen} spoiled sets unseen")
    return 1 if bad or unseen else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
