# SPDX-License-Identifier: Apache-2.0
"""tinygrad on the CPU: Tensor.scaled_dot_product_attention, compiled once a
shape: give the plan few of them (--pin)."""
import os

os.environ.setdefault("DEV", "CPU")

import numpy as np
from tinygrad import Tensor

from plan import refuse_if


def attention(call):
    fields, given = call.fields, call.given
    refuse_if(fields["scale_given"], "takes no scale")
    mask = Tensor(given["bias"]) if "bias" in given else None
    if "mask" in given:
        seen = Tensor(given["mask"] != 0)
        mask = seen if mask is None else seen.where(mask, -float("inf"))
    causal = fields["causal"] != "none"
    refuse_if(causal and mask is not None,
              "cannot set attn_mask when is_causal=True")
    o = Tensor(given["q"]).scaled_dot_product_attention(
        Tensor(given["k"]), Tensor(given["v"]), attn_mask=mask,
        is_causal=causal, enable_gqa=fields["H"] != fields["Hkv"])
    return {"o": o.numpy()}


ENTRIES = {"sdpa": attention}
