# SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategies: cases of attention, drawn and shrunk by Hypothesis.

    @hypothesis.given(qkvet.strategies.cases(causal=["top_left"]))
    def test_attention(case):
        qkvet.replay(case, my_attention).raise_on_failure()
"""
from hypothesis import strategies as st

_SHORT = {"top_left": "tl", "bottom_right": "br"}


@st.composite
def cases(draw, *, dtypes=("f32",), causal=(), grouped_heads=False,
          cross_lengths=True, most=24, most_heads=4):
    """Texts of cases, as `qkvet.replay` and `qkvet replay` take them.

    dtypes: storage types. causal: "top_left" and "bottom_right" as far as the
    callable takes them, beside calls that are not causal. grouped_heads: Hkv
    below H. cross_lengths: Tk unlike Tq. most: of T and d.
    """
    def extent(largest):
        return draw(st.integers(1, largest))

    words = [draw(st.sampled_from(list(dtypes))), f"B{extent(2)}"]
    kv_heads = extent(most_heads)
    group = extent(max(1, most_heads // kv_heads)) if grouped_heads else 1
    words.append(f"H{kv_heads * group}")
    if group > 1:
        words.append(f"Hkv{kv_heads}")
    queries = extent(most)
    keys = extent(most) if cross_lengths else queries
    words += [f"Tq{queries}", f"Tk{keys}", f"d{extent(most)}"]
    rule = draw(st.sampled_from([None, *causal]))
    if rule is not None:
        words.append(f"causal={_SHORT[rule]}")
    words.append(f"seed={draw(st.integers(0, 999999))}")
    return ",".join(words)
