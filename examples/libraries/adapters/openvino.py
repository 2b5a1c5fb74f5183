# SPDX-License-Identifier: Apache-2.0
"""OpenVINO on the CPU: ScaledDotProductAttention, with dynamic shapes."""
import functools

import numpy as np
import openvino
from openvino import opset13

from plan import refuse_if

TYPES = {"f32": openvino.Type.f32, "f16": openvino.Type.f16,
         "boolean": openvino.Type.boolean}


@functools.lru_cache(maxsize=None)
def model(dtype, mask, causal, scaled, hint):
    """mask: None, "boolean" or the type. hint: the type to compute in."""
    def parameter(rank, kind):
        return opset13.parameter(openvino.PartialShape([-1] * rank), kind)
    inputs = [parameter(4, TYPES[dtype]) for _ in "qkv"]
    words = {"causal": causal}
    if mask is not None:
        inputs.append(parameter(4, TYPES[mask]))
        words["attention_mask"] = inputs[-1]
    if scaled:  # it stands behind a mask: a zero is none
        zero = opset13.constant(0, TYPES[dtype])
        words.setdefault("attention_mask", zero)
        inputs.append(parameter(0, TYPES[dtype]))
        words["scale"] = inputs[-1]
    node = opset13.scaled_dot_product_attention(*inputs[:3], **words)
    return openvino.Core().compile_model(
        openvino.Model([node], inputs, "one"), "CPU",
        {"INFERENCE_PRECISION_HINT": hint, "INFERENCE_NUM_THREADS": 1} if hint
        else {"INFERENCE_NUM_THREADS": 1})


def attention(call, hint="f32"):
    fields, given = call.fields, call.given
    causal = fields["causal"] != "none"
    feeds = [given[name] for name in "qkv"]
    mask = given.get("bias")
    if "mask" in given:
        seen = given["mask"] != 0
        mask = seen if mask is None else np.where(
            seen, mask, mask.dtype.type(-np.inf))
    refuse_if(causal and mask is not None, "causal ignores attention_mask")
    kind = None
    if mask is not None:
        kind = "boolean" if mask.dtype == bool else fields["dtype"]
        feeds.append(mask)
    if fields["scale_given"]:
        scale = np.asarray(fields["scale"], given["q"].dtype)
        refuse_if(scale != np.float32(fields["scale"]),
                  "a scale that f16, the type of q, does not hold")
        feeds.append(scale)
    return {"o": model(fields["dtype"], kind, causal,
                       bool(fields["scale_given"]), hint)(feeds)[0]}


def without_hint(call):
    return attention(call, None)


ENTRIES = {"sdpa": attention, "without_hint": without_hint}
