# SPDX-License-Identifier: Apache-2.0
"""Cases as objects: their text, and their data."""
import numpy as np
import pytest

import kernels
import qkvet
from qkvet import case


def test_keys_in_any_order_are_one_case():
    one = case.parse("Tq3,seed=1,d2,B1,f32,Tk4,H1,causal=br")
    assert str(one) == "f32,B1,H1,Tq3,Tk4,d2,causal=br"
    assert one.subject == "attention"
    assert one.extents == {"B": 1, "H": 1, "Hkv": 1, "Tq": 3, "Tk": 4, "d": 2,
                           "dv": 2}
    # As `qkvet demo inspect` prints it.
    assert one.digest == "bd14b6a6"


def test_inputs_are_those_that_a_kernel_gets():
    seen = []

    def keeps(q, k, v):
        seen.append([one.copy() for one in (q, k, v)])
        return kernels.attention(q, k, v)

    text = "f32,B2,H3,Tq5,Tk7,d4,seed=9"
    assert qkvet.replay(text, keeps, law="agrees_with_oracle").ok
    inputs = case.parse(text).inputs
    # Other calls measure the pace of the kernel.
    of_case = next(one for one in seen if one[0].shape == inputs["q"].shape)
    for given, name in zip(of_case, "qkv"):
        np.testing.assert_array_equal(given, inputs[name])


def test_options_of_a_case():
    one = case.parse("f32,B2,H4,Hkv2,Tq5,Tk7,d4,mask=random.bqk,kvlen=7.3,"
                     "bias=normal.hqk,sink=normal")
    assert {name: array.shape for name, array in one.inputs.items()} == {
        "q": (2, 4, 5, 4), "k": (2, 2, 7, 4), "v": (2, 2, 7, 4),
        "mask": (2, 1, 5, 7), "bias": (1, 4, 5, 7), "sink": (4,), "kv_len": (2,)}
    assert one.inputs["mask"].dtype == np.bool_
    assert one.inputs["kv_len"].tolist() == [7, 3]
    assert np.isnan(one.inputs["k"][1, :, 3:]).all()  # beyond the lengths
    layer = case.parse("f32,B1,H2,T3,D8,biases=qo")
    assert layer.subject == "layer"
    assert layer.inputs["w_q"].shape == (8, 8)
    assert set(layer.inputs) == {"x", "w_q", "w_k", "w_v", "w_o", "b_q", "b_o"}


@pytest.mark.parametrize("words, names", [
    ("segments=2", {"segments_q": (2, 5), "segments_k": (2, 7)}),
    ("ranges=2", {"full_ranges": (2, 2, 2)}),
    ("tree=2", {"tree_mask": (2, 5, 5)}),
    ("keys=3", {"key_indices": (2, 1, 5, 3)}),
    ("kvlen=7.3,page=4", {"kv_len": (2,), "block_table": (2, 4)}),
    ("kvlen=7.5,page=4,append=1",
     {"kv_len": (2,), "block_table": (2, 4), "k_new": (2, 2, 1, 4),
      "v_new": (2, 2, 1, 4)}),
])
def test_every_tensor_of_a_case_is_among_its_inputs(words, names):
    one = case.parse("f16,B2,H4,Hkv2,Tq5,Tk7,d4," + words)
    assert {name: array.shape for name, array in one.inputs.items()
            if name not in "qkv"} == names


def test_made_of_words():
    one = case.make("f16", B=1, H=2, Tq=3, Tk=5, d=4, causal="bottom_right",
                    window=(2, 0), kvlen=[4], scale=0.5, q="onehot", seed=7)
    assert one.text == ("f16,B1,H2,Tq3,Tk5,d4,causal=br,scale=0.5,window=2.0,"
                        "kvlen=4,q=onehot,seed=7")
    assert one.inputs["q"].dtype == np.float16


def test_a_type_that_is_not_made_has_a_text_and_no_data():
    one = case.parse("fp8e4m3,B1,H1,Tq1,Tk1,d4")
    assert one.inputs == {} and one.digest == ""


@pytest.mark.parametrize("text,said", [
    ("f33,B1", 'unknown key "f33"'), ("f32,B1,H1,Tq2,Tk2,d2,causal=up", "causal"),
    ("f32,B1,H3,Hkv2,Tq1,Tk1,d1", "Hkv")])
def test_what_is_no_case_is_one_line(text, said):
    with pytest.raises(qkvet.WrongUse, match=said) as wrong:
        case.parse(text)
    assert "\n" not in str(wrong.value)
