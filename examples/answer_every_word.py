#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers every word of a plan in f32 or f64, from cli/plan.md and nothing else.

python3 answer_every_word.py FOLDER; rows that see no key are 0, their lse is -inf.
"""
import csv
import pathlib
import sys

import numpy as np

np.seterr(all="ignore")


def turned(x, positions, style, cos, sin):
    """x [B,heads,T,d], its pairs of channels turned by their positions; channels
    for which the tables have no column stay."""
    cos, sin = cos[positions][:, None], sin[positions][:, None]
    half = cos.shape[3]
    first = slice(0, half) if style == "half" else slice(0, 2 * half, 2)
    second = slice(half, 2 * half) if style == "half" else slice(1, 2 * half, 2)
    out = x.copy()
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., first] * sin + x[..., second] * cos
    return out


def members_of(call, t):
    """(m, b, rows, keys) of each member, as slices of its tensors."""
    if call["members"] > 0:
        q, k = t["cu_seqlens_q"], t["cu_seqlens_k"]
        for m in range(call["members"]):
            yield m, 0, slice(q[m], q[m + 1]), slice(k[m], k[m + 1])
        return
    for b in range(call["B"]):
        rows = t["q_len"][b] if "q_len" in t else call["Tq"]
        keys = t["kv_len"][b] if "kv_len" in t else call["Tk"]
        yield b, b, slice(0, rows), slice(0, keys)


def part(x, b, h, rows, keys):
    """Of a mask or a bias, whose extents may be 1."""
    x = x[b if x.shape[0] > 1 else 0, h if x.shape[1] > 1 else 0]
    x = x[rows] if x.shape[0] > 1 else x
    return x[:, keys] if x.shape[1] > 1 else x


def scores(call, t, q, k, place):
    """Of one member and head: s (-inf at hidden keys), and dX / dS."""
    m, b, h, rows, keys = place
    Lq, Lk = len(q), len(k)
    i, j = np.arange(Lq)[:, None], np.arange(Lk)[None, :]
    at = i if call["causal"] == "top_left" else i + Lk - Lq
    seen = np.ones((Lq, Lk), bool)
    if call["causal"] != "none":
        seen &= j <= at
    if call["window_left"] >= 0:
        seen &= at - j <= call["window_left"]
    if call["window_right"] >= 0:
        seen &= j - at <= call["window_right"]
    for begin, end in t["full_ranges"][b] if "full_ranges" in t else ():
        seen |= (begin <= at) & (at < end) & (begin <= j) & (j < end)
    if call.get("chunk", 0) > 0:
        seen &= j // call["chunk"] == at // call["chunk"]
    if "segments_q" in t:
        own = t["segments_q"][b, rows, None]
        seen &= (own == t["segments_k"][b, keys]) & (own >= 0)
    if "tree_mask" in t:
        tree = t["tree_mask"][b, rows][:, max(Lq - Lk, 0):Lq]
        seen[:, max(Lk - Lq, 0):] &= tree != 0
    s = q.dtype.type(call["scale"]) * (q @ k.T)
    slope = np.ones_like(s)
    if call["softcap"] > 0:
        s = q.dtype.type(call["softcap"]) * np.tanh(s / call["softcap"])
        slope = 1 - (s / call["softcap"]) ** 2
    if "bias" in t:
        bias = part(t["bias"], b, h, rows, keys)
        seen &= bias != -np.inf
        s = s + bias
    if "slopes" in t:
        slopes = t["slopes"] if t["slopes"].ndim == 1 else t["slopes"][m]
        s = s - slopes[h] * abs(at - j)
    if "mask" in t:
        seen &= part(t["mask"], b, h, rows, keys) != 0
    if "key_indices" in t:
        head = h * t["key_indices"].shape[1] // call["H"]
        seen &= listed(t, b, head, rows, j // call.get("key_block_size", 1))
    return np.where(seen, s, -np.inf).astype(q.dtype), slope, seen


def listed(t, b, head, rows, j):
    """Whether j, a key or a block of keys, is among the entries that count of
    each row's list."""
    lists = t["key_indices"][b, head, rows]
    count = np.ones(lists.shape, bool)
    if "topk_length" in t:
        count = np.arange(lists.shape[1]) < t["topk_length"][b, rows, None]
    return (count[:, :, None] & (lists[:, :, None] == j[:, None])).any(axis=1)


def weighted(seen, p, v):
    """p v over the keys that a row sees: what is hidden is not read."""
    o = np.zeros((len(p), v.shape[1]), v.dtype)
    for i, keys in enumerate(seen):
        o[i] = p[i, keys] @ v[keys]
    return o


def forward(call, t):
    q, k, v = t["q"], t["k"], t["v"]
    if call["rope"] != "none":
        tables = call["rope"], t["rope_cos"], t["rope_sin"]
        q = turned(q, t["q_positions"], *tables)
        k = turned(k, t["k_positions"], *tables)
    shape = call["B"], call["H"], call["Tq"]
    o = np.zeros((*shape, call["dv"]), q.dtype)
    lse = np.full(shape, -np.inf, q.dtype)
    weights = np.zeros((*shape, call["Tk"]), q.dtype)
    for m, b, rows, keys in members_of(call, t):
        for h in range(call["H"]):
            g = h // (call["H"] // call["Hkv"])
            place = m, b, h, rows, keys
            s, _, seen = scores(call, t, q[b, h, rows], k[b, g, keys], place)
            sink = t["sink"][h] if "sink" in t else -np.inf
            top = np.maximum(s.max(1, initial=-np.inf), sink)[:, None]
            top = np.where(top == -np.inf, 0, top).astype(q.dtype)
            e = np.exp(s - top)
            total = e.sum(1, keepdims=True) + np.exp(sink - top)
            p = np.where(seen, e / np.where(total == 0, 1, total), 0)
            weights[b, h, rows, keys] = p
            o[b, h, rows] = weighted(seen, p, v[b, g, keys])
            lse[b, h, rows] = (top + np.log(total))[:, 0]
    return {"o": o, "lse": lse, "weights": weights}


def backward(call, t):
    q, k, v, d_o, o = (t[name] for name in ("q", "k", "v", "d_o", "o"))
    if call["rope"] != "none":
        cos, sin = t["rope_cos"], t["rope_sin"]
        q = turned(q, t["q_positions"], call["rope"], cos, sin)
        k = turned(k, t["k_positions"], call["rope"], cos, sin)
    out = {"d_" + name: np.zeros_like(t[name]) for name in "qkv"}
    out["d_bias"] = np.zeros([call[x] for x in ("B", "H", "Tq", "Tk")], q.dtype)
    out["d_sink"] = np.zeros(call["H"], t["lse"].dtype)
    for m, b, rows, keys in members_of(call, t):
        for h in range(call["H"]):
            g = h // (call["H"] // call["Hkv"])
            place = m, b, h, rows, keys
            q_, k_, v_ = q[b, h, rows], k[b, g, keys], v[b, g, keys]
            g_, lse = d_o[b, h, rows], t["lse"][b, h, rows][:, None]
            s, slope, seen = scores(call, t, q_, k_, place)
            p = np.where(seen, np.exp(s - lse), 0).astype(q.dtype)
            some = seen.any(1, keepdims=True)
            delta = np.where(some, (g_ * o[b, h, rows]).sum(1, keepdims=True), 0)
            d_s = np.where(seen, p * (g_ @ v_.T - delta), 0).astype(q.dtype)
            d_x = d_s * slope
            scale = q.dtype.type(call["scale"])
            out["d_q"][b, h, rows] = scale * (d_x @ k_)
            out["d_k"][b, g, keys] += scale * (d_x.T @ q_)
            out["d_v"][b, g, keys] += p.T @ np.where(some, g_, 0)
            out["d_bias"][b, h, rows, keys] = d_s
            if "sink" in t:
                share = np.where(some, np.exp(t["sink"][h] - lse) * delta, 0)
                out["d_sink"][h] -= share.sum()
    if call["rope"] != "none":
        for name, at in (("d_q", "q_positions"), ("d_k", "k_positions")):
            out[name] = turned(out[name], t[at], call["rope"], cos, -sin)
    return out


def merged(heads):
    """[B,heads,T,c] -> [B,T,heads c]"""
    return heads.swapaxes(1, 2).reshape(heads.shape[0], heads.shape[2], -1)


def split(rows, heads):
    """[B,T,heads c] -> [B,heads,T,c]"""
    return rows.reshape(*rows.shape[:2], heads, -1).swapaxes(1, 2)


def layer(call, t):
    x = t["x"] if t["x"].ndim == 3 else t["x"][None]
    H, Hkv = call["H"], call["Hkv"]
    w_q, w_k, w_v, w_o = (t["w_" + name] for name in "qkvo")
    if (w_q.shape[1] % H or w_k.shape[1] % Hkv or w_v.shape[1] % Hkv or H % Hkv
            or w_q.shape[1] // H != w_k.shape[1] // Hkv
            or any(w.shape[0] != x.shape[2] for w in (w_q, w_k, w_v))
            or w_o.shape != (w_v.shape[1] // Hkv * H, x.shape[2])
            or any(t[b].shape[0] != t[w].shape[1] for b, w in
                   (("b_" + name, "w_" + name) for name in "qkvo") if b in t)):
        raise ValueError("the tensors contradict each other")

    def projected(name, heads):
        return split(x @ t["w_" + name] + t.get("b_" + name, 0), heads)

    q, k, v = projected("q", H), projected("k", Hkv), projected("v", Hkv)
    if call["rope"] != "none":
        tables = call["rope"], t["rope_cos"], t["rope_sin"]
        q, k = (turned(z, t["positions"], *tables) for z in (q, k))
    answer = forward(dict(call, rope="none"), {"q": q, "k": k, "v": v})
    y = (merged(answer["o"]) @ w_o + t.get("b_o", 0)).reshape(t["x"].shape)
    return {"q": q, "k": k, "v": v, "attended": answer["o"], "y": y,
            "lse": answer["lse"]}


def layer_backward(call, t):
    stages = layer(call, t)
    three_d = lambda z: z if z.ndim == 3 else z[None]
    x, d_y = three_d(t["x"]), three_d(t["d_y"])
    given = {name: stages[name] for name in ("q", "k", "v", "lse")}
    given |= {"o": stages["attended"],
              "d_o": split(d_y @ t["w_o"].T, call["H"])}
    d = backward(dict(call, rope="none"), given)
    if call["rope"] != "none":
        tables = call["rope"], t["rope_cos"], -t["rope_sin"]
        for name in ("d_q", "d_k"):
            d[name] = turned(d[name], t["positions"], *tables)
    out, d_x = {}, np.zeros_like(x)
    reads = {"q": x, "k": x, "v": x, "o": merged(stages["attended"])}
    for name, read in reads.items():
        rows = d_y if name == "o" else merged(d["d_" + name])
        out["d_w_" + name] = np.einsum("bti,btj->ij", read, rows)
        out["d_b_" + name] = rows.sum((0, 1))
        if name != "o":
            d_x += rows @ t["w_" + name].T
    return out | {"d_x": d_x.reshape(t["x"].shape)}


plan, answers = pathlib.Path(sys.argv[1]), {}
with open(plan / "calls.tsv", newline="") as table:
    for row in csv.DictReader(table, delimiter="\t"):
        words = {"call", "operation", "dtype", "causal", "rope", "inputs",
                 "outputs"}
        reals = {"scale", "softcap"}
        call = {name: text if name in words else
                float(text) if name in reals else int(text)
                for name, text in row.items()}
        pairs = (pair.split("=") for pair in row["inputs"].split(","))
        tensors = {name: np.load(plan / f"{at}.npy") for name, at in pairs}
        try:
            out = globals()[row["operation"]](call, tensors)
        except ValueError as why:
            (plan / f"{row['call']}.refused.txt").write_text(f"{why}\n")
            continue
        for name in row["outputs"].split(","):
            answers[f"{row['call']}/{name}"] = out[name]
np.savez(plan / "answers.npz", **answers)
