# SPDX-License-Identifier: Apache-2.0
"""Sets of the node tests of ONNX's Attention 23 to 25: inputs from the public
generator of these tests, answers from the reference evaluator."""
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx.backend.test.case import node as node_tests
from onnx.backend.test.case.node import attention as _  # fills node_tests
from onnx.reference import ReferenceEvaluator

from golden.generate import case_text, definition
from golden.generate.sets import Generator
from golden.generate.storage import store

TYPES = {"float64": "f64", "float32": "f32", "float16": "f16",
         "bfloat16": "bf16"}
PREFIX = "test_attention_"
ORDER = ("causal", "scale", "window", "mask", "bias", "softcap", "kvlen")
AFTER_SOFTMAX = 3
UNUSED = {"softmax_precision", "q_num_heads", "kv_num_heads",
          "qk_matmul_output_mode"}  # not of a case, or said by its extents

# Found by `qkvet golden verify`: further off than an arithmetic with f32
# scores may be.
ROUNDED = ("the evaluator scales q and k, multiplies and takes the softmax in "
           "the half type of its inputs, and rounds after each of them")
FINDINGS = {PREFIX + name for name in (
    "4d_fp16", "4d_causal_fp16", "4d_gqa_with_past_and_present_fp16",
    "4d_causal_bf16", "4d_causal_padded_kv_bf16", "4d_padded_kv_bf16")}


@dataclass
class Spelled:
    """A node test on its way to a case."""
    dtype: str
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    offset: object = 0  # the key that query 0 stands at, if not of kvlen
    tokens: dict = field(default_factory=dict)  # by their keys
    options: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)
    dialect: list = field(default_factory=list)

    @property
    def extents(self):
        return self.q.shape[:3] + self.k.shape[2:3]


def wide(array):
    return np.asarray(array).astype(np.float64)


def split_heads(array, heads):
    if array.ndim == 4:
        return array
    B, T, width = array.shape
    return array.reshape(B, T, heads, width // heads).transpose(0, 2, 1, 3)


def own_letters(shape, extents):
    own = "".join(letter for letter, n in zip("bhqk", shape) if n > 1)
    own = own or "k"
    wanted = tuple(n if letter in own else 1
                   for letter, n in zip("bhqk", extents))
    if wanted != shape:
        raise ValueError(f"a mask of {shape} for {extents}")
    return own


def add_option(spelled, name, values):
    shape = (1,) * (4 - values.ndim) + values.shape
    values = values.reshape(shape)
    own = own_letters(shape, spelled.extents)
    spelled.options[name] = (values, "" if own == "bhqk" else "." + own)


def read_mask(spelled, mask):
    """True or false, or numbers to add, where -infinity hides; what is missing
    at the end of the keys is hidden."""
    missing = spelled.k.shape[2] - mask.shape[-1]
    boolean = mask.dtype == np.bool_
    mask = wide(mask)
    if boolean:
        mask = np.where(mask != 0, 0.0, -np.inf)
    if missing > 0:
        sides = [(0, 0)] * (mask.ndim - 1) + [(0, missing)]
        mask = np.pad(mask, sides, constant_values=-np.inf)
        spelled.notes.append("the mask ends before the keys do: those are "
                             "hidden")
    if np.isneginf(mask).any():
        add_option(spelled, "mask", (mask > -np.inf).astype(np.float64))
        if not boolean:
            spelled.notes.append("-infinity in its mask is said by a mask")
    finite = np.where(np.isfinite(mask), mask, 0.0)
    if finite.any():
        add_option(spelled, "bias", finite)


def place(spelled, attributes):
    """The causal rule and the window, in the words of a case where its diagonal
    is the node's, else as a mask."""
    B, H, Tq, Tk = spelled.extents
    causal = attributes.get("is_causal", 0)
    left = attributes.get("left_window_size", -1)
    right = attributes.get("right_window_size", -1)
    if not causal and left < 0 and right < 0:
        return
    if causal and spelled.offset == 0:
        spelled.tokens["causal"] = "tl"
    elif spelled.offset in ("kvlen", Tk - Tq):
        if causal:
            spelled.tokens["causal"] = "br"
    else:
        distance = np.arange(Tk)[None] - np.arange(Tq)[:, None] - spelled.offset
        sees = np.ones((Tq, Tk), bool)
        if causal:
            sees &= distance <= 0
        if left >= 0:
            sees &= distance >= -left
        if right >= 0:
            sees &= distance <= right
        if "mask" in spelled.options:
            sees = sees & (spelled.options["mask"][0] != 0)
        full = np.broadcast_to(sees, (1,) * (4 - sees.ndim) + sees.shape)
        add_option(spelled, "mask", full.astype(np.float64))
        spelled.notes.append(f"query 0 stands at key {spelled.offset}, which "
                             "no case says: its rule is in the mask")
        return
    if left >= 0 or right >= 0:
        spelled.tokens["window"] = f"{left}.{right}"


def spell(node, feeds):
    attributes = {a.name: onnx.helper.get_attribute_value(a)
                  for a in node.attribute}
    given = dict(zip(("Q", "K", "V", "mask", "past_k", "past_v", "kvlen"),
                     [feeds.get(name) for name in node.input] + [None] * 7))
    heads = [attributes.get(key) for key in ("q_num_heads", "kv_num_heads")]
    q, k, v = (split_heads(given[name], n) for name, n in
               (("Q", heads[0]), ("K", heads[1]), ("V", heads[1])))
    spelled = Spelled(TYPES[str(q.dtype)], wide(q), wide(k), wide(v))
    if given["Q"].ndim == 3:
        spelled.notes.append("heads are split from [B,T,H d]")
    if given["past_k"] is not None:
        spelled.offset = given["past_k"].shape[2]
        spelled.k = np.concatenate([wide(given["past_k"]), spelled.k], axis=2)
        spelled.v = np.concatenate([wide(given["past_v"]), spelled.v], axis=2)
        spelled.notes.append("its past keys stand in front of the new ones")
    if given["kvlen"] is not None:
        spelled.offset = "kvlen"
    if given["mask"] is not None:
        read_mask(spelled, given["mask"])
        if attributes.get("is_causal"):
            spelled.dialect.append("mask_and_causal = both")
    place(spelled, attributes)
    for name, (_, own) in spelled.options.items():
        spelled.tokens[name] = "file" + own
    if "scale" in attributes:
        spelled.tokens["scale"] = f"{attributes['scale']:.7g}"
    if attributes.get("softcap"):
        spelled.tokens["softcap"] = f"{attributes['softcap']:.7g}"
        spelled.dialect.append("softcap_order = before_mask")
    if given["kvlen"] is not None:
        lengths = [str(int(n)) for n in given["kvlen"].reshape(-1)]
        spelled.tokens["kvlen"] = ".".join(lengths)
    return spelled, attributes


def text_of(spelled):
    (B, H, Tq, d), (_, Hkv, Tk, dv) = spelled.q.shape, spelled.v.shape
    tokens = [spelled.dtype, f"B{B}", f"H{H}"]
    tokens += [f"Hkv{Hkv}"] * (Hkv != H) + [f"Tq{Tq}", f"Tk{Tk}", f"d{d}"]
    tokens += [f"dv{dv}"] * (dv != d)
    tokens += [f"{key}={spelled.tokens[key]}" for key in ORDER
               if key in spelled.tokens]
    return ",".join(tokens + ["q=file", "k=file", "v=file"])


def answers_of(test, feeds, spelled, attributes):
    """The reference evaluator's answers; the generator's own must be the same."""
    run = ReferenceEvaluator(test.model).run(None, feeds)
    for mine, theirs in zip(run, test.data_sets[0][1]):
        np.testing.assert_allclose(wide(mine), wide(theirs), rtol=1e-6,
                                   err_msg=test.name)
    given = dict(zip(test.model.graph.node[0].output, run))
    o = split_heads(run[0], attributes.get("q_num_heads"))
    outputs = {"o": store(wide(o), spelled.dtype)}
    if attributes.get("qk_matmul_output_mode") == AFTER_SOFTMAX:
        outputs["weights"] = store(wide(list(given.values())[-1]),
                                   spelled.dtype)
        spelled.notes.append("returns the weights")
    elif len(test.model.graph.node[0].output) == 4:
        spelled.notes.append("its raw scores are no output of a case")
    return outputs


def unspelled(spelled, attributes, feeds):
    """Why a node test is no case, or ""."""
    values = [array for array in feeds.values() if array.dtype != np.bool_]
    if any(np.isnan(wide(array)).any() or np.isposinf(wide(array)).any()
           for array in values):
        return "NaN or infinity among its inputs"
    unknown = set(attributes) - UNUSED - {
        "scale", "is_causal", "softcap", "left_window_size",
        "right_window_size"}
    return f"attributes {sorted(unknown)}" if unknown else ""


def add_test(generator, test, left_out):
    model = test.model
    node = model.graph.node[0]
    feeds = dict(zip((name for name in node.input if name),
                     test.data_sets[0][0]))
    spelled, attributes = spell(node, feeds)
    why = unspelled(spelled, attributes, feeds)
    if why:
        left_out[test.name] = why
        return
    case = text_of(spelled)
    parsed = case_text.parse(case)
    values = {"q": spelled.q, "k": spelled.k, "v": spelled.v,
              **{key: option[0] for key, option in spelled.options.items()}}
    inputs = {name: store(values[name], dtype) for name, (shape, dtype)
              in case_text.input_shapes(parsed).items()}
    outputs = answers_of(test, feeds, spelled, attributes)
    mine = definition.attention(parsed,
                                {key: t.values() for key, t in inputs.items()},
                                "empty_row = nan")
    if np.isnan(mine["o"]).any():
        spelled.dialect.append("empty_row = zero")
    opset = model.opset_import[0].version
    pins = f"node test {test.name} of opset {opset}"
    generator.add_set(test.name.removeprefix(PREFIX), case,
                      "; ".join([pins] + spelled.notes), "storage", inputs,
                      outputs, dialect="\n".join(spelled.dialect),
                      finding=ROUNDED if test.name in FINDINGS else "")


def make():
    generator = Generator(__file__, "onnx",
                          f"onnx {onnx.__version__}, reference evaluator")
    left_out = {}
    for test in node_tests._NodeTestCases:
        name = test.name
        if not name.startswith(PREFIX) or "_expanded" in name:
            continue
        add_test(generator, test, left_out)
    for name, why in left_out.items():
        print(f"  left out: {name}: {why}")
    return generator
