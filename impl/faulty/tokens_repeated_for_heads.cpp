// SPDX-License-Identifier: Apache-2.0
// faulty/tokens_repeated_for_heads: tokens are repeated where heads should be.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct TokensRepeatedForHeads : OptionSeams {
  static int64_t token(const ForwardCall& call, RowAt at, int64_t j) {
    return (at.h % call.group() * call.keys + j) / call.group();
  }
};

constexpr const char* kKilledBy[] = {"grouped_heads_equal_repeated_heads",
                                     "query_heads_read_their_kv_head",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "each token is repeated once for every head of a group, and the result "
        "is cut into heads",
    .symptom =
        "the extents are right; the first head of a group sees the first "
        "tokens several times, the next head the rest",
    .cause =
        "a repetition along the axis of tokens, where that of heads was meant",
    .fix =
        "repeat along the heads, or do not copy at all: head h reads key/value "
        "head h / (H / Hkv)",
    .source = "PrimeIntellect-ai/prime-rl#2681",
    .trigger = "Hkv < H and Tk > 1",
    .killed_by = kKilledBy,
    .when = "Hkv < H && Tk > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_tokens_repeated_for_heads =
    option_fault<TokensRepeatedForHeads>(
        "faulty/tokens_repeated_for_heads", &kFault,
        {"impl/faulty/tokens_repeated_for_heads.cpp", __LINE__});

}  // namespace qkvet::impl
