# SPDX-License-Identifier: Apache-2.0
"""Hugging Face transformers on the CPU: the attention functions of its models,
and its caches beneath them. Weights are not needed for either."""
import types

import torch
from transformers.cache_utils import (
    DynamicLayer, DynamicSlidingWindowLayer, StaticLayer, StaticSlidingWindowLayer)
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.models.gpt_oss.modeling_gpt_oss import (
    eager_attention_forward as eager_with_sinks)
from transformers.models.gemma2.modeling_gemma2 import (
    eager_attention_forward as eager_with_softcap)
from transformers.models.llama.modeling_llama import eager_attention_forward

from qkvet import Refused, cache


def module(q, k, **more):
    return types.SimpleNamespace(num_key_value_groups=q.shape[1] // k.shape[1],
                                 training=False, head_dim=q.shape[3], **more)


def added(q, k, causal, mask, bias):
    """As its mask utilities make them: one tensor of 0 and the lowest number, or
    None."""
    lowest = torch.finfo(q.dtype).min
    total = bias
    if bias is not None and bias.min() < lowest / 2 and (
            mask is not None or causal is not None):
        raise Refused("the lowest number is a hidden key, and no bias")
    if mask is not None:
        total = torch.zeros((), dtype=q.dtype) if total is None else total
        total = torch.where(mask, total, lowest)
    if causal is not None:
        rows, keys = q.shape[2], k.shape[2]
        seen = torch.ones(rows, keys, dtype=torch.bool).tril(
            keys - rows if causal == "bottom_right" else 0)
        total = torch.zeros((), dtype=q.dtype) if total is None else total
        total = torch.where(seen[None, None], total, lowest)
    return total


def scale_of(q, scale):
    return q.shape[3] ** -0.5 if scale is None else scale


def llama_eager(q, k, v, *, causal=None, scale=None, mask=None, bias=None):
    o, weights = eager_attention_forward(
        module(q, k), q, k, v, added(q, k, causal, mask, bias), scale_of(q, scale))
    return {"o": o.transpose(1, 2), "weights": weights.to(torch.float32)}


llama_eager_half = llama_eager


def gemma2_eager(q, k, v, *, causal=None, scale=None, mask=None, bias=None,
                 softcap=None):
    o, weights = eager_with_softcap(
        module(q, k), q, k, v, added(q, k, causal, mask, bias),
        scaling=scale_of(q, scale), softcap=softcap)
    return {"o": o.transpose(1, 2), "weights": weights.to(torch.float32)}


def gpt_oss_eager(q, k, v, *, causal=None, scale=None, mask=None, bias=None,
                  sink=None):
    if sink is None:
        raise Refused("this model has sinks in every layer")
    o, _ = eager_with_sinks(
        module(q, k, sinks=sink), q, k, v, added(q, k, causal, mask, bias),
        scale_of(q, scale))
    return o.transpose(1, 2)


def sdpa(q, k, v, *, causal=None, scale=None, mask=None, bias=None):
    """is_causal is its own word for square calls without a mask."""
    square = q.shape[2] == k.shape[2] and mask is None and bias is None
    o, _ = sdpa_attention_forward(
        module(q, k, is_causal=square and causal is not None), q, k, v,
        None if square else added(q, k, causal, mask, bias), scaling=scale)
    return o.transpose(1, 2)


class OneLayer:
    """A layer of a cache for each sequence, and what a model does with it: update,
    then attention with a mask that its sizes give."""

    def __init__(self, sequences, heads, kv_heads, d, dv, capacity, scale):
        self.heads, self.capacity, self.scale = heads, capacity, scale
        self.extents = kv_heads, d, dv
        self.layers = [self.made() for _ in range(sequences)]

    def length(self, sequence):
        return int(self.layers[sequence].get_seq_length())

    def append(self, sequence, k, v):
        if self.length(sequence) + k.shape[1] > self.capacity:
            raise ValueError(f"more than {self.capacity} tokens")
        self.layers[sequence].update(k[None].clone(), v[None].clone())

    def attend(self, sequence, q):
        kv_heads, d, dv = self.extents
        layer, tokens, rows = self.layers[sequence], self.length(sequence), q.shape[1]
        k, v = layer.keys, layer.values
        seen = torch.ones(rows, k.shape[2], dtype=torch.bool).tril(tokens - rows)
        o, _ = sdpa_attention_forward(
            types.SimpleNamespace(num_key_value_groups=self.heads // kv_heads),
            q[None], k, v, seen[None, None], scaling=self.scale)
        return o[0].transpose(0, 1)

    def reset(self, sequence):
        self.layers[sequence].reset()

    def truncate(self, sequence, tokens):
        # crop() takes how many go, and all that are there for more: what is kept
        # is a word of this class.
        if tokens < 0:
            raise ValueError(f"{tokens} tokens are fewer than none")
        self.layers[sequence].crop(tokens - self.length(sequence))


@cache
class dynamic_cache(OneLayer):
    def made(self):
        return DynamicLayer()


@cache
class static_cache(OneLayer):
    def made(self):
        return StaticLayer(max_cache_len=self.capacity)


class SlidingLayer(OneLayer):
    """A layer with a window. What update() returns is all that the queries of its
    tokens see, and more than the layer keeps."""

    def __init__(self, window, first_tokens, rollback, **sizes):
        if first_tokens:
            raise Refused("no first tokens beside a window")
        if rollback:
            raise Refused("crop goes back behind one update, and no further")
        self.window = window or sizes["capacity"] + 1
        super().__init__(**sizes)
        self.last = [None] * len(self.layers)  # of update(), behind the positions

    def append(self, sequence, k, v):
        if self.length(sequence) + k.shape[1] > self.capacity:
            raise ValueError(f"more than {self.capacity} tokens")
        layer = self.layers[sequence]
        keys, first = layer.get_mask_sizes(k.shape[1])
        self.last[sequence] = (first + torch.arange(keys),
                               *layer.update(k[None].clone(), v[None].clone()))

    def attend(self, sequence, q):
        key, k, v = self.last[sequence]
        at = self.length(sequence) + torch.arange(-q.shape[1], 0)[:, None]
        seen = (key <= at) & (key > at - self.window)
        o, _ = sdpa_attention_forward(
            types.SimpleNamespace(num_key_value_groups=self.heads // self.extents[0]),
            q[None], k, v, seen[None, None], scaling=self.scale)
        return o[0].transpose(0, 1)

    def truncate(self, sequence, tokens):
        if tokens == self.length(sequence) >= self.window:
            return  # there, crop() of none wants the past to be recorded
        super().truncate(sequence, tokens)
        if self.last[sequence] is not None:  # a length that was 0 has none
            self.last[sequence] = (torch.arange(tokens), *(
                one[:, :, :tokens] for one in self.last[sequence][1:]))


@cache(cache="window")
class sliding_cache(SlidingLayer):
    def made(self):
        if self.window == 1:
            raise Refused("a window of one key keeps all")
        return DynamicSlidingWindowLayer(self.window)


@cache(cache="window")
class static_sliding_cache(SlidingLayer):
    def made(self):
        return StaticSlidingWindowLayer(self.capacity, self.window)
