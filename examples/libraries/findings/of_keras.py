# SPDX-License-Identifier: Apache-2.0
"""Keras over PyTorch."""
import numpy as np

from shown import causal, defined, finding, refused, show


def ops():
    import os
    os.environ["KERAS_BACKEND"] = "torch"
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    import keras
    return keras.ops


@finding("crash on legal input", "ops.dot_product_attention: bias beside is_causal raises "
         "over PyTorch, where mask beside is_causal works",
         "https://github.com/keras-team/keras/pull/22097")
def keras_bias_with_causal():
    attention = ops().dot_product_attention
    x = np.ones((1, 2, 1, 4), np.float32)
    zero, all_seen = np.zeros((1, 1, 2, 2), np.float32), np.ones((1, 1, 2, 2), bool)
    for words in ({"mask": all_seen}, {"bias": zero}):
        show(f"is_causal=True beside {next(iter(words))}",
             defined(x[0, :, 0], x[0, :, 0], x[0, :, 0], seen=causal(2, 2))[0][:, 0],
             refused(lambda: attention(x, x, x, is_causal=True,
                                       **words)[0, :, 0, 0],
                     "RuntimeError: Explicit attn_mask should not be set when "
                     "is_causal=True"),
             same="mask" in words)


@finding("bug", "ops.dot_product_attention: is_causal with a scale below 0 is NaN over "
         "PyTorch (torch_scale_with_causal)")
def keras_scale_with_causal():
    x = np.ones((1, 2, 1, 4), np.float32)
    show("is_causal=True, scale=-1", defined(
        x[0, :, 0], x[0, :, 0], x[0, :, 0], -1, causal(2, 2))[0][:, 0],
        ops().dot_product_attention(x, x, x, is_causal=True,
                                    scale=-1.0)[0, :, 0, 0])
