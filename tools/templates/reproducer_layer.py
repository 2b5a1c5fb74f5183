# SPDX-License-Identifier: Apache-2.0
#!/usr/bin/env python3
"""A wrong number of a layer of attention, with all that it takes to see it.

HEAD

As it stands this file plays back what the kernel gave. Put your own callable
into kernel(). numpy is all that it needs. Exit: 1 if something is wrong, else 0.
"""
import math
import sys

import numpy as np


def kernel(x, w_q, w_k, w_v, w_o, recorded, **options):
    """What is to be judged: {"y": ..., "q": ..., "attended": ...}.

    x is [B, T, D] or [T, D], the matrices are [D, H d], [D, Hkv d], [D, Hkv dv]
    and [H dv, D]. `options` holds what else the call asks for: look at CALLS.
    q [B, H, T, d], k and v, and `attended` [B, H, T, dv] are the stages, which
    are judged if they are there: rotated, and not merged. A call that
    contradicts itself is refused by a ValueError with a reason.
    """
    # Your layer goes here, such as
    #     return {"y": my_layer(x, w_q, w_k, w_v, w_o, heads=options["heads"])}
    return recorded


# NUMBERS


# --- The definition ----------------------------------------------------------


def projected(call, x, name, heads):
    """[B, heads, T, width]: x W + b in heads."""
    out = x @ call[f"w_{name}"].astype(np.float64)
    if f"b_{name}" in call:
        out = out + call[f"b_{name}"].astype(np.float64)
    B, T, columns = out.shape
    return out.reshape(B, T, heads, columns // heads).transpose(0, 2, 1, 3)


def turned(call, x):
    """[B, heads, T, d] with the pairs of channels turned by the tables (RoPE)."""
    if "rope" not in call:
        return x
    x, d = x.copy(), x.shape[-1]
    if call["rope"] == "half":
        first, second = np.arange(d // 2), np.arange(d // 2) + d // 2
    else:
        first, second = np.arange(0, d, 2), np.arange(1, d, 2)
    cos, sin = (call[f"rope_{part}"].astype(np.float64)[call["positions"]]
                for part in ("cos", "sin"))
    cos, sin = cos[:, None], sin[:, None]
    a, b = x[..., first], x[..., second]
    x[..., first], x[..., second] = a * cos - b * sin, a * sin + b * cos
    return x


def reference(call):
    """All stages and y by the definition."""
    x = call["x"].astype(np.float64)
    batch = x if x.ndim == 3 else x[None]
    H, Hkv = call["heads"], call["kv_heads"]
    q = turned(call, projected(call, batch, "q", H))
    k = turned(call, projected(call, batch, "k", Hkv))
    v = projected(call, batch, "v", Hkv)
    scale = call.get("scale", 1 / math.sqrt(q.shape[-1]))
    scores = scale * (q @ np.repeat(k, H // Hkv, 1).transpose(0, 1, 3, 2))
    if call["causal"]:
        T = scores.shape[-1]
        scores = np.where(np.tri(T, dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    weights = p / p.sum(-1, keepdims=True)
    attended = weights @ np.repeat(v, H // Hkv, 1)
    B, _, T, dv = attended.shape
    merged = attended.transpose(0, 2, 1, 3).reshape(B, T, H * dv)
    y = merged @ call["w_o"].astype(np.float64)
    if "b_o" in call:
        y = y + call["b_o"].astype(np.float64)
    found = {"q": q, "k": k, "v": v, "attended": attended, "y": y.reshape(x.shape)}
    if "weights" in call["wanted"]:
        found["weights"] = weights
    return found


def check_reference(call):
    """The expected numbers of this file must be what the definition says."""
    if call["refusal"] is not None:
        return
    found = reference(call)
    for name, (value, bound, _, _) in call["wanted"].items():
        judged = np.isfinite(bound) & np.isfinite(value)
        slack = np.maximum(bound, 1e-9 * (1 + np.abs(value)))
        assert (np.abs(found[name] - value) <= slack)[judged].all(), (
            f"{name}: the definition above does not give the expected values")


# --- The call, or the calls, and what they must give -------------------------
# wanted: [value, allowed error, least, largest] of each output; an infinite
# allowed error asks for nothing. staged: the same for a kernel that has made
# the stages in front bit for bit as recorded: errors do not pile up then.

# DATA

# VERDICT


# STORED


LETTERS = {"o": "bhtc", "y": "btc"}
BEFORE_ROUNDING = False  # bounds count how numbers are stored


def place_of(number):
    if CALLS[number]["place"] is not None:
        return CALLS[number]["place"] + ": "
    return f"call {number + 1} of {len(CALLS)}: " if len(CALLS) > 1 else ""


def judge_end(place, call, given):
    """Whether the call is refused where it must not be, or the other way round.
    """
    refused = isinstance(given, ValueError)
    if call["refusal"] is None:
        if refused:
            print(f"{place}expected a result: the call is legal actual "
                  f"refused: {given}")
        return refused
    if refused and str(given) not in ("", "None"):
        return False
    print(f"{place}expected {call['refusal']} actual "
          f"{'refused without a reason' if refused else 'accepted'}")
    return True


def as_recorded(call, given, names):
    return all(name in given and np.array_equal(
        given[name], call["recorded"][name], equal_nan=True) for name in names)


def judge_stages(place, call, given):
    """The first stage that is wrong says where to look: q, k and v are one, and
    later ones are not judged."""
    before = {"attended": ("q", "k", "v"), "y": ("attended",)}
    for names in (("q", "k", "v"), ("attended",), ("y",)):
        failed = False
        for name in names:
            if name not in given or name not in call["wanted"]:
                continue
            wanted = call["wanted"][name]
            if name in call["staged"] and as_recorded(call, given, before[name]):
                wanted = call["staged"][name]
            failed |= judge(place, name, call["storage"][name], wanted,
                            given[name])
        if failed:
            return True
    return False


def given_by_kernel(call):
    hidden = ("wanted", "staged", "recorded", "storage", "place", "refusal",
              "x", "w_q", "w_k", "w_v", "w_o")
    options = {n: x for n, x in call.items() if n not in hidden}
    try:
        given = kernel(call["x"], call["w_q"], call["w_k"], call["w_v"],
                       call["w_o"], call["recorded"], **options)
    except ValueError as error:
        return error
    if isinstance(given, ValueError):
        return given
    return {n: stored(x, call["storage"][n]) for n, x in given.items()}


def main():
    failed = False
    for number, call in enumerate(CALLS):
        check_reference(call)
        place, given = place_of(number), given_by_kernel(call)
        if judge_end(place, call, given):
            failed = True
        elif call["refusal"] is None:
            failed |= judge_stages(place, call, given)
    print("FAILED" if failed else "passed")
    return int(failed)


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())
