# SPDX-License-Identifier: Apache-2.0
"""PyTorch."""
import numpy as np

from shown import causal, defined, finding, show


@finding("bug", "is_causal with a scale of 0 or below is NaN: the mask is -infinity "
         "before the multiplication")
def torch_scale_with_causal():
    import torch
    from torch.nn.functional import scaled_dot_product_attention
    x = torch.ones(1, 1, 2, 4)
    for scale in (-1.0, 0.0):
        o = scaled_dot_product_attention(x, x, x, is_causal=True, scale=scale)
        show(f"is_causal=True, scale={scale}",
             defined(x[0, 0], x[0, 0], x[0, 0], scale, causal(2, 2))[0][:, 0],
             o[0, 0, :, 0])


@finding("bug", "a query of NaN gets zeros from the flash kernel of the CPU",
         "https://github.com/pytorch/pytorch/issues/141128")
def torch_nan_in_a_query():
    import torch
    from torch.nn.functional import scaled_dot_product_attention
    q, x = torch.ones(1, 1, 2, 4), torch.ones(1, 1, 2, 4)
    q[0, 0, 1] = float("nan")
    show("the second query is NaN", defined(q[0, 0], x[0, 0], x[0, 0])[0][:, 0],
         scaled_dot_product_attention(q, x, x)[0, 0, :, 0])


@finding("looser than documented", "of half inputs exp(0) is 0.99995 for as many "
         "keys as a vector has lanes, and 1 for the rest",
         "https://github.com/pytorch/pytorch/pull/151441")
def torch_coarse_exponential():
    import torch
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    for keys in (7, 16):  # a rest; one vector of AVX-512, two of AVX2
        x = torch.zeros(1, 1, keys, 8, dtype=torch.bfloat16)
        show(f"lse of {keys} equal scores, bf16", np.log(keys),
             flash(x, x, x)[1][0, 0, 0], same=keys == 7)


@finding("silent nonsense on illegal input", "the flash kernel of the CPU counts "
         "keys in v: if v is longer it reads past the end of k",
         "https://github.com/pytorch/pytorch/pull/193728")
def torch_values_longer_than_keys():
    import torch
    from torch.nn.functional import scaled_dot_product_attention
    memory = torch.ones(1, 1, 3, 4)  # k are its first two rows
    q, k, v = torch.ones(1, 1, 1, 4), memory[:, :, :2], torch.zeros(1, 1, 3, 4)
    v[0, 0, 2] = 1
    right = defined(q[0, 0], k[0, 0], v[0, 0, :2])[0][:, 0]
    show("k and v of 2 tokens", right,
         scaled_dot_product_attention(q, k, v[:, :, :2])[0, 0, :, 0], same=True)
    show("k of 2 tokens, v of 3, of which the third is 1", right,
         scaled_dot_product_attention(q, k, v)[0, 0, :, 0])
    numbers = torch.tensor([1.0, 3.0])[None, None, :, None].repeat(1, 1, 1, 4)
    show("k of 2 tokens, v of their first, 1, where that of the other is 3",
         defined(q[0, 0], k[0, 0], numbers[0, 0])[0][:, 0],
         scaled_dot_product_attention(q, k, numbers[:, :, :1])[0, 0, :, 0])


@finding("undocumented convention", "enable_gqa: v of another number of heads than k, which the "
         "documentation excludes, is taken by the plain path and repeated by a factor of its own")
def torch_grouped_values():
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention
    q, k = torch.zeros(1, 4, 1, 2), torch.zeros(1, 2, 1, 2)
    for heads in (2, 4, 1):
        v = torch.arange(1.0, heads + 1)[None, :, None, None].expand(1, heads, 1, 2)
        with sdpa_kernel(SDPBackend.MATH):
            o = scaled_dot_product_attention(q, k, v, enable_gqa=True)
        legal = heads == k.shape[1]
        show(f"4 heads of q, 2 of k, {heads} of v: o[:, head, 0, 0], a refusal for others than 2",
             np.repeat([1.0, 2.0], 2) if legal else np.full(4, np.nan), o[0, :, 0, 0],
             same=legal)
