# SPDX-License-Identifier: Apache-2.0
"""Properties of a callable before it is called: its arguments, its array library.
"""
import functools
import inspect
import types

from . import _abi
from .declare import DEFAULT_OPTIONS, WrongUse, words

_LIBRARIES = ("torch", "jax")
# Callables of other packages that work on arrays of a library.
_ALSO = {"jaxlib": "jax"}
# Methods and functions through which NumPy's arrays become others and back.
_CONVERSIONS = {"numpy", "from_numpy"}
_MAKERS = {"array", "asarray"}  # the same if they are NumPy's
_MOST_FUNCTIONS = 200

# Arguments that some calls of an option have, and others do not.
_ARGUMENTS = {"scale": "scale", "causal_top_left": "causal",
              "causal_bottom_right": "causal", "window": "window", "mask": "mask",
              "bias": "bias", "sink": "sink", "alibi": "slopes", "rope": "rope",
              "paged_channel_groups": "channel_group",
              **{name: name for name in _abi.NUMBERS}}


def _library(name):
    """The library of the module of this name, or None."""
    top = (name or "").partition(".")[0]
    top = _ALSO.get(top, top)
    return top if top in _LIBRARIES else None


def _codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _behind(function):
    """The functions and classes inside a callable."""
    if isinstance(function, functools.partial):
        return [function.func]
    if isinstance(function, types.MethodType):
        return [function.__func__, type(function.__self__)]
    found = [getattr(function, "__wrapped__", None)]
    if inspect.isclass(function):
        found += [one for of in function.__mro__ if of is not object
                  and _library(of.__module__) is None
                  for one in vars(of).values() if callable(one)]
    elif not isinstance(function, types.FunctionType):
        found.append(type(function))
    return [one for one in found if one is not None]


def library_of(function):
    """The name of the array library that a callable works with: torch or jax if
    it, or a function of its module that it calls, uses one of them and converts
    nothing from or to NumPy; otherwise numpy."""
    found, seen, waiting = set(), set(), [function]
    while waiting and len(seen) < _MOST_FUNCTIONS:
        one = waiting.pop()
        if id(one) in seen or one is type:
            continue
        seen.add(id(one))
        classes = one.__mro__ if inspect.isclass(one) else ()
        for part in (one, *classes):
            found.add(_library(getattr(part, "__module__", None)))
        waiting += _behind(one)
        if not isinstance(one, types.FunctionType):
            continue
        used = {name for code in _codes(one.__code__) for name in code.co_names}
        if used & _CONVERSIONS:
            return "numpy"
        values = [one.__globals__[name] for name in used
                  if name in one.__globals__]
        for cell in one.__closure__ or ():
            try:
                values.append(cell.cell_contents)
            except ValueError:
                pass  # not yet set
        for value in values:
            if isinstance(value, types.ModuleType):
                if value.__name__ == "numpy" and used & _MAKERS:
                    return "numpy"
                found.add(_library(value.__name__))
            elif callable(value):
                found.add(_library(getattr(value, "__module__", None)))
                if getattr(value, "__module__", None) == one.__module__:
                    waiting.append(value)
    found.discard(None)
    return found.pop() if len(found) == 1 else "numpy"


def arrays_of(function, fields):
    """The default of `arrays`."""
    way = words(fields.get("gradient") or "").partition(" ")[0]
    return {"autograd": "torch", "vjp": "jax"}.get(way) or library_of(function)


def _option_of(argument):
    return next((option for option, name in _ARGUMENTS.items()
                 if name == argument), None)


def check_arguments(target, function, fields):
    """WrongUse, one line, if declared calls cannot be calls of the callable. A
    callable without a signature is not checked."""
    if not callable(function):
        raise WrongUse(f"{target} is no callable, but of type "
                       f"{type(function).__name__}")
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return
    parameters = list(signature.parameters.values())
    kinds = {kind: [one.name for one in parameters if one.kind == kind]
             for kind in (inspect.Parameter.POSITIONAL_ONLY,
                          inspect.Parameter.POSITIONAL_OR_KEYWORD)}
    positional = [name for names in kinds.values() for name in names]
    takes = f"{target} takes {signature}"
    if len(positional) < 3 and not any(
            one.kind == inspect.Parameter.VAR_POSITIONAL for one in parameters):
        raise WrongUse(f"{takes}; expected (q, k, v), and the options of a call "
                       "by name")
    if "like" in fields:
        return  # its options are the convention's
    options = words(fields.get("options") or DEFAULT_OPTIONS).split()
    always = "causal_only" in words(fields.get("flags") or "").split()
    given = {_ARGUMENTS[one] for one in options if one in _ARGUMENTS
             and not (always and one.startswith("causal_"))}
    for one in parameters[3:]:
        option = _option_of(one.name)
        if one.default is not one.empty or one.kind in (
                one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        if option is None:
            if fields.get("options") is None:
                raise WrongUse(f"{takes}; no call has {one.name}: give it a "
                               "default")
        elif one.name not in given:
            raise WrongUse(f"{takes}; no call has {one.name}: declare its option "
                           f'(options="{option} ..."), or give it a default')
        elif one.name != "scale" or "default_scale" in options:
            raise WrongUse(f"{takes}; some calls have no {one.name}: give it a "
                           "default, such as None")
