# SPDX-License-Identifier: Apache-2.0
"""Sets of jax.nn.dot_product_attention on the CPU, implementation "xla"."""
import jax
import jax.numpy as jnp
import numpy as np

from golden.generate.draws import add_answered
from golden.generate.sets import Generator

FILES = ",q=file,k=file,v=file"
TYPES = {"f32": jnp.float32, "f16": jnp.float16, "bf16": jnp.bfloat16}


def answer(case, values):
    """Its tensors are [B,T,H,d]; both diagonals begin at the top left."""
    def given(name):
        return jnp.asarray(values[name].transpose(0, 2, 1, 3),
                           TYPES[case.q_type])

    options = {"implementation": "xla", "is_causal": case.causal == "tl",
               "return_residual": True}
    if "scale" in case.words:
        options["scale"] = float(case.words["scale"])
    if "mask" in values:
        options["mask"] = jnp.asarray(values["mask"] != 0)
    if "bias" in values:
        options["bias"] = jnp.asarray(values["bias"], TYPES[case.q_type])
    if "window" in case.lists:
        options["local_window_size"] = tuple(case.lists["window"])
    for key, name in (("qlen", "query_seq_lengths"),
                      ("kvlen", "key_value_seq_lengths")):
        if key in case.lists:
            options[name] = jnp.asarray(case.lists[key], jnp.int32)
    o, lse = jax.nn.dot_product_attention(given("q"), given("k"), given("v"),
                                          **options)
    answers = {"o": np.asarray(o, np.float64).transpose(0, 2, 1, 3)}
    # For half types jax rounds lse to the type of k.
    if case.q_type != "f32":
        return answers
    return {**answers,
            "lse": np.asarray(lse, np.float64).transpose(0, 2, 1)}


ROWS = (
    ("plain", "f32,B2,H3,Tq4,Tk6,d8", "no option"),
    ("f16", "f16,B1,H2,Tq3,Tk5,d8", "storage of f16"),
    ("bf16", "bf16,B1,H2,Tq3,Tk5,d8", "storage of bf16"),
    ("gqa", "f32,B2,H6,Hkv2,Tq3,Tk4,d4", "grouped heads"),
    ("mqa", "f32,B1,H4,Hkv1,Tq3,Tk4,d4", "one key head"),
    ("bthd", "f32,B2,H2,Tq3,Tk4,d4,layout=bthd", "tensors of [B,T,H,d]"),
    ("scale", "f32,B1,H2,Tq3,Tk4,d4,scale=0.3", "a scale that is given"),
    ("causal", "f32,B1,H2,Tq5,Tk5,d4,causal=tl", "is_causal"),
    ("causal_more_keys", "f32,B1,H2,Tq3,Tk6,d4,causal=tl",
     "is_causal begins at the top left"),
    ("causal_more_queries", "f32,B1,H2,Tq6,Tk3,d4,causal=tl",
     "is_causal with more queries than keys"),
    ("causal_bf16", "bf16,B1,H2,Tq4,Tk4,d8,causal=tl", "is_causal in bf16"),
    ("mask", "f32,B2,H2,Tq3,Tk5,d4,mask=file", "a mask of all extents"),
    ("mask_qk", "f32,B2,H2,Tq3,Tk5,d4,mask=file.qk", "a mask that is "
     "broadcast"),
    ("mask_causal", "f32,B1,H2,Tq4,Tk4,d4,causal=tl,mask=file.hqk",
     "a mask and is_causal: both count"),
    ("bias", "f32,B2,H2,Tq3,Tk5,d4,bias=file", "a bias of all extents"),
    ("bias_h", "f32,B2,H2,Tq3,Tk5,d4,bias=file.hqk", "a bias per head"),
    ("bias_causal", "f32,B1,H2,Tq4,Tk4,d4,causal=tl,bias=file.qk",
     "a bias and is_causal"),
    ("window", "f32,B1,H2,Tq6,Tk6,d4,window=2.1", "local_window_size (2, 1)"),
    ("window_causal", "f32,B1,H2,Tq6,Tk6,d4,causal=tl,window=2.0",
     "local_window_size with is_causal"),
    ("window_more_keys", "f32,B1,H2,Tq3,Tk6,d4,causal=tl,window=1.0",
     "local_window_size with is_causal begins at the top left"),
    ("kv_len", "f32,B3,H2,Tq3,Tk5,d4,kvlen=5.1.3", "key_value_seq_lengths"),
    ("lengths", "f32,B2,H2,Tq3,Tk5,d4,qlen=3.2,kvlen=4.5",
     "query_seq_lengths and key_value_seq_lengths"),
    ("lengths_causal_gqa", "f32,B2,H4,Hkv2,Tq4,Tk4,d4,causal=tl,qlen=4.3,"
     "kvlen=4.3", "lengths with is_causal and grouped heads"),
    ("large_scores", "f32,B1,H2,Tq3,Tk6,d8,scale=1",
     "scores far beyond what exp takes"))
DIALECTS = {"mask": "masked_nonfinite = not_ignored",
            "mask_causal": "mask_and_causal = both"}


def make():
    generator = Generator(__file__, "jax", f"jax {jax.__version__}, CPU")
    for name, case, pins in ROWS:
        large = {"q": 20, "k": 20} if name == "large_scores" else {}
        add_answered(generator, name, case + FILES,
                     "dot_product_attention: " + pins, answer,
                     dialect=DIALECTS.get(name, ""), sizes=large,
                     mask=some_key_each(case, name))
    add_answered(
        generator, "empty_row", "f32,B1,H1,Tq3,Tk4,d4,mask=file.q" + FILES,
        "dot_product_attention: a row without a key is the mean of all values",
        without_lse, dialect="empty_row = mean\nempty_row_lse = unspecified",
        mask=[1, 0, 1])
    add_answered(
        generator, "empty_row_kv_len",
        "f32,B2,H1,Tq3,Tk4,d4,mask=file.q,kvlen=4.2" + FILES,
        "dot_product_attention: a row without a key in a member with fewer "
        "keys than there is room for",
        without_lse,
        dialect="empty_row = unspecified\nempty_row_lse = unspecified",
        mask=[1, 0, 1])
    return generator


def some_key_each(case, name):
    """Masks in which every row sees its own key, so that none is empty."""
    if "mask=" not in case:
        return None
    shape = {"mask": (2, 2, 3, 5), "mask_qk": (1, 1, 3, 5),
             "mask_causal": (1, 2, 4, 4)}[name]
    drawn = np.random.RandomState(3).randint(0, 2, shape)
    return drawn | np.eye(shape[2], shape[3], dtype=int)


def without_lse(case, values):
    return {"o": answer(case, values)["o"]}
