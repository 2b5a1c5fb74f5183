# SPDX-License-Identifier: Apache-2.0
"""Attention in NumPy and float64, written from the papers, whole arrays at a
time: Vaswani et al. 2017 (attention), Ainslie et al. 2023 (grouped heads), Su
et al. 2021 (rotation), Press et al. 2022 (ALiBi), Beltagy et al. 2020
(windows), Gemma Team 2024 (softcap), Xiao et al. 2024 (sinks), DeepSeek-AI 2024
(values in the latent keys).

It shares no line with the references of this project, and has in common with them
only the spelling of cases and the conventions of include/qkvet.
"""
import numpy as np

from golden.generate import case_text
from golden.generate.rotation import rotate, rope_tables

INF = np.inf


def read_dialect(text):
    rows = (line.split("=") for line in text.splitlines() if line.strip())
    return {key.strip(): value.strip() for key, value in rows}


def padded(numbers, extent):
    """Which of `extent` indices are within each member's length."""
    return np.arange(extent)[None, :] < np.asarray(numbers)[:, None]


class Places:
    """The place of every row and key: its member, its number there (-1 if it
    belongs to none), and the member's lengths for every row."""

    def __init__(self, case):
        B, Tq, Tk = case.B, case.Tq, case.Tk
        if "cuq" in case.lists:
            self.packed(case)
            return
        nq = np.asarray(case.lists.get("qlen", [Tq] * B), int)
        nk = np.asarray(case.lists.get("kvlen", [Tk] * B), int)
        member = np.arange(B)[:, None]
        self.row = np.where(padded(nq, Tq), np.arange(Tq), -1)
        self.key = np.where(padded(nk, Tk), np.arange(Tk), -1)
        self.row_member = np.where(self.row >= 0, member, -1)
        self.key_member = np.where(self.key >= 0, member, -2)
        self.row_shift = np.broadcast_to((nk - nq)[:, None], (B, Tq))

    def packed(self, case):
        cuq, cuk = (np.asarray(case.lists[key]) for key in ("cuq", "cuk"))
        self.row, self.row_member = members_of(cuq, case.Tq, -1)
        self.key, self.key_member = members_of(cuk, case.Tk, -2)
        shifts = np.append(np.diff(cuk) - np.diff(cuq), 0)
        self.row_shift = shifts[self.row_member]


def members_of(ends, extent, nobody):
    at = np.arange(extent)
    member = np.searchsorted(ends, at, side="right") - 1
    inside = at < ends[-1]
    number = np.where(inside, at - ends[np.minimum(member, len(ends) - 1)], -1)
    return number[None], np.where(inside, member, nobody)[None]


def sees_by_place(case, places, data, rule):
    """[B,1,Tq,Tk]: lengths, causal rule, window and masks in a few numbers; and
    the distance from the diagonal, which window and ALiBi count from."""
    row = places.row[:, None, :, None]
    key = places.key[:, None, None, :]
    diagonal = row
    if case.causal != "tl":
        diagonal = row + places.row_shift[:, None, :, None]
    sees = (places.row_member[:, None, :, None] ==
            places.key_member[:, None, None, :])
    past = (key <= diagonal) | (not case.causal)
    left, right = case.lists.get("window", (-1, -1))
    near = (key >= diagonal - left) | (left < 0)
    near = near & ((key <= diagonal + right) | (right < 0))
    if "full_ranges" in data:
        shared = in_one_range(data["full_ranges"], diagonal, key)
        in_window = rule.get("ranges_and_window") == "in_window"
        sees = sees & ((past | shared) & near if in_window
                       else (past & near) | shared)
    else:
        sees = sees & past & near
    if "chunk" in case.words:
        n = int(case.words["chunk"])
        sees = sees & (key // n == diagonal // n)
    if "segments_q" in data:
        own = data["segments_q"][:, None, :, None]
        sees = sees & (own >= 0) & (own == data["segments_k"][:, None, None, :])
    if "tree_mask" in data:
        sees = sees & on_branch(data["tree_mask"], row, key, places)
    return sees, np.abs(diagonal - key)


def in_one_range(ranges, diagonal, key):
    """Whether the row's position and the key are in one [begin, end)."""
    shared = np.zeros(np.broadcast_shapes(diagonal.shape, key.shape), bool)
    for r in range(ranges.shape[1]):
        begin, end = (ranges[:, r, side][:, None, None, None] for side in (0, 1))
        shared |= ((begin <= diagonal) & (diagonal < end)
                   & (begin <= key) & (key < end))
    return shared


def on_branch(tree, row, key, places):
    """Whether the key comes before the drafts, or the tree shows it."""
    draft = key - places.row_shift[:, None, :, None]
    b, i = np.arange(len(tree))[:, None, None, None], np.maximum(row, 0)
    inside = np.clip(draft, 0, tree.shape[2] - 1).astype(int)
    return (draft < 0) | (tree[b, i, inside] != 0)


def is_listed(case, data):
    """[B,H,Tq,Tk]: whether an entry that counts of the row's list is the key."""
    lists = data["key_indices"]
    counts = data.get("topk_length")
    if counts is not None:
        behind = np.arange(lists.shape[3]) >= counts[:, None, :, None]
        lists = np.where(behind, -1, lists)
    blocks = np.arange(case.Tk) // case_text.keys_of_entry(case)
    there = (lists[..., None] == blocks).any(axis=3)
    return np.repeat(there, case.H // there.shape[1], axis=1)


def scores_of(case, data, places, rule):
    """Scores [B,H,Tq,Tk] and which of them count."""
    q, k = data["q"], data["k"]
    if "rope" in case.words:
        q, k = rotate_both(case, q, k, places)
    k = np.repeat(k, case.H // case.Hkv, axis=1)
    scale = 1 / np.sqrt(np.float64(case.d))
    if "scale" in case.words:
        scale = np.float64(np.float32(case.words["scale"]))
    scores = np.einsum("bhic,bhjc->bhij", q, k) * scale
    sees, distance = sees_by_place(case, places, data, rule)
    if "mask" in data:
        sees = sees & (data["mask"] != 0)
    if "key_indices" in data:
        sees = sees & is_listed(case, data)
    bias = data.get("bias", np.float64(0))
    if "slopes" in data:
        slopes = data["slopes"][:, None, None]
        if data["slopes"].ndim == 2:  # of each member
            slopes = data["slopes"][places.row_member].swapaxes(1, 2)[..., None]
        bias = bias - slopes * distance
    cap = np.float64(np.float32(case.words.get("softcap", "inf")))
    if rule.get("softcap_order") == "after_mask":
        scores = soften(scores + bias, cap)
    else:
        scores = soften(scores, cap) + bias
        sees = sees & (scores > -INF)
    return scores, np.broadcast_to(sees, scores.shape)


def soften(scores, cap):
    return scores if cap == INF else cap * np.tanh(scores / cap)


def softmax_of(scores, sees, sink):
    """Weights, and the natural log-sum-exp with and without the sink."""
    hidden = np.where(sees, scores, -INF)
    keys_most = hidden.max(axis=-1, keepdims=True, initial=-INF)
    logit = -INF if sink is None else sink[:, None, None]
    most = np.maximum(keys_most, logit)
    shift = np.where(most > -INF, most, 0)
    numerators = np.exp(hidden - shift)
    total = numerators.sum(axis=-1, keepdims=True)
    with_sink = total + np.exp(logit - shift)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.where(sees, numerators / with_sink, 0)
        own = np.where(keys_most > -INF, keys_most, 0)
        of_keys = own + np.log(np.exp(hidden - own).sum(-1, keepdims=True))
        lse = shift + np.log(with_sink)
    return weights, lse[..., 0], of_keys[..., 0]


EMPTY_LSE = {"minus_inf": -INF, "plus_inf": INF, "nan": np.nan,
             "unspecified": np.nan}


def attention(case, inputs, dialect=""):
    """`inputs` are float64 arrays by name. Returns o, lse and weights; rows
    that do not count are NaN."""
    rule = read_dialect(dialect)
    places = Places(case)
    data = dict(inputs)
    if case.values_in_keys:
        data["v"] = data["k"][..., :case.dv]
    # Nothing beyond the lengths may matter.
    data["q"] = np.where(places.row[:, None, :, None] >= 0, data["q"], 0)
    for name in ("k", "v"):
        counts = places.key[:, None, :, None] >= 0
        data[name] = np.where(counts, data[name], 0)
    scores, sees = scores_of(case, data, places, rule)
    weights, lse, of_keys = softmax_of(scores, sees, data.get("sink"))
    if rule.get("sink_in_lse") == "not_in":
        lse = of_keys
    v = np.repeat(data["v"], case.H // case.Hkv, axis=1)
    # A value that no row of its head sees may be NaN.
    o_values = np.where(sees.any(axis=2)[..., None], v, 0)
    o = np.einsum("bhij,bhjc->bhic", weights, o_values)
    empty = ~sees.any(axis=-1)
    o = np.where(empty[..., None], empty_rows(rule, places, v, o), o)
    lse = np.where(empty, EMPTY_LSE[rule.get("empty_row_lse", "minus_inf")],
                   lse)
    if rule.get("lse_base") == "base2":
        lse = lse / np.log(2)
    counted = np.broadcast_to(places.row[:, None, :] >= 0, lse.shape)
    return {"o": np.where(counted[..., None], o, np.nan),
            "lse": np.where(counted, lse, np.nan),
            "weights": np.where(counted[..., None], weights, np.nan)}


def empty_rows(rule, places, v, o):
    kind = rule.get("empty_row", "zero")
    if kind == "zero":
        return np.zeros_like(o)
    if kind == "nan":
        return np.full_like(o, np.nan)
    # The mean over the keys of the row's own member.
    mine = (places.row_member[:, None, :, None] ==
            places.key_member[:, None, None, :]).astype(np.float64)
    share = mine / np.maximum(mine.sum(axis=-1, keepdims=True), 1)
    return np.einsum("bhij,bhjc->bhic", np.broadcast_to(
        share, o.shape[:3] + mine.shape[3:]), v)


def rotate_both(case, q, k, places):
    style, *first = case.words["rope"].split(".")
    first = int(first[0]) if first else 0
    tables = rope_tables(case, first + max(case.Tq, case.Tk))
    ahead = np.maximum(places.row_shift, 0)
    q_at = np.where(places.row >= 0, first + ahead + places.row, 0)
    k_at = np.where(places.key >= 0, first + places.key, 0)
    return (rotate(q, q_at[:, None], tables, style),
            rotate(k, k_at[:, None], tables, style))


def layer(case, inputs):
    """y [B,T,D] of x: project, split, attend, merge, project."""
    def project(letter, heads, width):
        rows = inputs["x"] @ inputs["w_" + letter]
        rows = rows + inputs.get("b_" + letter, 0.0)
        parts = rows.reshape(case.B, case.T, heads, width)
        return parts.transpose(0, 2, 1, 3)

    whole = case_of_layer(case)
    o = attention(whole, {"q": project("q", case.H, case.d),
                          "k": project("k", case.Hkv, case.d),
                          "v": project("v", case.Hkv, case.dv)})["o"]
    merged = o.transpose(0, 2, 1, 3).reshape(case.B, case.T, -1)
    return merged @ inputs["w_o"] + inputs.get("b_o", 0.0)


def case_of_layer(case):
    from golden.generate import case_text
    tokens = [case.q_type, f"B{case.B}", f"H{case.H}", f"Hkv{case.Hkv}",
              f"Tq{case.T}", f"Tk{case.T}", f"d{case.d}", f"dv{case.dv}"]
    if case.causal:
        tokens.append("causal=br")
    tokens += [f"{key}={case.words[key]}" for key in ("scale", "rope")
               if key in case.words]
    return case_text.parse(",".join(tokens))
