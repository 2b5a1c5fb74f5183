# SPDX-License-Identifier: Apache-2.0
"""FlashInfer Trace: judges a function on the shapes and index tables of real
serving.

    for one in qkvet.trace.check(run, "gqa_paged_decode_h32_kv8_d128_ps64.json",
                                 "gqa_paged_decode_h32_kv8_d128_ps64.jsonl"):
        one.raise_on_failure()

A definition names inputs, outputs and extents. A line of a workload file has the
extents and the source of each input; random inputs are N(0,1) with a seed. The
operations gqa_paged (decode, and causal prefill) and gqa_ragged are judged; the
definition's own reference is not run. Source: the schema of FlashInfer-Bench
(docs/flashinfer-trace: definition, workload, solution).
"""
import atexit
import dataclasses
import inspect
import json
import pathlib
import shutil
import tempfile

import numpy as np

from .arrays import framework
from .call import as_numpy, assert_close, dtype_of, read_safetensors
from .declare import WrongUse
from .imported import find
from .report import LawFailed, Report

# Sequences of one varlen call that QKVet judges at once.
_MOST_MEMBERS = 64


@dataclasses.dataclass(frozen=True)
class Definition:
    """The parts of a definition file that are needed here."""
    name: str
    op_type: str
    axes: dict  # constants by name
    inputs: dict
    outputs: dict

    @property
    def causal(self):
        return "causal" in self.name


def read_definition(path):
    """Reads a Definition. WrongUse for an unsupported operation."""
    fields = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    if fields.get("op_type") not in ("gqa_paged", "gqa_ragged"):
        raise WrongUse(f"{path}: op_type {fields.get('op_type')!r}; allowed: "
                       "gqa_paged, gqa_ragged")
    constants = {name: axis["value"] for name, axis in fields["axes"].items()
                 if axis["type"] == "const"}
    return Definition(fields["name"], fields["op_type"], constants,
                      fields["inputs"], fields["outputs"])


def read_workloads(path, definition):
    """The workloads of this definition in a .jsonl file."""
    with open(path, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    return [row["workload"] for row in rows
            if row["definition"] == definition.name]


def make_inputs(definition, workload, folder=".", seed=1):
    """The inputs of one workload as NumPy arrays and numbers, by name."""
    rng = np.random.default_rng(seed)
    axes = {**definition.axes, **workload["axes"]}
    inputs = {}
    for name, source in workload["inputs"].items():
        declared = definition.inputs[name]
        if source["type"] == "scalar":
            inputs[name] = source["value"]
        elif source["type"] == "safetensors":
            path = pathlib.Path(folder) / source["path"]
            inputs[name] = read_safetensors(path, source["tensor_key"])
        elif source["type"] == "random":
            shape = [axes[axis] for axis in declared["shape"]]
            inputs[name] = rng.standard_normal(shape, np.float32).astype(
                dtype_of(declared["dtype"]))
        else:
            raise WrongUse(f"{name} comes from {source['type']!r}; allowed: "
                           "scalar, safetensors, random")
    return inputs


def _members(definition, inputs):
    """For each sequence of the batch: its rows of q, its k and v."""
    q_offsets = inputs.get("qo_indptr",
                           np.arange(inputs["q"].shape[0] + 1))
    offsets = inputs["kv_indptr"]
    members = []
    for n in range(len(offsets) - 1):
        rows = slice(int(q_offsets[n]), int(q_offsets[n + 1]))
        begin, end = int(offsets[n]), int(offsets[n + 1])
        if definition.op_type == "gqa_ragged":
            keys = [inputs[name][begin:end] for name in ("k", "v")]
        else:
            pages = inputs["kv_indices"][begin:end]
            last = inputs.get("kv_last_page_len")
            size = inputs["k_cache"].shape[1]
            tokens = len(pages) * size
            if last is not None and len(pages) > 0:
                tokens -= size - int(last[n])
            keys = [inputs[name][pages].reshape(
                -1, *inputs[name].shape[2:])[:tokens]
                for name in ("k_cache", "v_cache")]
        members.append((rows, *keys))
    return members


def _judge(definition, inputs, outputs, members):
    """The report of these sequences as one call."""
    def packed(parts):  # [tokens, H, d] of each as [1, H, tokens, d]
        return np.ascontiguousarray(np.concatenate(parts).swapaxes(0, 1)[None])

    def offsets(lengths):
        return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

    rows = [member[0] for member in members]
    q = packed([inputs["q"][one] for one in rows])
    k, v = (packed([member[part] for member in members]) for part in (1, 2))
    actual = {"o": packed([outputs["output"][one] for one in rows])}
    if "lse" in outputs:
        lse = np.concatenate([outputs["lse"][one] for one in rows])
        actual["lse"] = np.ascontiguousarray(lse.T[None])
    half = q.dtype.itemsize == 2
    return assert_close(
        actual, q, k, v, scale=inputs["sm_scale"],
        causal="bottom_right" if definition.causal else None,
        cu_seqlens_q=offsets([one.stop - one.start for one in rows]),
        cu_seqlens_k=offsets([len(member[1]) for member in members]),
        precision={"preset": "flash_half"} if half else None,
        dialect={"lse_base": "base2", "empty_row": "zero",
                 "empty_row_lse": "minus_inf"})


def read_solution(path):
    """The function of a solution file. Its sources are written to a folder of this
    process, and the entry point "FILE::FUNCTION" is imported from there.
    WrongUse unless the language is Python (triton is Python, too)."""
    fields = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    spec = fields["spec"]
    if spec["language"] not in ("python", "triton"):
        raise WrongUse(f"{path}: language {spec['language']!r}; allowed: python, "
                       "triton")
    file, separator, name = spec["entry_point"].partition("::")
    if not separator or file not in [one["path"] for one in fields["sources"]]:
        raise WrongUse(f"{path}: entry_point {spec['entry_point']!r}; allowed: "
                       "FILE::FUNCTION of its sources")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="qkvet_solution_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for source in fields["sources"]:
        there = (folder / source["path"]).resolve()
        if folder.resolve() not in there.parents:
            raise WrongUse(f"{path}: source {source['path']!r} lies outside of the "
                           "solution")
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(source["content"], encoding="utf-8")
    return find(f"{folder / file}:{name}")


def _called(solution, given, definition, convert):
    """The results of a solution by the names of the outputs. A solution with a
    parameter for each output writes them and returns nothing."""
    names = list(definition.outputs)
    try:
        parameters = len(inspect.signature(solution).parameters)
    except (TypeError, ValueError):  # unknown for a built-in function
        parameters = 0
    if parameters == len(given) + len(names):
        q = given["q"]
        shapes = {"output": tuple(q.shape), "lse": tuple(q.shape[:-1])}
        made = {name: convert.give(np.full(
            shapes[name], np.nan, dtype_of(definition.outputs[name]["dtype"])))
            for name in names}
        solution(*(given[name] for name in definition.inputs), *made.values())
        return made
    returned = solution(**given)
    if isinstance(returned, dict):
        return returned
    if not isinstance(returned, (tuple, list)):
        returned = (returned,)
    return dict(zip(names, returned))


def check(solution, definition, workloads, *, arrays="numpy", folder=None, seed=1,
          most=None):
    """Judges solution(**inputs) -> (output, lse) or a dictionary, on each
    workload, by the bound of every element. Returns a list of Reports.

    solution: a function, or the path of a solution file. definition, workloads:
    paths. folder: the base of paths of tensors [that of the workloads]. arrays:
    "numpy", "torch" or "jax". seed: that of random inputs. most: the maximum
    number of workloads.
    """
    if isinstance(solution, (str, pathlib.Path)):
        solution = read_solution(solution)
    definition = read_definition(definition)
    convert = framework(arrays)
    reports = []
    for workload in read_workloads(workloads, definition)[:most]:
        inputs = make_inputs(definition, workload,
                             folder or pathlib.Path(workloads).parent, seed)
        given = {name: convert.give(one) if isinstance(one, np.ndarray) else one
                 for name, one in inputs.items()}
        returned = _called(solution, given, definition, convert)
        outputs = {name: as_numpy(one) for name, one in returned.items()}
        members = _members(definition, inputs)
        try:
            parts = [_judge(definition, inputs, outputs,
                            members[first:first + _MOST_MEMBERS])
                     for first in range(0, len(members), _MOST_MEMBERS)]
            reports.append(parts[-1])
        except LawFailed as failed:
            reports.append(Report(1, f"{workload.get('uuid', '')}{failed}", []))
    return reports
