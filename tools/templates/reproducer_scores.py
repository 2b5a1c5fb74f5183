# SPDX-License-Identifier: Apache-2.0
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
    past = keys <= (diagonal if call["causal"] != "none" else k_end)
    left, right = call.get("window", (-1, -1))
    near = (left < 0) | (keys >= diagonal - left)
    near &= (right < 0) | (keys <= diagonal + right)
    if "full_ranges" in call:
        shared = in_a_range(call["full_ranges"][b], diagonal - k_from, keys - k_from)
        keys = keys[(past | shared) & near if call["ranges_in_window"]
                    else (past & near) | shared]
    else:
        keys = keys[past & near]
    if "chunk" in call:
        keys = keys[(keys - k_from) // call["chunk"] == (diagonal - k_from) // call["chunk"]]
    if "segments_q" in call:
        segment = call["segments_q"][b, i]
        keys = keys[(call["segments_k"][b, keys] == segment) & (segment >= 0)]
    if "tree_mask" in call:
        draft = keys - (k_end - (q_end - q_from))
        keys = keys[(draft < 0) | (call["tree_mask"][b, i, np.maximum(draft, 0)] != 0)]
    if "mask" in call:
        keys = keys[row_of(call, "mask", b, h, i, keys) != 0]
    if "key_indices" in call:
        block = call.get("key_block_size", 1)
        listed = np.isin((keys - k_from) // block, list_of(call, b, h, i))
        keys = keys[listed]
    return keys, diagonal


def in_a_range(ranges, position, keys):
    """Whether a position and each of the keys lie in one of the ranges."""
    shared = np.zeros(len(keys), bool)
    for begin, end in ranges:
        shared |= (begin <= position < end) & (begin <= keys) & (keys < end)
    return shared


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


def bias_of(call, b, h, i, keys, diagonal):
    """What is added to the scaled scores."""
    bias = np.zeros(len(keys))
    if "bias" in call:
        bias = bias + row_of(call, "bias", b, h, i, keys)
    if "slopes" in call:
        bias = bias - slope_of(call, b, h, i) * np.abs(keys - diagonal)
    return bias


def scores_of(call, q, k, b, h, i, keys, diagonal):
    scale = call.get("scale", 1 / math.sqrt(q.shape[-1]))
    query, rows = q[b, h, i : i + 1], k[keys]
    if "rope" in call:
        query = turned(query, call["q_positions"][b, i : i + 1], call)
        rows = turned(rows, call["k_positions"][b, keys], call)
    scores = scale * (rows @ query[0])
    cap, bias = call.get("softcap", 0), bias_of(call, b, h, i, keys, diagonal)
    if call["softcap_after_bias"]:
        return cap * np.tanh((scores + bias) / cap) if cap else scores + bias
    return (cap * np.tanh(scores / cap) if cap else scores) + bias
