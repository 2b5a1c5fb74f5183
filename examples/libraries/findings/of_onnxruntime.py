# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime."""
import numpy as np

from shown import causal, defined, finding, refused, show


def run_onnx(operator, domain, opset, feeds, inputs=None, outputs=("o",),
             **attributes):
    """The first output of one node; `inputs` in place of the names of feeds, "" for
    one left out."""
    import onnxruntime
    from onnx import helper
    given = [helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in feeds.items()]
    node = helper.make_node(operator, inputs or list(feeds), list(outputs),
                            domain=domain, **attributes)
    made = [helper.make_tensor_value_info(name, 1, None) for name in outputs]
    sets = [helper.make_opsetid("", opset),
            helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph([node], "one", given, made),
                              opset_imports=sets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, feeds)[0]


# How the two refusals begin.
SCALE_REFUSED = "Fail: scale must be greater than 0"
MASK_REFUSED = "Fail: inconsistent q_sequence_length"


def row(expected, *words, **attributes):
    """A row of o, or the refusal that is expected."""
    return refused(lambda: run_onnx(*words, **attributes)[0, 0, :, 0], expected)


@finding("bug", "with more keys than queries a causal MultiHeadAttention has "
         "neither alignment")
def onnxruntime_causal_multi_head():
    zero = np.zeros((1, 4, 8), np.float32)
    v = zero + np.arange(1, 5, dtype=np.float32)[None, :, None]
    o = run_onnx("MultiHeadAttention", "com.microsoft", 17,
                 {"q": zero[:, :2], "k": zero, "v": v}, num_heads=1,
                 unidirectional=1)
    for name, bottom_right in (("top left", False), ("bottom right", True)):
        show(f"2 queries, 4 keys, {name}",
             defined(zero[0, :2], zero[0], v[0], seen=causal(
                 2, 4, bottom_right))[0][:, 0], o[0, :, 0])


@finding("documented, easily missed", "MultiHeadAttention hides by adding -10000: scores "
         "below that, and keys beyond the length win")
def onnxruntime_finite_padding():
    q, v = np.full((1, 1, 4), 100, np.float32), np.ones((1, 2, 4), np.float32)
    k = np.zeros_like(v)
    k[0, 0], v[0, 1] = -100, 3
    o = run_onnx("MultiHeadAttention", "com.microsoft", 17,
                 {"q": q, "k": k, "v": v, "n": np.array([1], np.int32)},
                 ["q", "k", "v", "", "n"], num_heads=1)
    show("scores of -20000 and 0, a length of 1",
         defined(q[0], k[0], v[0], seen=[[True, False]])[0][:, 0], o[0, :, 0])


@finding("silent nonsense on illegal input", "Attention of opset 25 takes the root "
         "of a negative scale")
def onnxruntime_negative_scale():
    x = np.ones((1, 1, 2, 4), np.float32)
    expected = defined(x[0, 0], x[0, 0], x[0, 0], -1)[0][:, 0]
    for opset in (24, 25):
        show(f"Attention of opset {opset}, scale=-1", expected, row(
            SCALE_REFUSED, "Attention", "", opset, {"q": x, "k": x, "v": x}, scale=-1.0))


@finding("crash on legal input", "a mask of [1, 1, 1, Tk] is refused, which ONNX calls "
         "broadcastable",
         "https://github.com/microsoft/onnxruntime/issues/12149")
def onnxruntime_broadcast_mask():
    x = np.ones((1, 1, 2, 4), np.float32)
    show("a mask of [1, 1, 1, 2], which ONNX allows",
         defined(x[0, 0], x[0, 0], x[0, 0])[0][:, 0], row(
             MASK_REFUSED, "Attention", "", 24, {"q": x, "k": x, "v": x, "m": np.zeros(
                 (1, 1, 1, 2), np.float32)}))


@finding("bug", "Attention of opset 25: NaN after -infinity counts as no key")
def onnxruntime_nan_behind_infinity():
    x = np.ones((1, 1, 1, 4), np.float32)
    two = np.ones((1, 1, 2, 4), np.float32)
    for opset in (24, 25):
        show(f"Attention of opset {opset}, a mask of -inf, nan", [np.nan], run_onnx(
            "Attention", "", opset, {
                "q": x, "k": two, "v": two,
                "m": np.array([[-np.inf, np.nan]], np.float32)})[0, 0, :, 0],
            same=opset == 24)


@finding("undocumented convention", "keys beyond nonpad_kv_seqlen are multiplied by 0 and "
         "added")
def onnxruntime_nan_beyond_length():
    x = np.zeros((1, 1, 2, 4), np.float32)
    v = np.ones_like(x)
    v[0, 0, 1] = np.nan
    o = run_onnx("Attention", "", 24, {"q": x, "k": x, "v": v, "n": np.array(
        [1])}, ["q", "k", "v", "", "", "", "n"])
    show("nonpad_kv_seqlen=1, NaN behind it", [1, 1], o[0, 0, :, 0])


def group_query(q, k, v, **attributes):
    """GroupQueryAttention of [1, 1, T, d] without a past."""
    none = np.zeros((1, 1, 0, q.shape[3]), np.float32)
    feeds = {name: x[:, 0] for name, x in (("q", q), ("k", k), ("v", v))}
    feeds.update(past_k=none, past_v=none, last=np.array([q.shape[2] - 1], np.int32),
                 total=np.array(q.shape[2], np.int32))
    return run_onnx("GroupQueryAttention", "com.microsoft", 24, feeds,
                    outputs=["o", "present_k", "present_v"], num_heads=1,
                    kv_num_heads=1, **attributes)[0, :, 0]


@finding("bug", "GroupQueryAttention: a query of NaN gets zeros, where a later key is "
         "hidden from it")
def onnxruntime_group_query_nan():
    for at, same in ((0, False), (1, True)):
        q, x = np.ones((1, 1, 2, 8), np.float32), np.ones((1, 1, 2, 8), np.float32)
        q[0, 0, at] = np.nan
        show(f"query {at} of two is NaN",
             defined(q[0, 0], x[0, 0], x[0, 0], seen=causal(2, 2))[0][:, 0],
             group_query(q, x, x), same)


@finding("undocumented convention", "GroupQueryAttention: a scale of 0 means that none "
         "is given")
def onnxruntime_group_query_scale():
    x = np.array([[1, 0], [0, 3]], np.float32).repeat(8, 1)[None, None, :, :8]
    x[0, 0, 1] = 3
    show("scale=0", defined(x[0, 0], x[0, 0], x[0, 0], 0, causal(2, 2))[0][:, 0],
         group_query(x, x, x, scale=0.0))
