# SPDX-License-Identifier: Apache-2.0
"""The ABI in ctypes equals the list that the C headers are compared with."""
import ctypes
import pathlib
import re

import pytest

from qkvet import _abi

LAYOUT = (pathlib.Path(__file__).parents[2]
          / "include/qkvet/frozen_layout.inc").read_text()
STRUCTS = {"qkvet_" + re.sub(r"(?!^)([A-Z])", r"_\1", name).lower(): kind
           for name, kind in vars(_abi).items()
           if isinstance(kind, type) and issubclass(kind, ctypes.Structure)}


def rows(kind):
    return re.findall(rf"^QKVET_{kind}\((.*)\)$", LAYOUT, re.MULTILINE)


@pytest.mark.parametrize("name", STRUCTS)
def test_every_field_lies_where_the_header_has_it(name):
    struct = STRUCTS[name]
    sizes = dict(row.split(", ") for row in rows("SIZE"))
    assert ctypes.sizeof(struct) == int(sizes[name])
    offsets = {field: int(at) for of, field, at in
               (row.split(", ") for row in rows("FIELD")) if of == name}
    own = {field[0]: getattr(struct, field[0]).offset
           for field in struct._fields_}
    assert own == offsets


def test_every_struct_of_kernel_h_is_there():
    frozen = {row.split(", ")[0] for row in rows("SIZE")}
    # An extension that Python does not offer.
    assert frozen - set(STRUCTS) == {"qkvet_plan_table"}


def test_constants_are_those_of_the_header():
    assert (_abi.ABI_MAJOR, _abi.OK, _abi.UNSUPPORTED, _abi.INTERNAL,
            _abi.DEVICE_CUDA, _abi.FUSED_VKQ) == (1, 0, 1, 5, 2, 6)
    assert _abi.FLAG_CAUSAL_ONLY == 1 << 26
    assert _abi.FLAG_REFUSES_IN_CALL == 1 << 29
    assert (_abi.BACKWARD_BIAS, _abi.BACKWARD_SINK) == (1, 2)
