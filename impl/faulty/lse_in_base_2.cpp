// SPDX-License-Identifier: Apache-2.0
// faulty/lse_in_base_2: lse to base 2 under the name of a natural one.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct LseInBase2 : OptionSeams {
  static float lse(float max, float sum, float) {
    return (max + std::log(sum)) * 1.44269504f;
  }
};

constexpr const char* kKilledBy[] = {"lse_counts_equal_keys",
                                     "split_and_merge_by_lse",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "lse is a logarithm to base 2 and is declared to be natural",
    .symptom = "parts merged by it get wrong weights",
    .cause = "arithmetic in base 2, and no conversion at the end",
    .fix = "multiply by ln 2, or declare base 2",
    .source = "textbook, cf. deepseek-ai/FlashMLA#106",
    .trigger = "lse is asked for, and a row sees two keys or has a score",
    .killed_by = kKilledBy,
    .when = "lse && rows(seen > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_lse_in_base_2 =
    option_fault<LseInBase2>("faulty/lse_in_base_2", &kFault,
                             {"impl/faulty/lse_in_base_2.cpp", __LINE__});

}  // namespace qkvet::impl
