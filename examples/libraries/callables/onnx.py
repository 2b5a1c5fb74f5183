# SPDX-License-Identifier: Apache-2.0
"""The reference evaluator of ONNX: Attention, in NumPy."""
import functools

import numpy as np
from onnx import helper
from onnx.reference import ReferenceEvaluator

NAMES = {"float32": 1, "float16": 10, "float64": 11, "bool": 9, "int64": 7}


@functools.lru_cache(maxsize=None)
def evaluator(opset, inputs, attributes):
    given = [helper.make_tensor_value_info(name, NAMES[dtype], [None] * rank)
             for name, dtype, rank in inputs if dtype]
    node = helper.make_node(
        "Attention", [name if dtype else "" for name, dtype, _ in inputs],
        ["o", "", "", "weights"], **dict(attributes))
    made = [helper.make_tensor_value_info(name, given[0].type.tensor_type.elem_type,
                                          None) for name in ("o", "weights")]
    return ReferenceEvaluator(helper.make_model(
        helper.make_graph([node], "one", given, made),
        opset_imports=[helper.make_opsetid("", opset)], ir_version=10))


def attention(q, k, v, *, causal=None, scale=None, mask=None, bias=None,
              softcap=None, kv_len=None, window=None, opset=24):
    added = bias if mask is None else mask
    if mask is not None and bias is not None:
        added = np.where(mask, bias, bias.dtype.type(-np.inf))
    lengths = kv_len
    if causal == "bottom_right" or (causal is None and window is not None):
        lengths = (np.full(len(q), k.shape[2], np.int64) if lengths is None
                   else lengths)
    attributes = {"is_causal": int(causal is not None), "qk_matmul_output_mode": 3}
    if scale is not None:
        attributes["scale"] = float(scale)
    if softcap is not None:
        attributes["softcap"] = float(softcap)
    if window is not None:
        attributes["left_window_size"], attributes["right_window_size"] = window
    feeds = {"q": q, "k": k, "v": v, "mask": added}
    if lengths is not None:
        feeds.update(past_key=None, past_value=None, lengths=lengths)
    elif added is None:
        del feeds["mask"]
    inputs = tuple((name, "" if one is None else one.dtype.name,
                    0 if one is None else one.ndim) for name, one in feeds.items())
    run = evaluator(opset, inputs, tuple(sorted(attributes.items())))
    o, weights = run.run(None, {name: np.ascontiguousarray(one) for name, one in
                                feeds.items() if one is not None})
    return {"o": o, "weights": weights.astype(np.promote_types(q.dtype, "f4"))}


def attention_25(q, k, v, **options):
    return attention(q, k, v, **options, opset=25)


attention_half = attention
