# SPDX-License-Identifier: Apache-2.0
"""Sets of PyTorch on the CPU: scaled_dot_product_attention, and
nn.MultiheadAttention as a layer."""
import numpy as np
import torch
from torch.nn import functional

from golden.generate.draws import add_answered
from golden.generate.sets import Generator

FILES = ",q=file,k=file,v=file"
LAYER = ",x=file,w=file"
TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16,
         "bf16": torch.bfloat16}


def tensor(values, dtype):
    return torch.tensor(values, dtype=torch.float64).to(TYPES[dtype])


def answer(case, values):
    q, k, v = (tensor(values[name], case.q_type) for name in "qkv")
    options = {"is_causal": case.causal == "tl",
               "enable_gqa": case.Hkv != case.H}
    if "scale" in case.words:
        options["scale"] = float(np.float32(case.words["scale"]))
    if "mask" in values:
        options["attn_mask"] = torch.tensor(values["mask"] != 0)
    if "bias" in values:
        options["attn_mask"] = tensor(values["bias"], case.q_type)
    with torch.no_grad():
        o = functional.scaled_dot_product_attention(q, k, v, **options)
    return {"o": o.to(torch.float64).numpy()}


def layer(case, values):
    """nn.MultiheadAttention keeps its matrices transposed, those of q, k and v
    below one another."""
    dtype = TYPES[case.q_type]
    biased = "b_q" in values
    module = torch.nn.MultiheadAttention(case.D, case.H, bias=biased,
                                         batch_first=True, dtype=dtype)
    matrices = {"in_proj_weight": np.concatenate(
                    [values["w_" + letter].T for letter in "qkv"]),
                "out_proj.weight": values["w_o"].T}
    if biased:
        matrices["in_proj_bias"] = np.concatenate(
            [values["b_" + letter] for letter in "qkv"])
        matrices["out_proj.bias"] = values["b_o"]
    module.load_state_dict({key: tensor(rows, case.q_type)
                            for key, rows in matrices.items()})
    x = tensor(values["x"], case.q_type)
    mask = None
    if case.causal:
        mask = torch.ones(case.T, case.T, dtype=torch.bool).triu(1)
    with torch.no_grad():
        y, _ = module.eval()(x, x, x, attn_mask=mask)
    return {"y": y.to(torch.float64).numpy()}


ROWS = (
    ("plain", "f32,B2,H3,Tq4,Tk6,d8", "no option"),
    ("f64", "f64,B1,H2,Tq3,Tk5,d8", "storage of f64"),
    ("f16", "f16,B1,H2,Tq3,Tk5,d8", "storage of f16"),
    ("bf16", "bf16,B1,H2,Tq3,Tk5,d8", "storage of bf16"),
    ("value_width", "f32,B1,H2,Tq3,Tk5,d8,dv3", "values narrower than keys"),
    ("scale", "f32,B1,H2,Tq3,Tk4,d4,scale=0.3", "a scale that is given"),
    ("gqa", "f32,B2,H6,Hkv2,Tq3,Tk4,d4", "enable_gqa"),
    ("mqa", "f32,B1,H4,Hkv1,Tq3,Tk4,d4", "enable_gqa with one key head"),
    ("causal", "f32,B1,H2,Tq5,Tk5,d4,causal=tl", "is_causal"),
    ("causal_more_keys", "f32,B1,H2,Tq3,Tk6,d4,causal=tl",
     "is_causal begins at the top left"),
    ("causal_more_queries", "f32,B1,H2,Tq6,Tk3,d4,causal=tl",
     "is_causal with more queries than keys"),
    ("causal_gqa_f64", "f64,B1,H4,Hkv2,Tq4,Tk4,d4,causal=tl",
     "is_causal and grouped heads in f64"),
    ("causal_bf16", "bf16,B1,H2,Tq4,Tk4,d8,causal=tl", "is_causal in bf16"),
    ("causal_long", "f32,B1,H1,Tq33,Tk33,d4,causal=tl",
     "is_causal over more than a vector of keys"),
    ("mask", "f32,B2,H2,Tq3,Tk5,d4,mask=file", "a boolean attn_mask"),
    ("mask_qk", "f32,B2,H2,Tq3,Tk5,d4,mask=file.qk",
     "a boolean attn_mask that is broadcast"),
    ("bias", "f32,B2,H2,Tq3,Tk5,d4,bias=file", "a float attn_mask"),
    ("bias_qk", "f32,B2,H2,Tq3,Tk5,d4,bias=file.qk",
     "a float attn_mask that is broadcast"),
    ("large_scores", "f32,B1,H2,Tq3,Tk6,d8,scale=1",
     "scores far beyond what exp takes"))
LAYERS = (
    ("plain", "f32,B2,H2,T3,D8", "no mask, no biases"),
    ("causal_biases", "f32,B2,H2,T5,D8,causal,biases=qkvo",
     "a causal mask and biases"),
    ("one_head", "f32,B1,H1,T4,D4,causal,biases=qkvo", "one head"),
    ("f64", "f64,B1,H4,T4,D8,causal,biases=qkvo", "storage of f64"))
MASKS = {"mask": (2, 2, 3, 5), "mask_qk": (1, 1, 3, 5)}


def make():
    generator = Generator(__file__, "torch",
                          f"torch {torch.__version__}, CPU")
    for name, case, pins in ROWS:
        large = {"q": 20, "k": 20} if name == "large_scores" else {}
        mask = None
        if name in MASKS:
            drawn = np.random.RandomState(4).randint(0, 2, MASKS[name])
            mask = drawn | np.eye(*MASKS[name][2:], dtype=int)
        add_answered(generator, name, case + FILES,
                     "scaled_dot_product_attention: " + pins, answer,
                     sizes=large, mask=mask)
    add_answered(
        generator, "empty_row", "f32,B1,H1,Tq3,Tk4,d4,mask=file.q" + FILES,
        "scaled_dot_product_attention: a row without a key is zero", answer,
        dialect="empty_row = zero", mask=[1, 0, 1])
    for name, case, pins in LAYERS:
        bias = ",bias=file" if "biases=" in case else ""
        add_answered(generator, "layer_" + name, case + LAYER + bias,
                     "nn.MultiheadAttention: " + pins, layer)
    return generator
