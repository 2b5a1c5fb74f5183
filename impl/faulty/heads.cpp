// SPDX-License-Identifier: Apache-2.0
// Faults of query heads that look for their key/value head, or for their slope.
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

// ALiBi slopes that each member has for itself, [B, H].
namespace {

struct Extents {
  int64_t members, kv_heads;
};

// Where a fault looks for slopes in place of [b, h]; members that are cut out
// of a call are told apart by their number in it.
template <class Wrong>
struct MemberSlopeHooks : OptionHooks {
  static void member(const ForwardCall& whole, int64_t n, ForwardCall* member) {
    // Of the whole call, so that no row is left out on the way there.
    member->options.slopes = whole.options.slopes;
    const Options& options = whole.options;
    place() = options.has_lengths() ? n : 0;
    all() = options.cu_q.data != nullptr ? options.members : whole.batch;
  }
  static float slope(const ForwardCall& call, RowAt at) {
    const Stored& slopes = call.options.slopes;
    if (!slopes.present()) {
      return 0;
    }
    // [H] is read right.
    if (slopes.step[0] == 0) {
      return slopes.get(0, at.h);
    }
    return load(slopes.type, slopes.data,
                Wrong::index({all(), call.kv_heads}, place() + at.b, at.h));
  }

 private:
  static int64_t& place() {
    thread_local int64_t member = 0;
    return member;
  }
  static int64_t& all() {
    thread_local int64_t members = 0;
    return members;
  }
};

constexpr uint64_t kSlopes = QKVET_OPTION_ALIBI | QKVET_OPTION_ALIBI_PER_MEMBER;
constexpr uint64_t kPackedSlopes =
    kSlopes | QKVET_OPTION_LENGTHS | QKVET_OPTION_PACKED;

}  // namespace

// The member is left out.
struct FirstMember {
  static int64_t index(Extents, int64_t, int64_t h) { return h; }
};
QKVET_FAULT(alibi_slopes_of_first_member) = {
    .kernel = option_fault<MemberSlopeHooks<FirstMember>, kPackedSlopes>,
    .mechanism =
        "slopes are read by the head alone: all members have those of "
        "the first one",
    .symptom =
        "the first member of a batch is right, all others are biased as "
        "if they were it",
    .cause =
        "slopes were [H] when the kernel was written, and [B, H] is let "
        "in with no stride for a member",
    .fix = "add b times the stride of a member, 0 for [H]",
    .source = "textbook (slopes of each member)",
    .trigger = "slopes of each member, and two members",
    .killed_by = {"member_slopes_equal_calls", "bias_alone_decides",
                  "agrees_with_oracle"},
    .when = "alibi.members && (B > 1 || packed) && (Tq > 1 || Tk > 1)",
};

// The slopes of a member begin one number behind those of the one before.
struct OneApart {
  static int64_t index(Extents, int64_t b, int64_t h) { return b + h; }
};
QKVET_FAULT(alibi_slopes_of_members_one_apart) = {
    .kernel = option_fault<MemberSlopeHooks<OneApart>, kPackedSlopes>,
    .mechanism = "the slopes of member b begin at number b in place of b H",
    .symptom =
        "the first member is right, the heads of all others have the "
        "slopes of a head behind theirs, or of the next member",
    .cause = "the stride of a member is that of a head",
    .fix = "slope [b, h] is number b H + h",
    .source = "textbook (slopes of each member)",
    .trigger = "slopes of each member, two members, and two heads",
    .killed_by = {"member_slopes_equal_calls", "bias_alone_decides",
                  "agrees_with_oracle"},
    .when = "alibi.members && (B > 1 || packed) && H > 1 && (Tq > 1 || Tk > 1)",
};

// The table is taken for [H, B].
struct HeadsFirst {
  static int64_t index(Extents all, int64_t b, int64_t h) {
    return h * all.members + b;
  }
};
QKVET_FAULT(alibi_slopes_of_members_heads_first) = {
    .kernel = option_fault<MemberSlopeHooks<HeadsFirst>, kPackedSlopes>,
    .mechanism =
        "slopes [B, H] are read as [H, B]: number h B + b in place of "
        "b H + h",
    .symptom =
        "right where all heads or all members have the same slopes, and "
        "with one head",
    .cause = "an index is written for the other order of extents",
    .fix = "slope [b, h] is number b H + h",
    .source = "textbook (slopes of each member)",
    .trigger = "slopes of each member, two members, and two heads",
    .killed_by = {"member_slopes_equal_calls", "bias_alone_decides",
                  "agrees_with_oracle"},
    .when = "alibi.members && (B > 1 || packed) && H > 1 && (Tq > 1 || Tk > 1)",
};

// Heads are counted by those of k and v.
struct KvHeadsApart {
  static int64_t index(Extents all, int64_t b, int64_t h) {
    return b * all.kv_heads + h;
  }
};
QKVET_FAULT(alibi_slopes_of_members_kv_heads_apart) = {
    .kernel = option_fault<MemberSlopeHooks<KvHeadsApart>, kPackedSlopes>,
    .mechanism = "the slopes of member b begin at number b Hkv in place of b H",
    .symptom =
        "right without groups of heads; with them all members but the "
        "first have slopes of others",
    .cause = "one count of heads serves k, v and what each query head has",
    .fix = "slopes belong to query heads: slope [b, h] is number b H + h",
    .source = "textbook (slopes of each member)",
    .trigger = "slopes of each member, two members, and Hkv < H",
    .killed_by = {"member_slopes_equal_calls", "bias_alone_decides",
                  "agrees_with_oracle"},
    .when =
        "alibi.members && (B > 1 || packed) && Hkv < H && "
        "(Tq > 1 || Tk > 1)",
};

}  // namespace qkvet::impl
