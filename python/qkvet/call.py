# SPDX-License-Identifier: Apache-2.0
"""One given call, judged by the bound of every element."""
import contextlib
import ctypes
import dataclasses
import json
import os
import struct
import tempfile

import numpy as np

from . import _program
from .arrays import host_array, ml_dtypes
from .declare import WrongUse, declaration
from .imported import in_worker
from .report import LawFailed, report_of

# Names of types in safetensors' format.
_NAMES = {"float64": "F64", "float32": "F32", "float16": "F16",
          "bfloat16": "BF16", "int64": "I64", "int32": "I32", "uint8": "U8",
          "bool": "BOOL", "int8": "I8"}


def as_numpy(array):
    """The NumPy array of an array of any library, or of numbers."""
    if hasattr(array, "detach"):  # torch
        array = array.detach().cpu()
        if str(array.dtype) == "torch.bfloat16":
            import torch
            bits = array.contiguous().view(torch.int16).numpy()
            return bits.view(ml_dtypes().bfloat16)
        return array.numpy()
    if hasattr(array, "__dlpack__") and not hasattr(array, "__array__"):
        return host_array(array)
    return np.asarray(array)


def write_safetensors(path, tensors):
    header, at, parts = {}, 0, []
    for name, array in tensors.items():
        if array.dtype.name not in _NAMES:
            raise WrongUse(f"{name} is {array.dtype}; allowed: "
                           + ", ".join(_NAMES))
        data = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": _NAMES[array.dtype.name],
                        "shape": list(array.shape),
                        "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def dtype_of(name):
    """NumPy's type of a name such as "bfloat16"."""
    return np.dtype(ml_dtypes().bfloat16 if name == "bfloat16" else name)


def read_safetensors(path, key=None):
    """All tensors of a file by name, or the one named `key`, as NumPy arrays.
    WrongUse if the file lacks it."""
    types = {name: numpy for numpy, name in _NAMES.items()}
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        header.pop("__metadata__", None)
        if key is not None and key not in header:
            raise WrongUse(f"{path}: no tensor {key}")

        def tensor(row):
            first, end = row["data_offsets"]
            file.seek(8 + size + first)
            return np.frombuffer(file.read(end - first), dtype_of(
                types[row["dtype"]])).reshape(row["shape"]).copy()

        if key is not None:
            return tensor(header[key])
        return {name: tensor(row) for name, row in header.items()}


# Keys of a case for tensors that are lists of numbers.
_NUMBERS = {"q_len": "qlen", "kv_len": "kvlen", "cu_seqlens_q": "cuq",
            "cu_seqlens_k": "cuk"}
_TENSORS = ("mask", "bias", "sink", "slopes")


def split_tensors(tensors):
    """Data tensors as NumPy arrays, and the words of a case for lengths and
    offsets. WrongUse for an unknown name."""
    data, words = {}, []
    for name, array in tensors.items():
        if array is None:
            continue
        if name in _NUMBERS:
            numbers = as_numpy(array).tolist()
            words.append(f"{_NUMBERS[name]}={'.'.join(map(str, numbers))}")
        elif name in _TENSORS:
            data[name] = as_numpy(array)
        else:
            raise WrongUse(f"{name} is no tensor of a call; allowed: "
                           + ", ".join((*_TENSORS, *_NUMBERS))
                           + ("; a causal mask is causal=\"top_left\" or "
                              "\"bottom_right\"" if "causal" in name else ""))
    return data, words


def case_words(causal, scale, window, softcap, more=()):
    words = list(more)
    if causal is not None:
        short = {"top_left": "tl", "bottom_right": "br"}.get(causal)
        if short is None:
            raise WrongUse(f"causal = {causal!r}; allowed: top_left, "
                           "bottom_right")
        words.append(f"causal={short}")
    if scale is not None:
        words.append(f"scale={np.float32(scale)!s}")
    if window is not None:
        if not isinstance(window, (tuple, list)) or len(window) != 2:
            raise WrongUse(f"window = {window!r}; allowed: (left, right), such as "
                           "(2, 0); -1 for no end")
        words.append("window={}.{}".format(*window))
    if softcap is not None:
        words.append(f"softcap={np.float32(softcap)!s}")
    return ",".join(words)


@contextlib.contextmanager
def written_call(arrays, precision, dialect):
    """The files of a call: its tensors, its precision and dialect or "" each."""
    with tempfile.TemporaryDirectory() as folder:
        def text_file(name, text):
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text + "\n")
            return path

        call = os.path.join(folder, "call.safetensors")
        write_safetensors(call, arrays)
        if precision is not None:
            precision = text_file(
                "precision.txt",
                declaration({"precision": precision})["precision"])
        if isinstance(dialect, dict):
            dialect = text_file("dialect.txt", "\n".join(
                f"{key} = {value}" for key, value in dialect.items()))
        yield folder, call, precision or "", dialect or ""


def assert_close(actual, q, k, v, *, causal=None, scale=None, window=None,
                 softcap=None, layout=None, precision=None, dialect=None,
                 **tensors):
    """Asserts that each element of `actual` is attention of q, k and v within the
    bound of the declared arithmetic. It replaces torch.testing.assert_close and
    needs no tolerance.

    actual: o [B, H, Tq, dv], or a dictionary with "o" and "lse" [B, H, Tq].
    q, k, v: [B, H, T, d], Hkv heads in k and v; layout="bthd" for [B, T, H, d].
    causal: "top_left" or "bottom_right". window: (left, right). tensors: mask,
        bias, sink, slopes, q_len, kv_len, cu_seqlens_q, cu_seqlens_k by name, as
        `kernel` has them.
    precision: as in `kernel`; default: generic. dialect: a dictionary or the name
        of a convention.

    Returns the Report. Errors: LawFailed (an AssertionError) with the element, the
    expected and the allowed values and the likely cause; WrongUse if the tensors
    do not form a call.
    """
    __tracebackhide__ = True  # from pytest
    if (nothing := in_worker()) is not None:
        return nothing
    outputs = actual if isinstance(actual, dict) else {"o": actual}
    data, numbers = split_tensors(tensors)
    arrays = {**{name: as_numpy(array) for name, array in
                 {"q": q, "k": k, "v": v, **outputs}.items()}, **data}
    case = case_words(causal, scale, window, softcap, numbers)
    with written_call(arrays, precision, dialect) as (
            folder, call, precision_file, dialect_file):
        words = []
        for flag, word in (("--case", case), ("--layout", layout),
                           ("--precision", precision_file),
                           ("--dialect", dialect_file)):
            if word:
                words += [flag, word]
        lines = os.path.join(folder, "report.jsonl")
        code, text, wrong = _program.run(["judge", call, *words, "--json", lines])
        # The files no longer exist when the report is read.
        text = "".join(line.replace(call, "this call")
                       for line in text.splitlines(keepends=True)
                       if not line.startswith("  again "))
        if code == 2:
            raise WrongUse(wrong.strip().removeprefix("qkvet: ").replace(
                call, "this call"))
        with open(lines, encoding="utf-8") as file:
            report = report_of(code, text, file.read())
    if not report.ok:
        raise LawFailed("\n" + report.text)
    return report


@dataclasses.dataclass(frozen=True)
class Reference:
    """Attention by the definition, in float64: `o` [B, H, Tq, dv], `lse` [B, H, Tq],
    `weights` [B, H, Tq, Tk]. `bound` has, by the same names, the largest error of
    an output in the declared arithmetic."""
    o: np.ndarray
    lse: np.ndarray
    weights: np.ndarray
    bound: dict


def reference(q, k, v, *, causal=None, scale=None, window=None, softcap=None,
              layout=None, precision=None, dialect=None, **tensors) -> Reference:
    """Computes attention of q, k and v by the definition, in double precision, and
    the bound of every element. The arguments are those of `assert_close`. Rows that
    see no key are NaN in o. WrongUse if the tensors do not form a call."""
    data, numbers = split_tensors(tensors)
    arrays = {**{name: as_numpy(array) for name, array in
                 {"q": q, "k": k, "v": v}.items()}, **data}
    q, v = arrays["q"], arrays["v"]
    arrays["o"] = np.zeros(q.shape[:-1] + v.shape[-1:], q.dtype)
    time = {"bthd": 1}.get(layout, 2)
    heads = 3 - time
    rows = (q.shape[0], q.shape[heads], q.shape[time]) if q.ndim == 4 else (
        1, q.shape[1], q.shape[0])
    arrays["lse"] = np.zeros(rows, np.float32)
    keys = arrays["k"].shape[time if q.ndim == 4 else 0]
    arrays["weights"] = np.zeros(rows + (keys,))
    found = {}

    def give(name, values, bounds, count):
        found[name.decode()] = [
            np.ctypeslib.as_array(one, (count,)).copy() for one in (values,
                                                                    bounds)]

    why = ctypes.create_string_buffer(1000)
    case = case_words(causal, scale, window, softcap, numbers)
    with written_call(arrays, precision, dialect) as (
            _, call, precision_file, dialect_file):
        code = _program.library().qkvet_python_reference(
            *(word.encode() for word in (call, case, layout or "", dialect_file,
                                         precision_file)),
            _program.Give(give), why, len(why))
        if code != 0:
            raise WrongUse(why.value.decode(errors="replace").replace(
                call, "this call"))
    shapes = {"o": rows + (v.shape[-1],), "lse": rows, "weights": rows + (keys,)}
    shaped = {name: [one.reshape(shapes[name]) for one in pair]
              for name, pair in found.items()}
    return Reference(bound={name: pair[1] for name, pair in shaped.items()},
                     **{name: pair[0] for name, pair in shaped.items()})
