# SPDX-License-Identifier: Apache-2.0
"""JAX."""
import numpy as np

from shown import defined, finding, refused, show


@finding("undocumented convention", "keys beyond key_value_seq_lengths are multiplied by 0 "
         "and added")
def jax_nan_beyond_length():
    import jax
    import jax.numpy as jnp
    x = jnp.zeros((1, 2, 1, 4))
    v = x.at[0, 0].set(1.0).at[0, 1].set(jnp.nan)
    o = jax.nn.dot_product_attention(x, x, v, key_value_seq_lengths=jnp.array(
        [1]))
    show("key_value_seq_lengths=1, NaN behind it", [1, 1], o[0, :, 0, 0])


@finding("crash on legal input", "f16 works, and not under jit")
def jax_f16_compiled():
    import jax
    import jax.numpy as jnp
    x = jnp.ones((1, 2, 1, 4), jnp.float16)
    for name, call in (("f16", jax.nn.dot_product_attention),
                       ("f16 under jit", jax.jit(jax.nn.dot_product_attention))):
        show(name, [1, 1], refused(
            lambda: call(x, x, x)[0, :, 0, 0],
            "ValueError: The precision 'F16_F16_F32' is not supported"),
            same=name == "f16")


@finding("undocumented convention", "return_residual rounds the lse to the type of the "
         "keys")
def jax_lse_in_half():
    import jax
    import jax.numpy as jnp
    x = jnp.zeros((1, 3, 1, 4), jnp.bfloat16)
    lse = jax.nn.dot_product_attention(x, x, x, return_residual=True)[1]
    show(f"lse of 3 equal scores, as {lse.dtype}", np.log(3), lse[0, 0, 0])


@finding("documented, easily missed", "the softmax of f64 is in f32")
def jax_softmax_of_f64():
    import jax
    import jax.numpy as jnp
    jax.config.update("jax_enable_x64", True)
    x = np.random.default_rng(0).standard_normal((6, 8))
    y = jnp.asarray(x)[None, :, None]
    o = jax.nn.dot_product_attention(y, y, jnp.ones_like(y))
    show("f64, V = 1: the largest |o - 1|",
         np.abs(defined(x, x, np.ones_like(x))[0] - 1).max(),
         jnp.abs(o - 1).max())
