# SPDX-License-Identifier: Apache-2.0
"""Keras over PyTorch on the CPU: ops.dot_product_attention, and the layer
MultiHeadAttention."""
import os

os.environ["KERAS_BACKEND"] = "torch"
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras
import torch

from qkvet import Refused


def attention(q, k, v, *, causal=None, scale=None, mask=None, bias=None):
    if mask is not None and bias is not None:
        raise Refused("only one of bias and mask")
    o = keras.ops.dot_product_attention(
        *(one.transpose(1, 2) for one in (q, k, v)), bias=bias, mask=mask,
        scale=scale, is_causal=causal is not None)
    return o.transpose(1, 2)


attention_as_documented = attention


def layer(x, w_q, w_k, w_v, w_o, *, heads, kv_heads, causal=None, b_q=None,
          b_k=None, b_v=None, b_o=None):
    """MultiHeadAttention of x, its weights set by set_weights."""
    biases = [b_q, b_k, b_v, b_o]
    if any(one is None for one in biases) and any(
            one is not None for one in biases):
        raise Refused("use_bias: all or none")
    if heads != kv_heads or w_q.shape[1] % heads or w_v.shape[1] % heads:
        raise Refused("num_heads for q, k and v, each of its width")
    width, d, dv = x.shape[2], w_q.shape[1] // heads, w_v.shape[1] // heads
    made = keras.layers.MultiHeadAttention(heads, d, value_dim=dv,
                                           use_bias=b_q is not None,
                                           dtype=str(x.dtype).split(".")[1])
    made.build(x.shape, x.shape)
    shapes = [(width, heads, d), (heads, d), (width, heads, d), (heads, d),
              (width, heads, dv), (heads, dv), (heads, dv, width), (width,)]
    given = [w_q, b_q, w_k, b_k, w_v, b_v, w_o, b_o]
    made.set_weights([one.reshape(shape).numpy() for one, shape in zip(
        given, shapes) if one is not None])
    with torch.no_grad():
        return made(x, x, use_causal_mask=causal is not None, training=False)
