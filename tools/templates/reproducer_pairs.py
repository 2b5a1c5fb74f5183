# SPDX-License-Identifier: Apache-2.0
def place_of(call):
    return f"call {call + 1} of {len(CALLS)}: " if len(CALLS) > 1 else ""


def judge_pairs(outputs):
    """Numbers that must be those of another call, bit for bit."""
    for name, first_call, second_call, factor, firsts, seconds in SAME_BITS:
        if name not in outputs[first_call] or name not in outputs[second_call]:
            continue
        one, two = outputs[first_call][name], outputs[second_call][name]
        first, second = one.ravel()[firsts] * factor, two.ravel()[seconds]
        same = (first == second) | (np.isnan(first) & np.isnan(second))
        if same.all():
            continue
        n = np.argmin(same)
        at = np.unravel_index(firsts[n], one.shape)
        other = np.unravel_index(seconds[n], two.shape)
        times = f" times {factor:g}" if factor != 1 else ""
        print(f"{element(place_of(first_call), name, at)}{times} is {text(first[n], 0)}, "
              f"and must have the same bits as "
              f"{element(place_of(second_call), name, other)}, "
              f"which is {text(second[n], 0)}")
        return True
    return False


def judge_calls(answer):
    """Prints what is wrong of answer(call), {name: array}; the exit code."""
    failed, all_outputs = False, []
    for number, call in enumerate(CALLS):
        outputs = answer(call)
        for name, actual in outputs.items():
            failed |= judge(place_of(number), name, call["storage"][name],
                            call["wanted"][name], actual)
        all_outputs.append(outputs)
    failed |= judge_pairs(all_outputs)
    print("FAILED" if failed else "passed")
    return int(failed)
