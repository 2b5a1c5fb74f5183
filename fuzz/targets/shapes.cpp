// SPDX-License-Identifier: Apache-2.0
// shapes: extents, strides, layouts, storage types, options and lengths, under
// every law about attention.
#include "fuzz/targets/target.h"

namespace qkvet::fuzz {
namespace {

constexpr const char* kLaws[] = {"*"};

}  // namespace

extern constinit const FuzzTarget fuzz_shapes = {
    .name = "shapes",
    .sentence =
        "Every law about attention holds at all extents, layouts, lengths and "
        "options.",
    .laws = kLaws,
    .values_percent = 15};

}  // namespace qkvet::fuzz
