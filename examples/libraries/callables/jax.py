# SPDX-License-Identifier: Apache-2.0
"""JAX on the CPU as callables: gradients by jax.vjp, compiled once a shape."""
import functools
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax

jax.config.update("jax_enable_x64", True)


@functools.partial(jax.jit, static_argnames=("is_causal", "scale"))
def compiled(q, k, v, **options):
    return jax.nn.dot_product_attention(q, k, v, implementation="xla", **options)


def grad(q, k, v, *, causal=None, scale=None, mask=None, bias=None):
    o = compiled(*(one.swapaxes(1, 2) for one in (q, k, v)), mask=mask, bias=bias,
                 scale=scale, is_causal=causal is not None)
    return o.swapaxes(1, 2)
