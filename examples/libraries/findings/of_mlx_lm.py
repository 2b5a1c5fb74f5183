# SPDX-License-Identifier: Apache-2.0
"""MLX LM."""
import numpy as np

from shown import finding, refused, show


def on_cpu():
    import mlx.core as mx
    mx.set_default_device(mx.cpu)
    return mx


@finding("bug", "KVCache and QuantizedKVCache: an update that is refused (another width) has counted "
         "its tokens; RotatingKVCache has not")
def mlx_lm_refused_update_counts():
    mx = on_cpu()
    from mlx_lm.models.cache import KVCache, QuantizedKVCache, RotatingKVCache
    two, wide = mx.ones((1, 1, 2, 64)), mx.ones((1, 1, 1, 128))
    for cache in (RotatingKVCache(8), KVCache(), QuantizedKVCache()):
        cache.update_and_fetch(two, two)
        why = refused(lambda: cache.update_and_fetch(wide, wide), "ValueError: ")
        assert isinstance(why, str), "it was taken"
        show(f"{type(cache).__name__}, two tokens, and one of twice the width refused: offset",
             2, float(cache.offset), same=isinstance(cache, RotatingKVCache))


@finding("silent nonsense on illegal input", "KVCache.trim of a negative number of tokens "
         "makes it longer: zeros that were never appended are keys")
def mlx_lm_trim_below_zero():
    mx = on_cpu()
    from mlx_lm.models.cache import KVCache
    one = mx.ones((1, 1, 1, 4))
    for gone in (0, -2):
        cache = KVCache()
        cache.update_and_fetch(one, one)
        cache.trim(gone)
        k, v = cache.update_and_fetch(one, one)
        o = mx.fast.scaled_dot_product_attention(0 * one, k, v, scale=1.0)
        show(f"a token of ones, trim({gone}), another one: the mean of the values", 1,
             float(o[0, 0, 0, 0]), same=gone == 0)


@finding("bug", "RotatingKVCache with keep: the first tokens are kept, and hidden from the later rows of "
         "a prompt in one step; in steps of one token they are seen")
def mlx_lm_kept_tokens_hidden():
    mx = on_cpu()
    from mlx_lm.models.base import scaled_dot_product_attention
    from mlx_lm.models.cache import RotatingKVCache
    q = mx.zeros((1, 1, 1, 4))
    v = mx.broadcast_to(mx.array([8.0, 2, 3, 4, 5])[None, None, :, None], (1, 1, 5, 4))

    def last_row(keep, sizes):
        cache, at = RotatingKVCache(3, keep), 0
        for n in sizes:
            rows = mx.broadcast_to(q, (1, 1, n, 4))
            mask = cache.make_mask(n)
            new = v[:, :, at:at + n]
            fetched = cache.update_and_fetch(0 * new, new)
            o = scaled_dot_product_attention(rows, *fetched, cache, 1.0, mask)
            at += n
        return float(o[0, 0, -1, 0])
    for keep, seen in ((0, [3, 4, 5]), (1, [8, 4, 5])):
        for sizes in ([1] * 5, [5]):
            show(f"RotatingKVCache(3, keep={keep}), values 8, 2, 3, 4, 5 in steps of {sizes[0]}: "
                 "the last row", np.mean(seen), last_row(keep, sizes),
                 same=keep == 0 or sizes[0] == 1)
