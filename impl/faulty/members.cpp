// SPDX-License-Identifier: Apache-2.0
// Faults of the members of a batch, with lengths or packed.
#include "impl/faulty/kernels.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

// One key beyond the length.
struct KvLenInclusive : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (whole.options.kv_len.data != nullptr && member->keys < whole.keys) {
      ++member->keys;
    }
  }
};
QKVET_FAULT(kv_len_inclusive) = {
    .kernel = option_fault<KvLenInclusive, QKVET_OPTION_LENGTHS>,
    .mechanism = "kv_len is taken for the last key, not for the number of keys",
    .symptom = "rows see one key of padding, or of what was there before",
    .cause = "a comparison with <= for one with <",
    .fix = "keys below kv_len only",
    .source = "textbook",
    .trigger = "kv_len below Tk",
    .killed_by = {"lengths_equal_shorter_call",
                  "poison_beyond_lengths_changes_nothing",
                  "every_key_counts_once", "weights_sum_to_one",
                  "agrees_with_oracle"},
    .when = "kv_len && members(keys < Tk)",
};

// The diagonal ignores kv_len.
struct DiagonalFromCapacity : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (!whole.top_left && whole.options.kv_len.data != nullptr) {
      member->diagonal = whole.keys - member->queries;
    }
  }
};
QKVET_FAULT(diagonal_from_capacity) = {
    .kernel = option_fault<DiagonalFromCapacity, QKVET_OPTION_LENGTHS>,
    .mechanism =
        "the diagonal counts from Tk, not from the keys that the member has",
    .symptom = "a causal row sees later keys of its member",
    .cause = "the size of the cache taken for what is in it",
    .fix = "count from kv_len",
    .source = "textbook",
    .trigger = "kv_len below Tk, and the causal rule from the bottom right",
    .killed_by = {"lengths_equal_shorter_call", "weights_sum_to_one",
                  "agrees_with_oracle"},
    .when = "bottom_right && kv_len && members(keys < Tk)",
};

// The diagonal ignores q_len.
struct DiagonalIgnoresQLen : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (!whole.top_left && whole.options.q_len.data != nullptr) {
      member->diagonal = member->keys - whole.queries;
    }
  }
};
QKVET_FAULT(diagonal_ignores_q_len) = {
    .kernel = option_fault<DiagonalIgnoresQLen, QKVET_OPTION_LENGTHS>,
    .mechanism =
        "the diagonal counts from Tq, not from the rows that the member has",
    .symptom = "a causal row sees too few keys",
    .cause = "padding rows counted as queries",
    .fix = "count from q_len",
    .source = "textbook",
    .trigger = "q_len below Tq, and the causal rule from the bottom right",
    .killed_by = {"lengths_equal_shorter_call", "every_key_counts_once",
                  "rows_stay_in_hull", "agrees_with_oracle"},
    .when = "bottom_right && q_len && members(queries < Tq)",
};

// Keys of a packed batch belong to everybody.
struct PackedAsOneMember : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (whole.options.cu_k.data != nullptr && !whole.causal) {
      member->k = whole.k;
      member->v = whole.v;
      member->keys = whole.keys;
    }
  }
};
QKVET_FAULT(packed_as_one_member) = {
    .kernel = option_fault<PackedAsOneMember, QKVET_OPTION_PACKED>,
    .mechanism = "cu_seqlens_k is not read: every member sees the keys of all",
    .symptom =
        "one sequence a batch is right; with several each answers from the "
        "others",
    .cause = "lengths are handed on to the causal path only",
    .fix = "keys cu_k[n] .. cu_k[n + 1] for member n, on every path",
    .source = "textbook (packed batches)",
    .trigger = "a packed batch of two members or more, without the causal rule",
    .killed_by = {"packed_members_equal_calls", "lse_counts_equal_keys",
                  "agrees_with_oracle"},
    .when = "packed && !causal && members(keys < Tk)",
};

// One key of the next sequence.
struct PackedSeesNextMember : OptionHooks {
  static void member(const ForwardCall& whole, int64_t n, ForwardCall* member) {
    const View<const int64_t>& starts = whole.options.cu_k;
    if (starts.data != nullptr && *starts.at(n + 1, 0, 0) < whole.keys) {
      ++member->keys;
    }
  }
};
QKVET_FAULT(packed_sees_next_member) = {
    .kernel = option_fault<PackedSeesNextMember, QKVET_OPTION_PACKED>,
    .mechanism =
        "the end of a packed member is inclusive: it sees the first key of the "
        "next one",
    .symptom = "one sequence leaks into another",
    .cause = "a comparison with <= for one with <",
    .fix = "keys below cu_k[n + 1] only",
    .source = "textbook, cf. AI-Hypercomputer/maxtext#4476",
    .trigger = "a packed batch, and a member that is not the last",
    .killed_by = {"packed_members_equal_calls", "every_pair_is_seen_as_asked",
                  "every_key_counts_once", "lse_counts_equal_keys",
                  "agrees_with_oracle"},
    .when = "packed && members(keys < Tk)",
};

// The causal rule alone holds packed members apart.
struct PackedBordersLeftToCausal : OptionHooks {
  static void member(const ForwardCall& whole, int64_t n, ForwardCall* member) {
    const View<const int64_t>& starts = whole.options.cu_k;
    if (starts.data == nullptr || !whole.causal) {
      return;
    }
    const int64_t before = *starts.at(n, 0, 0);
    member->k.data = whole.k.data;
    member->v.data = whole.v.data;
    member->keys += before;
    member->diagonal += before;
  }
};
QKVET_FAULT(packed_borders_left_to_causal) = {
    .kernel = option_fault<PackedBordersLeftToCausal, QKVET_OPTION_PACKED>,
    .mechanism =
        "with the causal rule, rows of a packed member see all keys in front "
        "of it",
    .symptom =
        "without the rule members are apart; with it each one knows all those "
        "before it",
    .cause =
        "the causal mask replaces the one of the borders, and both would be "
        "needed",
    .fix = "keys from cu_k[n] on, and the causal rule among them",
    .source = "AI-Hypercomputer/maxtext#4476",
    .trigger =
        "a packed batch, the causal rule, and a member that is not the first",
    .killed_by = {"packed_members_equal_calls", "every_pair_is_seen_as_asked",
                  "every_key_counts_once", "agrees_with_oracle"},
    .when = "packed && causal && members(member > 0)",
};

// A packed member without keys clears a whole tile.
struct EmptyMemberClearsTile : OptionHooks {
  static void member(const ForwardCall& whole, int64_t n, ForwardCall* member) {
    const View<const int64_t>& starts = whole.options.cu_q;
    if (starts.data == nullptr || member->keys > 0) {
      return;
    }
    const int64_t begin = *starts.at(n, 0, 0), before = begin % half_tile();
    member->q.data = whole.q.at(0, 0, begin - before);
    member->o.data = whole.o.at(0, 0, begin - before);
    if (whole.lse.data != nullptr) {
      member->lse.data = whole.lse.at(0, 0, begin - before);
    }
    member->queries += before;
  }
};
QKVET_FAULT(empty_member_clears_tile) = {
    .kernel = option_fault<EmptyMemberClearsTile, QKVET_OPTION_PACKED>,
    .mechanism =
        "a packed member without keys clears the whole tile that its first row "
        "lies in",
    .symptom = "the last row of the sequence before an empty one is 0",
    .cause =
        "the early exit stores by tiles, without the mask of the usual store",
    .fix = "write the rows of the member only, in every path",
    .source = "Dao-AILab/flash-attention#1155",
    .trigger =
        "a packed batch, and a member without keys that is not the first",
    .killed_by = {"packed_members_equal_calls", "every_pair_is_seen_as_asked",
                  "agrees_with_oracle"},
    .when = "packed && members(member > 0 && keys == 0)",
    .tiled = true,
};

}  // namespace qkvet::impl
