# SPDX-License-Identifier: Apache-2.0
def judge_end(place, call, answer):
    """Whether the call is refused where it must not be, or the other way round.
    """
    reason = answer["refused"]
    if call["refusal"] is None:
        if reason is not None:
            print(f"{place}expected a result: the call is legal actual "
                  f"refused: {reason}")
        return reason is not None
    if reason:
        return False
    print(f"{place}expected {call['refusal']} actual "
          f"{'accepted' if reason is None else 'refused without a reason'}")
    return True
