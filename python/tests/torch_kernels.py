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
    """The gradient of the scores lacks what all weights of a row share."""

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
