# SPDX-License-Identifier: Apache-2.0
"""The reference evaluator of ONNX."""
import numpy as np

from shown import defined, finding, show


@finding("looser than documented", "Attention of f64 takes the root of the scale in f32, as "
         "the attribute has it")
def onnx_root_of_the_scale():
    from onnx import helper
    from onnx.reference import ReferenceEvaluator
    arrays = {"q": np.array([[4.0]]), "k": np.array([[4.0], [0.0]]),
              "v": np.array([[1.0], [0.0]])}
    given = [helper.make_tensor_value_info(name, 11, (1, 1) + x.shape)
             for name, x in arrays.items()]
    made = [helper.make_tensor_value_info("o", 11, (1, 1, 1, 1))]
    node = helper.make_node("Attention", list(arrays), ["o"], scale=0.125)
    model = helper.make_model(helper.make_graph([node], "one", given, made),
                              opset_imports=[helper.make_opsetid("", 24)])
    o = ReferenceEvaluator(model).run(
        None, {name: x[None, None] for name, x in arrays.items()})[0]
    expected = defined(*arrays.values(), 0.125)[0][0, 0]
    show("f64, scale=0.125: the distance to the definition, in 1e-16", 0,
         round(abs(o[0, 0, 0, 0] - expected) * 1e16))
