# SPDX-License-Identifier: Apache-2.0
"""x-transformers."""
import numpy as np

from shown import causal, defined, finding, show


@finding("undocumented convention", "query head h reads kv head h mod Hkv; everywhere else "
         "it is h / (H / Hkv)")
def x_transformers_head_order():
    import torch
    from x_transformers.attend import Attend
    q = torch.zeros(1, 4, 1, 2)
    v = torch.tensor([1.0, 2.0])[None, :, None, None].expand(1, 2, 1, 2)
    show("4 heads, two kv heads with V = 1 and V = 2", [1, 1, 2, 2],
         Attend()(q, q[:, :2], v)[0][0, :, 0, 0])


@finding("bug", "causal beside a mask: a row without a visible key is the mean of all "
         "values, later ones too, and zeros with flash=True")
def x_transformers_hidden_future():
    import torch
    from x_transformers.attend import Attend
    q = torch.ones(1, 1, 2, 4)
    v = torch.tensor([1.0, 3.0])[None, None, :, None].expand(1, 1, 2, 4)
    mask = torch.tensor([[False, True]])  # a token of padding, on the left
    for flash in (True, False):
        show(f"causal=True, flash={flash}, the first key hidden", [0, 3],
             Attend(causal=True, flash=flash).eval()(q, q, v, mask=mask)[0][
                 0, 0, :, 0], same=flash)


@finding("undocumented convention", "a hidden key has the lowest number for a score, and so has a "
         "visible key with that number as its bias: they share the weight")
def x_transformers_lowest_number_hides():
    import torch
    from x_transformers.attend import Attend
    q = torch.zeros(1, 1, 2, 2)
    v = torch.tensor([1.0, 3.0])[None, None, :, None].expand(1, 1, 2, 2)
    for number in (-1e30, torch.finfo(torch.float32).min):
        bias = torch.full((1, 1, 2, 2), number)
        show(f"causal=True, a bias of {number:.2g} at every key", [1, 2],
             Attend(causal=True).eval()(q, q, v, attn_bias=bias)[0][0, 0, :, 0],
             same=number == -1e30)


@finding("bug", "causal with more queries than keys is from the top left with flash=True, "
         "from the bottom right without")
def x_transformers_more_queries():
    import torch
    from x_transformers.attend import Attend
    q, k = torch.zeros(1, 1, 3, 2), torch.zeros(1, 1, 2, 2)
    v = torch.tensor([1.0, 3.0])[None, None, :, None].expand(1, 1, 2, 2)
    for flash in (False, True):
        # The first row sees no key by that rule; its value is another matter.
        show(f"causal=True, flash={flash}, 3 queries of 2 keys, the last two",
             defined(q[0, 0], k[0, 0], v[0, 0], seen=[[True, True], [True, False],
                                                      [True, True]])[0][1:, 0],
             Attend(causal=True, flash=flash).eval()(q, k, v)[0][0, 0, 1:, 0],
             same=not flash)
