# SPDX-License-Identifier: Apache-2.0
"""Flax."""
import numpy as np

from shown import causal, defined, finding, refused, show


# How refusals begin.
MASK_REFUSED = "TypeError: and got incompatible shapes for broadcasting"
WIDTH_REFUSED = "ValueError: value shape should be"


def batches(*shape):
    return np.ones(shape, np.float32)


@finding("crash on legal input", "nnx.MultiHeadAttention: is_causal beside a mask of "
         "[B, 1, 1, T] fails where weights are sown, and only there",
         "https://github.com/google/flax/pull/5093")
def flax_causal_with_padding():
    from flax import nnx
    layer = nnx.MultiHeadAttention(num_heads=1, in_features=4, decode=False,
                                   rngs=nnx.Rngs(0))
    x, mask = batches(1, 2, 4), np.ones((1, 1, 1, 2), bool)
    # Equal tokens: every row of y is the same, whatever it sees.
    expected = layer(x, is_causal=True)[0, :, 0]
    for sown in (False, True):
        show(f"sow_weights={sown}", expected, refused(
            lambda: layer(x, mask=mask, is_causal=True,
                          sow_weights=sown)[0, :, 0],
            "ValueError: Incompatible types for broadcasting"), same=not sown)


@finding("crash on legal input", "nnx.dot_product_attention: a mask that broadcasts over "
         "one of two batch extents is refused; linen takes it")
def flax_mask_over_two_batches():
    from flax import linen, nnx
    q, mask = batches(2, 3, 2, 1, 4), np.ones((2, 1, 1, 2, 2), bool)
    for name, call in (("linen", linen.dot_product_attention),
                       ("nnx", nnx.dot_product_attention)):
        show(f"{name}, a batch of [2, 3], a mask of [2, 1, ...]",
             defined(q[0, 0, :, 0], q[0, 0, :, 0], q[0, 0, :, 0])[0][:, 0], refused(
                 lambda: call(q, q, q, mask=mask)[0, 0, :, 0, 0],
                 MASK_REFUSED),
             same=name == "linen")


@finding("crash on legal input", "nnx.dot_product_attention: v of another width than k is "
         "refused, which its documentation allows; linen takes it")
def flax_value_width():
    from flax import linen, nnx
    q, v = batches(1, 2, 1, 4), batches(1, 2, 1, 6)
    for name, call in (("linen", linen.dot_product_attention),
                       ("nnx", nnx.dot_product_attention)):
        show(f"{name}, d = 4, dv = 6", defined(
            q[0, :, 0], q[0, :, 0], v[0, :, 0])[0][:, 0], refused(
                lambda: call(q, q, v)[0, :, 0, 0], WIDTH_REFUSED), same=name == "linen")


@finding("undocumented convention", "a row that sees no key is the mean of the values, "
         "hidden ones too")
def flax_mean_of_hidden_values():
    from flax import nnx
    q, v = batches(1, 2, 1, 4), batches(1, 2, 1, 4)
    v[0, 1] = 3
    mask = causal(2, 2)[None, None] & np.array([False, True])
    show("causal, and the first key hidden: row 0 sees nothing; of a later key it "
         "may have nothing", [0, 3],
         nnx.dot_product_attention(q, q, v, mask=mask)[0, :, 0, 0])
