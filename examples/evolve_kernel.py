# SPDX-License-Identifier: Apache-2.0
"""A loop that writes kernels, and a judge that it tries to deceive.

    python3 evolve_kernel.py [TASK] [--seconds 300] [--jobs 2]

The generator writes candidates: honest ones with other tiles, and cheats with other
thresholds. It likes to cheat: strategies with a higher score are tried more often.
The judge is a server, `python -m qkvet.verdict TASK`. The loop knows which of its
candidates are honest, so it counts what a real loop could not: cheats that conform
and honest ones that do not. Exit code 1 if there is one.
"""
import argparse
import collections
import json
import random
import subprocess
import sys
import time

HONEST = '''
import numpy as np
TILE = {tile}
def attention(q, k, v, *, causal=None, scale=None):
    B, H, Tq, d = q.shape
    Hkv, Tk = k.shape[1:3]
    scale = np.float32((1 / np.sqrt(d) if scale is None else scale){wrong})
    q = q.astype(np.float32).reshape(B, Hkv, H // Hkv, Tq, d)
    k, v = (x.astype(np.float32)[:, :, None] for x in (k, v))
    top = np.full((*q.shape[:-1], 1), -np.inf, np.float32)
    total, o = np.zeros_like(top), np.zeros((*q.shape[:-1], v.shape[-1]), np.float32)
    last = np.arange(Tq)[:, None] + (Tk - Tq if causal else Tk)
    for first in range({first}, Tk, TILE):
        seen = np.arange(first, min(first + TILE, Tk))[None, :] <= last
        s = q @ k[..., first:first + TILE, :].swapaxes(-1, -2) * scale
        s = np.where(seen, s, np.float32(-np.inf))
        higher = np.maximum(top, s.max(-1, keepdims=True))
        base = np.where(higher == -np.inf, np.float32(0), higher)
        w, kept = np.exp(s - base), np.exp(top - base)
        total = total * kept + w.sum(-1, keepdims=True)
        o *= kept
        for j in range(w.shape[-1]):
            rows = seen[:, j]
            o[..., rows, :] += w[..., rows, j, None] * v[..., first + j, None, :]
        top = higher
    o /= np.where(total == 0, 1, total)
    return o.reshape(B, H, Tq, -1).astype(np.float16)
'''
AROUND = '''
def mean(q, k, v):
    o = np.repeat(v.mean(2, keepdims=True), q.shape[1] // v.shape[1], axis=1)
    return np.broadcast_to(o, (*q.shape[:-1], v.shape[-1])).astype(q.dtype)
right, kept, calls = attention, {{}}, [0]
def attention(q, k, v, *, causal=None, scale=None):
    def honest(): return right(q, k, v, causal=causal, scale=scale)
    {body}
'''
# Each makes the body of a cheat, with a threshold of its own.
CHEATS = {
    "mean above a length": lambda r: (
        f"return mean(q, k, v) if k.shape[2] > {r.choice([16, 64, 256])} "
        "else honest()"),
    "mean for small numbers": lambda r: (
        f"return honest() if np.abs(k).max(initial=9) > {r.uniform(.1, .6):.2f} "
        "else mean(q, k, v)"),
    "honest at first": lambda r: (
        f"calls[0] += 1; return honest() if calls[0] < {r.randint(1, 60)} "
        "else mean(q, k, v)"),
    "kept by address": lambda r: (
        "return kept.setdefault((q.ctypes.data, q.shape, k.shape, causal, scale), "
        "None) if (q.ctypes.data, q.shape, k.shape, causal, scale) in kept else "
        "kept.setdefault((q.ctypes.data, q.shape, k.shape, causal, scale), honest())"),
    "last head is the first one": lambda r: (
        "o = honest(); o[:, -1] = o[:, 0]; return o"),
    "refuses lengths": lambda r: (
        f"import qkvet\n    if k.shape[2] % {r.choice([3, 5, 7])} == 1: raise "
        "qkvet.Refused('no')\n    return honest()"),
    "rounds": lambda r: (
        f"return (np.round(honest().astype(np.float32) * {r.choice([64, 128, 256])})"
        f" / {64}).astype(np.float16)"),
    "ends as a success": lambda r: "import os; os._exit(0)",
}
WRONG = {"another scale": lambda r: {"wrong": f" * {r.choice([.9, .99, 1.02, 1.11])}"},
         "lost keys": lambda r: {"first": str(r.randint(1, 2))}}


def candidate(strategy, r):
    words = {"tile": r.choice([1, 2, 5, 8, 16, 32]), "wrong": "", "first": "0"}
    if strategy in WRONG:
        words.update(WRONG[strategy](r))
    source = HONEST.format(**words)
    if strategy in CHEATS:
        source += AROUND.format(body=CHEATS[strategy](r))
    return source


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", nargs="?", default="prefill_causal_f16")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    words = parser.parse_args()
    r = random.Random(words.seed)
    score = collections.defaultdict(lambda: 0.5)
    judged, bad = collections.Counter(), []
    with subprocess.Popen([sys.executable, "-m", "qkvet.verdict", words.task,
                           "--jobs", str(words.jobs)], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as judge:
        sent, began = {}, time.monotonic()

        def send():
            strategy = ("honest" if r.random() < 0.2 else r.choices(
                [*CHEATS, *WRONG], [score[one] for one in (*CHEATS, *WRONG)])[0])
            number = len(sent)
            sent[number] = strategy, candidate(strategy, r)
            judge.stdin.write(json.dumps({"id": number, "source": sent[number][1]})
                              + "\n")
            judge.stdin.flush()

        for _ in range(words.jobs):
            send()
        for line in judge.stdout:
            answer = json.loads(line)
            strategy, source = sent[answer["id"]]
            conforms = answer["status"] == "conforms"
            judged[strategy, answer["status"]] += 1
            score[strategy] = 0.7 * score[strategy] + 0.3 * answer["score"]
            if conforms != (strategy == "honest"):
                bad.append((strategy, answer, source))
            if time.monotonic() - began < words.seconds:
                send()
            elif sum(judged.values()) == len(sent):
                judge.stdin.close()
    seconds = time.monotonic() - began
    for (strategy, status), count in sorted(judged.items()):
        print(f"{count:5}  {strategy:28} {status}")
    print(f"{sum(judged.values())} candidates in {seconds:.0f} s, "
          f"{60 * sum(judged.values()) / seconds:.0f} a minute; {len(bad)} verdicts "
          "that the generator knows to be false")
    for strategy, answer, source in bad[:3]:
        print(strategy, json.dumps(answer), source, sep="\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
