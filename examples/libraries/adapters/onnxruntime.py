# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime on the CPU: the operator Attention of ONNX, and
MultiHeadAttention of com.microsoft."""
import functools

import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from onnxruntime.capi import onnxruntime_pybind11_state as state

from plan import Refused, refuse_if, with_finite_tails

NOT_TAKEN = (state.Fail, state.InvalidArgument, state.InvalidGraph,
             state.NotImplemented)

TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16,
         "bool": TensorProto.BOOL, "int64": TensorProto.INT64,
         "int32": TensorProto.INT32}


@functools.lru_cache(maxsize=None)
def session(operator, domain, opset, inputs, outputs, attributes):
    """Of one node. inputs: name, type and rank, name None for one that is left
    out; attributes: pairs."""
    given = [helper.make_tensor_value_info(name, TYPES[dtype], [None] * rank)
             for name, dtype, rank in inputs if name]
    made = [helper.make_tensor_value_info(name, TYPES[inputs[0][1]], None)
            for name in outputs if name]
    node = helper.make_node(operator, [name or "" for name, *_ in inputs],
                            list(outputs), domain=domain, **dict(attributes))
    graph = helper.make_graph([node], "one", given, made)
    sets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"])


def run(operator, domain, opset, feeds, outputs, attributes):
    """feeds: arrays by name, in the order of the operator's inputs, None for one
    that is left out."""
    while feeds and next(reversed(feeds.values())) is None:
        feeds.popitem()
    inputs = tuple((None, None, None) if array is None
                   else (name, array.dtype.name, array.ndim)
                   for name, array in feeds.items())
    wanted = [name for name in outputs if name]
    feeds = {name: array for name, array in feeds.items() if array is not None}
    try:
        one = session(operator, domain, opset, inputs, tuple(outputs),
                      tuple(sorted(attributes.items())))
        return dict(zip(wanted, one.run(wanted, feeds)))
    except NOT_TAKEN as why:
        line = str(why).splitlines()[0]
        for word in ("Message: ", " was false. "):
            line = line.rpartition(word)[2]
        raise Refused(line) from None


def whole_rows(array, fields):
    """Both operators broadcast over members and heads alone."""
    shape = array.shape[:2] + (fields["Tq"], fields["Tk"])
    return np.ascontiguousarray(np.broadcast_to(array, shape))


def added(call):
    """Mask and bias as one tensor: boolean, or in the type of q."""
    bias, mask = call.given.get("bias"), call.given.get("mask")
    both = bias
    if mask is not None:
        both = mask != 0
        if bias is not None:
            both = np.where(both, bias, bias.dtype.type(-np.inf))
    return None if both is None else whole_rows(both, call.fields)


def attention(call, opset=24):
    return attention_nan(with_finite_tails(call), opset)


def attention_25(call):
    """The one with windows."""
    return attention(call, 25)


def attention_nan(call, opset=24):
    """NaN beyond the lengths is left there."""
    fields, given = call.fields, call.given
    causal = fields["causal"]
    window = fields["window_left"], fields["window_right"]
    lengths = given.get("kv_len")
    if causal == "top_left":
        refuse_if(lengths is not None,
                  "with nonpad_kv_seqlen is_causal is bottom right")
    elif causal == "bottom_right" or window != (-1, -1):
        refuse_if(np.any(given.get("q_len", fields["Tq"]) != fields["Tq"]),
                  "no lengths of queries, which move the diagonal")
        if lengths is None:
            lengths = np.full(fields["B"], fields["Tk"], np.int64)
    feeds = dict(q=given["q"], k=given["k"], v=given["v"], mask=added(call),
                 past_key=None, past_value=None, lengths=lengths)
    attributes = {"is_causal": int(causal != "none"),
                  "softcap": float(fields["softcap"])}
    if window != (-1, -1):
        attributes["left_window_size"], attributes["right_window_size"] = window
    if fields["scale_given"]:
        attributes["scale"] = float(fields["scale"])
    outputs = ["o"]
    if "weights" in call.wanted:
        outputs += ["", "", "weights"]
        attributes["qk_matmul_output_mode"] = 3
    return run("Attention", "", opset, feeds, outputs, attributes)


def multi_head(call):
    refuse_if(call.fields["causal"] != "none"
              and call.fields["Tq"] != call.fields["Tk"],
              "unidirectional says of no diagonal beside square ones")
    return multi_head_cross(call)


def multi_head_cross(call):
    """Tensors are [B, T, H * d], the bias of scores is attention_bias."""
    call = with_finite_tails(call)
    fields, given = call.fields, call.given

    def joined(array):
        array = array.swapaxes(1, 2)
        return np.ascontiguousarray(array.reshape(*array.shape[:2], -1))

    feeds = dict(q=joined(given["q"]), k=joined(given["k"]),
                 v=joined(given["v"]), projections=None,
                 padding=given["kv_len"].astype(np.int32)
                 if "kv_len" in given else None, bias=added(call))
    attributes = {"num_heads": fields["H"],
                  "unidirectional": int(fields["causal"] != "none")}
    if fields["scale_given"]:
        attributes["scale"] = float(fields["scale"])
    o = run("MultiHeadAttention", "com.microsoft", 17, feeds, ["o"],
            attributes)["o"]
    o = o.reshape(fields["B"], fields["Tq"], fields["H"], fields["dv"])
    return {"o": o.swapaxes(1, 2)}


ENTRIES = {"attention": attention, "attention_half": attention,
           "attention_nan": attention_nan, "attention_25": attention_25,
           "multi_head": multi_head, "multi_head_cross": multi_head_cross}
