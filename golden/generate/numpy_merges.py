# SPDX-License-Identifier: Apache-2.0
"""Sets of merged attention states: o and lse of parts of the keys become those of
all of them. A case spells the lse of the states as its bias, their o as its v."""
import numpy as np

from golden.generate import case_text, definition
from golden.generate.draws import draw
from golden.generate.storage import store

DIALECT = "empty_row = zero\nempty_row_lse = minus_inf"


def merged(states, lse, counts):
    """states [B,H,n,dv] and lse [B,H,n], of which counts[b] count in row b. As
    FlashAttention-2 has it: sum e^lse o / sum e^lse, and log of the sum."""
    counted = np.arange(lse.shape[2]) < np.reshape(counts, (-1, 1, 1))
    lse = np.where(counted, lse, -np.inf)
    most = lse.max(axis=2, keepdims=True, initial=-np.inf)
    most = np.where(most > -np.inf, most, 0)
    shares = np.exp(lse - most)
    total = shares.sum(axis=2, keepdims=True)
    seen = np.where(shares[..., None] > 0, states, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        o = np.einsum("bhn,bhnc->bhc", shares, seen) / total
        whole = most + np.log(total)
    return np.where(total > 0, o, 0)[:, :, None], whole


def answer(case, inputs):
    o, lse = merged(inputs["v"], inputs["bias"][:, :, 0],
                    case.lists.get("kvlen", [case.Tk] * case.B))
    return {"o": o, "lse": lse}


def add_merge(generator, name, case, pins, change=None, sizes=None):
    text = case.replace("merge", "merge,bias=file,v=file")
    parsed = case_text.parse(text)
    inputs = draw("merge_" + name, parsed, sizes or {"bias": 2})
    if change:
        values = {key: tensor.values() for key, tensor in inputs.items()}
        change(values["v"], values["bias"][:, :, 0])
        inputs = {key: store(values[key], tensor.dtype)
                  for key, tensor in inputs.items()}
    given = answer(parsed, {key: t.values() for key, t in inputs.items()})
    generator.add_set("merge_" + name, text, pins, "f64", inputs,
                      {key: store(values, "f64") for key, values in given.items()},
                      dialect=DIALECT)


def parts_of_attention(v, lse):
    """States that are what they are in use: attention over three parts of 12 keys,
    by the definition."""
    rng = np.random.RandomState(5)
    shape = v.shape
    for part in range(shape[2]):
        case = case_text.parse(f"f32,B{shape[0]},H{shape[1]},Tq1,Tk4,d8,"
                               f"dv{shape[3]},q=file,k=file,v=file")
        answer = definition.attention(case, {
            "q": np.ones((shape[0], shape[1], 1, 8)),
            "k": rng.randn(shape[0], shape[1], 4, 8),
            "v": rng.randn(shape[0], shape[1], 4, shape[3])})
        v[:, :, part], lse[:, :, part] = answer["o"][:, :, 0], answer["lse"][..., 0]


def write(generator):
    rows = (
        ("two", "f32,B3,H2,Tk2,dv4,merge", "two states of each row", None),
        ("one", "f32,B2,H2,Tk1,dv4,merge", "a single state is the whole", None),
        ("many", "f32,B2,H3,Tk7,dv5,merge", "seven states of each row", None),
        ("equal", "f32,B2,H1,Tk4,dv3,merge",
         "equal lse: the mean of the states, and log 4 more",
         lambda v, lse: np.copyto(lse, 3.0)),
        ("far", "f32,B2,H2,Tk3,dv4,merge",
         "lse of some 10^4: without the maximum the exponentials overflow",
         lambda v, lse: np.copyto(lse, lse + 1e4)),
        ("far_below", "f32,B2,H2,Tk3,dv4,merge",
         "lse of some -10^4: without the maximum all shares are 0",
         lambda v, lse: np.copyto(lse, lse - 1e4)),
        ("apart", "f32,B2,H2,Tk2,dv4,merge",
         "a state far ahead takes everything",
         lambda v, lse: np.copyto(lse, np.broadcast_to([40.0, -60.0], lse.shape))),
        ("empty_state", "f32,B2,H2,Tk3,dv4,merge",
         "a state whose lse is -infinity has seen no key and takes nothing",
         lambda v, lse: np.copyto(lse[:, :, 1], -np.inf)),
        ("all_empty", "f32,B2,H2,Tk2,dv4,merge",
         "states without a key make a row without one",
         lambda v, lse: np.copyto(lse[0], -np.inf)),
        ("ragged", "f32,B4,H2,Tk3,dv4,merge,kvlen=2.0.3.1",
         "rows of two, no, three states and one, by indptr", None),
        ("heads_first", "f32,B3,H2,Tk2,dv4,merge,layout=bthd",
         "every lse lies as [n,H,T]", None),
        ("parts", "f32,B2,H2,Tk3,dv4,merge",
         "attention over three parts of the keys is that over all of them",
         parts_of_attention),
        ("f64", "f64,B2,H2,Tk3,dv4,merge", "states and lse of f64", None),
        ("f16", "q=f32,kv=f16,o=f16,B2,H2,Tk3,dv4,merge", "states of f16", None),
        ("bf16", "q=f32,kv=bf16,o=bf16,B2,H2,Tk3,dv4,merge", "states of bf16", None))
    for name, case, pins, change in rows:
        add_merge(generator, name, case, pins, change)
