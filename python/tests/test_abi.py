# SPDX-License-Identifier: Apache-2.0
"""What ctypes says of the ABI, against the list that the C headers are held to."""
import ctypes
import pathlib
import re

import pytest

from qkvet import _abi

LAYOUT = (pathlib.Path(__file__).parents[2]
          / "include/qkvet/frozen_layout.inc").read_text()
STRUCTS = {"qkvet_text": _abi.Text, "qkvet_tensor": _abi.Tensor,
           "qkvet_host": _abi.Host, "qkvet_exec": _abi.Exec,
           "qkvet_dtype": _abi.Dtype, "qkvet_forward_args": _abi.ForwardArgs,
           "qkvet_backward_args": _abi.BackwardArgs,
           "qkvet_cache_config": _abi.CacheConfig,
           "qkvet_cache_args": _abi.CacheArgs,
           "qkvet_layer_args": _abi.LayerArgs,
           "qkvet_layer_backward_args": _abi.LayerBackwardArgs,
           "qkvet_layer_table": _abi.LayerTable,
           "qkvet_extent_rule": _abi.ExtentRule, "qkvet_width": _abi.Width,
           "qkvet_dtype_rule": _abi.DtypeRule,
           "qkvet_capabilities": _abi.Capabilities,
           "qkvet_backward_table": _abi.BackwardTable,
           "qkvet_cache_table": _abi.CacheTable, "qkvet_kernel": _abi.Kernel,
           "qkvet_library": _abi.Library}


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


def test_opaque_structs_have_room():
    sizes = dict(row.split(", ") for row in rows("SIZE"))
    for name in ("qkvet_dialect", "qkvet_precision"):
        assert ctypes.sizeof(_abi.Opaque) >= int(sizes[name])


def test_flags_are_those_of_the_header():
    header = (pathlib.Path(__file__).parents[2]
              / "include/qkvet/kernel.h").read_text()
    for name in ("CAUSAL_ONLY", "REFUSES_IN_CALL"):
        bit, = re.findall(rf"#define QKVET_FLAG_{name} .*<< (\d+)\)", header)
        assert getattr(_abi, f"FLAG_{name}") == 1 << int(bit)


def test_options_of_gradients_are_those_of_the_header():
    header = (pathlib.Path(__file__).parents[2]
              / "include/qkvet/backward.h").read_text()
    for name in ("BIAS", "SINK"):
        bit, = re.findall(rf"#define QKVET_BACKWARD_{name} .*<< (\d+)\)", header)
        assert getattr(_abi, f"BACKWARD_{name}") == 1 << int(bit)
