# SPDX-License-Identifier: Apache-2.0
"""OpenVINO."""
import numpy as np

from shown import NotHere, defined, finding, show


@finding("documented, easily missed", "a model of f32 is computed in bf16 if the machine "
         "has it, unless a hint requests f32")
def openvino_default_precision():
    import openvino
    from openvino import opset13
    if "BF16" not in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        raise NotHere("its CPU has no bf16")
    q, k, v = (opset13.parameter([1, 1, keys, 4], openvino.Type.f32)
               for keys in (1, 3, 3))
    node = opset13.scaled_dot_product_attention(q, k, v, causal=False)
    model = openvino.Model([node], [q, k, v], "one")
    one = np.ones((1, 1, 3, 4), np.float32)
    first = one * np.array([1, 0, 0], np.float32)[:, None]
    for hint in ({}, {"INFERENCE_PRECISION_HINT": "f32"}):
        run = openvino.Core().compile_model(model, "CPU", hint)
        show(f"a model of f32, {hint or 'no hint'}",
             defined(one[0, 0, :1], one[0, 0], first[0, 0])[0][0, 0],
             run([one[:, :, :1], one, first])[0][0, 0, 0, 0], same=bool(hint))


@finding("documented, easily missed", "ScaledDotProductAttention: the scale has the type of q, so that an f16 "
         "model rounds it, whatever it is computed in")
def openvino_scale_in_half():
    import openvino
    from openvino import opset13
    for dtype in (np.float32, np.float16):
        kind = openvino.Type(dtype)
        q, k, v = (opset13.parameter([1, 1, keys, 1], kind) for keys in (1, 2, 2))
        node = opset13.scaled_dot_product_attention(
            q, k, v, attention_mask=opset13.constant(0, kind),
            scale=opset13.constant(0.7, kind), causal=False)
        run = openvino.Core().compile_model(openvino.Model([node], [q, k, v], "one"), "CPU",
                                            {"INFERENCE_PRECISION_HINT": "f32"})
        q, k, v = (np.array(one, dtype)[None, None, :, None] for one in ([4], [4, 0], [0, 60000]))
        show(f"a model of {kind.to_string()}, scores of 11.2 and 0, values 0 and 60000",
             defined(q[0, 0], k[0, 0], v[0, 0], 0.7)[0][0, 0], run([q, k, v])[0][0, 0, 0, 0],
             same=dtype is np.float32)
