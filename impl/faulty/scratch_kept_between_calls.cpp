// SPDX-License-Identifier: Apache-2.0
// faulty/scratch_kept_between_calls: scratch memory outlives the row and the
// call.
#include "impl/faulty/option_seams.h"

namespace qkvet::impl {
namespace {

struct ScratchKeptBetweenCalls : OptionSeams {
  static float first_sum(float of_sink) { return of_sink + last(); }
  static float weight(const ForwardCall&, int64_t, float weight) {
    last() = weight;
    return weight;
  }

 private:
  static float& last() {
    thread_local float weight = 0;
    return weight;
  }
};

constexpr const char* kKilledBy[] = {"same_call_same_bits",
                                     "lse_counts_equal_keys",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the denominator begins with the last exponential of the row before, "
        "which may be one of an earlier call",
    .symptom =
        "outputs too small, and other ones when something else was called in "
        "between",
    .cause = "scratch memory kept between rows and calls, and not cleared",
    .fix = "clear what a sum is collected in, row by row",
    .source = "textbook",
    .trigger = "any row but the very first of a process",
    .killed_by = kKilledBy,
};

}  // namespace

extern constinit const qkvet_kernel faulty_scratch_kept_between_calls =
    option_fault<ScratchKeptBetweenCalls>(
        "faulty/scratch_kept_between_calls", &kFault,
        {"impl/faulty/scratch_kept_between_calls.cpp", __LINE__});

}  // namespace qkvet::impl
