# SPDX-License-Identifier: Apache-2.0
"""Workloads in the schema of FlashInfer Trace: paged decode, ragged prefill."""
import json
import sys

import numpy as np
import pytest

import qkvet
from qkvet import trace


def axis(value=None):
    return {"type": "var"} if value is None else {"type": "const", "value": value}


def tensor(*shape, dtype="float32"):
    return {"shape": list(shape) or None, "dtype": dtype}


AXES = {"num_qo_heads": axis(4), "num_kv_heads": axis(2), "head_dim": axis(16)}
OUTPUTS = {"output": tensor("total_q", "num_qo_heads", "head_dim"),
           "lse": tensor("total_q", "num_qo_heads")}


def written(tmp_path, definition, workload, tables):
    from qkvet.call import write_safetensors
    write_safetensors(tmp_path / "tables.safetensors", tables)
    inputs = dict(workload["inputs"])
    inputs.update((name, {"type": "safetensors", "path": "tables.safetensors",
                          "tensor_key": name}) for name in tables)
    (tmp_path / "d.json").write_text(json.dumps(definition))
    (tmp_path / "w.jsonl").write_text(json.dumps({
        "definition": definition["name"], "solution": None, "evaluation": None,
        "workload": {**workload, "inputs": inputs}}) + "\n")
    return tmp_path / "d.json", tmp_path / "w.jsonl"


def one_row(q, k, v, scale):
    """q [H, d], k and v [T, Hkv, d]: o [H, d] and lse [H] in base 2."""
    k, v = (np.repeat(one, q.shape[0] // one.shape[1], 1) for one in (k, v))
    scores = np.einsum("hd,thd->ht", q, k) * np.float32(scale)
    if scores.shape[1] == 0:
        return np.zeros_like(q), np.full(len(q), -np.inf, np.float32)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    return (np.einsum("ht,thd->hd", weights / total, v),
            ((top + np.log(total))[:, 0] / np.float32(np.log(2))))


def decode(q, k_cache, v_cache, kv_indptr, kv_indices, kv_last_page_len,
           sm_scale, lost=0):
    rows = []
    for n in range(len(q)):
        pages = kv_indices[kv_indptr[n]:kv_indptr[n + 1]]
        tokens = len(pages) * k_cache.shape[1]
        if len(pages):
            tokens += kv_last_page_len[n] - k_cache.shape[1] - lost
        k, v = (cache[pages].reshape(-1, *cache.shape[2:])[:tokens]
                for cache in (k_cache, v_cache))
        rows.append(one_row(q[n], k, v, sm_scale))
    return tuple(np.stack(part) for part in zip(*rows))


def ragged(q, k, v, qo_indptr, kv_indptr, sm_scale, shift=0):
    o, lse = np.zeros_like(q), np.zeros(q.shape[:2], q.dtype)
    for n in range(len(qo_indptr) - 1):
        rows = range(qo_indptr[n], qo_indptr[n + 1])
        first, last = kv_indptr[n], kv_indptr[n + 1]
        for place, row in enumerate(rows):
            seen = last - (len(rows) - 1 - place) + shift
            o[row], lse[row] = one_row(q[row], k[first:max(seen, first)],
                                       v[first:max(seen, first)], sm_scale)
    return o, lse


def paged_files(tmp_path):
    cache = ("num_pages", "page_size", "num_kv_heads", "head_dim")
    definition = {
        "name": "gqa_paged_decode_small", "op_type": "gqa_paged",
        "axes": {**AXES, "page_size": axis(4), "batch_size": axis()},
        "inputs": {"q": tensor("batch_size", "num_qo_heads", "head_dim"),
                   "k_cache": tensor(*cache), "v_cache": tensor(*cache),
                   "kv_indptr": tensor("len_indptr", dtype="int32"),
                   "kv_indices": tensor("num_kv_indices", dtype="int32"),
                   "kv_last_page_len": tensor("batch_size", dtype="int32"),
                   "sm_scale": tensor()},
        "outputs": OUTPUTS}
    random = {"type": "random"}
    return written(
        tmp_path, definition,
        {"uuid": "one", "axes": {"batch_size": 3, "num_pages": 9},
         "inputs": {"q": random, "k_cache": random, "v_cache": random,
                    "sm_scale": {"type": "scalar", "value": 0.25}}},
        {"kv_indptr": np.array([0, 2, 2, 5], np.int32),
         "kv_indices": np.array([7, 0, 3, 8, 1], np.int32),
         "kv_last_page_len": np.array([3, 0, 4], np.int32)})


def test_paged_decode(tmp_path):
    files = paged_files(tmp_path)
    reports = trace.check(decode, *files)
    assert [one.ok for one in reports] == [True], reports[0].text
    lost = trace.check(lambda **inputs: decode(**inputs, lost=1), *files)
    assert not lost[0].ok
    assert "one" in lost[0].text


SOLUTION = """
import numpy as np

from helper import one_row

def run(q, k_cache, v_cache, kv_indptr, kv_indices, kv_last_page_len, sm_scale%s):
    o, lse = np.zeros_like(q), np.zeros(q.shape[:2], q.dtype)
    for n in range(len(q)):
        pages = kv_indices[kv_indptr[n]:kv_indptr[n + 1]]
        tokens = len(pages) * k_cache.shape[1]
        if len(pages):
            tokens += kv_last_page_len[n] - k_cache.shape[1]
        o[n], lse[n] = one_row(q[n], *(
            one[pages].reshape(-1, *one.shape[2:])[:tokens]
            for one in (k_cache, v_cache)), sm_scale * %s)
    %s
"""


def solution_file(tmp_path, more="", factor="1", end="return o, lse", **spec):
    import inspect as source
    helper = "import numpy as np\n\n" + source.getsource(one_row)
    path = tmp_path / "solution.json"
    path.write_text(json.dumps({
        "name": "one", "definition": "gqa_paged_decode_small", "author": "test",
        "spec": {"language": "python", "target_hardware": ["cpu"],
                 "entry_point": "main.py::run", **spec},
        "sources": [{"path": "main.py", "content": SOLUTION % (more, factor, end)},
                    {"path": "helper.py", "content": helper}]}))
    return path


@pytest.mark.parametrize("more,end", [
    ("", "return o, lse"),
    (", output, out_lse", "output[...], out_lse[...] = o, lse")])
def test_a_solution_file(tmp_path, more, end):
    files = paged_files(tmp_path)
    for module in ("main", "helper"):
        sys.modules.pop(module, None)
    one = trace.check(solution_file(tmp_path, more, end=end), *files)
    assert one[0].ok, one[0].text
    sys.modules.pop("helper", None)
    wrong = trace.check(solution_file(tmp_path, more, "1.01", end), *files)
    assert not wrong[0].ok


def test_a_solution_that_cannot_be_run_is_one_line(tmp_path):
    files = paged_files(tmp_path)
    for spec, said in (({"language": "cuda"}, "language 'cuda'; allowed: python"),
                       ({"entry_point": "run"}, "entry_point 'run'; allowed")):
        with pytest.raises(qkvet.WrongUse, match=said):
            trace.check(solution_file(tmp_path, **spec), *files)


def test_ragged_causal_prefill(tmp_path):
    definition = {
        "name": "gqa_ragged_prefill_causal_small", "op_type": "gqa_ragged",
        "axes": {**AXES, "total_q": axis(), "total_kv": axis()},
        "inputs": {"q": tensor("total_q", "num_qo_heads", "head_dim"),
                   "k": tensor("total_kv", "num_kv_heads", "head_dim"),
                   "v": tensor("total_kv", "num_kv_heads", "head_dim"),
                   "qo_indptr": tensor("len_indptr", dtype="int32"),
                   "kv_indptr": tensor("len_indptr", dtype="int32"),
                   "sm_scale": tensor()},
        "outputs": OUTPUTS}
    random = {"type": "random"}
    files = written(
        tmp_path, definition,
        {"axes": {"total_q": 9, "total_kv": 12},
         "inputs": {"q": random, "k": random, "v": random,
                    "sm_scale": {"type": "scalar", "value": 0.25}}},
        {"qo_indptr": np.array([0, 4, 9], np.int32),
         "kv_indptr": np.array([0, 4, 12], np.int32)})
    reports = trace.check(ragged, *files)
    assert reports[0].ok, reports[0].text
    assert not trace.check(lambda **inputs: ragged(**inputs, shift=-1),
                           *files)[0].ok


def test_other_operations_are_one_line(tmp_path):
    (tmp_path / "d.json").write_text('{"op_type": "gemm"}')
    with pytest.raises(qkvet.WrongUse, match="'gemm'; allowed: gqa_paged"):
        trace.check(decode, tmp_path / "d.json", tmp_path / "w.jsonl")
