# SPDX-License-Identifier: Apache-2.0
#!/usr/bin/env python3
"""A wrong number of an attention kernel, with all that it takes to see it.

HEAD

As it stands this file plays back what the kernel gave. Put your own callable
into kernel(). numpy is all that it needs. Exit: 1 if a number is wrong, else 0.
"""
import math
import sys

import numpy as np


def kernel(q, k, v, recorded, **options):
    """What is to be judged: {"o": ..., "lse": ..., "weights": ...}.

    q is [B, H, Tq, d], k and v are [B, Hkv, Tk, d] (pools of pages
    [pages, Hkv, page_size, d] with a block_table or page_indptr). `options` holds what else
    the call asks for: look at CALLS. Outputs that it leaves out are not judged.
    """
    # Your kernel goes here, such as
    #     return {"o": my_attention(q, k, v, causal=options["causal"])}
    return recorded


# NUMBERS


# --- The definition ----------------------------------------------------------


# SCORES


def keys_and_values(call):
    """All tokens of each member: out of the pages, and with the new ones."""
    k, v = (call[name].astype(np.float64) for name in "kv")
    B = call["q"].shape[0]
    size = call.get("page_size")
    packed = size is not None and "cu_seqlens_q" in call
    if packed:
        B = len(call["cu_seqlens_q"]) - 1
    if "channel_group" in call:  # [pages, Hkv, page, d / x, x]
        k = k.reshape(*k.shape[:3], -1)
    if size is not None:
        pools, counts = (k, v), lengths_of(call)
        width = max([0, *counts.tolist()])
        k, v = (np.zeros((B, p.shape[1], width, p.shape[3])) for p in pools)
        for b in range(B):
            for j in range(counts[b]):
                page = page_of(call, b, j // size)
                k[b, :, j] = pools[0][page, :, j % size]
                v[b, :, j] = pools[1][page, :, j % size]
    if "k_new" in call:
        for b, end in enumerate(lengths_of(call)):
            length = end - call["k_new"].shape[2]
            k[b, :, length:end] = call["k_new"][b].astype(np.float64)
            v[b, :, length:end] = call["v_new"][b].astype(np.float64)
    if packed:  # one behind the other
        ends = packed_keys(call)
        k, v = (np.concatenate([x[b, :, :ends[b + 1] - ends[b]]
                                for b in range(B)], axis=1)[None]
                for x in (k, v))
    return k, v


def page_of(call, b, n):
    """Page n of member b: of its row, or of its part of the list."""
    if "page_indptr" in call:
        return call["page_indices"][call["page_indptr"][b] + n]
    return call["block_table"][b, n]


def reference(call):
    """All outputs by the definition, row by row; NaN and -inf where a row sees
    no key; and how many keys it sees, -1 where it does not count."""
    q = call["q"].astype(np.float64)
    k, v = keys_and_values(call)
    B, H, Tq, _ = q.shape
    group = H // k.shape[1]
    o = np.full((B, H, Tq, v.shape[3]), np.nan)
    lse = np.full((B, H, Tq), -np.inf)
    p = np.zeros((B, H, Tq, k.shape[2]))
    seen = np.zeros((B, H, Tq), int)
    for b, h, i in np.ndindex(B, H, Tq):
        keys, diagonal = seen_by(call, b, h, i, k.shape[2])
        seen[b, h, i] = -1 if keys is None else len(keys)
        if seen[b, h, i] <= 0:
            continue
        scores = scores_of(
            call, q, k[b, h // group], b, h, i, keys, diagonal)
        top = scores.max()
        sink = []
        if "sink" in call:
            sink = [np.float64(call["sink"][h])]
            top = max(top, sink[0])
        terms = np.exp(scores - top)
        total = terms.sum() + np.exp(np.array(sink) - top).sum()
        p[b, h, i, keys] = terms / total
        o[b, h, i] = terms @ v[b, h // group, keys] / total
        in_lse = total if call["sink_in_lse"] else terms.sum()
        lse[b, h, i] = top + np.log(in_lse)
    if call["lse_base2"]:
        lse = lse / math.log(2)
    return {"o": o, "lse": lse, "weights": p}, seen


def check_reference(call):
    """The expected numbers of this file must be what the definition says."""
    found, seen = reference(call)
    for name, values in found.items():
        if name not in call["wanted"]:
            continue
        value, bound = call["wanted"][name][:2]
        if name == "weights":
            value, bound = (x[..., : values.shape[3]] for x in (value, bound))
        rows = seen > 0 if name == "lse" else (seen > 0)[..., None]
        judged = np.isfinite(bound) & np.isfinite(value) & rows
        slack = np.maximum(bound, 1e-9 * (1 + np.abs(value)))
        assert (np.abs(values - value) <= slack)[judged].all(), (
            f"{name}: the definition above does not give the expected values")


# --- The call, or the calls, and what they must give -------------------------
# wanted: [value, allowed error, least, largest] of each output; an infinite
# allowed error asks for nothing, NaN asks for NaN.

# DATA

# VERDICT


LETTERS = {"o": "bhic", "weights": "bhij"}
BEFORE_ROUNDING = False  # bounds count how numbers are stored


# PAIRS


def answer(call):
    check_reference(call)
    hidden = ("wanted", "recorded", "storage", "q", "k", "v",
              "softcap_after_bias", "sink_in_lse", "lse_base2",
              "ranges_in_window")
    options = {n: x for n, x in call.items() if n not in hidden}
    given = kernel(call["q"], call["k"], call["v"], call["recorded"], **options)
    return {n: np.asarray(x, np.float64) for n, x in given.items()}


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(judge_calls(answer))
