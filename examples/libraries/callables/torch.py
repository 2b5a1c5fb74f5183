# SPDX-License-Identifier: Apache-2.0
"""PyTorch on the CPU as callables: gradients by autograd, flex_attention,
nn.MultiheadAttention as a layer."""
import functools

import torch
from torch.nn.attention import SDPBackend, flex_attention, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from qkvet import Refused


def attend(backend, q, k, v, *, causal=None, scale=None, mask=None, bias=None):
    added = bias if mask is None else mask
    if mask is not None and bias is not None:
        added = bias.masked_fill(~mask, -torch.inf)
    if causal and added is not None:
        raise Refused("is_causal takes no attn_mask")
    words = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
    with sdpa_kernel(backend):
        try:
            return scaled_dot_product_attention(
                q, k, v, attn_mask=added, is_causal=causal is not None,
                scale=scale, **words)
        except RuntimeError as why:
            if "No available kernel" not in str(why):
                raise
            raise Refused("this backend says no") from None


grad_math = functools.partial(attend, SDPBackend.MATH)
grad_flash = grad_flash_half = functools.partial(attend,
                                                 SDPBackend.FLASH_ATTENTION)


# Once, so that no call pays for what it imports.
flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True
flex_attention.flex_attention(*torch.ones(3, 1, 1, 1, 1),
                              score_mod=lambda score, b, h, i, j: score)


def flex(q, k, v, *, causal=None, scale=None, mask=None, bias=None):
    """Not compiled. Masks and biases are a score_mod, as its documentation has
    them."""
    def score_mod(score, b, h, i, j):
        if bias is not None:
            score = score + bias[b, h, i, j]
        if mask is not None:
            score = torch.where(mask[b, h, i, j], score, -torch.inf)
        if causal:
            score = torch.where(i + first >= j, score, -torch.inf)
        return score

    first = k.shape[2] - q.shape[2] if causal == "bottom_right" else 0
    plain = causal is None and mask is None and bias is None
    return flex_attention.flex_attention(
        q, k, v, score_mod=None if plain else score_mod, scale=scale,
        enable_gqa=q.shape[1] != k.shape[1])


def mha(x, w_q, w_k, w_v, w_o, *, heads, kv_heads, causal=None, b_q=None, b_k=None,
        b_v=None, b_o=None):
    """nn.MultiheadAttention with these weights, [D, D] each, biases all or none."""
    width = x.shape[2]
    if heads != kv_heads or any(
            one.shape != (width, width) for one in (w_q, w_k, w_v, w_o)):
        raise Refused("embed_dim = num_heads * head_dim")
    biases = [b_q, b_k, b_v, b_o]
    if any(one is None for one in biases) and any(
            one is not None for one in biases):
        raise Refused("bias: all or none")
    module = torch.nn.MultiheadAttention(width, heads, bias=b_q is not None,
                                         batch_first=True, dtype=x.dtype)
    state = {"in_proj_weight": torch.cat([w_q.T, w_k.T, w_v.T]),
             "out_proj.weight": w_o.T}
    if b_q is not None:
        state["in_proj_bias"] = torch.cat(biases[:3])
        state["out_proj.bias"] = b_o
    hidden = None
    if causal:
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    return torch.func.functional_call(
        module.eval(), state, (x, x, x),
        {"need_weights": False, "attn_mask": hidden,
         "is_causal": causal is not None})[0]
