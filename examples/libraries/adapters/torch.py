# SPDX-License-Identifier: Apache-2.0
"""PyTorch on the CPU: scaled_dot_product_attention by two of its backends."""
import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from plan import refuse_if

torch.set_num_threads(1)
torch.set_grad_enabled(False)


def tensor(array):
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def array(tensor):  # float32 has all bfloat16
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def words(call):
    """q, k, v and the other words of both functions."""
    fields, given = call.fields, call.given
    q, k, v = (tensor(given[name]) for name in "qkv")
    added = tensor(given["bias"]) if "bias" in given else None
    if "mask" in given:
        seen = torch.from_numpy(given["mask"] != 0)
        added = seen if added is None else added.masked_fill(~seen, -torch.inf)
    causal = fields["causal"] != "none"
    refuse_if(causal and added is not None, "is_causal takes no attn_mask")
    scale = fields["scale"] if fields["scale_given"] else None
    return (q, k, v), {"attn_mask": added, "is_causal": causal, "scale": scale}


def math(call):
    qkv, options = words(call)
    grouped = call.fields["H"] != call.fields["Hkv"]
    with sdpa_kernel(SDPBackend.MATH):
        o = scaled_dot_product_attention(*qkv, **options, enable_gqa=grouped)
    return {"o": array(o)}


def flash(call):
    """The operator below scaled_dot_product_attention, which returns lse. Its
    masks are floating."""
    qkv, options = words(call)
    mask = options["attn_mask"]
    if mask is not None and mask.dtype == torch.bool:
        zero = torch.zeros((), dtype=qkv[0].dtype)
        options["attn_mask"] = torch.where(mask, zero, -torch.inf)
    o, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        *qkv, **options)
    return {"o": array(o), "lse": array(lse)}


ENTRIES = {"math": math, "flash": flash, "flash_half": flash}
