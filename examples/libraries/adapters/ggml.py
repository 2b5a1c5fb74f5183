# SPDX-License-Identifier: Apache-2.0
"""ggml_flash_attn_ext on the CPU, from the libraries inside pywhispercpp. q and
o are f32 there, k, v and the mask may be f16: halves become f32 exactly, and o
is rounded once."""
import ctypes
import importlib.metadata
import pathlib

import numpy as np

from plan import refuse_if

F32, F16 = 0, 1  # ggml_type
ARENA = 64 << 20


def library(part):
    files = importlib.metadata.files("pywhispercpp") or []
    for file in files:
        if file.name.startswith(f"libggml-{part}-"):
            return ctypes.CDLL(str(pathlib.Path(file.locate())),
                               mode=ctypes.RTLD_GLOBAL)
    raise ImportError(f"pywhispercpp brings no libggml-{part}")


base, cpu = library("base"), library("cpu")
POINTER, INT, LONG, FLOAT = (ctypes.c_void_p, ctypes.c_int, ctypes.c_int64,
                             ctypes.c_float)


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", POINTER),
                ("no_alloc", ctypes.c_bool)]


def declare(function, result, *arguments):
    function.restype, function.argtypes = result, arguments
    return function


init = declare(base.ggml_init, POINTER, InitParams)
free = declare(base.ggml_free, None, POINTER)
new_tensor = declare(base.ggml_new_tensor_4d, POINTER, POINTER, INT,
                     *[LONG] * 4)
data_of = declare(base.ggml_get_data, POINTER, POINTER)
flash_attn = declare(base.ggml_flash_attn_ext, POINTER, *[POINTER] * 5,
                     *[FLOAT] * 3)
add_sinks = declare(base.ggml_flash_attn_ext_add_sinks, None, POINTER, POINTER)
new_graph = declare(base.ggml_new_graph, POINTER, POINTER)
expand = declare(base.ggml_build_forward_expand, None, POINTER, POINTER)
compute = declare(cpu.ggml_graph_compute_with_ctx, INT, POINTER, POINTER, INT)
cpu.ggml_cpu_init()
memory = ctypes.create_string_buffer(ARENA)


def tensor(context, array):
    """A copy; ggml names the innermost extent first."""
    kind = F16 if array.dtype == np.float16 else F32
    shape = (1,) * (4 - array.ndim) + array.shape
    made = new_tensor(context, kind, *shape[::-1])
    array = np.ascontiguousarray(array)
    ctypes.memmove(data_of(made), array.ctypes.data, array.nbytes)
    return made


def mask_of(call):
    """Everything that hides or adds, as one f16 mask of scores, or None."""
    fields, given = call.fields, call.given
    rows, keys = fields["Tq"], fields["Tk"]
    added = np.zeros((1, 1, rows, keys), np.float16)
    if "bias" in given:
        added = added + given["bias"].astype(np.float16)
        refuse_if(np.any(added != given["bias"]), "a mask is f16")
    if "mask" in given:
        added = np.where(given["mask"] != 0, added, np.float16(-np.inf))
    if fields["causal"] != "none":
        last = keys - rows if fields["causal"] == "bottom_right" else 0
        seen = np.tri(rows, keys, last, dtype=bool)
        added = np.where(seen, added, np.float16(-np.inf))
    elif "bias" not in given and "mask" not in given:
        return None
    return added.astype(np.float16)


def attention(call):
    fields, given = call.fields, call.given
    context = init(InitParams(ARENA, ctypes.addressof(memory), False))
    q = tensor(context, given["q"].astype(np.float32))
    k, v = (tensor(context, given[name]) for name in "kv")
    mask = mask_of(call)
    if mask is not None:
        mask = tensor(context, mask)
    o = flash_attn(context, q, k, v, mask, fields["scale"], 0,
                   fields["softcap"])
    if "sink" in given:
        add_sinks(o, tensor(context, given["sink"].astype(np.float32)))
    graph = new_graph(context)
    expand(graph, o)
    compute(context, graph, 1)
    shape = tuple(fields[extent] for extent in ("B", "Tq", "H", "dv"))
    numbers = np.ctypeslib.as_array(
        ctypes.cast(data_of(o), ctypes.POINTER(FLOAT)), shape).copy()
    free(context)
    return {"o": numbers.swapaxes(1, 2)}


ENTRIES = {"f32": attention, "f16": attention}
