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


def turned(x, positions, call):
    """Rows x[t] with the pairs of channels turned by the tables (RoPE)."""
    x = x.copy()
    d = x.shape[-1]
    if call["rope"] == "half":
        first, second = np.arange(d // 2), np.arange(d // 2) + d // 2
    else:
        first, second = np.arange(0, d, 2), np.arange(1, d, 2)
    cos = call["rope_cos"].astype(np.float64)[positions]
    sin = call["rope_sin"].astype(np.float64)[positions]
    a, b = x[:, first], x[:, second]
    x[:, first], x[:, second] = a * cos - b * sin, a * sin + b * cos
    return x


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


def packed_keys(call):
    """Where the keys of packed members begin, and the end."""
    if "cu_seqlens_k" in call:
        return call["cu_seqlens_k"]
    return np.concatenate([[0], np.cumsum(lengths_of(call))])


def lengths_of(call):
    """The keys of each member, new ones included."""
    if "page_indptr" in call:
        pages = np.diff(call["page_indptr"].astype(np.int64))
        return np.maximum(pages - 1, 0) * call["page_size"] + call["last_page_len"]
    return call["kv_len"] + (call["k_new"].shape[2] if "k_new" in call else 0)


def page_of(call, b, n):
    """Page n of member b: of its row, or of its part of the list."""
    if "page_indptr" in call:
        return call["page_indices"][call["page_indptr"][b] + n]
    return call["block_table"][b, n]


def member_of(call, b, i, Tk):
    """Where the queries and the keys of row i's member begin and end."""
    if "cu_seqlens_q" in call:
        ends_q, ends_k = call["cu_seqlens_q"], packed_keys(call)
        for m in range(len(ends_q) - 1):
            if ends_q[m] <= i < ends_q[m + 1]:
                return ends_q[m], ends_q[m + 1], ends_k[m], ends_k[m + 1]
        return None
    queries, keys = call["q"].shape[2], Tk
    if "q_len" in call:
        queries = call["q_len"][b]
    if "kv_len" in call or "page_indptr" in call:
        keys = lengths_of(call)[b]
    return (0, queries, 0, keys) if i < queries else None


def row_of(call, name, b, h, i, keys):
    """Of a mask or a bias, which is broadcast where an extent is 1."""
    shape = (*call["q"].shape[:3], call[name].shape[3])
    row = np.broadcast_to(call[name], shape)[b, h, i].astype(np.float64)
    return row[keys] if len(row) != 1 else row[np.zeros(len(keys), int)]


def seen_by(call, b, h, i, Tk):
    """The keys that row i sees, and the one at which its diagonal stands."""
    member = member_of(call, b, i, Tk)
    if member is None:
        return None, 0
    q_from, q_end, k_from, k_end = member
    diagonal = k_from + (i - q_from)
    if call["causal"] != "top-left":
        diagonal += (k_end - k_from) - (q_end - q_from)
    keys = np.arange(k_from, k_end)
    if call["causal"] != "none":
        keys = keys[keys <= diagonal]
    left, right = call.get("window", (-1, -1))
    if left >= 0:
        keys = keys[keys >= diagonal - left]
    if right >= 0:
        keys = keys[keys <= diagonal + right]
    if "mask" in call:
        keys = keys[row_of(call, "mask", b, h, i, keys) != 0]
    if "key_indices" in call:
        block = call.get("key_block_size", 1)
        listed = np.isin((keys - k_from) // block, list_of(call, b, h, i))
        keys = keys[listed]
    return keys, diagonal


def list_of(call, b, h, i):
    """The entries that count of a row's list: keys, or blocks of keys, counted
    from the first of the member; -1 among them is none."""
    lists = call["key_indices"]
    entries = lists[b, h * lists.shape[1] // call["q"].shape[1], i]
    return entries[: call["topk_length"][b, i]] if "topk_length" in call else entries


def slope_of(call, b, h, i):
    """Of [H], or of [members, H]."""
    slopes = call["slopes"].astype(np.float64)
    if slopes.ndim == 1:
        return slopes[h]
    if "cu_seqlens_q" in call:
        b = np.searchsorted(call["cu_seqlens_q"], i, side="right") - 1
    return slopes[b, h]


def scores_of(call, q, k, b, h, i, keys, diagonal):
    scale = call.get("scale", 1 / math.sqrt(q.shape[-1]))
    query, rows = q[b, h, i : i + 1], k[keys]
    if "rope" in call:
        query = turned(query, call["q_positions"][b, i : i + 1], call)
        rows = turned(rows, call["k_positions"][b, keys], call)
    scores = scale * (rows @ query[0])
    cap, bias = call.get("softcap", 0), np.zeros(len(keys))
    if "bias" in call:
        bias = bias + row_of(call, "bias", b, h, i, keys)
    if "slopes" in call:
        bias = bias - slope_of(call, b, h, i) * np.abs(keys - diagonal)
    if call["softcap_after_bias"]:
        return cap * np.tanh((scores + bias) / cap) if cap else scores + bias
    return (cap * np.tanh(scores / cap) if cap else scores) + bias


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


def place_of(call):
    return f"call {call + 1} of {len(CALLS)}: " if len(CALLS) > 1 else ""


def judge_pairs(outputs):
    """Numbers that must be those of another call, bit for bit."""
    for name, first_call, second_call, factor, firsts, seconds in SAME_BITS:
        if name not in outputs[first_call] or name not in outputs[second_call]:
            continue
        one, two = outputs[first_call][name], outputs[second_call][name]
        first, second = one.ravel()[firsts] * factor, two.ravel()[seconds]
        same = (first == second) | (np.isnan(first) & np.isnan(second))
        if same.all():
            continue
        n = np.argmin(same)
        at = np.unravel_index(firsts[n], one.shape)
        other = np.unravel_index(seconds[n], two.shape)
        times = f" times {factor:g}" if factor != 1 else ""
        print(f"{element(place_of(first_call), name, at)}{times} is {text(first[n], 0)}, "
              f"and must have the same bits as "
              f"{element(place_of(second_call), name, other)}, "
              f"which is {text(second[n], 0)}")
        return True
    return False


def main():
    failed, all_outputs = False, []
    for number, call in enumerate(CALLS):
        check_reference(call)
        hidden = ("wanted", "recorded", "storage", "q", "k", "v",
                  "softcap_after_bias", "sink_in_lse", "lse_base2")
        options = {n: x for n, x in call.items() if n not in hidden}
        given = kernel(call["q"], call["k"], call["v"], call["recorded"],
                       **options)
        outputs = {n: np.asarray(x, np.float64) for n, x in given.items()}
        for name, actual in outputs.items():
            failed |= judge(place_of(number), name, call["storage"][name],
                            call["wanted"][name], actual)
        all_outputs.append(outputs)
    failed |= judge_pairs(all_outputs)
    print("FAILED" if failed else "passed")
    return int(failed)


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())
