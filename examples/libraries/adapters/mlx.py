# SPDX-License-Identifier: Apache-2.0
"""mlx.core.fast.scaled_dot_product_attention on the CPU."""
import mlx.core as mx
import numpy as np

from plan import refuse_if

mx.set_default_device(mx.cpu)


def tensor(array):
    if array.dtype.name == "bfloat16":
        return mx.array(array.view(np.uint16)).view(mx.bfloat16)
    return mx.array(array)


def attention(call):
    fields, given = call.fields, call.given
    mask = None
    if "bias" in given:
        mask = tensor(given["bias"])
    if "mask" in given:
        mask = mx.array(given["mask"] != 0)
    if fields["causal"] != "none":
        refuse_if(mask is not None, "the mask is the word causal, or an array")
        mask = "causal"
    q, k, v = (tensor(given[name]) for name in "qkv")
    sinks = None
    if "sink" in given:
        sinks = tensor(given["sink"]).astype(q.dtype)
    o = mx.fast.scaled_dot_product_attention(q, k, v, scale=fields["scale"],
                                             mask=mask, sinks=sinks)
    return {"o": np.array(o.astype(mx.float32))}


ENTRIES = {"fast": attention, "fast_half": attention}
