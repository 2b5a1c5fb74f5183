# SPDX-License-Identifier: Apache-2.0
"""The plug-in ABI (include/qkvet/*.h) as ctypes sees it.

The layout is frozen; python/tests/test_abi.py holds every offset against the
list that the C headers are tested with.
"""
import ctypes as c

ABI_MAJOR, ABI_MINOR = 1, 6

OK, UNSUPPORTED, UNAVAILABLE, INVALID_ARGUMENT, OUT_OF_MEMORY, INTERNAL = range(6)

# Bits of qkvet_capabilities.flags, as kernel.h has them.
FLAG_CAUSAL_ONLY = 1 << 26
FLAG_REFUSES_IN_CALL = 1 << 29

# Bits of qkvet_backward_table.options, as backward.h has them.
BACKWARD_BIAS, BACKWARD_SINK = 1 << 0, 1 << 1

CAUSAL = {1: "top_left", 2: "bottom_right"}
ROPE = {1: "half", 2: "interleaved"}


DEVICE_CPU, DEVICE_CUDA = 1, 2


class Text(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("data", c.c_void_p),
                ("capacity", c.c_size_t)]


class Dtype(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class Tensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device_type", c.c_int32),
                ("device_id", c.c_int32), ("ndim", c.c_int32), ("dtype", Dtype),
                ("shape", c.POINTER(c.c_int64)),
                ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64)]


class Host(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t), ("abi_major", c.c_uint32),
        ("abi_minor", c.c_uint32), ("self", c.c_void_p), ("log", c.c_void_p),
        ("parallel_for", c.c_void_p), ("device_alloc", c.c_void_p),
        ("device_free", c.c_void_p),
        ("device_copy", c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p, c.c_void_p,
                                    c.c_size_t)),
        ("device_fill", c.c_void_p),
        ("device_sync", c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_int32,
                                    c.c_int32))]


class Exec(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("device_type", c.c_int32),
                ("device_id", c.c_int32), ("stream", c.c_void_p),
                ("threads", c.c_int32), ("deterministic", c.c_int32),
                ("workspace", c.c_void_p), ("workspace_size", c.c_size_t)]


class ForwardArgs(c.Structure):
    _fields_ = [("struct_size", c.c_size_t)] + [
        (name, Tensor) for name in ("q", "k", "v", "o", "lse", "weights")] + [
        ("scale", c.c_float), ("scale_given", c.c_int32), ("causal", c.c_int32),
        ("has_window", c.c_int32), ("window_left", c.c_int64),
        ("window_right", c.c_int64), ("mask", Tensor), ("bias", Tensor),
        ("softcap", c.c_float), ("sink", Tensor), ("slopes", Tensor),
        ("rope", c.c_int32), ("rope_cos", Tensor), ("rope_sin", Tensor),
        ("q_positions", Tensor), ("k_positions", Tensor),
        ("dropout_p", c.c_float), ("dropout_seed", c.c_uint64),
        ("dropout_offset", c.c_uint64), ("q_len", Tensor), ("kv_len", Tensor),
        ("cu_seqlens_q", Tensor), ("cu_seqlens_k", Tensor),
        ("block_table", Tensor), ("page_size", c.c_int64), ("k_new", Tensor),
        ("v_new", Tensor), ("q_scale", Tensor), ("k_scale", Tensor),
        ("v_scale", Tensor), ("dropout_mask", Tensor),
        ("page_indptr", Tensor), ("page_indices", Tensor),
        ("last_page_len", Tensor), ("key_indices", Tensor),
        ("topk_length", Tensor), ("key_block_size", c.c_int64),
        ("channel_group", c.c_int64), ("segments_q", Tensor),
        ("segments_k", Tensor), ("full_ranges", Tensor),
        ("chunk", c.c_int64), ("tree_mask", Tensor)]


class BackwardArgs(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("forward", c.POINTER(ForwardArgs))
                ] + [(name, Tensor)
                     for name in ("d_o", "d_q", "d_k", "d_v", "d_bias", "d_sink")]


class CacheConfig(c.Structure):
    _fields_ = [("struct_size", c.c_size_t)] + [
        (name, c.c_int64)
        for name in ("sequences", "heads", "kv_heads", "d", "dv", "capacity")] + [
        ("q", Dtype), ("kv", Dtype), ("o", Dtype), ("scale", c.c_float),
        ("scale_given", c.c_int32), ("window", c.c_int64),
        ("first_tokens", c.c_int64), ("rollback", c.c_int64), ("stored", Dtype),
        ("scales", c.c_int32), ("k_scale", Tensor), ("v_scale", Tensor),
        ("slopes", Tensor), ("sink", Tensor), ("softcap", c.c_float),
        ("reserved", c.c_int32)]


class CacheArgs(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("sequence", c.c_int64)] + [
        (name, Tensor) for name in ("k", "v", "q", "o", "lse")] + [
        ("rope", c.c_int32), ("rope_cos", Tensor), ("rope_sin", Tensor),
        ("mask", Tensor), ("bias", Tensor)]


class LayerArgs(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("heads", c.c_int64),
                ("kv_heads", c.c_int64)] + [
        (name, Tensor) for name in (
            "x", "w_q", "w_k", "w_v", "w_o", "b_q", "b_k", "b_v", "b_o", "y",
            "q", "k", "v", "attended")] + [
        ("scale", c.c_float), ("scale_given", c.c_int32), ("causal", c.c_int32),
        ("unused", c.c_int32), ("rope", c.c_int32), ("rope_cos", Tensor),
        ("rope_sin", Tensor), ("positions", Tensor), ("w_qkv", Tensor),
        ("b_qkv", Tensor), ("mask_buffer", Tensor), ("weights", Tensor),
        ("fused", c.c_int32), ("unused_end", c.c_int32)]


class LayerBackwardArgs(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("layer", c.POINTER(LayerArgs))] + [
        (name, Tensor) for name in (
            "d_y", "d_x", "d_w_q", "d_w_k", "d_w_v", "d_w_o", "d_b_q", "d_b_k",
            "d_b_v", "d_b_o")]


class ExtentRule(c.Structure):
    _fields_ = [("min", c.c_int64), ("max", c.c_int64), ("multiple", c.c_int64)]


class DtypeRule(c.Structure):
    _fields_ = [("q", Dtype), ("kv", Dtype), ("o", Dtype)]


class Width(c.Structure):
    _fields_ = [("d", c.c_int64), ("dv", c.c_int64)]


class Path(c.Structure):
    _fields_ = [("axis", c.c_int32), ("at", c.c_int32)]


class Capabilities(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("options", c.c_uint64),
                ("flags", c.c_uint64), ("layouts", c.c_uint64),
                ("devices", c.c_uint64), ("alignment", c.c_int64),
                ("dtype_count", c.c_int32), ("dtypes", DtypeRule * 16),
                ("d", ExtentRule), ("dv", ExtentRule), ("group", ExtentRule),
                ("tq", ExtentRule), ("tk", ExtentRule),
                ("page_size_count", c.c_int32), ("page_sizes", c.c_int64 * 16),
                ("path_count", c.c_int32), ("paths", Path * 16),
                ("b", ExtentRule), ("h", ExtentRule),
                ("width_count", c.c_int32), ("reserved", c.c_int32),
                ("widths", Width * 16)]


# Python fills these two by way of the library, and never looks into them: as
# large as a later version may make them.
class Opaque(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("rest", c.c_char * 1016)]


_FORWARD = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p,
                       c.POINTER(ForwardArgs), c.POINTER(Exec), c.POINTER(Text))
_BACKWARD = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p,
                        c.POINTER(BackwardArgs), c.POINTER(Exec),
                        c.POINTER(Text))


class BackwardTable(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("options", c.c_uint64),
                ("workspace", c.c_void_p), ("backward", _BACKWARD),
                ("layer_backward", c.CFUNCTYPE(
                    c.c_int32, c.c_void_p, c.c_void_p,
                    c.POINTER(LayerBackwardArgs), c.c_void_p,
                    c.POINTER(Text)))]


class LayerTable(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("options", c.c_uint64),
                ("stage", Dtype),
                ("forward", c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p,
                                        c.POINTER(LayerArgs), c.c_void_p,
                                        c.POINTER(Text)))]


_SEQUENCE = (c.c_int32, c.c_void_p, c.c_void_p, c.c_int64)


class CacheTable(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t), ("options", c.c_uint64),
        ("create", c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p,
                               c.POINTER(CacheConfig), c.c_void_p,
                               c.POINTER(c.c_void_p), c.POINTER(Text))),
        ("destroy", c.CFUNCTYPE(None, c.c_void_p, c.c_void_p)),
        ("step", c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p,
                             c.POINTER(CacheArgs), c.c_void_p,
                             c.POINTER(Text))),
        ("length", c.CFUNCTYPE(*_SEQUENCE, c.POINTER(c.c_int64),
                               c.POINTER(Text))),
        ("reset", c.CFUNCTYPE(*_SEQUENCE, c.POINTER(Text))),
        ("truncate", c.CFUNCTYPE(*_SEQUENCE, c.c_int64, c.POINTER(Text))),
        ("fork", c.CFUNCTYPE(*_SEQUENCE, c.c_int64, c.POINTER(Text))),
        ("reorder", c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p,
                                c.POINTER(c.c_int64), c.POINTER(Text))),
        ("read_back", c.CFUNCTYPE(*_SEQUENCE, c.POINTER(Tensor),
                                  c.POINTER(Tensor), c.POINTER(Text))),
        ("memory", c.c_void_p),
        ("evict", c.CFUNCTYPE(*_SEQUENCE, c.c_int64, c.c_int64,
                              c.POINTER(Text)))]


class Kernel(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t), ("name", c.c_char_p),
        ("description", c.c_char_p), ("source_file", c.c_char_p),
        ("source_line", c.c_int32), ("capabilities", c.POINTER(Capabilities)),
        ("dialect", c.POINTER(Opaque)), ("precision", c.POINTER(Opaque)),
        ("user", c.c_void_p), ("open", c.c_void_p), ("close", c.c_void_p),
        ("supports", c.c_void_p), ("workspace", c.c_void_p),
        ("forward", _FORWARD), ("cache", c.POINTER(CacheTable)),
        ("layer", c.POINTER(LayerTable)), ("backward", c.POINTER(BackwardTable)),
        ("get_extension", c.c_void_p), ("merge", c.c_void_p)]


class Library(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("abi_major", c.c_uint32),
                ("abi_minor", c.c_uint32), ("name", c.c_char_p),
                ("kernel_count", c.c_int32),
                ("kernels", c.POINTER(c.POINTER(Kernel))),
                ("close", c.c_void_p)]


OpenFunction = c.CFUNCTYPE(c.c_int32, c.POINTER(Host), c.c_char_p,
                           c.POINTER(Library), c.POINTER(Text))


def write_reason(text, reason):
    """One line into memory of the caller; `text` is a pointer and may be null."""
    if not text or not text.contents.data or text.contents.capacity == 0:
        return
    room = text.contents.capacity - 1
    data = " ".join(reason.split()).encode("utf-8", "replace")[:room]
    c.memmove(text.contents.data, data + b"\0", len(data) + 1)
