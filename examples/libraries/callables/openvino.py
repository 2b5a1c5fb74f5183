# SPDX-License-Identifier: Apache-2.0
"""OpenVINO on the CPU: PagedAttention, with a cache of f32."""
import functools

import numpy as np
import openvino
from openvino import opset13
from openvino.op import _PagedAttentionExtension

from qkvet import Refused, cache

BLOCK = 32  # tokens, of the CPU
F32, I32, U8 = openvino.Type.f32, openvino.Type.i32, openvino.Type.u8

# The inputs of the operator behind q, k, v and the two caches, in their order: name,
# type and rank.
INPUTS = (("past_lens", I32, 1), ("subsequence_begins", I32, 1),
          ("block_indices", I32, 1), ("block_indices_begins", I32, 1), ("scale", F32, 0),
          ("sliding_window", I32, 0), ("alibi_slopes", F32, 1),
          ("max_context_len", I32, 0), ("score_aggregation_window", I32, 1),
          ("rotated_block_indices", I32, 1), ("rotation_deltas", I32, 2),
          ("rotation_trig_lut", F32, 2), ("xattention_threshold", F32, 1),
          ("xattention_block_size", I32, 0), ("xattention_stride", I32, 0),
          ("sinks", F32, 4), ("adaptive_rkv_start_size", I32, 0),
          ("adaptive_rkv_evictable_sizes", I32, 1),
          ("adaptive_rkv_diversity_block_set_indices", I32, 1),
          ("adaptive_rkv_diversity_block_set_indices_begins", I32, 1),
          ("token_type_ids", I32, 1), ("qq_bias", U8, 1), ("qq_bias_begins", I32, 1))

# What is not asked for: a tensor without elements, or a number.
NOTHING = {name: np.zeros((0,) * rank, kind.to_dtype()) if rank else kind.to_dtype().type(0)
           for name, kind, rank in INPUTS}


@functools.lru_cache(maxsize=None)
def request(heads, kv_heads, d, dv):
    """Of these widths: how many heads q has is settled by the first call."""
    def parameter(name, kind, shape):
        made = opset13.parameter(openvino.PartialShape(shape), kind, name=name)
        made.output(0).set_names({name})
        return made
    inputs = [parameter(name, F32, [-1, width]) for name, width in (
        ("q", heads * d), ("k", kv_heads * d), ("v", kv_heads * dv))]
    inputs += [parameter(name, F32, [-1, kv_heads, BLOCK, width])
               for name, width in (("key_cache", d), ("value_cache", dv))]
    inputs += [parameter(name, kind, [-1] * rank) for name, kind, rank in INPUTS]
    node = _PagedAttentionExtension([one.output(0) for one in inputs])
    info = node.get_rt_info()
    info["num_k_heads"] = info["num_v_heads"] = kv_heads
    info["k_head_size"], info["v_head_size"] = d, dv
    return openvino.Core().compile_model(
        openvino.Model([node.output(0)], inputs, "one"), "CPU",
        {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32",
         "INFERENCE_NUM_THREADS": 1}).create_infer_request()


def numbers(*given):
    return np.array(given, np.int32)


@cache(cache="window")
class paged_attention:
    """The blocks of all sequences in one pool, neighbours far apart. A step is run for
    its tokens; queries come with the last tokens once more."""

    def __init__(self, sequences, heads, kv_heads, d, dv, capacity, scale, window,
                 first_tokens, rollback):
        if first_tokens:
            raise Refused("no first tokens beside a window")
        self.heads, self.capacity, self.window = heads, capacity, window
        self.scale = np.float32(d ** -0.5 if scale is None else scale)
        try:
            self.request = request(heads, kv_heads, d, dv)
        except RuntimeError as why:
            raise Refused(str(why).strip().splitlines()[-1]) from None
        each = -(-capacity // BLOCK)
        self.blocks = np.arange(sequences * each, dtype=np.int32).reshape(
            each, sequences).T[:, ::-1].copy()
        self.pool = [np.zeros((sequences * each, kv_heads, BLOCK, width), np.float32)
                     for width in (d, dv)]
        self.tokens = [0] * sequences

    def length(self, sequence):
        return self.tokens[sequence]

    def run(self, sequence, past, q, k, v):
        flat = [np.ascontiguousarray(one.swapaxes(0, 1)).reshape(one.shape[1], -1)
                for one in (q, k, v)]
        tokens = past + k.shape[1]
        blocks = self.blocks[sequence, :-(-tokens // BLOCK)]
        found = self.request.infer({
            **NOTHING, **dict(zip("qkv", flat)), "key_cache": self.pool[0],
            "value_cache": self.pool[1], "past_lens": numbers(past),
            "subsequence_begins": numbers(0, k.shape[1]), "block_indices": blocks,
            "block_indices_begins": numbers(0, len(blocks)), "scale": self.scale,
            "sliding_window": np.int32(self.window), "max_context_len": np.int32(tokens),
        }, share_inputs=True)
        return found[0].copy().reshape(q.shape[1], self.heads, -1).swapaxes(0, 1)

    def append(self, sequence, k, v):
        past = self.tokens[sequence]
        if past + k.shape[1] > self.capacity:
            raise ValueError(f"more than {self.capacity} tokens")
        q = np.zeros((self.heads, *k.shape[1:]), np.float32)
        self.run(sequence, past, q, k, v)
        self.tokens[sequence] = past + k.shape[1]

    def read_back(self, sequence):
        return tuple(one[self.blocks[sequence]].swapaxes(0, 1).reshape(
            one.shape[1], -1, one.shape[3])[:, :self.tokens[sequence]].copy()
            for one in self.pool)

    def attend(self, sequence, q):
        past = self.tokens[sequence] - q.shape[1]
        return self.run(sequence, past, q, *(one[:, past:] for one in
                                             self.read_back(sequence)))

    def reset(self, sequence):
        self.tokens[sequence] = 0

    def truncate(self, sequence, tokens):
        if not 0 <= tokens <= self.tokens[sequence]:
            raise ValueError(f"{tokens} of {self.tokens[sequence]} tokens")
        self.tokens[sequence] = tokens
