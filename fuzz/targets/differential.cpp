// SPDX-License-Identifier: Apache-2.0
// differential: two kernels on one input. Both are held against the oracle, and
// what the engine climbs by is the distance between the two: where one kernel
// leaves the other it finds the way, although each is still within its bound.
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
