# SPDX-License-Identifier: Apache-2.0
"""Sets of definition.py: shapes, storage types, masks, lengths, layouts, pages,
and numbers near overflow. Inputs are rounded to their storage type first."""
import numpy as np

from golden.generate import case_text, definition
from golden.generate.draws import draw
from golden.generate.sets import Generator
from golden.generate.storage import store

SOURCE = f"numpy {np.__version__}, float64"
OUTPUTS = ("o", "lse", "weights")


class Sets:
    """Adds sets with the answers of the definition."""

    def __init__(self, script, prefix="numpy"):
        self.generator = Generator(script, prefix, SOURCE)

    def add(self, name, case, pins, dialect="", sizes=None, outputs=OUTPUTS,
            change=None):
        """`change` alters the numbers that were drawn, in their arrays."""
        text = case if "=file" in case else case + ",q=file,k=file,v=file"
        parsed = case_text.parse(text)
        inputs = draw(name, parsed, sizes or {})
        if change:
            values = {key: tensor.values() for key, tensor in inputs.items()}
            change(values)
            inputs = {key: store(values[key], tensor.dtype)
                      for key, tensor in inputs.items()}
        with np.errstate(over="ignore"):
            answer = definition.attention(
                parsed, {key: t.values() for key, t in inputs.items()},
                dialect)
        self.generator.add_set(
            name, text, pins, "f64", inputs,
            {key: store(answer[key], "f64") for key in outputs},
            dialect=dialect)


ALL = ",q=file,k=file,v=file"
NUMPY = Sets(__file__)
add = NUMPY.add


def shapes():
    for dtype in ("f64", "f32", "f16", "bf16"):
        add(f"plain_{dtype}", f"{dtype},B2,H2,Tq3,Tk5,d8",
            f"attention of {dtype}, scale left to the kernel")
    add("mixed_f32_f16", "q=f32,kv=f16,o=f32,B1,H2,Tq3,Tk5,d8",
        "q of f32 over keys and values of f16")
    add("mixed_f32_bf16", "q=f32,kv=bf16,o=f32,B1,H2,Tq3,Tk5,d8",
        "q of f32 over keys and values of bf16")
    add("value_width", "f32,B1,H2,Tq3,Tk5,d8,dv3", "values narrower than keys")
    add("value_width_wide", "f32,B1,H2,Tq3,Tk5,d2,dv9",
        "values wider than keys")
    add("odd_width", "f32,B1,H1,Tq5,Tk7,d13", "a width that no vector has")
    add("wide", "f32,B1,H1,Tq2,Tk3,d128", "heads of 128")
    add("width_one", "f32,B1,H1,Tq3,Tk4,d1", "heads of a single channel")
    add("long", "f32,B1,H1,Tq2,Tk193,d4", "three tiles of 64 keys and one key",
        outputs=("o", "lse"))
    add("gqa", "f32,B2,H6,Hkv2,Tq3,Tk4,d4",
        "query head h reads key head h / 3: grouped heads, one behind the "
        "other")
    add("mqa", "f32,B1,H4,Hkv1,Tq3,Tk4,d4", "all query heads read one key head")
    add("decode", "f32,B2,H4,Hkv2,Tq1,Tk9,d8,causal=br",
        "one new query over a cache: nothing is hidden")
    add("scale_given", "f32,B1,H1,Tq3,Tk5,d8,scale=0.3",
        "a scale from the caller, as the float next to 0.3")
    add("scale_negative", "f32,B1,H1,Tq3,Tk5,d8,scale=-0.25",
        "a negative scale turns the order of the keys around")
    add("scale_zero", "f32,B1,H1,Tq3,Tk5,d8,scale=0",
        "a scale of 0 makes all keys equal")


def causal():
    for rule, text in (("tl", "row i sees keys up to i"),
                       ("br", "row i sees keys up to i + Tk - Tq")):
        add(f"causal_{rule}_square", f"f32,B1,H2,Tq5,Tk5,d4,causal={rule}",
            text + "; both rules are one where Tq = Tk")
        add(f"causal_{rule}_more_keys", f"f32,B1,H2,Tq3,Tk7,d4,causal={rule}",
            text + ", more keys than queries")
        add(f"causal_{rule}_more_queries",
            f"f32,B1,H1,Tq6,Tk4,d4,causal={rule}",
            text + ", more queries than keys")
        for dtype in ("f64", "f16", "bf16"):
            add(f"causal_{rule}_{dtype}",
                f"{dtype},B1,H1,Tq3,Tk5,d4,causal={rule}", text + ", " + dtype)


def windows():
    rows = (("left", "window=2.-1", ""), ("right", "window=-1.1", ""),
            ("both", "window=1.1", ""), ("diagonal", "window=0.0", ""),
            ("causal_br", "window=2.0", "causal=br,"),
            ("causal_tl", "window=2.1", "causal=tl,"),
            ("open", "window=-1.-1", ""))
    for name, window, rule in rows:
        add(f"window_{name}", f"f32,B1,H1,Tq5,Tk7,d4,{rule}{window}",
            f"{window}: keys beside the diagonal, which ends in the corner "
            + ("at the top left" if "tl" in rule else "at the bottom right"))
    add("window_more_queries", "f32,B1,H1,Tq7,Tk4,d4,window=1.1",
        "a window where rows stand in front of the first key: those are empty")


def masks():
    for own in ("bhqk", "qk", "bk", "hqk", "bqk", "k", "q"):
        dot = "" if own == "bhqk" else "." + own
        add(f"mask_{own}", f"f32,B2,H2,Tq3,Tk5,d4,mask=file{dot}" + ALL,
            f"a mask with extents of its own: {' '.join(own)}")
    for own in ("bhqk", "qk", "hqk", "bk", "h", "bhq"):
        dot = "" if own == "bhqk" else "." + own
        add(f"bias_{own}", f"f32,B2,H2,Tq3,Tk5,d4,bias=file{dot}" + ALL,
            f"a bias with extents of its own, added to the scaled scores: "
            f"{' '.join(own)}")
    for dtype in ("f64", "f16", "bf16"):
        add(f"bias_{dtype}", f"{dtype},B1,H2,Tq3,Tk4,d4,bias=file.hqk" + ALL,
            f"a bias of {dtype}")
    add("bias_very_negative", "f32,B1,H1,Tq3,Tk5,d4,bias=file.qk" + ALL,
        "a bias of -1e9 hides a key as well as a mask does",
        change=lambda t: np.copyto(t["bias"][..., 1:4:2], -1e9))
    add("mask_and_bias", "f32,B1,H2,Tq4,Tk5,d4,mask=file.qk,bias=file.h" + ALL,
        "a mask and a bias together")
    add("mask_and_causal",
        "f32,B2,H2,Tq4,Tk5,d4,causal=br,mask=file.bk" + ALL,
        "a key counts if both the mask and the causal rule let it",
        dialect="mask_and_causal = both")
    add("mask_poison", "f32,B1,H1,Tq3,Tk5,d4,mask=file.k" + ALL,
        "huge values at masked keys change nothing",
        change=lambda t: (np.copyto(t["mask"], [[[[1, 0, 1, 0, 1]]]]),
                          np.copyto(t["v"][:, :, 1::2], 1e30),
                          np.copyto(t["k"][:, :, 1::2], 1e4)))


def lengths():
    add("q_len", "f32,B3,H1,Tq4,Tk5,d4,qlen=4.0.2",
        "rows of each member that count")
    add("kv_len", "f32,B3,H2,Tq2,Tk5,d4,kvlen=5.1.3",
        "keys of each member that count")
    for rule in ("tl", "br"):
        add(f"lengths_causal_{rule}",
            f"f32,B3,H1,Tq4,Tk6,d4,causal={rule},qlen=4.1.3,kvlen=6.4.2",
            "the causal rule counts from each member's own lengths")
    add("lengths_window", "f32,B2,H1,Tq4,Tk6,d4,window=1.1,qlen=4.2,kvlen=5.6",
        "a window counts from each member's own lengths")
    add("lengths_alibi",
        "f32,B2,H2,Tq3,Tk6,d4,alibi=file,qlen=3.2,kvlen=5.6" + ALL,
        "ALiBi's distance counts from each member's own lengths")
    for rule in ("", ",causal=tl", ",causal=br"):
        add(f"packed{rule[-3:].replace('=', '_')}",
            f"f32,B1,H2,Tq8,Tk9,d4{rule},cuq=0.3.4.8,cuk=0.4.6.9",
            "a packed batch of three members, which do not see each other")
    add("packed_empty_member",
        "f32,B1,H2,Hkv1,Tq7,Tk7,d4,causal=br,cuq=0.3.3.5,cuk=0.3.3.5",
        "a packed batch whose second member is empty, and rows behind the end")
    add("packed_window_mask",
        "f32,B1,H1,Tq6,Tk7,d4,window=1.0,mask=file.qk,cuq=0.2.6,cuk=0.3.7"
        + ALL, "a window counts within a packed member, a mask over all")


def memory():
    for layout in ("bthd", "packed", "gaps", "apart"):
        add(f"layout_{layout}",
            f"f32,B2,H2,Tq4,Tk4,d4,causal=br,layout={layout}",
            "the same numbers, lying elsewhere in memory")
    add("layout_packed_gqa", "f16,B1,H4,Hkv2,Tq3,Tk3,d4,layout=packed",
        "one buffer of q, k and v with grouped heads")
    add("layout_gaps_mask", "f32,B1,H2,Tq3,Tk5,d4,mask=file.qk,bias=file,"
        "layout=gaps" + ALL, "gaps behind the rows of a mask and a bias")
    for share, axes in (("b", (0,)), ("h", (1,)), ("bh", (0, 1))):
        add(f"share_{share}", f"f32,B2,H4,Hkv2,Tq3,Tk5,d4,share={share}",
            "k and v given once, with stride 0",
            change=lambda t, axes=axes: repeat_first(t, axes))
    for page in (1, 4, 16):
        add(f"page_{page}",
            f"f32,B2,H2,Hkv1,Tq3,Tk9,d4,causal=br,kvlen=9.6,page={page}",
            f"k and v in pages of {page} tokens")
    add("page_decode", "f16,B3,H2,Hkv1,Tq1,Tk9,d8,causal=br,kvlen=9.4.1,page=4",
        "one query over pages of f16")
    add("page_reverse", "f32,B2,H1,Tq2,Tk7,d4,page=2,pages=reverse,"
        "unowned=others", "pages from the end, slots of nobody in use")
    add("append", "f32,B2,H2,Tq2,Tk6,d4,causal=br,append=2",
        "the last two tokens come as new ones")
    add("append_page", "f32,B2,H2,Hkv1,Tq2,Tk6,d4,causal=br,kvlen=6.5,page=4,"
        "append=2", "two new tokens go into pages, across the end of one")


def served():
    """Calls as production makes them: lists of pages, packed queries over
    pages, lengths in int32."""
    lists = ",table=csr"
    add("page_list", "f32,B2,H2,Hkv1,Tq3,Tk9,d4,causal=br,kvlen=9.6,page=4"
        + lists, "pages in lists, the last of a member partly full")
    add("page_list_decode", "f16,B3,H2,Hkv1,Tq1,Tk9,d8,causal=br,kvlen=9.4.1,"
        "page=4,pages=reverse,unowned=others" + lists,
        "one query over lists of pages that lie from the end, a last page full")
    add("page_list_no_pages", "f32,B3,H1,Tq2,Tk7,d4,kvlen=5.0.7,page=2" + lists,
        "a member without pages between two others",
        dialect="empty_row = zero\nempty_row_lse = minus_inf")
    add("page_list_append", "f32,B2,H2,Hkv1,Tq2,Tk6,d4,causal=br,kvlen=6.5,"
        "page=4,append=2" + lists, "new tokens are counted in the lists")
    packed = "H2,Hkv1,Tq6,Tk13,d4,causal=br,cuq=0.3.4.6,cuk=0.7.11.13,page=4"
    add("packed_page", "f32,B1," + packed,
        "two prompts and a step of decoding over their own pages")
    add("packed_page_append", "bf16,B1," + packed + ",append=1",
        "packed members of which each has a new token")
    add("packed_page_empty_member", "f32,B1,H1,Tq5,Tk8,d4,cuq=0.2.2.5,"
        "cuk=0.5.5.8,page=2", "a packed member without rows or pages")
    add("packed_page_list", "f32,B1," + packed + lists,
        "packed members over pages in lists")
    add("packed_page_chunk", "f32,B1," + packed + ",chunk=3",
        "packed members over pages: chunks count from the first key of each")
    add("packed_page_window_sink", "f32,B1," + packed.replace(
        "causal=br", "causal=br,window=2.0") + ",sink=file,q=file,k=file,v=file",
        "a window and a sink beside packed members over pages")
    narrow = ",lens=i32"
    add("lengths_int32", "f32,B2,H2,Tq3,Tk6,d4,causal=br,qlen=3.2,kvlen=6.4"
        + narrow, "lengths in int32")
    add("packed_int32", "f32,B1,H1,Tq6,Tk7,d4,causal=br,cuq=0.2.6,cuk=0.3.7"
        + narrow, "starts of packed members in int32")
    add("page_groups", "f32,B2,H2,Hkv1,Tq2,Tk9,d8,causal=br,kvlen=9.6,page=4,"
        "pool=x", "keys in groups of 4 channels, values channel by channel")
    add("page_groups_decode", "f16,B2,H2,Hkv1,Tq1,Tk9,d16,causal=br,kvlen=9.4,"
        "page=4,pages=reverse,unowned=others,pool=x,append=1",
        "one new token, of which the key goes into groups of 8 channels")
    add("page_int32", "f32,B2,H2,Hkv1,Tq1,Tk9,d4,kvlen=9.6,page=4" + narrow,
        "lengths in int32 beside a block table")
    add("packed_page_list_int32", "f16,B1," + packed + lists + narrow,
        "starts in int32 beside lists of pages")


def latent():
    """Values that are the first channels of the keys, as a latent cache has
    them."""
    both = ",values=keys,q=file,k=file"
    add("values_in_keys", "f32,B2,H4,Hkv1,Tq3,Tk5,d6,dv4,causal=br" + both,
        "values are the first channels of the one head of keys")
    add("values_in_keys_wide", "bf16,B1,H4,Hkv2,Tq2,Tk5,d4" + both,
        "values as wide as the keys")
    add("values_in_keys_pages", "f16,B3,H4,Hkv1,Tq1,Tk9,d8,dv5,causal=br,"
        "kvlen=9.4.1,page=4,pages=reverse,unowned=others" + both,
        "one query over pages of keys in which the values lie, too")
    add("values_in_keys_steps", "f32,B2,H4,Hkv1,Tq2,Tk9,d8,dv4,causal=br,"
        "kvlen=9.6,page=4" + both, "two queries of each member over the same")
    add("values_in_keys_lists", "f32,B2,H4,Hkv1,Tq2,Tk9,d5,dv3,kvlen=9.6,"
        "keys=file4.n,page=2,table=csr" + both,
        "keys that lists name, in lists of pages, and their first channels",
        dialect="empty_row = zero\nempty_row_lse = minus_inf")


def repeat_first(tensors, axes):
    for name in ("k", "v"):
        for axis in axes:
            first = np.take(tensors[name], [0], axis=axis)
            tensors[name] = np.broadcast_to(first, tensors[name].shape).copy()


def make():
    for write in (shapes, causal, windows, masks, lengths, memory, served,
                  latent):
        write()
    from golden.generate import numpy_merges, numpy_options, numpy_subjects
    numpy_options.write(NUMPY)
    numpy_subjects.write(NUMPY.generator)
    numpy_merges.write(NUMPY.generator)
    return NUMPY.generator
