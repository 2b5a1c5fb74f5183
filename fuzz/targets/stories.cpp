// SPDX-License-Identifier: Apache-2.0
// stories: commands to a KV cache.
#include "fuzz/targets/target.h"

namespace qkvet::fuzz {
namespace {

constexpr const char* kLaws[] = {"cache_*"};

}  // namespace

extern constinit const FuzzTarget fuzz_stories = {
    .name = "stories",
    .sentence = "Every law about caches holds after every command of a story.",
    .subject = Subject::kCache,
    .laws = kLaws,
    .values_percent = 20};

}  // namespace qkvet::fuzz
