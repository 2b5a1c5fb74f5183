# SPDX-License-Identifier: Apache-2.0
"""What a callable takes, said in words and never guessed from its signature."""
import functools
import inspect
import json

# A function of three arrays and nothing else: attention of all keys, with a scale
# of its own.
DEFAULT_OPTIONS = "default_scale cross_lengths"


class Refused(Exception):
    """Raised by a kernel that does not take this call: `Refused("no such mask")`.

    Such calls are counted as unsupported, with the reason, and are no failure.
    """


class WrongUse(ValueError):
    """What the program answers with exit code 2: one line that names the thing,
    what is wrong and what is allowed."""


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
            # The short word: always causal, and the callable takes no argument
            # for it.
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
    """Says what an attention callable takes; a decorator, with or without words.

        @qkvet.kernel(options="causal_top_left scale mask", dtypes="f32 f16")
        def attention(q, k, v, *, causal=None, scale=None, mask=None): ...

    The callable gets q [B, H, Tq, d], k [B, Hkv, Tk, d], v [B, Hkv, Tk, dv] and,
    by name, what a call sets of `options`: causal ("top_left" or
    "bottom_right"), scale, window (left, right), mask and bias [B, H, Tq, Tk],
    softcap, sink and slopes [H] (of alibi_per_member
    [B, H], packed [members, H]), rope (style, cos, sin, q_positions,
    k_positions), q_len and kv_len [B], cu_seqlens_q and cu_seqlens_k [members +
    1], block_table [B, P] and page_size ([members, P] in a packed batch, whose
    kv_len is [members] and which has no cu_seqlens_k), of paged_csr in the place
    of block_table and kv_len page_indptr [B + 1], page_indices [N] and
    last_page_len [B], key_indices [B, Hkv or 1, Tq, n], topk_length [B, Tq]
    (of key_list_lengths) and key_block_size (of key_list_blocks), channel_group x
    (of paged_channel_groups; k is then [pages, Hkv, page_size, d / x, x], and
    k.transpose(2, 3) and v.transpose(2, 3) are vLLM's caches), k_new and v_new;
    of values_in_keys v is a view of the first dv channels of k;
    segments_q [B, Tq] and segments_k [B, Tk], full_ranges [B, R, 2], chunk and
    tree_mask [B, Tq, Tq] (bool);
    dropout (p, seed, offset). It returns o [B, H, Tq, dv], or a tuple (o, lse,
    weights) of what it declares, or a dictionary by these names.

    Words, each a string or a list of strings:

    options, flags, layouts, dtypes, d, dv, group, tq, tk, b, h, widths,
    page_sizes, paths, rope:
        as in properties/conventions.md. Default: options="default_scale
        cross_lengths", f32, contiguous [B, H, T, d]. paths="Tq=16 Tk=64 Tk=512"
        says where the callable takes another path: its tiles, the keys from
        which on it splits them.
    causal: "top_left" or "bottom_right": always, with no argument for it.
    like: the name of a convention to begin with (`qkvet explain conventions`).
    empty_row, lse_base, masked_nonfinite, ...: the dialect.
    precision: the arithmetic, as a dictionary ({"preset": "flash_half"}) or the
        text of a file for --precision. Default: generic.
    arrays: "numpy", "torch", "jax" or "cupy": what the callable gets and returns
        [torch or jax if it uses that, or functions of its module do, and converts
        nothing from or to NumPy; else numpy];
        "dlpack": it gets tensors that from_dlpack() of any library takes
        (qkvet.dlpack.Tensor), and returns any with __dlpack__.
    device: "cuda" [cpu]: the tensors lie on the first CUDA device, and the work
        belongs on the stream of the call: the current one of torch and CuPy; who
        takes DLPack is asked for its result on that stream.
    gradient: "autograd" (torch) or "vjp" (jax): backward() is judged, too; or
        "function": the callable has an attribute `backward` that takes (q, k, v,
        o, lse, d_o, **options) and returns d_q, d_k, d_v. Behind it bias and
        sink, where their gradients are judged, too: "vjp bias" ("function":
        d_bias and d_sink behind the three, or a dictionary by these names).

    Errors: a word that is unknown is a `WrongUse` when the callable is judged.
    """
    if function is None:
        return functools.partial(kernel, **fields)
    function.__qkvet__ = {**getattr(function, "__qkvet__", {}), **fields}
    return function


def cache(cls=None, **fields):
    """Says that a class is a KV cache; a decorator like `kernel`.

    A cache is made as cls(sequences=, heads=, kv_heads=, d=, dv=, capacity=,
    scale=) (scale is None for 1/sqrt(d)) and has append(sequence, k, v) with
    k [Hkv, T, d] and v [Hkv, T, dv], attend(sequence, q) -> o of q [H, Tq, d],
    whose rows stand at the last Tq positions, length(sequence) and
    reset(sequence); where it has truncate(sequence, tokens), fork(from_, to),
    reorder(parents) or evict(sequence, first, tokens), these are judged, too, and
    what read_back(sequence) returns: k [Hkv, T, d] and v [Hkv, T, dv] in f32, as
    a query would find them. What is illegal raises an exception with a reason and
    changes nothing.

    Words beyond those of `kernel`: cache="window grows", what of this it is, as
    include/qkvet/cache.h has it:

    grows: the capacity is only a hint.
    window: it is made with three more arguments: a query sees the last `window`
        keys up to its own (0: all) and the `first_tokens` of its sequence, and
        `rollback` tokens may be taken back (what reaches behind is refused
        before it is called).
    int8_per_token, int8_per_channel, fp8_per_token, fp8_per_channel: the codes
        that it can store. It is made with stored ("int8", "fp8" or None), scales
        ("per_token", "per_channel" or None), k_scale [Hkv, d] and v_scale
        [Hkv, dv] (None but per channel).
    new_as_given: the queries of a step see the tokens of the same step as they
        came, and codes are what later steps find.
    read_back_computes: keys are read back through a rotation or a scale.
    alibi, sink, softcap: it is made with slopes [H], sink [H] and softcap, each
        None where a cache has none. ALiBi counts in positions: tokens that
        evict() leaves keep theirs.
    mask, bias: attend(sequence, q, mask=, bias=) gets them for its queries over
        all tokens that the sequence holds, [H, Tq, L] each, or None.
    """
    if cls is None:
        return functools.partial(cache, **fields)
    cls.__qkvet__ = {"cache": "yes", **fields}
    return cls


def layer(function=None, **fields):
    """Says that a callable is an attention layer; a decorator like `kernel`.

    It is called as f(x, w_q, w_k, w_v, w_o, heads=, kv_heads=, **options) with
    x [B, T, D], w_q [D, H d], w_k [D, Hkv d], w_v [D, Hkv dv], w_o [H dv, D] and
    returns y [B, T, D]; the options that a call sets: causal, scale, b_q, b_k,
    b_v, b_o, rope (style, cos, sin, positions), fused ("qkv", ...) with w_qkv and
    b_qkv, and mask_buffer [C, C]. Words beyond those of `kernel`: layer="biases
    rope unbatched fused_qkv mask_buffer", what of this it takes; "stages" and
    "weights" where it returns them: a dictionary of y and q [B, H, T, d], k, v,
    attended [B, H, T, dv], and weights [B, H, T, T]. gradient: as in `kernel`,
    of x, the matrices and the biases; "function": backward(x, w_q, w_k, w_v,
    w_o, d_y, heads=, kv_heads=, **options) returns them in this order, or as a
    dictionary d_x, d_w_q and so on.
    """
    if function is None:
        return functools.partial(layer, **fields)
    function.__qkvet__ = {"subject": "layer", **fields}
    return function


def declared(function, more):
    """All that is declared of a callable, `more` on top."""
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
    """The text behind MODULE:NAME in an argument of the program; "" for none."""
    return json.dumps(fields, sort_keys=True) if fields else ""
