# SPDX-License-Identifier: Apache-2.0
"""Hugging Face transformers."""
import numpy as np

from shown import finding, refused, show


@finding("bug", "StaticLayer and the layers with a window: an update that is refused (too many "
         "tokens, another width) has counted its tokens")
def transformers_static_counts_refused():
    import torch
    from transformers.cache_utils import (
        DynamicLayer, DynamicSlidingWindowLayer, StaticLayer, StaticSlidingWindowLayer)
    two, three = torch.ones(1, 1, 2, 4), torch.ones(1, 1, 3, 4)
    wide = torch.ones(1, 1, 1, 5)
    for layer, more in ((DynamicLayer(), wide), (StaticLayer(max_cache_len=4), wide),
                        (StaticLayer(max_cache_len=4), three),
                        (DynamicSlidingWindowLayer(4), wide),
                        (StaticSlidingWindowLayer(max_cache_len=4, sliding_window=4), wide)):
        layer.update(two, two)
        why = refused(lambda: layer.update(more, more),
                      "IndexError: " if more is three else "RuntimeError: ")
        assert isinstance(why, str), "it was taken"
        show(f"{type(layer).__name__}, two tokens, and {more.shape[2]} of width "
             f"{more.shape[3]} refused: length", 2, float(layer.get_seq_length()),
             same=type(layer) is DynamicLayer)


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


@finding("bug", "DynamicSlidingWindowLayer: a window of one key keeps all of them, and update returns "
         "more than get_mask_sizes announces")
def transformers_window_of_one():
    import torch
    from transformers.cache_utils import DynamicSlidingWindowLayer, StaticSlidingWindowLayer
    one = torch.ones(1, 1, 1, 4)
    for layer in (StaticSlidingWindowLayer(max_cache_len=4, sliding_window=1),
                  DynamicSlidingWindowLayer(1)):
        layer.update(one, one)
        layer.update(one, one)
        expected, _ = layer.get_mask_sizes(1)
        keys, _ = layer.update(one, one)
        show(f"{type(layer).__name__}, a window of 1, the third token: keys for its query",
             expected, float(keys.shape[2]),
             same=isinstance(layer, StaticSlidingWindowLayer))


@finding("crash on legal input", "DynamicSlidingWindowLayer.crop of a layer without tokens raises "
         "AttributeError; DynamicLayer has nothing to do there")
def transformers_sliding_crop_when_empty():
    import torch
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer
    one = torch.ones(1, 1, 1, 4)

    def length(layer):
        layer.update(one, one)
        layer.reset()
        layer.crop(0)
        return float(layer.get_seq_length())
    for layer in (DynamicLayer(), DynamicSlidingWindowLayer(4)):
        show(f"{type(layer).__name__}, a token, reset(), crop(0): length", 0,
             refused(lambda: length(layer), "AttributeError: 'NoneType' object has no "
                     "attribute 'shape'"), same=type(layer) is DynamicLayer)


@finding("silent nonsense on illegal input", "DynamicSlidingWindowLayer: a second crop of a "
         "full window silently leaves fewer keys than the window")
def transformers_sliding_second_crop():
    import torch
    from transformers.cache_utils import DynamicSlidingWindowLayer
    tokens = torch.arange(1.0, 9)[None, None, :, None].expand(1, 1, 8, 4)
    for crops in ((-2,), (-1, -1)):  # six tokens are left
        layer = DynamicSlidingWindowLayer(4)
        layer.activate_past_recording()
        layer.update(tokens, tokens)
        for gone in crops:
            layer.crop(gone)
        k, _ = layer.update(tokens[:, :, 6:7], tokens[:, :, 6:7])
        show(f"a window of 4, tokens 1 .. 8, crop{crops}, then token 7: what its query sees",
             np.arange(4.0, 8), np.pad(k[0, 0, -4:, 0].numpy(), (4 - k.shape[2], 0),
                                      constant_values=np.nan), same=len(crops) == 1)


@finding("documented, easily missed", "Fp8QuantizedLayer: the first update fixes the scale, so that "
         "later tokens are clipped to its largest number, and are zeros after zeros",
         "https://github.com/huggingface/transformers/pull/48677")
def transformers_scale_of_the_first_tokens():
    import torch
    from transformers.cache_utils import Fp8QuantizedLayer
    for first in (4.0, 1.0, 0.0):
        layer = Fp8QuantizedLayer()
        tokens = torch.full((1, 1, 1, 4), first), torch.full((1, 1, 1, 4), 2.0)
        layer.update(tokens[0], tokens[0])
        k, _ = layer.update(tokens[1], tokens[1])
        show(f"tokens of {first:g} and of 2", [first, 2], k[0, 0, :, 0], same=first == 4)
