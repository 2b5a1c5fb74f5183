# SPDX-License-Identifier: Apache-2.0
"""Sets of definition.py and story.py: layers from X to Y, and cache stories."""
from golden.generate import case_text, definition, story
from golden.generate.draws import draw
from golden.generate.storage import store

LAYER = ",x=file,w=file"
DATA = ",q=file,k=file,v=file"


def add_layer(generator, name, case, pins):
    parsed = case_text.parse(case)
    inputs = draw(name, parsed, {w: parsed.D ** -0.5 for w in
                                 ("w_q", "w_k", "w_v", "w_o")})
    y = definition.layer(parsed, {key: t.values()
                                  for key, t in inputs.items()})
    generator.add_set("layer_" + name, case, pins, "f64", inputs,
                      {"y": store(y, "f64")})


def layers(generator):
    rows = (
        ("plain", "f32,B2,H2,T3,D8", "project, split, attend, merge, project"),
        ("causal", "f32,B2,H2,T5,D8,causal", "a causal layer"),
        ("one_head", "f32,B1,H1,T4,D4,causal", "a single head"),
        ("unbatched", "f32,B1,H2,T4,D8,causal,unbatched",
         "x and y are [T,D]; here with their batch of one"),
        ("biases", "f32,B2,H2,T3,D8,causal,biases=qkvo", "all four biases"),
        ("biases_qv", "f32,B1,H2,T3,D8,biases=qv", "biases of Q and V alone"),
        ("bias_o", "f32,B1,H2,T3,D8,biases=o", "a bias of the output alone"),
        ("gqa", "f32,B2,H4,Hkv2,T4,D16,causal", "grouped heads"),
        ("mqa_biases", "f32,B1,H4,Hkv1,T4,D8,causal,biases=qkvo",
         "one key head, and biases"),
        ("widths", "f32,B1,H2,T3,D8,d3,dv5,causal,biases=qo",
         "head widths that are not D/H"),
        ("rope_half", "f32,B1,H2,T5,D8,causal,rope=half",
         "rotary positions between split and attention"),
        ("rope_interleaved", "f32,B1,H2,Hkv1,T5,D16,causal,rope=interleaved.3",
         "rotary positions from 3 on, grouped heads"),
        ("scale", "f32,B1,H2,T4,D8,causal,scale=0.25", "a scale that is given"),
        ("f64", "f64,B1,H2,T3,D8,causal,biases=qkvo", "a layer of f64"),
        ("f16", "f16,B1,H2,T3,D8,causal,biases=qkvo", "a layer of f16"),
        ("bf16", "bf16,B1,H2,T3,D8,causal", "a layer of bf16"))
    for name, case, pins in rows:
        bias = ",bias=file" if "biases=" in case else ""
        add_layer(generator, name, case + LAYER + bias, pins)


def add_story(generator, name, form, commands, pins):
    case = form + DATA + ",story=" + commands
    parsed = case_text.parse(case)
    inputs = draw(name, parsed, {})
    given = story.answers(parsed, {key: t.values()
                                   for key, t in inputs.items()})
    generator.add_set("story_" + name, case, pins, "f64", inputs,
                      {key: store(o, "f64") for key, o in given.items()})


def stories(generator):
    one = "f32,B1,H2,Hkv1,d4,cap8"
    two = "f32,B2,H2,Hkv1,d4,cap8"
    rows = (
        ("decode", one, "step.a.1+step.a.1+step.a.1+step.a.1",
         "decode, a token at a time"),
        ("prefill_decode", one, "step.a.4+step.a.1+step.a.1",
         "a prompt at once, then two tokens"),
        ("chunks", one, "step.a.3+step.a.3+step.a.2",
         "a prompt in chunks: row i of a chunk sees what is behind it"),
        ("append_attend", one, "append.a.5+attend.a.2+append.a.1+attend.a.1",
         "queries stand at the last positions of the sequence"),
        ("truncate", one, "step.a.4+truncate.a.2+step.a.2+attend.a.3",
         "a token that replaces a truncated one has other values"),
        ("truncate_all", one, "step.a.3+truncate.a.0+step.a.2",
         "nothing is kept"),
        ("reset", two, "step.a.3+step.b.2+reset.a+step.a.2+step.b.1",
         "a reset forgets one sequence and no other"),
        ("interleaved", two, "step.a.2+step.b.3+step.a.1+step.b.1+attend.a.2",
         "two sequences by turns"),
        ("fork", two, "step.a.3+fork.a.b+step.a.1+step.b.1+attend.a.2+"
         "attend.b.2", "after a fork each goes its own way"),
        ("fork_over", two, "step.b.4+step.a.2+fork.a.b+step.b.2+attend.a.1",
         "a fork over a sequence that held tokens"),
        ("fork_truncate", two, "step.a.4+fork.a.b+truncate.a.1+step.a.2+"
         "attend.b.3", "what is taken from the original stays in the copy"),
        ("reorder", "f32,B3,H2,Hkv1,d4,cap8",
         "step.a.2+step.b.3+step.c.1+reorder.bba+step.a.1+step.b.1+step.c.1",
         "beam search: a and b become what b was, c what a was"),
        ("evict", one, "step.a.6+evict.a.1.3+step.a.1+attend.a.2",
         "tokens leave the middle, the others close up"),
        ("evict_rope", one + ",rope=half",
         "step.a.6+evict.a.1.3+step.a.1+attend.a.2",
         "tokens leave the middle, the others keep their positions"),
        ("rope", one + ",rope=interleaved", "step.a.3+step.a.1+step.a.2",
         "a token stands at its number in its sequence"),
        ("rope_fork", two + ",rope=half",
         "step.a.3+fork.a.b+truncate.b.2+step.b.2+step.a.1",
         "a fork keeps the positions of its tokens"),
        ("window", one + ",win3", "step.a.4+step.a.1+step.a.2",
         "a query sees the last three keys up to its own"),
        ("window_first", one + ",win3,first2", "step.a.5+step.a.1+step.a.2",
         "and the first two tokens, however far behind"),
        ("window_rollback", one + ",win3,rollback2",
         "step.a.5+truncate.a.4+step.a.2+attend.a.1",
         "tokens behind the window's start can be taken back"),
        ("scale", one + ",scale=0.125", "step.a.3+step.a.1",
         "a scale that is given"),
        ("f16", "f16,B1,H2,Hkv1,d4,cap6", "step.a.3+step.a.1+step.a.1",
         "a cache of f16"),
        ("bf16", "bf16,B1,H1,d4,cap6", "step.a.3+step.a.1",
         "a cache of bf16"),
        ("value_width", "f32,B1,H2,Hkv1,d4,dv3,cap6", "step.a.3+step.a.1",
         "values narrower than keys"))
    for name, form, commands, pins in rows:
        add_story(generator, name, form, commands, pins)


def write(generator):
    layers(generator)
    stories(generator)
