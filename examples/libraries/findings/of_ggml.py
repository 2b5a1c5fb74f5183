# SPDX-License-Identifier: Apache-2.0
"""ggml, as pywhispercpp brings it."""
import numpy as np

from shown import finding, show


@finding("looser than documented", "P v of f16 keys is added in f16: from 2,048 equal keys "
         "on one more changes nothing")
def ggml_sums_in_f16():
    from adapters import ggml
    from plan import Call
    for keys in (2048, 4096, 32768):
        fields = dict(B=1, H=1, Hkv=1, Tq=1, Tk=keys, d=64, dv=64,
                      causal="none", scale=0.125, softcap=0)
        ones = np.ones((1, 1, keys, 64), np.float16)
        given = {"q": np.zeros((1, 1, 1, 64), np.float16), "k": ones, "v": ones}
        o = ggml.attention(Call(fields, given, {"o": None}))["o"]
        show(f"V = 1, k and v as f16, {keys} keys", 1, o[0, 0, 0, 0],
             same=keys == 2048)
