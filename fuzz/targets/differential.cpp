// SPDX-License-Identifier: Apache-2.0
// differential: two kernels on one input. Both are compared with the oracle,
// and the engine climbs by the distance between the two: it finds the inputs
// where one kernel deviates from the other, although each is still within its
// bound.
#include "fuzz/targets/target.h"

namespace qkvet::fuzz {
namespace {

constexpr const char* kLaws[] = {"agrees_with_oracle"};

}  // namespace

extern constinit const FuzzTarget fuzz_differential = {
    .name = "differential",
    .sentence = "Two kernels differ by the sum of their bounds at most.",
    .laws = kLaws,
    .values_percent = 50,
    .differential = true};

}  // namespace qkvet::fuzz
