// SPDX-License-Identifier: Apache-2.0
// Faults of query heads that look for their key/value head, or for their slope.
#include <algorithm>
#include <memory>

#include "impl/call/scratch.h"
#include "impl/faulty/kernels.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

struct KeyHeadModulo : OptionHooks {
  static RowAt kv_head(const ForwardCall& call, RowAt at) {
    return {at.b, at.h % call.kv_heads, 0};
  }
};
QKVET_FAULT(key_head_modulo, kOptionFault<KeyHeadModulo>) = {
    .when = "1 < Hkv && Hkv < H",
    .cause = "query head h reads key/value head h % Hkv instead of h / "
             "(H/Hkv): repeated heads are ordered [group, Hkv]",
    .fix = "divide: kv = h / (H / Hkv)",
    .source = "textbook, cf. PSAL-POSTECH/ONNXim#34",
    .killed_by = {"query_heads_read_their_kv_head",
                  "other_heads_change_nothing"},
};

struct HeadDividedByKvHeads : OptionHooks {
  static RowAt kv_head(const ForwardCall& call, RowAt at) {
    return {at.b, std::min(at.h / call.kv_heads, call.kv_heads - 1), 0};
  }
};
QKVET_FAULT(head_divided_by_kv_heads, kOptionFault<HeadDividedByKvHeads>) = {
    .when = "Hkv > 1 && H != Hkv * Hkv",
    .cause = "query head h reads key/value head h / Hkv instead of h / (H / "
             "Hkv): the number of groups is taken for their size",
    .fix = "divide by H / Hkv",
    .source = "PSAL-POSTECH/ONNXim#34",
    .killed_by = {"query_heads_read_their_kv_head",
                  "permuted_heads_permute_output"},
};

struct GroupsUnfoldedBothWays {
  // The head of the nth block: a bijection if there are as many groups as heads
  // in one.
  static int64_t head_of_block(const ForwardCall& call, int64_t n) {
    const int64_t group = call.group();
    return n % group * group + n / group;
  }

  static qkvet_status compute(const ForwardCall& call, qkvet_text* why) {
    std::unique_ptr<float[]> scratch;
    QKVET_TRY(allocate(call.keys, &scratch, why));
    OptionRows<OptionHooks>::Memory memory = {scratch.get(), 0};
    for (int64_t b = 0; b < call.batch; ++b) {
      for (int64_t n = 0; n < call.heads; ++n) {
        const int64_t h = head_of_block(call, n);
        for (int64_t i = 0; h < call.heads && i < call.queries; ++i)
          OptionRows<OptionHooks>::row(call, {b, h, i}, &memory);
      }
    }
    return QKVET_OK;
  }
};
QKVET_FAULT(groups_unfolded_both_ways,
            kForwardFault<forward_in_f32<GroupsUnfoldedBothWays::compute>>) = {
    .when = "H > Hkv && H != Hkv * Hkv",
    .cause = "the head of a block is n % group * group + n / group: the group "
             "size is both the modulus and the stride",
    .fix = "n % Hkv * group + n / Hkv",
    .source = "HazyResearch/HipKittens#22",
    .killed_by = {"reads_only_its_inputs"},
};

struct HeadBlockMixesGroups : OptionHooks {
  static RowAt kv_head(const ForwardCall& call, RowAt at) {
    return {at.b, (at.h - at.h % half_tile()) / call.group(), 0};
  }
};
QKVET_FAULT(head_block_mixes_groups, kOptionFault<HeadBlockMixesGroups>) = {
    .when = "Hkv > 1 && H / Hkv % 2 == 1",
    .cause = "two heads are computed with the keys of the first, though a "
             "block may cross two groups",
    .fix = "end a block where its group ends",
    .source = "ggml-org/llama.cpp#19115",
    .killed_by = {"query_heads_read_their_kv_head",
                  "other_heads_change_nothing"},
    .tiled = true,
};

struct HeadPairsTakeOdd : OptionHooks {
  static RowAt query(const ForwardCall& call, RowAt at) {
    const bool alone =
        call.heads > 1 && at.h + 1 == call.heads && at.h % 2 == 0;
    return {at.b, alone ? at.h - 1 : at.h, at.i};
  }
};
QKVET_FAULT(head_pairs_take_odd, kOptionFault<HeadPairsTakeOdd>) = {
    .when = "H > 1 && H % 2 == 1",
    .cause = "queries are loaded for two heads at once, and the last pair of "
             "an odd number begins one head early",
    .fix = "take it for even numbers only, or a single head at the end",
    .source = "pytorch/pytorch#97128",
    .killed_by = {"other_heads_change_nothing"},
};

struct TokensRepeatedForHeads : OptionHooks {
  static int64_t token(const ForwardCall& call, RowAt at, int64_t j) {
    return (at.h % call.group() * call.keys + j) / call.group();
  }
};
QKVET_FAULT(tokens_repeated_for_heads, kOptionFault<TokensRepeatedForHeads>) = {
    .when = "Hkv < H && Tk > 1",
    .cause = "tokens are repeated for the heads of a group instead of heads, "
             "and the result is cut into heads",
    .fix = "repeat along the heads, or do not copy at all: head h reads "
           "key/value head h / (H / Hkv)",
    .source = "PrimeIntellect-ai/prime-rl#2681",
    .killed_by = {"grouped_heads_equal_repeated_heads",
                  "query_heads_read_their_kv_head"},
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
    if (!slopes.present()) return 0;
    // [H] is read right.
    if (slopes.step[0] == 0) return slopes.get(0, at.h);
    return load(slopes.type, slopes.data,
                Wrong::index({all(), call.kv_heads}, place() + at.b, at.h));
  }
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

struct FirstMember {
  static int64_t index(Extents, int64_t, int64_t h) { return h; }
};
QKVET_FAULT(alibi_slopes_of_first_member,
            kOptionFault<MemberSlopeHooks<FirstMember>, kPackedSlopes>) = {
    .when = "alibi.members && (B > 1 || packed) && (Tq > 1 || Tk > 1)",
    .cause = "all batch elements use the slopes of the first: the kernel was "
             "written for [H] and lacks the batch stride",
    .fix = "add b times the batch stride of the slopes, 0 for [H]",
    .killed_by = {"member_slopes_equal_calls", "bias_alone_decides"},
};

struct OneApart {
  static int64_t index(Extents, int64_t b, int64_t h) { return b + h; }
};
QKVET_FAULT(alibi_slopes_of_members_one_apart,
            kOptionFault<MemberSlopeHooks<OneApart>, kPackedSlopes>) = {
    .when = "alibi.members && (B > 1 || packed) && H > 1 && (Tq > 1 || Tk > 1)",
    .cause = "the slopes of batch element b begin at number b instead of b H: "
             "the stride is that of a head",
    .fix = "slope [b, h] is number b H + h",
    .killed_by = {"member_slopes_equal_calls", "bias_alone_decides"},
};

struct HeadsFirst {
  static int64_t index(Extents all, int64_t b, int64_t h) {
    return h * all.members + b;
  }
};
QKVET_FAULT(alibi_slopes_of_members_heads_first,
            kOptionFault<MemberSlopeHooks<HeadsFirst>, kPackedSlopes>) = {
    .when = "alibi.members && (B > 1 || packed) && H > 1 && (Tq > 1 || Tk > 1)",
    .cause =
        "slopes [B, H] are read as [H, B]: number h B + b instead of b H + h",
    .fix = "slope [b, h] is number b H + h",
    .killed_by = {"member_slopes_equal_calls", "bias_alone_decides"},
};

struct KvHeadsApart {
  static int64_t index(Extents all, int64_t b, int64_t h) {
    return b * all.kv_heads + h;
  }
};
QKVET_FAULT(alibi_slopes_of_members_kv_heads_apart,
            kOptionFault<MemberSlopeHooks<KvHeadsApart>, kPackedSlopes>) = {
    .when =
        "alibi.members && (B > 1 || packed) && Hkv < H && (Tq > 1 || Tk > 1)",
    .cause = "the slopes of batch element b begin at number b Hkv instead of b "
             "H: the wrong count of heads",
    .fix = "slopes belong to query heads: slope [b, h] is number b H + h",
    .killed_by = {"member_slopes_equal_calls", "bias_alone_decides"},
};

}  // namespace qkvet::impl
