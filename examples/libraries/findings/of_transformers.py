# SPDX-License-Identifier: Apache-2.0
"""Hugging Face transformers."""
import numpy as np

from shown import finding, refused, show


@finding("bug", "StaticLayer: an update that is refused (too many tokens, another width) has "
         "counted its tokens")
def transformers_static_counts_refused():
    import torch
    from transformers.cache_utils import DynamicLayer, StaticLayer
    two, three = torch.ones(1, 1, 2, 4), torch.ones(1, 1, 3, 4)
    wide = torch.ones(1, 1, 1, 5)
    for layer, more in ((DynamicLayer(), wide), (StaticLayer(max_cache_len=4), wide),
                        (StaticLayer(max_cache_len=4), three)):
        layer.update(two, two)
        why = refused(lambda: layer.update(more, more))
        assert isinstance(why, str), "it was taken"
        show(f"{type(layer).__name__}, two tokens, and {more.shape[2]} of width "
             f"{more.shape[3]} refused: length", 2, float(layer.get_seq_length()),
             same=isinstance(layer, DynamicLayer))


@finding("silent nonsense on illegal input", "StaticLayer.crop of more tokens than there are "
         "leaves a negative length",
         "https://github.com/huggingface/transformers/issues/47433")
def transformers_static_crop_below_zero():
    import torch
    from transformers.cache_utils import DynamicLayer, StaticLayer
    two = torch.ones(1, 1, 2, 4)
    for layer in (DynamicLayer(), StaticLayer(max_cache_len=4)):
        layer.update(two, two)
        layer.crop(-5)
        show(f"{type(layer).__name__}, two tokens, crop(-5): length", 0,
             float(layer.get_seq_length()), same=isinstance(layer, DynamicLayer))


@finding("undocumented convention", "StaticLayer: tokens taken back by crop are multiplied by "
         "0 and added until others take their place")
def transformers_static_crop_keeps_values():
    import torch
    from torch.nn.functional import scaled_dot_product_attention
    from transformers.cache_utils import DynamicLayer, StaticLayer
    one, nan = torch.ones(1, 1, 1, 4), torch.full((1, 1, 2, 4), torch.nan)
    for layer in (DynamicLayer(), StaticLayer(max_cache_len=2)):
        layer.update(nan, nan)
        layer.crop(-2)
        k, v = layer.update(one, one)
        seen = torch.arange(k.shape[2]) < layer.get_seq_length()
        o = scaled_dot_product_attention(one, k, v, attn_mask=seen[None])
        show(f"{type(layer).__name__}, NaN taken back, then a token of ones",
             np.ones(4), o[0, 0, 0], same=isinstance(layer, DynamicLayer))
