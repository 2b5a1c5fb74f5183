# SPDX-License-Identifier: Apache-2.0
#!/usr/bin/env python3
"""A wrong number of a gradient of attention, with all that it takes to see it.

HEAD

As it stands this file plays back what the kernel gave. Put your own callable
into kernel(). numpy is all that it needs. Exit: 1 if a number is wrong, else 0.
"""
import math
import sys

import numpy as np


def kernel(q, k, v, o, lse, d_o, recorded, **options):
    """What is to be judged: {"dq": ..., "dk": ..., "dv": ...}, and "dbias"
    [B, H, Tq, Tk] and "dsink" [H] where the call has them.

    q is [B, H, Tq, d], k and v are [B, Hkv, Tk, d]; o [B, H, Tq, dv] and lse
    [B, H, Tq] are what forward() gave, d_o is the gradient of o. `options`
    holds what else the call asks for: look at CALLS. Outputs that it leaves out
    are not judged.
    """
    # Your kernel goes here, such as
    #     dq, dk, dv = my_backward(q, k, v, o, lse, d_o)
    #     return {"dq": dq, "dk": dk, "dv": dv}
    return recorded


# NUMBERS


# --- The definition ----------------------------------------------------------


# SCORES


def reference(call):
    """All gradients by the definition, row by row:

    ds = p (do v^T - rowsum(do o)),  dq = scale ds k,  dk = scale ds^T q,
    dv = p^T do; a softcap multiplies ds by its slope.
    """
    q, k, v, g = (call[name].astype(np.float64)
                  for name in ("q", "k", "v", "d_o"))
    B, H, Tq, d = q.shape
    scale, cap = call.get("scale", 1 / math.sqrt(d)), call.get("softcap", 0)
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    d_bias, d_sink = np.zeros((B, H, Tq, k.shape[2])), np.zeros(H)
    for b, h, i in np.ndindex(B, H, Tq):
        keys, diagonal = seen_by(call, b, h, i, k.shape[2])
        if keys is None or len(keys) == 0:
            continue
        kv = h * k.shape[1] // H
        scores = scores_of(call, q, k[b, kv], b, h, i, keys, diagonal)
        sink = [np.float64(call["sink"][h])] if "sink" in call else []
        top = max([scores.max(), *sink])
        terms, of_sink = np.exp(scores - top), np.exp(np.array(sink) - top).sum()
        p = terms / (terms.sum() + of_sink)
        dp = v[b, kv, keys] @ g[b, h, i]
        ds = p * (dp - p @ dp)
        dz = ds
        if cap:
            capped = scores
            if not call["softcap_after_bias"]:
                capped = scores - bias_of(call, b, h, i, keys, diagonal)
            dz = ds * (1 - (capped / cap) ** 2)
        d_bias[b, h, i, keys] = dz if call["softcap_after_bias"] else ds
        d_sink[h] -= of_sink / (terms.sum() + of_sink) * (p @ dp)
        dq[b, h, i] = scale * (dz @ k[b, kv, keys])
        dk[b, kv, keys] += scale * np.outer(dz, q[b, h, i])
        dv[b, kv, keys] += np.outer(p, g[b, h, i])
    found = {"dq": dq, "dk": dk, "dv": dv, "dbias": d_bias, "dsink": d_sink}
    return {name: found[name] for name in call["wanted"]}


def check_reference(call):
    """The expected numbers of this file must be what the definition says."""
    found = reference(call)
    for name, (value, bound, _, _) in call["wanted"].items():
        judged = np.isfinite(bound) & np.isfinite(value)
        slack = np.maximum(bound, 1e-9 * (1 + np.abs(value)))
        assert (np.abs(found[name] - value) <= slack)[judged].all(), (
            f"{name}: the definition above does not give the expected values")


# --- The call, or the calls, and what they must give -------------------------
# wanted: [value, allowed error, least, largest] of each output; an infinite
# allowed error asks for nothing, NaN asks for NaN.

# DATA

# VERDICT


# STORED


LETTERS = {"o": "bhic", "dq": "bhic", "dk": "bhjc", "dv": "bhjc",
           "dbias": "bhij", "dsink": "h"}
BEFORE_ROUNDING = True  # bounds say nothing of how numbers are stored


# PAIRS


def answer(call):
    check_reference(call)
    hidden = ("wanted", "recorded", "storage", "q", "k", "v", "o", "lse",
              "d_o", "softcap_after_bias", "sink_in_lse", "lse_base2")
    options = {n: x for n, x in call.items() if n not in hidden}
    given = kernel(call["q"], call["k"], call["v"], call["o"], call["lse"],
                   call["d_o"], call["recorded"], **options)
    return {n: stored(x, call["storage"][n]) for n, x in given.items()}


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(judge_calls(answer))
