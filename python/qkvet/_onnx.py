# SPDX-License-Identifier: Apache-2.0
"""The operator Attention of ONNX (opset 23), run by any runtime."""
import functools

import numpy as np

from ._adapt import adapter

_OPSET = 23
_WEIGHTS = 3  # qk_matmul_output_mode: after the softmax


def _model(element, ranks, attributes):
    """The bytes of a model with one node. element: TensorProto's type; ranks: of
    the inputs by name, in the operator's order."""
    from onnx import TensorProto, helper

    def of(name, kind=element):
        axes = [f"{name}_{axis}" for axis in range(4)]
        return helper.make_tensor_value_info(name, kind, axes)

    kinds = {"B": TensorProto.BOOL}
    node = helper.make_node(
        "Attention", list(ranks), ["Y", "", "", "weights"],
        **dict(attributes))
    graph = helper.make_graph(
        [node], "attention",
        [of(name, kinds.get(kind, element)) for name, kind in ranks.items()],
        [of("Y"), of("weights")])
    model = helper.make_model(
        graph, ir_version=10, opset_imports=[helper.make_opsetid("", _OPSET)])
    return model.SerializeToString()


@adapter(options="causal_top_left scale default_scale grouped_heads value_width "
         "cross_lengths mask bias softcap weights", dtypes="f32",
         flags="positive_scale", empty_row="zero", softcap_order="before_mask",
         masked_nonfinite="not_ignored")
def onnx_attention(make_session):
    """make_session(bytes of a model) -> an object with run(None, inputs by name):
    onnx.reference.ReferenceEvaluator, onnxruntime.InferenceSession. The model is
    one node Attention of opset 23 with Q, K, V [B, H, T, d]; mask and bias are
    its attn_mask; the weights are its qk_matmul_output, mode 3."""
    @functools.lru_cache(maxsize=None)
    def session(element, ranks, attributes):
        return make_session(_model(element, dict(ranks), attributes))

    def call(q, k, v, *, causal=None, scale=None, softcap=None, mask=None,
             bias=None):
        from onnx import helper
        inputs = {"Q": q, "K": k, "V": v}
        if bias is not None:
            inputs["attn_mask"] = bias if mask is None else np.where(
                mask, bias, bias.dtype.type(-np.inf))
        elif mask is not None:
            inputs["attn_mask"] = mask
        attributes = {"is_causal": int(causal is not None),
                      "qk_matmul_output_mode": _WEIGHTS}
        if scale is not None:
            attributes["scale"] = float(scale)
        if softcap is not None:
            attributes["softcap"] = float(softcap)
        ranks = tuple((name, "B" if one.dtype == np.bool_ else "T")
                      for name, one in inputs.items())
        run = session(helper.np_dtype_to_tensor_dtype(q.dtype), ranks,
                      tuple(attributes.items()))
        o, weights = run.run(None, {name: np.ascontiguousarray(one)
                                    for name, one in inputs.items()})
        return {"o": o, "weights": weights}
    return call
