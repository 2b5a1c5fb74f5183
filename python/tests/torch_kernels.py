# SPDX-License-Identifier: Apache-2.0
"""Attention in PyTorch, right and wrong, and a kernel that compiles per shape."""
import torch

import qkvet


@qkvet.kernel(arrays="torch", options="scale cross_lengths", gradient="autograd")
def attention(q, k, v, scale=None):
    return torch.softmax(q @ k.mT * scale, -1) @ v


@qkvet.kernel(arrays="torch", causal="top_left", options="default_scale",
              masked_nonfinite="not_ignored")
class MaskAfterSoftmax(torch.nn.Module):
    """Hidden keys keep their share of the denominator."""

    def forward(self, q, k, v):
        weights = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1)
        return weights.tril() @ v


class WithoutDelta(torch.autograd.Function):
    """The gradient of the scores lacks the term that all weights of a row share."""

    @staticmethod
    def forward(ctx, q, k, v, scale):
        weights = torch.softmax(q @ k.mT * scale, -1)
        ctx.save_for_backward(q, k, v, weights)
        ctx.scale = scale
        return weights @ v

    @staticmethod
    def backward(ctx, d_o):
        q, k, v, weights = ctx.saved_tensors
        d_weights = d_o @ v.mT
        d_scores = weights * d_weights
        return (d_scores @ k * ctx.scale, d_scores.mT @ q * ctx.scale,
                weights.mT @ d_o, None)


@qkvet.kernel(arrays="torch", options="scale cross_lengths", gradient="autograd")
def forgets_delta(q, k, v, scale=None):
    return WithoutDelta.apply(q, k, v, scale)


_compiled = {}


@qkvet.kernel(arrays="torch", options="scale cross_lengths",
              flags="compiles_per_shape")
def per_shape(q, k, v, scale=None):
    """Compiled once for each shape of q, with the scale of the first call."""
    if q.shape not in _compiled:
        _compiled[q.shape] = lambda q, k, v, scale=scale: torch.softmax(
            q @ k.mT * scale, -1) @ v
    return _compiled[q.shape](q, k, v)


# ---- What is no answer ------------------------------------------------------


def sdpa(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


@qkvet.kernel(arrays="torch")
def gives_none(q, k, v):
    sdpa(q, k, v)


@qkvet.kernel(arrays="torch")
def gives_double(q, k, v):
    return sdpa(q, k, v).double()


@qkvet.kernel(arrays="torch")
def gives_bf16(q, k, v):
    return sdpa(q, k, v).bfloat16()


@qkvet.kernel(arrays="torch")
def gives_numpy(q, k, v):
    return sdpa(q, k, v).numpy()


@qkvet.kernel(arrays="torch")
def gives_shape(q, k, v):
    return sdpa(q, k, v).transpose(1, 2)


@qkvet.kernel(arrays="torch")
def gives_meta(q, k, v):
    """On a device without memory, which represents all other devices."""
    return sdpa(q, k, v).to("meta")


@qkvet.kernel(arrays="torch")
def gives_sparse(q, k, v):
    return sdpa(q, k, v).to_sparse()


@qkvet.kernel(arrays="torch")
def gives_view(q, k, v):
    """The values themselves, if there is one key for each query."""
    return v.view(v.shape) if v.shape == q.shape else sdpa(q, k, v)


@qkvet.kernel(arrays="torch")
def writes_input(q, k, v):
    return sdpa(q.mul_(0.5), k, v)


@qkvet.kernel(arrays="torch")
def raises(q, k, v):
    raise ValueError("tile 3 of 2")


# ---- DLPack -----------------------------------------------------------------


@qkvet.kernel(arrays="dlpack", dtypes="f32 bf16",
              precision={"preset": "flash_half"})
def by_dlpack(q, k, v):
    q, k, v = (torch.from_dlpack(one) for one in (q, k, v))
    weights = torch.softmax(q.float() @ k.float().mT / q.shape[-1] ** 0.5, -1)
    return (weights @ v.float()).to(q.dtype)


# ---- Masks and keys ---------------------------------------------------------


@qkvet.kernel(arrays="torch", causal="top_left", options="default_scale")
def sees_next(q, k, v):
    """Each row sees one key too many."""
    allowed = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(1)
    return torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=allowed)


@qkvet.kernel(arrays="torch")
def loses_key(q, k, v):
    """Behind the last full tile of 16 keys, one is left out."""
    if k.shape[2] > 16 and k.shape[2] % 16:
        k, v = k[:, :, :-1], v[:, :, :-1]
    return sdpa(q, k, v)


# ---- Layers and caches ------------------------------------------------------


def heads_of(array, count):
    return array.unflatten(-1, (count, -1)).transpose(1, 2)


@qkvet.layer(arrays="torch", gradient="autograd", layer="biases",
             options="causal_top_left default_scale grouped_heads")
def layer(x, w_q, w_k, w_v, w_o, *, heads, kv_heads, causal=None, b_q=0, b_k=0,
          b_v=0, b_o=0):
    o = torch.nn.functional.scaled_dot_product_attention(
        heads_of(x @ w_q + b_q, heads), heads_of(x @ w_k + b_k, kv_heads),
        heads_of(x @ w_v + b_v, kv_heads), is_causal=causal is not None,
        enable_gqa=True)
    return o.transpose(1, 2).flatten(2) @ w_o + b_o


@qkvet.layer(arrays="torch", gradient="autograd", options="default_scale")
def detaches_keys(x, w_q, w_k, w_v, w_o, *, heads, kv_heads):
    """y is right; no gradient flows back through the keys."""
    return layer(x, w_q, w_k.detach(), w_v, w_o, heads=heads, kv_heads=kv_heads)


@qkvet.cache(arrays="torch", options="scale default_scale grouped_heads")
class Cache:
    """Keys and values in buffers of the whole capacity."""

    def __init__(self, sequences, heads, kv_heads, d, dv, capacity, scale):
        self.scale, self.capacity = scale, capacity
        self.lengths = [0] * sequences
        self.k, self.v = ([torch.zeros(kv_heads, capacity, width)
                           for _ in range(sequences)] for width in (d, dv))

    def length(self, sequence):
        return self.lengths[sequence]

    def append(self, sequence, k, v):
        begin = self.lengths[sequence]
        end = begin + k.shape[1]
        if end > self.capacity:
            raise ValueError(f"more than {self.capacity} tokens")
        self.k[sequence][:, begin:end] = k
        self.v[sequence][:, begin:end] = v
        self.lengths[sequence] = end

    def attend(self, sequence, q):
        tokens = self.lengths[sequence]
        allowed = torch.ones(q.shape[1], tokens, dtype=torch.bool).tril(
            tokens - q.shape[1])
        return torch.nn.functional.scaled_dot_product_attention(
            q[None], self.k[sequence][None, :, :tokens],
            self.v[sequence][None, :, :tokens], attn_mask=allowed,
            scale=self.scale, enable_gqa=True)[0]

    def reset(self, sequence):
        self.lengths[sequence] = 0

    def truncate(self, sequence, tokens):
        if not 0 <= tokens <= self.lengths[sequence]:
            raise ValueError(f"{tokens} of {self.lengths[sequence]} tokens")
        self.lengths[sequence] = tokens

    def fork(self, from_, to):
        self.k[to], self.v[to] = self.k[from_].clone(), self.v[from_].clone()
        self.lengths[to] = self.lengths[from_]


class ForksByReference(Cache):
    """Both branches of a fork write to the same values."""

    def fork(self, from_, to):
        self.k[to], self.v[to] = self.k[from_].clone(), self.v[from_]
        self.lengths[to] = self.lengths[from_]
