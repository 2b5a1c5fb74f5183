# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime on the CPU: GroupQueryAttention, as a call and as caches."""
import functools

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from adapters.onnxruntime import TYPES, run
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


@cache(cache="window")
class gqa_window_cache:
    """sliding_window_cache: the buffers hold a window and some more, and the operator
    lets tokens go. A step is run for its tokens, and once more with its queries."""

    def __init__(self, sequences, heads, kv_heads, d, dv, capacity, scale, window,
                 first_tokens, rollback):
        if d % 8 or d != dv:
            raise Refused("head_size is a multiple of 8, of v the same")
        if first_tokens or rollback:
            raise Refused("what has left the window is gone, the first tokens, too")
        self.capacity, self.heads = capacity, heads
        self.window = window or capacity
        self.rows = self.window + capacity % 3  # of the buffers
        self.attributes = {"num_heads": heads, "kv_num_heads": kv_heads,
                           "local_window_size": self.window, "sliding_window_cache": 1}
        if scale == 0:
            raise Refused("a scale of 0 means none is given")
        if scale is not None:
            self.attributes["scale"] = float(scale)
        empty = np.zeros((1, kv_heads, self.rows, d), np.float32)
        self.empty = (0, empty, empty)
        self.now = [self.empty] * sequences  # tokens, and the buffers
        self.last = [None] * sequences  # `now` in front of the last tokens, and those

    def length(self, sequence):
        return self.now[sequence][0]

    def run(self, now, q, k, v):
        tokens, past_key, past_value = now
        tokens += k.shape[1]
        feeds = dict(q=joined(q[None]), k=joined(k[None]), v=joined(v[None]),
                     past_key=past_key, past_value=past_value,
                     lengths=np.full(1, tokens - 1, np.int32),
                     total=np.asarray(tokens, np.int32))
        found = run("GroupQueryAttention", "com.microsoft", 24, feeds,
                    ["o", "present_key", "present_value"], self.attributes)
        o = found["o"].reshape(q.shape[1], self.heads, -1).swapaxes(0, 1)
        return o, (tokens, found["present_key"], found["present_value"])

    def append(self, sequence, k, v):
        if self.length(sequence) + k.shape[1] > self.capacity:
            raise ValueError(f"more than {self.capacity} tokens")
        before, new = self.now[sequence], (k.copy(), v.copy())
        self.now[sequence] = self.run(
            before, np.zeros((self.heads, *k.shape[1:]), np.float32), *new)[1]
        self.last[sequence] = (before, *new)

    def attend(self, sequence, q):
        rows = q.shape[1]
        tokens, keys, values = self.now[sequence]
        if tokens <= self.rows:  # all are there: fewer tokens, and the rest again
            left = tokens - rows
            o, _ = self.run((left, keys, values), q,
                            *(one[0, :, left:tokens] for one in (keys, values)))
            return o
        before, k, v = self.last[sequence]
        others = np.zeros((self.heads, k.shape[1] - rows, q.shape[2]), np.float32)
        return self.run(before, np.concatenate([others, q], 1), k, v)[0][:, -rows:]

    def reset(self, sequence):
        self.now[sequence] = self.empty

    def truncate(self, sequence, tokens):
        now, *buffers = self.now[sequence]
        if not 0 <= tokens <= now:
            raise ValueError(f"{tokens} of {now} tokens")
        if tokens < now > self.rows:
            raise Refused("what has left the window is gone")
        self.now[sequence] = (tokens, *buffers)


@functools.lru_cache(maxsize=None)
def int8_session(attributes):
    """Keys and values as int8 with a scale for each channel."""
    inputs = dict.fromkeys("qkv", "float32")
    inputs.update(past_key="int8", past_value="int8", lengths="int32", total="int32",
                  k_scale="float32", v_scale="float32")
    types = {**TYPES, "int8": TensorProto.INT8}
    outputs = {"o": "float32", "present_key": "int8", "present_value": "int8"}
    node = helper.make_node(
        "GroupQueryAttention", [*list(inputs)[:7], "", "", "", "", "", "k_scale", "v_scale"],
        list(outputs), domain="com.microsoft", k_quant_type="PER_CHANNEL",
        v_quant_type="PER_CHANNEL", kv_cache_bit_width=8, **dict(attributes))
    graph = helper.make_graph([node], "one", *(
        [helper.make_tensor_value_info(name, types[dtype], None)
         for name, dtype in side.items()] for side in (inputs, outputs)))
    sets = [helper.make_opsetid("", 24), helper.make_opsetid("com.microsoft", 1)]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    model = helper.make_model(graph, opset_imports=sets, ir_version=10)
    return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"])


@cache(cache="int8_per_channel")
class gqa_int8_cache:
    """k_quant_type and v_quant_type PER_CHANNEL. Queries of older tokens come with
    these once more, as their codes say them."""

    def __init__(self, sequences, heads, kv_heads, d, dv, capacity, scale, stored, scales,
                 k_scale, v_scale):
        if d % 8 or d != dv:
            raise Refused("head_size is a multiple of 8, of v the same")
        if scale == 0:
            raise Refused("a scale of 0 means none is given")
        self.capacity, self.heads = capacity, heads
        self.attributes = {"num_heads": heads, "kv_num_heads": kv_heads}
        if scale is not None:
            self.attributes["scale"] = float(scale)
        self.units = stored and [np.ascontiguousarray(one[None, :, None])
                                 for one in (k_scale, v_scale)]
        empty = np.zeros((1, kv_heads, 0, d), np.int8 if stored else np.float32)
        self.empty = (empty, empty)
        self.codes = [self.empty] * sequences

    def length(self, sequence):
        return self.codes[sequence][0].shape[2]

    def run(self, past, q, k, v):
        tokens = past[0].shape[2] + k.shape[2]
        feeds = dict(q=joined(q), k=joined(k), v=joined(v), past_key=past[0],
                     past_value=past[1], lengths=np.full(1, tokens - 1, np.int32),
                     total=np.asarray(tokens, np.int32))
        if self.units:
            o, *present = int8_session(tuple(self.attributes.items())).run(
                None, {**feeds, "k_scale": self.units[0], "v_scale": self.units[1]})
        else:
            o, *present = run("GroupQueryAttention", "com.microsoft", 24, feeds,
                              ["o", "present_key", "present_value"],
                              self.attributes).values()
        return o.reshape(q.shape[2], self.heads, -1).swapaxes(0, 1), tuple(present)

    def append(self, sequence, k, v):
        if self.length(sequence) + k.shape[1] > self.capacity:
            raise ValueError(f"more than {self.capacity} tokens")
        q = np.zeros((1, self.heads, *k.shape[1:]), np.float32)
        self.codes[sequence] = self.run(self.codes[sequence], q, k[None], v[None])[1]

    def read_back(self, sequence):
        if not self.units:
            return tuple(one[0] for one in self.codes[sequence])
        return tuple((codes.astype(np.float32) * unit)[0] for codes, unit in zip(
            self.codes[sequence], self.units))

    def attend(self, sequence, q):
        left = self.length(sequence) - q.shape[1]
        past = tuple(np.ascontiguousarray(one[:, :, :left]) for one in self.codes[sequence])
        return self.run(past, q[None], *(one[None, :, left:] for one in
                                         self.read_back(sequence)))[0]

    def reset(self, sequence):
        self.codes[sequence] = self.empty

    def truncate(self, sequence, tokens):
        if not 0 <= tokens <= self.length(sequence):
            raise ValueError(f"{tokens} of {self.length(sequence)} tokens")
        self.codes[sequence] = tuple(np.ascontiguousarray(one[:, :, :tokens])
                                     for one in self.codes[sequence])
