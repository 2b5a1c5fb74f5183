# SPDX-License-Identifier: Apache-2.0
"""Declarations: the inputs of a callable, never guessed from its signature."""
import functools
import inspect
import json

# A function of three arrays: attention over all keys, with its own scale.
DEFAULT_OPTIONS = "default_scale cross_lengths"


class Refused(Exception):
    """Raised by a callable that does not take this call: `Refused("no such mask")`.

    The call is counted as unsupported, with the reason, and is no failure.
    """


class WrongUse(ValueError):
    """A mistake of the user, exit code 2 of the program: one line with the name of
    the thing, what is wrong and what is allowed."""


def words(value):
    """A list of words as the program reads it: "f32 f16" or ["f32", "f16"]."""
    return value if isinstance(value, str) else " ".join(map(str, value))


def declaration(fields):
    """The fields, each as words. Dictionaries are for `precision` alone."""
    out = {}
    for key, value in fields.items():
        if value is None:
            continue
        if key == "causal":
            # Always causal, without an argument of the callable.
            out["options"] = words(fields.get("options") or DEFAULT_OPTIONS) + (
                f" causal_{value}")
            out["flags"] = (words(fields.get("flags") or "")
                            + " causal_only").strip()
        elif key == "precision" and isinstance(value, dict):
            out[key] = "\n".join(f"{knob} = {words(one)}"
                                 for knob, one in value.items())
        elif key not in ("options", "flags") or "causal" not in fields:
            out[key] = words(value)
    return out


def kernel(function=None, **fields):
    """Declares an attention callable; a decorator, with or without arguments.

        @qkvet.kernel(options="causal_top_left scale mask", dtypes="f32 f16")
        def attention(q, k, v, *, causal=None, scale=None, mask=None): ...

    The callable gets q [B, H, Tq, d], k [B, Hkv, Tk, d], v [B, Hkv, Tk, dv] and, by
    name, the options that a call sets. It returns o [B, H, Tq, dv], or a tuple
    (o, lse, weights) of the outputs that it declares, or a dictionary by these
    names. Arguments that a call may set:

    causal: "top_left" or "bottom_right". scale, softcap: numbers.
    window: (left, right).
    mask, bias: [B, H, Tq, Tk]. sink, slopes: [H] (with alibi_per_member [B, H], in
        a varlen batch [sequences, H]).
    rope: (style, cos, sin, q_positions, k_positions).
    q_len, kv_len: [B]. cu_seqlens_q, cu_seqlens_k: [sequences + 1].
    block_table: [B, P], with page_size. In a varlen batch [sequences, P], with
        kv_len [sequences] and without cu_seqlens_k.
    page_indptr [B + 1], page_indices [N], last_page_len [B]: with paged_csr,
        instead of block_table and kv_len.
    channel_group: x, with paged_channel_groups; k is [pages, Hkv, page_size,
        d / x, x], and k.transpose(2, 3) and v.transpose(2, 3) are vLLM's caches.
    key_indices: [B, Hkv or 1, Tq, n]; topk_length [B, Tq] with key_list_lengths;
        key_block_size with key_list_blocks.
    k_new, v_new: appended tokens.
    segments_q [B, Tq], segments_k [B, Tk], full_ranges [B, R, 2], chunk,
        tree_mask [B, Tq, Tq] (bool): masks in a few numbers.
    dropout: (p, seed, offset).
    With values_in_keys, v is a view of the first dv channels of k.

    Arguments of this decorator, each a string or a list of strings:

    options, flags, layouts, dtypes, d, dv, group, tq, tk, b, h, widths,
    page_sizes, paths, rope:
        as in properties/conventions.md. Default: options="default_scale
        cross_lengths", f32, contiguous [B, H, T, d]. paths="Tq=16 Tk=64 Tk=512"
        lists the extents at which the callable takes another path: its tiles,
        and the number of keys from which on it splits them.
    causal: "top_left" or "bottom_right": always causal, without an argument.
    like: the name of a convention to start from (`qkvet explain conventions`).
    empty_row, lse_base, masked_nonfinite, ...: the dialect.
    precision: the arithmetic, as a dictionary ({"preset": "flash_half"}) or the
        text of a file for --precision. Default: generic.
    arrays: "numpy", "torch", "jax" or "cupy": the arrays of the callable [torch or
        jax if it, or functions of its module, use that library and convert
        nothing from or to NumPy; else numpy]. "dlpack": it gets tensors that
        from_dlpack() of any library takes (qkvet.dlpack.Tensor), and returns
        objects with __dlpack__.
    device: "cuda" [cpu]: the tensors are on the first CUDA device. Work belongs on
        the stream of the call, which is the current one of torch and CuPy;
        __dlpack__() of a result receives that stream.
    gradient: "autograd" (torch) or "vjp" (jax): backward() is judged, too.
        "function": the attribute `backward` of the callable takes (q, k, v, o,
        lse, d_o, **options) and returns d_q, d_k, d_v. "vjp bias sink" also
        judges the gradients of bias and sink; with "function" d_bias and d_sink
        follow the three, or all are a dictionary by these names.

    Errors: an unknown word is a `WrongUse` when the callable is judged.
    """
    if function is None:
        return functools.partial(kernel, **fields)
    function.__qkvet__ = {**getattr(function, "__qkvet__", {}), **fields}
    return function


def cache(cls=None, **fields):
    """Declares a class as a KV cache; a decorator like `kernel`.

    Constructor: cls(sequences=, heads=, kv_heads=, d=, dv=, capacity=, scale=);
    scale is None for 1/sqrt(d). Required methods:

    append(sequence, k, v): k [Hkv, T, d], v [Hkv, T, dv].
    attend(sequence, q) -> o [H, Tq, dv]: q [H, Tq, d] at the last Tq positions.
    length(sequence) -> number of tokens. reset(sequence).

    Judged if present: truncate(sequence, tokens), fork(from_, to),
    reorder(parents), evict(sequence, first, tokens), and read_back(sequence) ->
    (k [Hkv, T, d], v [Hkv, T, dv]) in f32, as a query would find them. An illegal
    call must raise an exception with a reason, and change nothing.

    Arguments beyond those of `kernel`: cache="window grows", a list of these words
    of include/qkvet/cache.h:

    grows: the capacity is only a hint.
    window: three more arguments of the constructor. A query sees the last `window`
        keys up to its own (0: all) and the `first_tokens` of its sequence;
        `rollback` tokens may be removed again (more are refused before the call).
    int8_per_token, int8_per_channel, fp8_per_token, fp8_per_channel: the codes
        that it can store. The constructor gets stored ("int8", "fp8" or None),
        scales ("per_token", "per_channel" or None), k_scale [Hkv, d] and v_scale
        [Hkv, dv] (None unless per channel).
    new_as_given: the queries of a step see its own tokens before they are stored
        as codes; later steps see the codes.
    read_back_computes: keys are read back through a rotation or a scale.
    alibi, sink, softcap: the constructor gets slopes [H], sink [H] and softcap,
        each None if the cache has none. ALiBi counts positions: tokens keep theirs
        after evict().
    mask, bias: attend(sequence, q, mask=, bias=) gets them for its queries over
        all tokens of the sequence, [H, Tq, L] each, or None.
    """
    if cls is None:
        return functools.partial(cache, **fields)
    cls.__qkvet__ = {"cache": "yes", **fields}
    return cls


def layer(function=None, **fields):
    """Declares an attention layer; a decorator like `kernel`.

    Call: f(x, w_q, w_k, w_v, w_o, heads=, kv_heads=, **options) -> y [B, T, D], with
    x [B, T, D], w_q [D, H d], w_k [D, Hkv d], w_v [D, Hkv dv], w_o [H dv, D].
    Options that a call may set: causal, scale, b_q, b_k, b_v, b_o, rope (style,
    cos, sin, positions), fused ("qkv", ...) with w_qkv and b_qkv, and mask_buffer
    [C, C].

    Arguments beyond those of `kernel`:

    layer: words for the supported options, "biases rope unbatched fused_qkv
        mask_buffer". With "stages" and "weights" the layer returns a dictionary of
        y, q [B, H, T, d], k, v, attended [B, H, T, dv] and weights [B, H, T, T].
    gradient: as in `kernel`, for x, the matrices and the biases. "function":
        backward(x, w_q, w_k, w_v, w_o, d_y, heads=, kv_heads=, **options) returns
        them in this order, or as a dictionary d_x, d_w_q and so on.
    """
    if function is None:
        return functools.partial(layer, **fields)
    function.__qkvet__ = {"subject": "layer", **fields}
    return function


def declared(function, more):
    """The declaration of a callable, overridden by `more`, or with own="ignored"
    replaced by it."""
    if more.get("own") == "ignored":
        return declaration({key: value for key, value in more.items()
                            if key != "own"})
    own = getattr(function, "__qkvet__", None)
    if own is None and not inspect.isclass(function):
        own = getattr(type(function), "__qkvet__", None)
    return declaration({**(own or {}), **more})


def as_text(fields):
    """The lines that the program reads, and the precision's."""
    lines = {key: value for key, value in fields.items()
             if key not in ("precision", "arrays", "device", "gradient", "cache",
                            "name")}
    if "like" not in lines and "options" not in lines:
        lines["options"] = DEFAULT_OPTIONS
    return ("\n".join(f"{key} = {value}" for key, value in lines.items()),
            fields.get("precision", ""))


def as_config(fields):
    """The text after MODULE:NAME in an argument of the program; "" for none."""
    return json.dumps(fields, sort_keys=True) if fields else ""
