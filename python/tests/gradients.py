# SPDX-License-Identifier: Apache-2.0
"""Gradients of attention and of layers: in NumPy by hand, in JAX by vjp."""
import numpy as np

import qkvet


def _weights(q, k, scale, bias):
    scores = q @ k.swapaxes(-1, -2) * np.float32(scale)
    if bias is not None:
        scores = scores + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


class Attention:
    """o, lse and, by hand, d_q, d_k, d_v and d_bias."""

    def __call__(self, q, k, v, scale=None, bias=None):
        scores = q @ k.swapaxes(-1, -2) * np.float32(scale)
        if bias is not None:
            scores = scores + bias
        top = scores.max(-1, keepdims=True)
        weights = np.exp(scores - top)
        total = weights.sum(-1, keepdims=True)
        return weights @ v / total, (top + np.log(total))[..., 0]

    def backward(self, q, k, v, o, lse, d_o, scale=None, bias=None):
        weights = _weights(q, k, scale, bias)
        d_weights = d_o @ v.swapaxes(-1, -2)
        d_scores = weights * (d_weights - (d_o * o).sum(-1, keepdims=True))
        found = {"d_q": d_scores @ k * np.float32(scale),
                 "d_k": d_scores.swapaxes(-1, -2) @ q * np.float32(scale),
                 "d_v": weights.swapaxes(-1, -2) @ d_o}
        if bias is not None:
            found["d_bias"] = self.bias_of(d_scores)
        return found

    def bias_of(self, d_scores):
        return d_scores


class ForgetsSign(Attention):
    def bias_of(self, d_scores):
        return -d_scores


WORDS = {"options": "scale cross_lengths bias lse", "gradient": "function bias"}
attention = qkvet.kernel(Attention, **WORDS)
forgets_sign = qkvet.kernel(ForgetsSign, **WORDS)


class Sink(Attention):
    """With a logit per head that takes its share of the weights but has no value.
    """

    def __call__(self, q, k, v, scale=None, sink=None):
        if sink is None:
            return super().__call__(q, k, v, scale)
        scores = q @ k.swapaxes(-1, -2) * np.float32(scale)
        sink = sink[None, :, None, None]
        top = np.maximum(scores.max(-1, keepdims=True), sink)
        weights = np.exp(scores - top)
        total = weights.sum(-1, keepdims=True) + np.exp(sink - top)
        return weights @ v / total, (top + np.log(total))[..., 0]

    def backward(self, q, k, v, o, lse, d_o, scale=None, sink=None):
        scores = q @ k.swapaxes(-1, -2) * np.float32(scale)
        weights = np.exp(scores - lse[..., None])
        delta = (d_o * o).sum(-1, keepdims=True)
        d_scores = weights * (d_o @ v.swapaxes(-1, -2) - delta)
        found = {"d_q": d_scores @ k * np.float32(scale),
                 "d_k": d_scores.swapaxes(-1, -2) @ q * np.float32(scale),
                 "d_v": weights.swapaxes(-1, -2) @ d_o}
        if sink is not None:
            of_sink = np.exp(sink[None, :, None] - lse)
            found["d_sink"] = self.sink_of(of_sink * delta[..., 0])
        return found

    def sink_of(self, taken):
        return -taken.sum((0, 2))


class ForgetsMembers(Sink):
    """The gradient of the sinks is that of the first member of the batch."""

    def sink_of(self, taken):
        return -taken[0].sum(-1)


SINK = {"options": "scale cross_lengths sink lse", "gradient": "function sink",
        "sink_in_lse": "in"}
with_sink = qkvet.kernel(Sink, **SINK)
forgets_members = qkvet.kernel(ForgetsMembers, **SINK)


@qkvet.kernel(arrays="jax", options="scale cross_lengths bias",
              gradient="vjp bias", flags="compiles_per_shape")
def of_jax(q, k, v, scale=None, bias=None):
    import jax
    scores = q @ k.swapaxes(-1, -2) * scale
    return jax.nn.softmax(scores if bias is None else scores + bias) @ v


# ---- Layers -----------------------------------------------------------------


def _split(array, count):
    return array.reshape(*array.shape[:2], count, -1).swapaxes(1, 2)


def _merge(array):
    array = array.swapaxes(1, 2)
    return array.reshape(*array.shape[:2], -1)


@qkvet.layer(options="default_scale", layer="biases stages weights")
def staged(x, w_q, w_k, w_v, w_o, *, heads, kv_heads, b_q=0, b_k=0, b_v=0, b_o=0):
    """A layer that returns its intermediate values."""
    q, k, v = (_split(x @ w + b, n) for w, b, n in (
        (w_q, b_q, heads), (w_k, b_k, kv_heads), (w_v, b_v, kv_heads)))
    weights = _weights(q, k, q.shape[-1] ** -0.5, None)
    attended = weights @ v
    return {"y": _merge(attended) @ w_o + b_o, "q": q, "k": k, "v": v,
            "attended": attended, "weights": weights}


@qkvet.layer(options="default_scale", layer="biases stages weights")
def swaps_stages(*args, **words):
    """y is right; the stages q and k have changed places."""
    found = staged(*args, **words)
    return {**found, "q": found["k"], "k": found["q"]}


class Layer:
    """y, and by hand the gradients of x, the matrices and the biases."""

    def __call__(self, *args, **words):
        return staged(*args, **words)["y"]

    def backward(self, x, w_q, w_k, w_v, w_o, d_y, *, heads, kv_heads, b_q=None,
                 b_k=None, b_v=None, b_o=None):
        of = staged(x, w_q, w_k, w_v, w_o, heads=heads, kv_heads=kv_heads,
                    **{name: b for name, b in (
                        ("b_q", b_q), ("b_k", b_k), ("b_v", b_v), ("b_o", b_o))
                        if b is not None})
        q, k, v, weights = (of[name] for name in ("q", "k", "v", "weights"))
        d_attended = _split(d_y @ w_o.T, heads)
        d_weights = d_attended @ v.swapaxes(-1, -2)
        d_scores = weights * (d_weights - (d_weights * weights).sum(
            -1, keepdims=True)) * np.float32(q.shape[-1] ** -0.5)
        d_q, d_k, d_v = (_merge(one) for one in (
            d_scores @ k, d_scores.swapaxes(-1, -2) @ q,
            weights.swapaxes(-1, -2) @ d_attended))

        def of_matrix(into, out):
            return np.einsum("btd,bte->de", into, out)

        found = {"d_x": d_q @ w_q.T + d_k @ w_k.T + d_v @ w_v.T,
                 "d_w_q": of_matrix(x, d_q), "d_w_k": of_matrix(x, d_k),
                 "d_w_v": of_matrix(x, d_v),
                 "d_w_o": of_matrix(_merge(of["attended"]), d_y)}
        for name, given, out in (("b_q", b_q, d_q), ("b_k", b_k, d_k),
                                 ("b_v", b_v, d_v), ("b_o", b_o, d_y)):
            if given is not None:
                found["d_" + name] = out.sum((0, 1))
        return self.spoil(found)

    def spoil(self, found):
        return found


class ForgetsKeys(Layer):
    """x gets no gradient by way of its keys."""

    def spoil(self, found):
        return {**found, "d_x": found["d_x"] * np.float32(0.75)}


LAYER = {"options": "default_scale", "layer": "biases", "gradient": "function"}
layer = qkvet.layer(Layer, **LAYER)
forgets_keys = qkvet.layer(ForgetsKeys, **LAYER)


@qkvet.layer(arrays="jax", options="scale default_scale", gradient="vjp",
             flags="compiles_per_shape")
def layer_of_jax(x, w_q, w_k, w_v, w_o, *, heads, kv_heads, scale=None):
    import jax
    q, k, v = (_split(x @ w, n) for w, n in (
        (w_q, heads), (w_k, kv_heads), (w_v, kv_heads)))
    scale = scale or q.shape[-1] ** -0.5
    weights = jax.nn.softmax(q @ k.swapaxes(-1, -2) * scale)
    return _merge(weights @ v) @ w_o
