// SPDX-License-Identifier: Apache-2.0
// layer: from X to Y, shapes and numbers alike.
#include "fuzz/targets/target.h"

namespace qkvet::fuzz {
namespace {

constexpr const char* kLaws[] = {"*"};

}  // namespace

extern constinit const FuzzTarget fuzz_layer = {
    .name = "layer",
    .sentence = "Every law about layers holds, stage by stage.",
    .subject = Subject::kLayer,
    .laws = kLaws,
    .values_percent = 40};

}  // namespace qkvet::fuzz
