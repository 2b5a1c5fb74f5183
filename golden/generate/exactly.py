# SPDX-License-Identifier: Apache-2.0
"""One row of attention in decimal, with 60 digits: every number that is stored
is an exact decimal, so what comes out is right to far more digits than any
storage type has, and float() rounds it once."""
import decimal
from decimal import Decimal

CONTEXT = decimal.Context(prec=60, Emax=10**9, Emin=-10**9)


def dot(a, b):
    total = Decimal(0)
    for x, y in zip(a, b):
        total = CONTEXT.add(total, CONTEXT.multiply(Decimal(x), Decimal(y)))
    return total


def row(q, keys, values, scale, biases=None):
    """(weights, o, lse) of one query over the keys that it sees, as Decimals.
    `scale` is a Decimal; no key may be hidden."""
    scores = [CONTEXT.multiply(scale, dot(q, k)) for k in keys]
    if biases is not None:
        scores = [CONTEXT.add(s, Decimal(b)) for s, b in zip(scores, biases)]
    most = max(scores)
    parts = [CONTEXT.exp(CONTEXT.subtract(s, most)) for s in scores]
    total = dot(parts, [1] * len(parts))
    weights = [CONTEXT.divide(part, total) for part in parts]
    o = [dot(weights, column) for column in zip(*values)]
    return weights, o, CONTEXT.add(most, CONTEXT.ln(total))


def ln(n, plus=0):
    """ln n + plus, rounded once."""
    return float(CONTEXT.add(CONTEXT.ln(Decimal(n)), Decimal(plus)))


def usual_scale(d):
    return CONTEXT.divide(Decimal(1), CONTEXT.sqrt(Decimal(d)))


def attend(q, k, v, scale, sees):
    """All rows of one head; `sees(i, j)`. Lists of floats: weights [Tq][Tk], o
    [Tq][dv], lse [Tq]."""
    all_weights, o, lse = [], [], []
    for i, query in enumerate(q):
        seen = [j for j in range(len(k)) if sees(i, j)]
        weights, answer, total = row(query, [k[j] for j in seen],
                                     [v[j] for j in seen], scale)
        spread = [0.0] * len(k)
        for j, weight in zip(seen, weights):
            spread[j] = float(weight)
        all_weights.append(spread)
        o.append([float(x) for x in answer])
        lse.append(float(total))
    return all_weights, o, lse
