# SPDX-License-Identifier: Apache-2.0
"""Sets of definition.py: softcap, sinks, ALiBi, rotation, dialects, pairs of
options, and numbers near overflow."""
import numpy as np

ALL = ",q=file,k=file,v=file"


def softcaps(add):
    for cap in ("0.5", "30"):
        add(f"softcap_{cap.replace('.', '_')}",
            f"f32,B1,H2,Tq3,Tk5,d8,softcap={cap}",
            f"softcap {cap}: cap tanh(score / cap), of the scaled scores",
            sizes={"q": 4})
    for dtype in ("f64", "f16", "bf16"):
        add(f"softcap_{dtype}", f"{dtype},B1,H1,Tq3,Tk4,d4,softcap=2",
            f"a softcap of {dtype}", sizes={"q": 4})
    add("softcap_saturated", "f32,B1,H1,Tq3,Tk5,d8,softcap=5",
        "scores far beyond the cap: all of them become +-cap",
        sizes={"q": 60, "k": 60})
    case = "f32,B1,H2,Tq3,Tk5,d8,bias=file.hqk,softcap=2" + ALL
    add("softcap_before_bias", case, "the cap is of the scores alone",
        dialect="softcap_order = before_mask", sizes={"q": 3, "bias": 3})
    add("softcap_after_bias", case, "the cap is of scores and biases together",
        dialect="softcap_order = after_mask", sizes={"q": 3, "bias": 3})
    case = "f32,B1,H2,Tq3,Tk5,d8,softcap=2,alibi=file" + ALL
    add("softcap_before_alibi", case, "the cap is of the scores alone",
        dialect="softcap_order = before_mask", sizes={"q": 3, "slopes": 4})
    add("softcap_after_alibi", case, "the cap is of scores and ALiBi together",
        dialect="softcap_order = after_mask", sizes={"q": 3, "slopes": 4})
    add("softcap_mask", "f32,B1,H1,Tq3,Tk5,d8,mask=file.qk,softcap=2" + ALL,
        "a masked key stays hidden under a cap")


def sinks(add):
    case = "f32,B2,H3,Tq3,Tk5,d4,sink=file" + ALL
    add("sink", case, "a logit per head joins the denominator and its lse",
        dialect="sink_in_lse = in")
    add("sink_not_in_lse", case, "the sink takes its share; lse is of the keys",
        dialect="sink_in_lse = not_in")
    for dtype in ("f64", "f16", "bf16"):
        add(f"sink_{dtype}", f"{dtype},B1,H2,Tq2,Tk3,d4,sink=file" + ALL,
            f"a sink beside {dtype}", dialect="sink_in_lse = in")
    add("sink_ahead", "f32,B1,H2,Tq3,Tk4,d4,sink=file" + ALL,
        "a sink ahead of all scores rules the maximum",
        dialect="sink_in_lse = in", sizes={"sink": 0},
        change=lambda t: np.copyto(t["sink"], [12.0, 40.0]))
    add("sink_behind", "f32,B1,H2,Tq3,Tk4,d4,sink=file" + ALL,
        "a sink far behind all scores takes nothing",
        dialect="sink_in_lse = in",
        change=lambda t: np.copyto(t["sink"], [-40.0, -1e4]))
    add("sink_gqa_causal", "f32,B1,H4,Hkv2,Tq4,Tk4,d4,causal=br,sink=file"
        + ALL, "a sink per query head, under a causal rule")


def alibi(add):
    add("alibi", "f32,B1,H4,Tq4,Tk4,d4,causal=br,alibi=file" + ALL,
        "slopes times the distance from the diagonal")
    add("alibi_both_sides", "f32,B1,H2,Tq4,Tk4,d4,alibi=file" + ALL,
        "without a causal rule the distance counts to both sides")
    add("alibi_more_keys", "f32,B1,H2,Tq2,Tk6,d4,causal=br,alibi=file" + ALL,
        "the diagonal ends at the bottom right")
    add("alibi_top_left", "f32,B1,H2,Tq3,Tk6,d4,causal=tl,alibi=file" + ALL,
        "the diagonal begins at the top left")
    add("alibi_no_rule", "f32,B1,H2,Tq2,Tk6,d4,alibi=file" + ALL,
        "without a rule the diagonal ends at the bottom right")
    add("alibi_negative", "f32,B1,H2,Tq4,Tk4,d4,alibi=file" + ALL,
        "a negative slope favours keys far away", sizes={"slopes": -1})
    add("alibi_members", "f32,B3,H2,Tq3,Tk4,d4,causal=br,alibi=file.bh" + ALL,
        "each member has slopes of its own")
    add("alibi_members_gqa", "f32,B2,H4,Hkv2,Tq2,Tk4,d4,alibi=file.bh" + ALL,
        "slopes of each member belong to query heads")
    add("alibi_members_lengths", "f32,B3,H2,Tq3,Tk4,d4,alibi=file.bh,"
        "qlen=3.1.2,kvlen=4.2.3" + ALL,
        "the diagonal of each member, and its slopes")
    add("alibi_members_packed", "f32,B1,H2,Tq6,Tk8,d4,alibi=file.bh,"
        "cuq=0.2.2.6,cuk=0.3.4.8" + ALL,
        "each member of a packed batch has slopes of its own")
    for dtype in ("f64", "f16", "bf16"):
        add(f"alibi_{dtype}", f"{dtype},B1,H2,Tq3,Tk3,d4,alibi=file" + ALL,
            f"ALiBi beside {dtype}")


def lists_of_keys(add):
    dialect = "empty_row = zero\nempty_row_lse = minus_inf"
    for name, case, pins in (
            ("", "B2,H2,Tq3,Tk6,d4,keys=file4",
             "a row sees the keys of its list; all heads have one"),
            ("_heads", "B1,H4,Hkv2,Tq3,Tk6,d4,keys=file3.h",
             "lists of each key/value head, for its group of query heads"),
            ("_lengths", "B2,H2,Tq4,Tk5,d4,keys=file4.hn",
             "what stands behind topk_length is not seen"),
            ("_causal", "B1,H2,Tq4,Tk6,d4,causal=br,keys=file4",
             "the causal rule holds for listed keys, too"),
            ("_window_sink", "B1,H2,Tq4,Tk6,d4,window=2.1,keys=file4,sink=file",
             "a window beside lists, and a sink beside few keys"),
            ("_members", "B2,H1,Tq3,Tk5,d4,keys=file3.n,qlen=3.1,kvlen=5.3",
             "a listed key beyond the member's length is not seen"),
            ("_more", "B1,H1,Tq2,Tk3,d4,keys=file5",
             "more entries than keys: -1 is none"),
            ("_pages", "B2,H2,Hkv1,Tq2,Tk9,d4,keys=file4.n,kvlen=9.6,page=2,"
             "unowned=others",
             "over pages a list names positions of the sequence, not slots"),
            ("_pages_heads", "B2,H4,Hkv2,Tq1,Tk7,d4,keys=file3.h,kvlen=7.5,"
             "page=2,pages=reverse,table=csr",
             "one query over lists of pages, lists of each key/value head"),
            ("_blocks", "B1,H2,Tq3,Tk10,d4,keys=file2x4",
             "lists of blocks of keys, the last of which is not full"),
            ("_blocks_pages", "B2,H2,Hkv1,Tq2,Tk10,d4,keys=file3x4.n,"
             "kvlen=10.7,page=4,unowned=others",
             "blocks over pages, the last of a member not full")):
        add("listed" + name, "f32," + case + ALL, pins, dialect=dialect)


def masks_in_a_few_numbers(add):
    dialect = "empty_row = zero\nempty_row_lse = minus_inf"
    over = dialect + "\nranges_and_window = over_window"
    within = dialect + "\nranges_and_window = in_window"
    for name, case, pins, rule in (
            ("segments", "B2,H2,Tq5,Tk7,d4,segments=file",
             "a row sees keys of its own number; below 0 is padding", dialect),
            ("segments_i64", "B2,H2,Tq5,Tk5,d4,causal,segments=file.i64",
             "all 64 bits of a number count", dialect),
            ("segments_lengths",
             "B2,H2,Tq4,Tk6,d4,segments=file,qlen=4.2,kvlen=6.3",
             "numbers beyond the lengths are not read", dialect),
            ("ranges", "B2,H2,Tq6,Tk6,d4,causal,ranges=file2",
             "a range sees itself both ways in a causal text", over),
            ("ranges_over_window",
             "B2,H2,Tq6,Tk8,d4,causal=br,window=1.0,ranges=file2",
             "(causal and window) or range", over),
            ("ranges_in_window",
             "B2,H2,Tq6,Tk8,d4,causal=br,window=1.1,ranges=file2.i64",
             "(causal or range) and window", within),
            ("ranges_pages",
             "B2,H2,Hkv1,Tq4,Tk9,d4,causal=br,ranges=file2,kvlen=9.6,page=2",
             "positions of the sequence, not slots", over),
            ("chunk", "B1,H2,Tq5,Tk8,d4,causal=br,chunk=3",
             "chunks are counted from the first key, not from the row", dialect),
            ("chunk_packed",
             "B1,H2,Tq6,Tk9,d4,causal=br,chunk=2,cuq=0.2.6,cuk=0.4.9",
             "from the first key of each member", dialect),
            ("tree", "B2,H2,Tq5,Tk8,d4,tree=file",
             "a draft sees the history and its own branch", dialect),
            ("tree_pages", "B2,H4,Hkv2,Tq4,Tk9,d4,tree=file,kvlen=9.6,page=4",
             "a tree behind a history in pages", dialect),
            ("tree_lengths", "B2,H2,Tq4,Tk7,d4,tree=file,qlen=4.2,kvlen=7.5",
             "the drafts are the last rows that count", dialect)):
        add(name, "f32," + case + ALL, pins, dialect=rule)


def rotations(add):
    for style in ("half", "interleaved"):
        for first in ("", ".100"):
            add(f"rope_{style}{first.replace('.', '_')}",
                f"f32,B1,H2,Hkv1,Tq4,Tk4,d8,causal=br,rope={style}{first}",
                f"rotary positions from {first[1:] or 0} on, pairs "
                + ("(c, c + d/2)" if style == "half" else "(2c, 2c + 1)"))
        add(f"rope_{style}_decode",
            f"f32,B2,H1,Tq1,Tk7,d4,rope={style}",
            "one query, which stands where the last key does")
        add(f"rope_{style}_f64", f"f64,B1,H1,Tq3,Tk3,d6,rope={style}.5",
            "tables of f64")
        add(f"rope_{style}_f16", f"f16,B1,H1,Tq3,Tk3,d4,rope={style}",
            "f16 turned by tables of f32")
    add("rope_lengths", "f32,B2,H1,Tq3,Tk6,d4,kvlen=6.4,rope=half",
        "queries stand at the end of each member's own keys")
    add("rope_more_queries", "f32,B1,H1,Tq5,Tk3,d4,rope=half.2",
        "more queries than keys: both begin at the first position")
    add("rope_packed",
        "f32,B1,H1,Tq6,Tk7,d4,causal=br,cuq=0.2.6,cuk=0.3.7,rope=interleaved",
        "positions count from the first key of each packed member")
    add("rope_page_append", "f32,B2,H2,Hkv1,Tq2,Tk6,d4,causal=br,kvlen=6.5,"
        "page=4,append=2,rope=half",
        "new tokens are stored as they came and turned where they stand")


def empty_rows(add):
    mask = "f32,B2,H2,Tq3,Tk4,d4,mask=file.q" + ALL
    kinds = (("zero", "minus_inf"), ("zero", "plus_inf"), ("nan", "nan"),
             ("nan", "minus_inf"), ("mean", "minus_inf"), ("mean", "nan"))
    for o, lse in kinds:
        add(f"empty_row_{o}_lse_{lse}", mask,
            f"a row without a key: o is {o}, its lse {lse}",
            dialect=f"empty_row = {o}\nempty_row_lse = {lse}",
            change=lambda t: np.copyto(t["mask"][0, 0, :, 0], [1, 0, 1]))
    add("empty_row_causal", "f32,B1,H1,Tq5,Tk2,d4,causal=br",
        "the first rows of more queries than keys see nothing",
        dialect="empty_row = zero\nempty_row_lse = minus_inf")
    add("empty_row_mean_lengths",
        "f32,B2,H1,Tq3,Tk5,d4,mask=file.bk,kvlen=5.2" + ALL,
        "the mean of an empty row is over the keys that count",
        dialect="empty_row = mean\nempty_row_lse = minus_inf",
        change=lambda t: np.copyto(t["mask"], np.reshape(
            [[0, 0, 0, 0, 0], [0, 0, 1, 1, 1]], (2, 1, 1, 5))))
    for o in ("zero", "nan"):
        add(f"no_keys_{o}", "f32,B2,H1,Tq3,Tk0,d4,dv2",
            f"no keys at all: every row is {o}",
            dialect=f"empty_row = {o}\nempty_row_lse = minus_inf",
            outputs=("o", "lse"))
    add("kv_len_zero", "f32,B2,H1,Tq2,Tk3,d4,kvlen=0.3",
        "a member without keys beside one that has some",
        dialect="empty_row = zero\nempty_row_lse = minus_inf")
    add("no_queries", "f32,B2,H1,Tq0,Tk3,d4", "no queries: nothing to answer",
        outputs=("o", "lse"))
    add("no_members", "f32,B0,H1,Tq2,Tk3,d4", "no members: nothing to answer",
        outputs=("o", "lse"))


def other_dialects(add):
    add("lse_base2", "f32,B1,H2,Tq3,Tk5,d4",
        "lse as a logarithm to the base 2", dialect="lse_base = base2")
    add("lse_base2_sink", "f32,B1,H2,Tq3,Tk5,d4,sink=file" + ALL,
        "lse to the base 2 with a sink that does not count in it",
        dialect="lse_base = base2\nsink_in_lse = not_in")
    add("masked_nan", "f32,B1,H2,Tq3,Tk5,d4,mask=file.k" + ALL,
        "NaN and infinity at masked keys are ignored",
        dialect="masked_nonfinite = ignored",
        change=lambda t: (np.copyto(t["mask"], [[[[1, 0, 1, 1, 0]]]]),
                          np.copyto(t["k"][:, :, 1], np.nan),
                          np.copyto(t["v"][:, :, 1], np.inf),
                          np.copyto(t["v"][:, :, 4], np.nan)))


def pairs(add):
    rows = (
        ("causal_window_softcap_sink_gqa",
         "f32,B1,H4,Hkv2,Tq4,Tk6,d4,causal=br,window=2.0,softcap=5,sink=file"),
        ("causal_alibi_sink",
         "f32,B1,H2,Tq4,Tk4,d4,causal=br,sink=file,alibi=file"),
        ("bias_alibi_softcap",
         "f32,B1,H2,Tq3,Tk4,d4,bias=file.qk,softcap=3,alibi=file"),
        ("mask_bias_sink_lengths",
         "f32,B2,H2,Tq3,Tk5,d4,mask=file.hqk,bias=file.bk,sink=file,"
         "qlen=3.2,kvlen=4.5"),
        ("window_alibi_packed",
         "f32,B1,H2,Tq6,Tk8,d4,causal=br,window=3.0,alibi=file,cuq=0.2.6,"
         "cuk=0.3.8"),
        ("rope_window_gqa",
         "f32,B1,H4,Hkv1,Tq4,Tk6,d4,causal=br,window=3.0,rope=half.7"),
        ("rope_softcap_sink",
         "f16,B1,H2,Tq3,Tk5,d4,softcap=4,sink=file,rope=interleaved"),
        ("scale_softcap_bias",
         "bf16,B1,H2,Tq3,Tk5,d4,scale=2,bias=file.hqk,softcap=6"),
        ("window_tl_alibi_lengths",
         "f32,B2,H2,Tq4,Tk5,d4,causal=tl,window=1.2,alibi=file,kvlen=5.3"),
        ("page_window_sink",
         "f32,B2,H2,Hkv1,Tq2,Tk7,d4,causal=br,window=3.0,sink=file,"
         "kvlen=7.5,page=4"))
    for name, case in rows:
        add("pair_" + name, case + ALL,
            "options together: " + name.replace("_", ", "))


def near_overflow(add):
    add("scores_80", "f32,B1,H1,Tq3,Tk7,d4,scale=1",
        "scores of some 80, whose exponentials fit into f32 only just",
        sizes={"q": 6, "k": 7})
    add("scores_1e4", "f32,B1,H1,Tq3,Tk7,d4,scale=1",
        "scores of some 10^4: without the maximum exp overflows",
        sizes={"q": 60, "k": 80})
    add("scores_minus_1e4", "f32,B1,H1,Tq3,Tk5,d4,scale=1",
        "all scores near -10^4: without the maximum every weight is 0",
        change=lambda t: (np.copyto(t["q"], 50 + t["q"]),
                          np.copyto(t["k"], -50 + t["k"] / 64)))
    add("scores_1e30", "f32,B1,H1,Tq2,Tk5,d4,scale=1",
        "scores of some 10^30, far from the end of f32",
        sizes={"q": 1e15, "k": 1e15})
    add("scores_beyond_f16", "f16,B1,H1,Tq3,Tk5,d4,scale=1",
        "scores beyond 65504, the end of f16", sizes={"q": 200, "k": 200})
    add("values_most_f16", "f16,B1,H1,Tq3,Tk6,d4",
        "values at the end of f16, of both signs",
        change=lambda t: np.copyto(t["v"], 65504 * np.sign(t["v"])))
    add("values_cancel", "f32,B1,H1,Tq3,Tk8,d4",
        "values of +-4096 that cancel", sizes={"q": 2.0**-7},
        change=lambda t: np.copyto(
            t["v"], t["v"] + np.where(np.arange(8) % 2, 4096, -4096)[:, None]))
    add("values_1e37", "f32,B1,H1,Tq3,Tk5,d4",
        "values of some 10^37", sizes={"v": 1e37})
    add("values_subnormal", "f32,B1,H1,Tq3,Tk5,d4",
        "values below the smallest normal number of f32",
        sizes={"v": 2.0**-130})
    add("offset_scores", "f32,B1,H1,Tq3,Tk7,d4,scale=1",
        "large scores with small differences",
        change=lambda t: np.copyto(t["k"], 256 + t["k"]))
    add("maximum_last", "f32,B1,H1,Tq2,Tk130,d1,dv2,scale=1",
        "the maximum moves with every key",
        change=lambda t: (np.copyto(t["q"], 1 + np.abs(t["q"])),
                          np.copyto(t["k"][0, 0, :, 0], np.arange(130))))


def write(sets):
    for group in (softcaps, sinks, alibi, lists_of_keys,
                  masks_in_a_few_numbers, rotations, empty_rows,
                  other_dialects, pairs, near_overflow):
        group(sets.add)
