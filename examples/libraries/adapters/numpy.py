# SPDX-License-Identifier: Apache-2.0
"""NumPy: a definition to start from, and a control that must fail."""
import numpy as np


def attention(call, scale=None, wide=None):
    """In `wide`; if not told, in f64 or f32."""
    fields, given = call.fields, call.given
    wide = np.dtype(wide or ("f8" if fields["dtype"] == "f64" else "f4"))
    q, k, v = (given[name].astype(wide) for name in "qkv")
    k, v = (np.repeat(x, fields["H"] // fields["Hkv"], axis=1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3)
    scores = scores * wide.type(fields["scale"] if scale is None else scale)
    if fields["causal"] != "none":
        rows, keys = scores.shape[2:]
        last = keys - rows if fields["causal"] == "bottom_right" else 0
        scores = np.where(np.tri(rows, keys, last, dtype=bool), scores, -np.inf)
    if "bias" in given:
        scores = scores + given["bias"].astype(wide)
    if "mask" in given:
        scores = np.where(given["mask"] != 0, scores, -np.inf)
    if "kv_len" in given:
        beyond = np.arange(scores.shape[3]) >= given["kv_len"][:, None, None, None]
        scores = np.where(beyond, -np.inf, scores)
    top = scores.max(axis=3, keepdims=True)
    top = np.where(np.isneginf(top), 0, top)
    weights = np.exp(scores - top)
    total = weights.sum(axis=3, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + top)[..., 0]
    weights = weights / np.where(total == 0, 1, total)  # no key: zeros
    return {"o": weights @ v, "lse": lse, "weights": weights}


def without_scale(call):
    return attention(call, scale=1)


def half(call):
    """Every array is f16, as it is in code that never asked for anything else."""
    return attention(call, wide="f2")


ENTRIES = {"plain": attention, "half": half, "without_scale": without_scale}
DECLARED_AS = {"without_scale": "plain"}
