# SPDX-License-Identifier: Apache-2.0
"""Attention in NumPy, right and wrong, for the tests to judge."""
import os
import time

import numpy as np

import qkvet


def softmax_values(scores, v):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)


def attention(q, k, v):
    """All keys, and the default scale."""
    scale = np.float32(1 / np.sqrt(q.shape[-1]))
    return softmax_values(q @ k.swapaxes(-1, -2) * scale, v)


def loses_rest_behind_odd_border(q, k, v):
    """Keys beyond 777 are a part of 48, which has a remainder."""
    o = attention(q, k, v)
    return o + np.float32(777 < k.shape[2] < 777 + 48)


def forgets_scale(q, k, v):
    return softmax_values(q @ k.swapaxes(-1, -2), v)


def causal_scores(q, k, scale):
    scores = q @ k.swapaxes(-1, -2) * np.float32(scale)
    rows, keys = np.indices(scores.shape[-2:])
    return np.where(keys <= rows, scores, np.float32(-np.inf))


@qkvet.kernel(options="causal_top_left scale default_scale cross_lengths lse",
              empty_row="zero")
def full(q, k, v, *, causal=None, scale=None):
    """o and lse; causal from the top left."""
    scale = scale if scale is not None else 1 / np.sqrt(q.shape[-1])
    scores = (causal_scores(q, k, scale) if causal
              else q @ k.swapaxes(-1, -2) * np.float32(scale))
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    return weights @ v / total, (top + np.log(total))[..., 0]


@qkvet.kernel(options="default_scale cross_lengths lse causal_bottom_right")
def lse_in_base_2(q, k, v, *, causal=None):
    """Rows without a key are the mean of all values."""
    scores = q @ k.swapaxes(-1, -2) / np.float32(np.sqrt(q.shape[-1]))
    if causal:
        rows, keys = np.indices(scores.shape[-2:])
        scores = np.where(keys <= rows + k.shape[2] - q.shape[2], scores,
                          np.float32(-1e9))
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    lse = (top + np.log(total)) * np.float32(np.log2(np.e))
    return weights @ v / total, lse[..., 0]


@qkvet.kernel(options="rope default_scale cross_lengths", rope="half",
              d="multiple 2")
def rotates_halves(q, k, v, *, rope=None):
    if rope is not None:
        style, cos, sin, *positions = rope
        assert style == "half"
        q, k = (rotated(one, cos[at], sin[at])
                for one, at in zip((q, k), positions))
    return attention(q, k, v)


def rotated(x, cos, sin):
    if cos.ndim == 3:
        cos, sin = cos[:, None], sin[:, None]
    first, second = np.split(x, 2, -1)
    return np.concatenate([first * cos - second * sin,
                           second * cos + first * sin], -1)


@qkvet.kernel(options="causal_bottom_right default_scale cross_lengths",
              empty_row="unspecified")
def causal_at_the_end(q, k, v, *, causal=None):
    scores = q @ k.swapaxes(-1, -2) / np.float32(np.sqrt(q.shape[-1]))
    if causal:
        rows, keys = np.indices(scores.shape[-2:])
        scores = np.where(keys <= rows + k.shape[2] - q.shape[2], scores,
                          np.float32(-np.inf))
    with np.errstate(invalid="ignore"):
        return softmax_values(scores, v)


@qkvet.kernel(options="scale cross_lengths grouped_heads value_width")
def latent(q, k, v, scale=None):
    """As MLA decodes: all heads share one row of keys, and values are narrower."""
    return softmax_values(q @ k.swapaxes(-1, -2) * np.float32(scale), v)


@qkvet.kernel(options="scale cross_lengths grouped_heads value_width")
def latent_of_keys(q, k, v, scale=None):
    """Takes the values from the first columns of the keys, as if they were one."""
    return latent(q, k, v if v.shape[-1] > k.shape[-1]
                  else k[..., :v.shape[-1]], scale)


@qkvet.kernel(causal="top_left", options="default_scale")
def sees_next(q, k, v):
    """Each row sees one key too many."""
    scores = q @ k.swapaxes(-1, -2) / np.float32(np.sqrt(q.shape[-1]))
    rows, keys = np.indices(scores.shape[-2:])
    return softmax_values(
        np.where(keys <= rows + 1, scores, np.float32(-np.inf)), v)


@qkvet.kernel(dtypes="f32 bf16", precision={"preset": "flash_half"})
def bf16(q, k, v):
    """Computed in f32, stored as given."""
    wide = [one.astype(np.float32) for one in (q, k, v)]
    return attention(*wide).astype(q.dtype)


def refuses_long(q, k, v):
    if k.shape[2] > 5:
        raise qkvet.Refused("more than 5 keys")
    return attention(q, k, v)


def refuses_a_few(q, k, v):
    if k.shape[2] == 5:
        raise qkvet.Refused("five keys")
    return attention(q, k, v)


def refuses_where_it_is_wrong(q, k, v):
    """The mean of v."""
    if k.shape[2] > 1 and q.any() and k.any():
        raise qkvet.Refused("unsupported data")
    return np.broadcast_to(v.mean(2, keepdims=True), q.shape[:3] + v.shape[3:]).copy()


# ---- What is no answer ------------------------------------------------------


def gives_none(q, k, v):
    attention(q, k, v)


def gives_double(q, k, v):
    return attention(q, k, v).astype(np.float64)


def gives_shape(q, k, v):
    return attention(q, k, v)[..., :-1]


def gives_input(q, k, v):
    return v if v.shape == q.shape else attention(q, k, v)


def gives_list(q, k, v):
    return {"o": attention(q, k, v).tolist()}


def writes_input(q, k, v):
    q *= np.float32(1 / np.sqrt(q.shape[-1]))
    return softmax_values(q @ k.swapaxes(-1, -2), v)


def raises(q, k, v):
    if q.shape[2] > 2:
        raise IndexError("tile 3 of 2")
    return attention(q, k, v)


def always_raises(q, k, v):
    raise IndexError("tile 3 of 2")


def leaves(q, k, v):
    raise SystemExit(7)


# ---- What ends its process --------------------------------------------------


def crashes(q, k, v):
    if q.shape[2] > 2:
        import ctypes
        ctypes.string_at(8)
    return attention(q, k, v)


def exits(q, k, v):
    if q.shape[2] > 2:
        os._exit(3)
    return attention(q, k, v)


def hangs(q, k, v):
    while q.shape[2] > 2:
        pass
    return attention(q, k, v)


def always_crashes(q, k, v):
    import ctypes
    ctypes.string_at(8)


def always_sleeps(q, k, v):
    time.sleep(1000)


def sleeps(q, k, v):
    if q.shape[2] > 2:
        time.sleep(1000)
    return attention(q, k, v)


def eats(q, k, v):
    hoard = []
    while q.shape[2] > 2:
        hoard.append(np.ones(1 << 26))
    return attention(q, k, v)


# ---- Layers -----------------------------------------------------------------


def layer_of(x, w_q, w_k, w_v, w_o, heads, kv_heads, causal, scale, b_q=0, b_k=0,
             b_v=0, b_o=0, wrong=False):
    def split(array, count):
        return array.reshape(*x.shape[:2], count, -1).swapaxes(1, 2)

    q, k, v = (split(x @ w + b, n) for w, b, n in (
        (w_q, b_q, heads), (w_k, b_k, kv_heads), (w_v, b_v, kv_heads)))
    scale = np.float32(scale if scale is not None else q.shape[-1] ** -0.5)
    k, v = (np.repeat(one, heads // kv_heads, 1) for one in (k, v))
    scores = q @ k.swapaxes(-1, -2) * scale
    if causal:
        rows, keys = np.indices(scores.shape[-2:])
        scores = np.where(keys <= rows, scores, np.float32(-np.inf))
    attended = softmax_values(scores, v)
    merged = attended if wrong else attended.swapaxes(1, 2)
    return merged.reshape(*x.shape[:2], -1) @ w_o + b_o


@qkvet.layer(options="causal_top_left causal_bottom_right scale default_scale "
             "grouped_heads value_width", layer="biases")
def layer(x, w_q, w_k, w_v, w_o, *, heads, kv_heads, causal=None, scale=None,
          **biases):
    return layer_of(x, w_q, w_k, w_v, w_o, heads, kv_heads, causal, scale,
                    **biases)


@qkvet.layer(options="default_scale")
def forgets_to_swap(x, w_q, w_k, w_v, w_o, *, heads, kv_heads):
    """Heads are merged as if they came after the tokens."""
    return layer_of(x, w_q, w_k, w_v, w_o, heads, kv_heads, None, None,
                    wrong=True)


# ---- Caches -----------------------------------------------------------------


@qkvet.cache(options="scale default_scale grouped_heads")
class Cache:
    """Keys and values in lists of rows."""

    def __init__(self, sequences, heads, kv_heads, d, dv, capacity, scale):
        self.scale = np.float32(scale if scale is not None else d ** -0.5)
        self.capacity = capacity
        self.shape = heads, kv_heads, d, dv
        self.rows = [self.empty() for _ in range(sequences)]

    def empty(self):
        _, kv_heads, d, dv = self.shape
        return (np.zeros((kv_heads, 0, d), np.float32),
                np.zeros((kv_heads, 0, dv), np.float32))

    def length(self, sequence):
        return self.rows[sequence][0].shape[1]

    def append(self, sequence, k, v):
        if self.length(sequence) + k.shape[1] > self.capacity:
            raise ValueError(f"more than {self.capacity} tokens")
        self.rows[sequence] = tuple(
            np.concatenate([old, new], 1)
            for old, new in zip(self.rows[sequence], (k, v)))

    def attend(self, sequence, q):
        k, v = self.rows[sequence]
        group = q.shape[0] // k.shape[0]
        k, v = (np.repeat(one, group, 0) for one in (k, v))
        scores = q @ k.swapaxes(-1, -2) * self.scale
        hidden = self.hidden(*np.indices(scores.shape[-2:]), k.shape[1])
        return softmax_values(
            np.where(hidden, np.float32(-np.inf), scores), v)

    def hidden(self, rows, keys, tokens):
        return keys > rows + tokens - rows.shape[0]

    def reset(self, sequence):
        self.rows[sequence] = self.empty()

    def truncate(self, sequence, tokens):
        if not 0 <= tokens <= self.length(sequence):
            raise ValueError(f"{tokens} of {self.length(sequence)} tokens")
        self.rows[sequence] = tuple(
            one[:, :tokens] for one in self.rows[sequence])


class KeepsOnReset(Cache):
    """A reset keeps the last token."""

    def reset(self, sequence):
        self.rows[sequence] = tuple(one[:, -1:] for one in self.rows[sequence])


@qkvet.kernel(options="causal_top_left default_scale bias", dtypes="f32", empty_row="mean")
def in_base_2(q, k, v, *, causal=None, bias=None):
    """Scores in units of log 2: near the lowest number they are -infinity, and a row
    of such is one without a key."""
    unit = np.float32(np.log2(np.e))
    with np.errstate(over="ignore", invalid="ignore"):
        s = q @ k.swapaxes(-1, -2) * (unit / np.float32(q.shape[-1] ** 0.5))
        if bias is not None:
            s = s + bias * unit
        if causal is not None:
            s = np.where(np.tri(*s.shape[2:], dtype=bool), s, np.float32(-np.inf))
        top = s.max(-1, keepdims=True)
        p = np.where(np.isneginf(top), np.float32(1), np.exp2(s - top))
    return p / p.sum(-1, keepdims=True) @ v
