// SPDX-License-Identifier: Apache-2.0
// Faults of ALiBi slopes that each member has for itself, [B, H].
#include "impl/faulty/kernels.h"

namespace qkvet::impl {
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
