# SPDX-License-Identifier: Apache-2.0
"""Heat maps of one call: expected, actual, and the error in units of the bound.

    call = report.failures[0].call           # or qkvet.inspect.call(o, q, k, v)
    qkvet.inspect.figure(call, path="o.png")

Needs matplotlib (pip install matplotlib).
"""
import numpy as np

from .call import as_numpy, reference
from .declare import WrongUse
from .report import Call

# Beyond this many cells a side, numbers are not written into them.
_MOST_WRITTEN = 8
_NO_NUMBER = "#ff4fd8"  # pink
# Names of the axes of a map, rows and columns.
_AXES = {"o": ("query", "channel of v"), "weights": ("query", "key")}


def call(actual, q, k, v, **words) -> Call:
    """A Call from given tensors, for `figure`. actual: o, or a dictionary with o and
    weights; words: the arguments of `qkvet.reference`."""
    outputs = actual if isinstance(actual, dict) else {"o": actual}
    exact = reference(q, k, v, **words)
    names = [name for name in ("o", "lse", "weights") if name in outputs]
    time_first = words.get("layout") == "bthd"
    arrays = {name: as_numpy(outputs[name]) for name in names}
    if time_first and "o" in arrays:
        arrays["o"] = arrays["o"].swapaxes(-3, -2)
    arrays.update((name, as_numpy(one)) for name, one in
                  {"q": q, "k": k, "v": v}.items())
    return Call("", arrays, {name: getattr(exact, name) for name in names},
                {name: exact.bound[name] for name in names})


def _plane(array, member, head):
    return np.asarray(array, np.float64)[member, head]


def off_by_bounds(of_call, name="o"):
    """|actual - expected| / bound of each element, [B, H, ...]; above 1 is a failure.
    0 if both are equal, also as NaN or infinity; infinite if only one is not
    finite, or if the bound is 0 and they differ."""
    actual = np.asarray(of_call.arrays[name], np.float64)
    expected, bound = of_call.expected[name], of_call.bound[name]
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.abs(actual - expected) / bound
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    return np.where(same, 0, np.where(np.isnan(ratio), np.inf, ratio))


def _worst(of_call, name):
    """(member, head) of the element that is off by most."""
    ratio = off_by_bounds(of_call, name)
    return np.unravel_index(int(ratio.argmax()), ratio.shape)[:2]


def _draw(axes, values, title, labels, written=None, **words):
    """One map; small ones with their numbers, `written` or the values."""
    image = axes.imshow(values, aspect="auto", interpolation="nearest", **words)
    axes.set_title(title)
    axes.set_xlabel(labels[1])
    axes.set_ylabel(labels[0])
    for axis, n in ((axes.yaxis, values.shape[0]), (axes.xaxis, values.shape[1])):
        axis.get_major_locator().set_params(integer=True)
        if n <= _MOST_WRITTEN:
            axis.set_ticks(range(n))
    if max(values.shape) <= _MOST_WRITTEN:
        for (row, column), value in np.ndenumerate(
                values if written is None else written):
            red, green, blue, _ = image.cmap(image.norm(values[row, column]))
            dark = 0.3 * red + 0.6 * green + 0.1 * blue < 0.5
            axes.text(column, row, f"{value:.2g}", ha="center", va="center",
                      fontsize=8, color="white" if dark else "black")
    return image


def _counted(name, values):
    """"actual o, 3 not finite": values without a colour."""
    lost = int((~np.isfinite(values)).sum())
    return name + (f", {lost} not finite (pink)" if lost else "")


def _draw_ratio(axes, ratio, labels):
    """White to blue up to the bound; beyond it orange to red, by powers of ten;
    pink if the error is not finite."""
    from matplotlib.colors import LinearSegmentedColormap
    largest = ratio[np.isfinite(ratio)].max(initial=0)
    powers = max(1, int(np.ceil(np.log10(max(largest, 1)))))
    with np.errstate(divide="ignore"):
        place = np.where(ratio <= 1, ratio, 1 + np.log10(np.maximum(ratio, 1)))
    place = np.where(np.isfinite(place), place, np.nan)
    border = 1 / (1 + powers)
    colours = LinearSegmentedColormap.from_list("error/bound", [
        (0, "white"), (border, "#6baed6"), (border, "#fdae61"), (1, "#a50026")],
        N=1024).with_extremes(bad=_NO_NUMBER)
    image = _draw(axes, place, f"error/bound, at most {ratio.max():.3g}", labels,
                  written=ratio, cmap=colours, vmin=0, vmax=1 + powers)
    bar = axes.figure.colorbar(image, ax=axes)
    step = -(-powers // 6)
    bar.set_ticks([0, 0.5, *range(1, powers + 2, step)])
    bar.set_ticklabels(["0", "0.5", *(f"{10.0 ** n:g}"
                                      for n in range(0, powers + 1, step))])


def figure(of_call, name="o", *, member=None, head=None, path=None):
    """A matplotlib Figure of three heat maps of one head: expected, actual, and
    error/bound, blue up to 1 and red above.

    of_call: a Call. name: "o" (queries by channels) or "weights" (queries by
    keys). member, head: indices [those of the largest error/bound]. path: a file
    to write. WrongUse if the call has no such output; ImportError without
    matplotlib.
    """
    if name not in _AXES or name not in of_call.arrays or (
            name not in of_call.expected):
        there = [one for one in _AXES if one in of_call.arrays
                 and one in of_call.expected]
        raise WrongUse(f"{name} is no output of this call that can be drawn; "
                       "allowed: " + (", ".join(there) or "none"))
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("figures need the package matplotlib (pip install "
                          "matplotlib)") from None
    worst = _worst(of_call, name)
    member, head = (int(there if given is None else given)
                    for given, there in zip((member, head), worst))
    expected, actual = (_plane(one[name], member, head) for one in
                        (of_call.expected, of_call.arrays))
    drawn = Figure(figsize=(13, 4.4), layout="constrained")
    left, middle, right = drawn.subplots(1, 3)
    finite = np.concatenate([one[np.isfinite(one)] for one in (expected, actual)])
    span = {"vmin": finite.min(), "vmax": finite.max()} if finite.size else {}
    colours = matplotlib.colormaps["viridis"].with_extremes(bad=_NO_NUMBER)
    for axes, title, values in ((left, "expected", expected),
                                (middle, "actual", actual)):
        shown = _draw(axes, np.where(np.isfinite(values), values, np.nan),
                      _counted(f"{title} {name}", values), _AXES[name],
                      written=values, cmap=colours, **span)
    drawn.colorbar(shown, ax=[left, middle])
    _draw_ratio(right, off_by_bounds(of_call, name)[member, head], _AXES[name])
    drawn.suptitle(f"{of_call.case}   member {member}, head {head}".strip())
    if path is not None:
        drawn.savefig(path, dpi=110)
    return drawn
