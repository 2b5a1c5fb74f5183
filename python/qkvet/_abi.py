# SPDX-License-Identifier: Apache-2.0
"""The plug-in ABI in ctypes, read from its C headers: qkvet_forward_args is
ForwardArgs here, QKVET_DEVICE_CPU is DEVICE_CPU.

The layout is frozen; python/tests/test_abi.py compares every offset with the list
that the C headers are tested with.
"""
import ctypes as c
import pathlib
import re

CAUSAL = {1: "top_left", 2: "bottom_right"}
ROPE = {1: "half", 2: "interleaved"}

_HERE = pathlib.Path(__file__).parent
# The headers of the wheel, or of the source tree.
_FOLDER = next(folder for folder in (_HERE / "_program" / "include",
                                     _HERE.parents[1] / "include")
               if (folder / "qkvet").is_dir())


def _text(header, seen):
    """The header without comments, after those that it includes."""
    if header in seen:
        return ""
    seen.add(header)
    own = re.sub(r"/\*.*?\*/", "", (_FOLDER / header).read_text(), flags=re.S)
    return "".join(_text(other, seen)
                   for other in re.findall(r'#include "(.+)"', own)) + own


def _camel(name):
    return "".join(word.capitalize() for word in name.split("_")[1:])


def _type(text):
    """The type for "const qkvet_tensor*". Opaque memory is a c_void_p."""
    name = re.search(r"\b(?!const\b)\w+", text)[0]
    stars = text.count("*")
    if name == "char" and "const" in text:
        kind, stars = c.c_char_p, stars - 1
    elif stars and name not in _KINDS:
        kind, stars = c.c_void_p, stars - 1
    else:
        kind = _KINDS.get(name)
    for _ in range(stars):
        kind = c.POINTER(kind)
    return kind


def _field(text):
    """Name and type of "int64_t page_sizes[16]" or of "void (*log)(void* self)"."""
    function = re.fullmatch(r"\s*(?:typedef )?(.+?)\(\*(\w+)\)\((.*)\)", text, re.S)
    if function:
        returned, name, given = function.groups()
        given = re.sub(r"\w+ \(\*(\w+)\)\(.*?\)", r"void* \1", given)
        return name, c.CFUNCTYPE(_type(returned), *(
            _field(one)[1] for one in given.split(",")))
    kind, name, count = re.fullmatch(r"\s*(.*\W)(\w+)(?:\[(\d+)\])?", text,
                                     re.S).groups()
    return name, _type(kind) * int(count) if count else _type(kind)


_TEXT = _text("qkvet/kernel.h", set())
_STRUCTS = re.findall(r"struct (qkvet_\w+) \{(.*?)\n\}", _TEXT, re.S)
_KINDS = {f"{sign}int{bits}_t": getattr(c, f"c_{sign}int{bits}")
          for sign in ("", "u") for bits in (8, 16, 32, 64)}
_KINDS.update(size_t=c.c_size_t, float=c.c_float, double=c.c_double,
              qkvet_status=c.c_int32)
_KINDS.update((name, type(_camel(name), (c.Structure,), {}))
              for name, _ in _STRUCTS)
for _name, _body in _STRUCTS:
    _KINDS[_name]._fields_ = [_field(_one) for _one in _body.split(";")[:-1]]
    globals()[_camel(_name)] = _KINDS[_name]
for _name, _number in re.findall(r"\bQKVET_(\w+) = (\d+)", _TEXT) + re.findall(
        r"#define QKVET_(\w+)[\s\\]+(\d+)\s", _TEXT):
    globals()[_name] = int(_number)
for _name, _number in re.findall(
        r"#define QKVET_(\w+) \(UINT64_C\(1\) << (\d+)\)", _TEXT):
    globals()[_name] = 1 << int(_number)

# The fields of ForwardArgs that are options of one number.
NUMBERS = re.findall(r"QKVET_FORWARD_NUMBER\((\w+), QKVET",
                     (_FOLDER / "qkvet/tensors.def").read_text())

OpenFunction = _field(re.search(
    r"typedef [^;]*\(\*qkvet_open_function\)[^;]*", _TEXT)[0])[1]


def write_reason(text, reason):
    """One line into memory of the caller; `text` is a pointer and may be null."""
    if not text or not text.contents.data or text.contents.capacity == 0:
        return
    room = text.contents.capacity - 1
    data = " ".join(reason.split()).encode("utf-8", "replace")[:room]
    c.memmove(text.contents.data, data + b"\0", len(data) + 1)
