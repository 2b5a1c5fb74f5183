# SPDX-License-Identifier: Apache-2.0
"""The calls of a plan, and what answers them: files as README.txt in the
folder of a plan has them."""
import collections
import json
import pathlib

import numpy as np

# Tensors and options of a call beside q, k and v, as `judge --ask --options` names them.
TENSOR_OPTIONS = {"mask": "mask", "bias": "bias", "sink": "sink",
                  "slopes": "alibi", "q_len": "lengths", "kv_len": "lengths",
                  "cu_seqlens_q": "packed", "cu_seqlens_k": "packed",
                  "rope_cos": "rope"}


class Refused(Exception):
    """What the library has no word for, or says no to: why, in one line."""


def refuse_if(condition, why):
    if condition:
        raise Refused(why)


# fields: what plan.json says of the call (B H Hkv Tq Tk d dv dtype causal scale
# window_left window_right softcap ...), given: arrays by name, wanted: names.
Call = collections.namedtuple("Call", "fields given wanted")


def bfloat16():
    try:
        import ml_dtypes
    except ImportError:
        raise Refused("bf16 needs the package ml_dtypes") from None
    return ml_dtypes.bfloat16


def read_call(plan, row):
    """One row of "calls" in plan.json, with its inputs."""
    given = {}
    for name, tensor in row["inputs"].items():
        array = np.load(plan / f"{tensor['stored']}.npy")
        if tensor["dtype"] == "bf16":  # its bits
            array = array.view(bfloat16())
        given[name] = array
    return Call(row, given, row["outputs"])


def with_finite_tails(call):
    """The call with zeros in k and v beyond the lengths, where a plan has NaN:
    for libraries that give those keys a weight of 0 and add them up."""
    if "kv_len" not in call.given:
        return call
    given = dict(call.given)
    beyond = (np.arange(call.fields["Tk"])[None, None, :, None]
              >= given["kv_len"][:, None, None, None])
    for name in "kv":
        given[name] = np.where(beyond, given[name].dtype.type(0), given[name])
    return call._replace(given=given)


def write_answer(plan, call, outputs):
    name_of_call = call.fields["call"]
    for name, tensor in call.wanted.items():
        array = np.asarray(outputs[name])
        if list(array.shape) != tensor["shape"]:
            raise SystemExit(f"{name_of_call}: {name} has the shape {array.shape}, "
                             f"wanted is {tensor['shape']}")
        types = {"f64": np.float64, "f32": np.float32, "f16": np.float16}
        if tensor["dtype"] == "bf16":
            array = array.astype(bfloat16()).view(np.uint16)
        else:
            array = array.astype(types[tensor["dtype"]])
        np.save(plan / f"{name_of_call}.{name}.npy", array)


def options_of(call):
    """What a kernel must be able to do to take the call."""
    fields, words = call.fields, set()
    if fields["operation"] != "forward":
        words.add("layer")
        return words
    if fields["causal"] != "none":
        words.add("causal=tl" if fields["causal"] == "top_left" else "causal=br")
    if fields["Hkv"] != fields["H"]:
        words.add("gqa")
    if fields["Tq"] != fields["Tk"]:
        words.add("cross_lengths")
    if fields["dv"] != fields["d"]:
        words.add("value_width")
    if (fields["window_left"], fields["window_right"]) != (-1, -1):
        words.add("window")
    if fields["softcap"] != 0:
        words.add("softcap")
    words.update(word for name, word in TENSOR_OPTIONS.items()
                 if name in call.given)
    words.update(word for word in ("lse", "weights") if word in call.wanted)
    return words


def answer_plan(folder, attention, options):
    """Calls attention(call) -> outputs by name for all that `options` (words of
    `judge --ask --options`) allow. What is refused, by reason: how many calls."""
    plan = pathlib.Path(folder)
    refused = collections.Counter()
    allowed = set(options)
    if "causal" in allowed:
        allowed |= {"causal=tl", "causal=br"}
    for row in json.loads((plan / "plan.json").read_text())["calls"]:
        try:
            call = read_call(plan, row)
            unknown = options_of(call) - allowed
            refuse_if(unknown, "takes no " + ", ".join(sorted(unknown)))
            outputs = attention(call)
        except Refused as why:
            refused[str(why)] += 1
            (plan / f"{row['call']}.refused.txt").write_text(f"{why}\n")
            continue
        write_answer(plan, call, outputs)
    return refused
