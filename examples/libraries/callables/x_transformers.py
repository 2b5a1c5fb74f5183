# SPDX-License-Identifier: Apache-2.0
"""x-transformers on the CPU: Attend, the attention inside of its layers."""
import torch
from x_transformers.attend import Attend


def attend(q, k, v, *, causal=None, scale=None, mask=None, bias=None,
           softcap=None, **words):
    made = Attend(causal=causal is not None, scale=scale, **words,
                  **({} if softcap is None else {
                      "softclamp_logits": True, "logit_softclamp_value": softcap}))
    with torch.no_grad():
        return made.eval()(q, k, v, mask=mask, attn_bias=bias)[0]


def flash(q, k, v, *, causal=None, scale=None, mask=None, bias=None):
    return attend(q, k, v, causal=causal, scale=scale, mask=mask, bias=bias,
                  flash=True)


grouped = attend


def grouped_in_order(q, k, v, *, mask=None, bias=None, **options):
    """With the heads of q in the order that it has: h mod Hkv."""
    heads, kv_heads = q.shape[1], k.shape[1]
    order = torch.arange(heads).reshape(kv_heads, -1).T.flatten()

    def turned(one):
        return one if one is None or one.shape[1] == 1 else one[:, order]

    o = attend(turned(q), k, v, mask=turned(mask), bias=turned(bias), **options)
    back = torch.empty_like(o)
    back[:, order] = o
    return back
