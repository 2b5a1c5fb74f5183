// SPDX-License-Identifier: Apache-2.0
// Faults of query heads that look for their key/value head.
#include <algorithm>
#include <memory>
#include <new>

#include "impl/faulty/kernels.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

// Query heads take the key/value heads in turn.
struct KeyHeadModulo : OptionHooks {
  static RowAt kv_head(const ForwardCall& call, RowAt at) {
    return {at.b, at.h % call.kv_heads, 0};
  }
};
QKVET_FAULT(key_head_modulo) = {
    .kernel = option_fault<KeyHeadModulo>,
    .mechanism =
        "query head h reads key/value head h % Hkv instead of h / (H/Hkv)",
    .symptom = "every other query head attends to the keys of another group",
    .cause =
        "repeated heads laid out as [group, Hkv] where [Hkv, group] is meant",
    .fix = "divide: kv = h / (H / Hkv)",
    .source = "textbook, cf. PSAL-POSTECH/ONNXim#34",
    .trigger = "1 < Hkv < H",
    .killed_by = {"query_heads_read_their_kv_head",
                  "other_heads_change_nothing", "nan_stays_in_its_head",
                  "permuted_heads_permute_output",
                  "grouped_heads_equal_repeated_heads", "agrees_with_oracle"},
    .when = "1 < Hkv && Hkv < H",
};

// Query heads are divided by the number of key/value heads.
struct HeadDividedByKvHeads : OptionHooks {
  static RowAt kv_head(const ForwardCall& call, RowAt at) {
    return {at.b, std::min(at.h / call.kv_heads, call.kv_heads - 1), 0};
  }
};
QKVET_FAULT(head_divided_by_kv_heads) = {
    .kernel = option_fault<HeadDividedByKvHeads>,
    .mechanism =
        "query head h reads key/value head h / Hkv instead of h / (H / Hkv)",
    .symptom =
        "right where there are as many groups as heads in one, as with 4 heads "
        "of 2; wrong elsewhere",
    .cause = "the number of groups taken for their size",
    .fix = "divide by H / Hkv",
    .source = "PSAL-POSTECH/ONNXim#34",
    .trigger = "Hkv > 1, and groups of another size than Hkv",
    .killed_by = {"query_heads_read_their_kv_head",
                  "other_heads_change_nothing", "nan_stays_in_its_head",
                  "permuted_heads_permute_output", "agrees_with_oracle"},
    .when = "Hkv > 1 && H != Hkv * Hkv",
};

// Heads are numbered by group in both directions.
struct GroupsUnfoldedBothWays {
  // The head of the nth block: a bijection if there are as many groups as heads
  // in one.
  static int64_t head_of_block(const ForwardCall& call, int64_t n) {
    const int64_t group = call.group();
    return n % group * group + n / group;
  }

  static qkvet_status compute(const ForwardCall& call, qkvet_text* why) {
    const std::unique_ptr<float[]> scratch(
        new (std::nothrow) float[static_cast<size_t>(call.keys)]);
    if (scratch == nullptr) {
      return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the scores");
    }
    for (int64_t b = 0; b < call.batch; ++b) {
      for (int64_t n = 0; n < call.heads; ++n) {
        const int64_t h = head_of_block(call, n);
        for (int64_t i = 0; h < call.heads && i < call.queries; ++i) {
          HooksKernel<PlainHooks>::row(call, b, h, i, scratch.get());
        }
      }
    }
    return QKVET_OK;
  }
};
QKVET_FAULT(groups_unfolded_both_ways) = {
    .kernel = forward_fault<forward_in_f32<GroupsUnfoldedBothWays::compute>>,
    .mechanism = "the head of a block is n % group * group + n / group",
    .symptom =
        "some heads are computed twice, others never: they hold what the "
        "memory held before",
    .cause =
        "the size of a group is both the modulus and the stride; it fits where "
        "H / Hkv = Hkv, as for 64 and 8",
    .fix = "n % Hkv * group + n / Hkv",
    .source = "HazyResearch/HipKittens#22",
    .trigger = "groups of heads, not as many as there are heads in one",
    .killed_by = {"reads_only_its_inputs"},
    .when = "H > Hkv && H != Hkv * Hkv",
};

// A block of heads reads the keys of its first one.
struct HeadBlockMixesGroups : OptionHooks {
  static RowAt kv_head(const ForwardCall& call, RowAt at) {
    return {at.b, (at.h - at.h % half_tile()) / call.group(), 0};
  }
};
QKVET_FAULT(head_block_mixes_groups) = {
    .kernel = option_fault<HeadBlockMixesGroups>,
    .mechanism = "two heads are taken at once, with the keys of the first",
    .symptom =
        "right for even groups; the last head of an odd one takes the next one "
        "with it",
    .cause =
        "a block of columns is loaded for one key/value head, and groups are "
        "taken to be multiples of it",
    .fix = "end a block where its group ends",
    .source = "ggml-org/llama.cpp#19115",
    .trigger = "Hkv > 1, and an odd number of heads in a group",
    .killed_by = {"query_heads_read_their_kv_head",
                  "other_heads_change_nothing", "nan_stays_in_its_head",
                  "permuted_heads_permute_output", "agrees_with_oracle"},
    .when = "Hkv > 1 && H / Hkv % 2 == 1",
    .tiled = true,
};

// The path for pairs of heads takes an odd number of them.
struct HeadPairsTakeOdd : OptionHooks {
  static RowAt query(const ForwardCall& call, RowAt at) {
    const bool alone =
        call.heads > 1 && at.h + 1 == call.heads && at.h % 2 == 0;
    return {at.b, alone ? at.h - 1 : at.h, at.i};
  }
};
QKVET_FAULT(head_pairs_take_odd) = {
    .kernel = option_fault<HeadPairsTakeOdd>,
    .mechanism =
        "queries are loaded for two heads at once, and the last pair begins "
        "one head early to fill itself",
    .symptom =
        "with an odd number of heads the last one answers the queries of the "
        "one before it",
    .cause =
        "a path for even numbers of heads is chosen whatever their number is",
    .fix = "take it for even numbers only, or a single head at the end",
    .source = "pytorch/pytorch#97128",
    .trigger = "an odd number of heads, three or more",
    .killed_by = {"other_heads_change_nothing"},
    .when = "H > 1 && H % 2 == 1",
};

// Tokens are repeated where heads should be.
struct TokensRepeatedForHeads : OptionHooks {
  static int64_t token(const ForwardCall& call, RowAt at, int64_t j) {
    return (at.h % call.group() * call.keys + j) / call.group();
  }
};
QKVET_FAULT(tokens_repeated_for_heads) = {
    .kernel = option_fault<TokensRepeatedForHeads>,
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
    .killed_by = {"grouped_heads_equal_repeated_heads",
                  "query_heads_read_their_kv_head", "agrees_with_oracle"},
    .when = "Hkv < H && Tk > 1",
};

}  // namespace qkvet::impl
