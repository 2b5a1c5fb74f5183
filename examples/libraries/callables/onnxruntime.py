# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime on the CPU: GroupQueryAttention, as a call and as a cache."""
import numpy as np

from adapters.onnxruntime import run
from plan import Refused as NotTaken
from qkvet import Refused, cache


def joined(array):
    """[B, H, T, d] as [B, T, H * d]."""
    array = array.swapaxes(1, 2)
    return np.ascontiguousarray(array.reshape(*array.shape[:2], -1))


def group_query(q, k, v, past, *, scale=None, window=None, softcap=None,
                bias=None, sink=None):
    """o and the tensors past_key and past_value of the next call. The first `past`
    tokens of k and v stand in the cache, the queries at those behind it."""
    batch, heads, rows, width = q.shape
    if scale == 0:
        raise Refused("a scale of 0 means none is given")
    attributes = {"num_heads": heads, "kv_num_heads": k.shape[1]}
    if scale is not None:
        attributes["scale"] = float(scale)
    if softcap is not None:
        attributes["softcap"] = float(softcap)
    if window is not None and window[0] >= 0:  # it counts the row's own key
        attributes["local_window_size"] = window[0] + 1
    tokens = k.shape[2]
    feeds = dict(
        q=joined(q), k=joined(k[:, :, past:]), v=joined(v[:, :, past:]),
        past_key=np.ascontiguousarray(k[:, :, :past]),
        past_value=np.ascontiguousarray(v[:, :, :past]),
        lengths=np.full(batch, tokens - 1, np.int32),
        total=np.asarray(tokens, np.int32), cos=None, sin=None, positions=None,
        bias=None if bias is None else np.ascontiguousarray(np.broadcast_to(
            bias, bias.shape[:2] + (rows, tokens))), sink=sink)
    try:
        found = run("GroupQueryAttention", "com.microsoft", 24, feeds,
                    ["o", "present_key", "present_value"], attributes)
    except NotTaken as why:
        raise Refused(str(why)) from None
    o = found["o"].reshape(batch, rows, heads, width).swapaxes(1, 2)
    return o, found["present_key"], found["present_value"]


def gqa(q, k, v, **options):
    if q.shape[2] > k.shape[2]:
        raise Refused("a query for each new key")
    return np.ascontiguousarray(group_query(q, k, v, k.shape[2] - q.shape[2],
                                            **options)[0])


gqa_half = gqa


@cache
class gqa_cache:
    """past and present of the operator: the last rows of k and v go in as new
    tokens, and what comes out as present is what the next call gets."""

    def __init__(self, sequences, heads, kv_heads, d, dv, capacity, scale):
        if d % 8 or d != dv:
            raise Refused("head_size is a multiple of 8, of v the same")
        self.capacity, self.scale = capacity, scale
        self.empty = np.zeros((1, kv_heads, 0, d), np.float32)
        self.rows = [(self.empty, self.empty)] * sequences

    def length(self, sequence):
        return self.rows[sequence][0].shape[2]

    def append(self, sequence, k, v):
        if self.length(sequence) + k.shape[1] > self.capacity:
            raise ValueError(f"more than {self.capacity} tokens")
        self.rows[sequence] = tuple(
            np.concatenate([old, new[None]], 2)
            for old, new in zip(self.rows[sequence], (k, v)))

    def attend(self, sequence, q):
        k, v = self.rows[sequence]
        o, *present = group_query(q[None], k, v, k.shape[2] - q.shape[1],
                                  scale=self.scale)
        self.rows[sequence] = tuple(present)
        return o[0]

    def reset(self, sequence):
        self.rows[sequence] = (self.empty, self.empty)
