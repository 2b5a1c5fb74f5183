#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What QKVet found in released libraries, each in the library alone, with NumPy
in double beside it: python3 findings.py [NAME...]
"""
import sys

import numpy as np

import answer


def defined(q, k, v, scale=None, seen=None):
    """o and lse by the definition; [T, d] each, seen: booleans [Tq, Tk]."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    scores = q @ k.T * (q.shape[1] ** -0.5 if scale is None else scale)
    if seen is not None:
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(axis=1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(axis=1, keepdims=True)
    return weights / total @ v, (np.log(total) + top)[:, 0]


def show(what, expected, actual):
    print(f"  {what}: expected {np.asarray(expected).tolist()}, "
          f"actual {np.asarray(actual).tolist()}")


def causal(rows, keys, bottom_right=False):
    return np.tri(rows, keys, keys - rows if bottom_right else 0, dtype=bool)


def torch_scale_with_causal():
    import torch
    from torch.nn.functional import scaled_dot_product_attention
    x = torch.ones(1, 1, 2, 4)
    for scale in (-1.0, 0.0):
        o = scaled_dot_product_attention(x, x, x, is_causal=True, scale=scale)
        show(f"is_causal=True, scale={scale}",
             defined(x[0, 0], x[0, 0], x[0, 0], scale, causal(2, 2))[0][:, 0],
             o[0, 0, :, 0])


def torch_nan_in_a_query():
    import torch
    from torch.nn.functional import scaled_dot_product_attention
    q, x = torch.ones(1, 1, 2, 4), torch.ones(1, 1, 2, 4)
    q[0, 0, 1] = float("nan")
    show("the second query is NaN", defined(q[0, 0], x[0, 0], x[0, 0])[0][:, 0],
         scaled_dot_product_attention(q, x, x)[0, 0, :, 0])


def torch_coarse_exponential():
    import torch
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    for keys in (15, 16):
        x = torch.zeros(1, 1, keys, 8, dtype=torch.bfloat16)
        show(f"lse of {keys} equal scores, bf16", np.log(keys),
             flash(x, x, x)[1][0, 0, 0])


def run_onnx(operator, domain, opset, feeds, inputs=None, **attributes):
    """One node; `inputs` in place of the names of feeds, "" for one left out."""
    import onnxruntime
    from onnx import helper
    given = [helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in feeds.items()]
    node = helper.make_node(operator, inputs or list(feeds), ["o"],
                            domain=domain, **attributes)
    made = [helper.make_tensor_value_info("o", 1, None)]
    sets = [helper.make_opsetid("", opset),
            helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph([node], "one", given, made),
                              opset_imports=sets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, feeds)[0]


def onnx_or_refused(*words, **attributes):
    """A row of o, or the last words of the refusal."""
    try:
        return run_onnx(*words, **attributes)[0, 0, :, 0]
    except Exception as why:
        return "refused: " + str(why).split(" was false. ")[-1].strip()


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


def onnxruntime_negative_scale():
    x = np.ones((1, 1, 2, 4), np.float32)
    expected = defined(x[0, 0], x[0, 0], x[0, 0], -1)[0][:, 0]
    for opset in (24, 25):
        show(f"Attention of opset {opset}, scale=-1", expected, onnx_or_refused(
            "Attention", "", opset, {"q": x, "k": x, "v": x}, scale=-1.0))


def onnxruntime_broadcast_mask():
    x = np.ones((1, 1, 2, 4), np.float32)
    show("a mask of [1, 1, 1, 2], which ONNX allows",
         defined(x[0, 0], x[0, 0], x[0, 0])[0][:, 0], onnx_or_refused(
             "Attention", "", 24, {"q": x, "k": x, "v": x, "m": np.zeros(
                 (1, 1, 1, 2), np.float32)}))


def onnxruntime_nan_behind_infinity():
    x = np.ones((1, 1, 1, 4), np.float32)
    two = np.ones((1, 1, 2, 4), np.float32)
    for opset in (24, 25):
        show(f"Attention of opset {opset}, a mask of -inf, nan", [np.nan],
             onnx_or_refused("Attention", "", opset, {
                 "q": x, "k": two, "v": two,
                 "m": np.array([[-np.inf, np.nan]], np.float32)}))


def onnxruntime_nan_beyond_length():
    x = np.zeros((1, 1, 2, 4), np.float32)
    v = np.ones_like(x)
    v[0, 0, 1] = np.nan
    o = run_onnx("Attention", "", 24, {"q": x, "k": x, "v": v, "n": np.array(
        [1])}, ["q", "k", "v", "", "", "", "n"])
    show("nonpad_kv_seqlen=1, NaN behind it", [1, 1], o[0, 0, :, 0])


def jax_nan_beyond_length():
    import jax
    import jax.numpy as jnp
    x = jnp.zeros((1, 2, 1, 4))
    v = x.at[0, 0].set(1.0).at[0, 1].set(jnp.nan)
    o = jax.nn.dot_product_attention(x, x, v, key_value_seq_lengths=jnp.array(
        [1]))
    show("key_value_seq_lengths=1, NaN behind it", [1, 1], o[0, :, 0, 0])


def jax_f16_compiled():
    import jax
    import jax.numpy as jnp
    x = jnp.ones((1, 2, 1, 4), jnp.float16)
    for name, call in (("f16", jax.nn.dot_product_attention),
                       ("f16 under jit", jax.jit(jax.nn.dot_product_attention))):
        try:
            actual = call(x, x, x)[0, :, 0, 0]
        except Exception as why:
            actual = f"{type(why).__name__}: {str(why).splitlines()[0]}"
        show(name, [1, 1], actual)


def jax_lse_in_half():
    import jax
    import jax.numpy as jnp
    x = jnp.zeros((1, 3, 1, 4), jnp.bfloat16)
    lse = jax.nn.dot_product_attention(x, x, x, return_residual=True)[1]
    show(f"lse of 3 equal scores, as {lse.dtype}", np.log(3), lse[0, 0, 0])


def jax_softmax_of_f64():
    import jax
    import jax.numpy as jnp
    jax.config.update("jax_enable_x64", True)
    x = np.random.default_rng(0).standard_normal((6, 8))
    y = jnp.asarray(x)[None, :, None]
    o = jax.nn.dot_product_attention(y, y, jnp.ones_like(y))
    show("f64, V = 1: the largest |o - 1|",
         np.abs(defined(x, x, np.ones_like(x))[0] - 1).max(),
         jnp.abs(o - 1).max())


def ggml_sums_in_f16():
    from adapters import ggml
    from plan import Call
    for keys in (2048, 4096, 32768):
        fields = dict(B=1, H=1, Hkv=1, Tq=1, Tk=keys, d=64, dv=64,
                      causal="none", scale=0.125, softcap=0)
        ones = np.ones((1, 1, keys, 64), np.float16)
        given = {"q": np.zeros((1, 1, 1, 64), np.float16), "k": ones, "v": ones}
        o = ggml.attention(Call(fields, given, {"o": None}))["o"]
        show(f"V = 1, k and v as f16, {keys} keys", 1, o[0, 0, 0, 0])


def openvino_default_precision():
    import openvino
    from openvino import opset13
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
             run([one[:, :, :1], one, first])[0][0, 0, 0, 0])


FINDINGS = {name: function for name, function in globals().items()
            if name.split("_")[0] in ("torch", "onnxruntime", "jax", "ggml",
                                      "openvino")}


def main(names):
    for name in names or FINDINGS:
        if name not in FINDINGS:
            answer.wrong_use(f"{name}: no such finding; allowed: "
                             + ", ".join(FINDINGS))
        print(name)
        try:
            FINDINGS[name]()
        except ImportError as why:
            print(f"  not installed here ({why})")


if __name__ == "__main__":
    main(sys.argv[1:])
