# SPDX-License-Identifier: Apache-2.0
"""jax.nn.dot_product_attention on the CPU, compiled once a shape: give the plan
few of them (--pin). f16 cannot be compiled there, and is not."""
import functools
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np

from plan import refuse_if, with_finite_tails

jax.config.update("jax_enable_x64", True)


@functools.partial(jax.jit, static_argnames=("is_causal",
                                             "return_residual"))
def compiled(q, k, v, **options):
    return jax.nn.dot_product_attention(q, k, v, implementation="xla", **options)


def attention(call):
    call = with_finite_tails(call)
    fields, given = call.fields, call.given
    q, k, v = (given[name].swapaxes(1, 2) for name in "qkv")  # [B, T, H, d]
    options = {"is_causal": fields["causal"] != "none",
               "return_residual": "lse" in call.wanted}
    if fields["scale_given"]:
        options["scale"] = fields["scale"]
    window = fields["window_left"], fields["window_right"]
    if window != (-1, -1):
        refuse_if(fields["causal"] == "none" and fields["Tq"] != fields["Tk"],
                  "a window lies about the diagonal from the top left")
        everything = fields["Tq"] + fields["Tk"]
        options["local_window_size"] = tuple(
            everything if keys < 0 else keys for keys in window)
    if "mask" in given:
        options["mask"] = given["mask"] != 0
    if "bias" in given:
        options["bias"] = given["bias"]
    for name, word in (("q_len", "query_seq_lengths"),
                       ("kv_len", "key_value_seq_lengths")):
        if name in given:
            options[word] = given[name].astype(np.int32)
    run = compiled
    if fields["dtype"] == "f16":
        run = jax.nn.dot_product_attention
    answered = run(*(jnp.asarray(x) for x in (q, k, v)), **options)
    o, lse = answered if options["return_residual"] else (answered, None)
    outputs = {"o": np.asarray(o).swapaxes(1, 2)}
    if lse is not None:
        outputs["lse"] = np.asarray(lse).swapaxes(1, 2)
    return outputs


ENTRIES = {"f32": attention, "half": attention, "f64": attention}
