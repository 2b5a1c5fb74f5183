# SPDX-License-Identifier: Apache-2.0
"""Flax on the CPU: dot_product_attention of nnx, and MultiHeadAttention."""
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax

jax.config.update("jax_enable_x64", True)

from flax import linen
from flax import nnx


def time_first(function, q, k, v, **options):
    o = function(*(one.swapaxes(1, 2) for one in (q, k, v)), **options)
    return o.swapaxes(1, 2)


# Compiled, and so once a shape.
from_nnx = jax.jit(nnx.dot_product_attention, static_argnames=("is_causal",))
from_linen = jax.jit(linen.dot_product_attention)


def nnx_attention(q, k, v, *, causal=None, mask=None, bias=None):
    return time_first(from_nnx, q, k, v, mask=mask, bias=bias,
                      is_causal=causal is not None)


def linen_attention(q, k, v, *, mask=None, bias=None):
    return time_first(from_linen, q, k, v, mask=mask, bias=bias)
