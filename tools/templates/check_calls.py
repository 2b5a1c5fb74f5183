# SPDX-License-Identifier: Apache-2.0
def place_of(folder):
    return "" if folder == HERE else f"{folder.name}: "


def judge_pairs(folders):
    """Numbers that must be those of another call, bit for bit."""
    if not (HERE / "same_bits.npy").exists():
        return False
    for output, call, other, n, m, factor in np.load(HERE / "same_bits.npy"):
        name = OUTPUTS[int(output)]
        one, two = (load(folders[int(c)], f"actual_{name}")
                    for c in (call, other))
        first, second = one.ravel()[int(n)] * factor, two.ravel()[int(m)]
        if first == second or (np.isnan(first) and np.isnan(second)):
            continue
        at = element(place_of(folders[int(call)]), name,
                     np.unravel_index(int(n), one.shape))
        to = element(place_of(folders[int(other)]), name,
                     np.unravel_index(int(m), two.shape))
        print(f"{at} is {text(first, True)}, and must have the same bits as "
              f"{to}, which is {text(second, True)}")
        return True
    return False


def main():
    np.seterr(all="ignore")
    folders = sorted(HERE.glob("call*/"), key=lambda x: int(x.name[4:])) or [HERE]
    failed = False
    for folder in folders:
        for name in OUTPUTS:
            if (folder / f"actual_{name}.npy").exists():
                failed |= judge(place_of(folder), folder, name)
    failed |= judge_pairs(folders)
    print("FAILED" if failed else "passed")
    return int(failed)
