# SPDX-License-Identifier: Apache-2.0
"""MLX LM on the CPU: its caches, with the masks that they make and the attention
function of its models."""
import mlx.core as mx
import numpy as np
from mlx_lm.models.base import create_causal_mask, scaled_dot_product_attention
from mlx_lm.models.cache import KVCache, RotatingKVCache

from qkvet import Refused, cache

mx.set_default_device(mx.cpu)


class OneCache:
    """A cache for each sequence; what its last update returned, and the mask that it
    made for it, are what queries get."""

    def __init__(self, sequences, heads, kv_heads, d, dv, capacity, scale, **more):
        self.capacity, self.scale = capacity, d ** -0.5 if scale is None else scale
        self.more = more
        self.caches = [self.made() for _ in range(sequences)]
        self.last = [None] * sequences

    def length(self, sequence):
        return int(self.caches[sequence].offset)

    def append(self, sequence, k, v):
        tokens = k.shape[1]
        if self.length(sequence) + tokens > self.capacity:
            raise ValueError(f"more than {self.capacity} tokens")
        one = self.caches[sequence]
        mask = one.make_mask(tokens, return_array=True, **self.words())
        fetched = one.update_and_fetch(mx.array(k[None]), mx.array(v[None]))
        mx.eval(fetched)
        self.last[sequence] = (mask, *fetched)

    def words(self):
        return {"window_size": None}

    def attend(self, sequence, q):
        mask, k, v = self.last[sequence]
        rows = q.shape[1]
        if mask is not None and rows <= mask.shape[-2]:
            mask = mask[..., -rows:, :]
        elif rows > 1:  # of tokens from several updates
            mask = create_causal_mask(rows, self.length(sequence) - rows)
        o = scaled_dot_product_attention(mx.array(q[None]), k, v, self.caches[sequence],
                                         self.scale, mask)
        return np.array(o[0])

    def reset(self, sequence):
        self.caches[sequence] = self.made()

    def truncate(self, sequence, tokens):
        # trim() takes how many go, and any number: what is kept is a word of this class.
        if not 0 <= tokens <= self.length(sequence):
            raise ValueError(f"{tokens} of {self.length(sequence)} tokens")
        one, gone = self.caches[sequence], self.length(sequence) - tokens
        if gone and not one.is_trimmable():
            raise Refused("not trimmable")
        one.trim(gone)
        if gone:
            self.last[sequence] = (None, *(x[..., :tokens, :] for x in self.last[sequence][1:]))


@cache
class kv_cache(OneCache):
    def made(self):
        return KVCache()


@cache(cache="window")
class rotating_cache(OneCache):
    """keep are tokens of max_size."""

    def made(self):
        if self.more["rollback"]:
            raise Refused("trim only where nothing has left the window")
        if not self.more["window"]:
            return RotatingKVCache(self.capacity + 1)
        keep = self.more["first_tokens"]
        return RotatingKVCache(self.more["window"] + keep, keep)


@cache(cache="window")
class rotating_cache_without_keep(rotating_cache):
    def made(self):
        if self.more["first_tokens"]:
            raise Refused("no kept tokens (mlx_lm_kept_tokens_hidden)")
        return super().made()
