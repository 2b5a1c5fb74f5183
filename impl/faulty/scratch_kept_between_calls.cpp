// SPDX-License-Identifier: Apache-2.0
// faulty/scratch_kept_between_calls: scratch memory outlives the row and the
// call.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct ScratchKeptBetweenCalls : OptionSeams {
  static float first_value() { return last(); }
  static float value(float v) {
    last() = v;
    return v;
  }

 private:
  static float& last() {
    thread_local float value = 0;
    return value;
  }
};

constexpr const char* kKilledBy[] = {"same_call_same_bits", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a sum of values begins with the last value of the sum before, which "
        "may be one of an earlier call",
    .symptom =
        "small errors everywhere, and other ones when something else was "
        "called in between",
    .cause = "scratch memory kept between sums and calls, and not cleared",
    .fix = "clear what a sum is collected in before it begins",
    .source = "textbook",
    .trigger = "any element but the very first of a process",
    .killed_by = kKilledBy,
    .when = "",
};

}  // namespace

extern constinit const qkvet_kernel faulty_scratch_kept_between_calls =
    option_fault<ScratchKeptBetweenCalls>(
        "faulty/scratch_kept_between_calls", &kFault,
        {"impl/faulty/scratch_kept_between_calls.cpp", __LINE__});

}  // namespace qkvet::impl
