# SPDX-License-Identifier: Apache-2.0
"""Numbers in the storage types of a case, and safetensors files of them.

A file has one spelling: eight bytes with the length of the header, the header
as JSON padded with spaces to a multiple of eight, then the data, widest
elements first and by name among those, without holes.
"""
import json
import struct

import numpy as np

FILE_NAMES = {"f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16",
              "u8": "U8", "i32": "I32", "i64": "I64"}
CASE_NAMES = {file: case for case, file in FILE_NAMES.items()}
WORDS = {"f64": np.dtype("<f8"), "f32": np.dtype("<f4"),
         "f16": np.dtype("<f2"), "bf16": np.dtype("<u2"),
         "u8": np.dtype("u1"), "i32": np.dtype("<i4"),
         "i64": np.dtype("<i8")}


def bf16_bits(values):
    """Rounded once, from double, to nearest with ties to even."""
    x = np.asarray(values, np.float64)
    finite = np.where(np.isfinite(x), x, 0.0)
    # 8 bits of significand; below 2^-126 their distance stays the same.
    exponent = np.maximum(np.frexp(finite)[1], -125)
    rounded = np.ldexp(np.rint(np.ldexp(finite, 8 - exponent)), exponent - 8)
    # A value that rounds to 2^128 is infinity in both types.
    with np.errstate(over="ignore"):
        single = np.where(np.isfinite(x), rounded, x).astype("<f4")
    bits = single.view("<u4") >> 16
    return np.where(np.isnan(x), 0x7FC0, bits).astype("<u2")


class Tensor:
    """Numbers as they are stored."""

    def __init__(self, dtype, words):
        self.dtype = dtype
        self.words = np.ascontiguousarray(words, WORDS[dtype])

    @property
    def shape(self):
        return self.words.shape

    def values(self):
        """Exact, in double."""
        if self.dtype == "bf16":
            wide = self.words.astype("<u4") << 16
            return wide.view("<f4").astype(np.float64)
        return self.words.astype(np.float64)


def store(values, dtype):
    """Rounds to the type; a NaN gets one spelling."""
    x = np.asarray(values, np.float64)
    if dtype == "bf16":
        return Tensor(dtype, bf16_bits(x))
    if dtype == "u8":
        return Tensor(dtype, x != 0)
    if dtype in ("i32", "i64"):
        return Tensor(dtype, x)
    with np.errstate(over="ignore"):
        words = x.astype(WORDS[dtype])
    return Tensor(dtype, np.where(np.isnan(words), WORDS[dtype].type("nan"),
                                  words))


def file_bytes(metadata, tensors):
    order = sorted(tensors,
                   key=lambda name: (-WORDS[tensors[name].dtype].itemsize,
                                     name))
    header = {"__metadata__": metadata}
    end = 0
    for name in order:
        tensor = tensors[name]
        begin, end = end, end + tensor.words.nbytes
        header[name] = {"dtype": FILE_NAMES[tensor.dtype],
                        "shape": list(tensor.shape),
                        "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=True)
    text += " " * (-len(text) % 8)
    data = b"".join(tensors[name].words.tobytes() for name in order)
    return struct.pack("<Q", len(text)) + text.encode() + data


def read_file(path):
    """Returns (metadata, tensors)."""
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + length])
    metadata = header.pop("__metadata__")
    tensors = {}
    for name, row in header.items():
        dtype = CASE_NAMES[row["dtype"]]
        begin, end = (8 + length + offset for offset in row["data_offsets"])
        words = np.frombuffer(content[begin:end], WORDS[dtype])
        tensors[name] = Tensor(dtype, words.reshape(row["shape"]))
    return metadata, tensors
