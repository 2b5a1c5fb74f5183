# SPDX-License-Identifier: Apache-2.0
"""Gradients of a callable, from its framework or from the callable itself."""
from .declare import WrongUse, words

_WAYS = ("autograd", "vjp", "function")


class Gradient:
    """The word `gradient`: the way, and after it additional inputs with a gradient
    to be judged ("vjp bias sink")."""

    def __init__(self, text, more=()):
        """text: the word, or None. more: inputs that may follow it. WrongUse for
        others."""
        way, *self.more = words(text or "").split() or [None]
        if way not in (None, *_WAYS):
            raise WrongUse(f"gradient = {way!r}; allowed: " + ", ".join(_WAYS))
        unknown = [name for name in self.more if name not in more]
        if unknown:
            raise WrongUse(f"gradient: {unknown[0]!r} behind {way}; allowed: "
                           + (", ".join(more) or "nothing"))
        self.way = way

    def of(self, call, leaves, d_out):
        """Gradients by name of call(**leaves) for an output with the gradient
        d_out."""
        return getattr(self, "_by_" + self.way)(call, leaves, d_out)

    @staticmethod
    def _by_autograd(call, leaves, d_out):
        import torch
        leaves = {name: one.detach().requires_grad_(True)
                  for name, one in leaves.items()}
        with torch.enable_grad():
            out = call(**leaves)
            grads = torch.autograd.grad(out, list(leaves.values()), d_out,
                                        allow_unused=True)
        return dict(zip(leaves, grads))

    @staticmethod
    def _by_vjp(call, leaves, d_out):
        import jax
        names = list(leaves)

        def of_values(*values):
            return call(**dict(zip(names, values)))

        return dict(zip(names, jax.vjp(of_values, *leaves.values())[1](d_out)))


def named(returned, names):
    """The result of a callable's own backward(), by the names of the inputs: a
    tuple in their order, or a dictionary with the prefix d_."""
    if isinstance(returned, dict):
        return {name: returned.get("d_" + name) for name in names}
    if not isinstance(returned, (tuple, list)):
        returned = (returned,)
    return {**dict.fromkeys(names), **dict(zip(names, returned))}
