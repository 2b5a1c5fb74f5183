// SPDX-License-Identifier: Apache-2.0
// Faults of the members of a batch: with lengths, packed, packed over pages.
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

// ---- Packed batches over pages ----------------------------------------------
//
// Which rows, lengths, pages and positions are those of a member, in calls that
// mix prompts and steps of decoding. All else that these kernels take is right.
namespace {

constexpr qkvet_capabilities kPackedPages = capabilities_with(
    kCommonOptions | kServingOptions | QKVET_OPTION_PACKED_PAGES, {kF32});

template <class Hooks>
constexpr qkvet_kernel packed_pages_fault(const char* name,
                                          const char* description,
                                          Place place) {
  qkvet_kernel kernel = serving_fault<Hooks>(name, description, place);
  kernel.capabilities = &kPackedPages;
  return kernel;
}

}  // namespace

// For a call that check_serving() has passed.
struct PackedPagesHooks : ServingHooks {
  static int64_t first_row(const ServingCall& s, int64_t b) {
    return *s.call.options.cu_q.at(b, 0, 0);
  }
  static int64_t rows_of(const ServingCall& s, int64_t b) {
    return first_row(s, b + 1) - first_row(s, b);
  }
  static int64_t first_key(const ServingCall& s, int64_t b) {
    return *s.call.options.cu_k.at(b, 0, 0);
  }
  static int64_t keys_of(const ServingCall& s, int64_t b) {
    return ServingHooks::attended(s, b);
  }
};

// Lengths and table are those of the member whose number is that of the first
// row.
struct PackedPagesMemberByToken : PackedPagesHooks {
  static int64_t other(const ServingCall& s, int64_t b) {
    if (!s.packed()) {
      return b;
    }
    const int64_t last = s.members() - 1, row = first_row(s, b);
    return row < last ? row : last;
  }
  static int64_t attended(const ServingCall& s, int64_t b) {
    return ServingHooks::attended(s, other(s, b));
  }
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    return s.slot(other(s, b), token);
  }
};
QKVET_FAULT(packed_pages_member_by_token) = {
    .kernel = packed_pages_fault<PackedPagesMemberByToken>,
    .mechanism =
        "lengths and block table are indexed by the first row of a member, not "
        "by its number",
    .symptom =
        "right while every member has one row; with a prompt or a draft in "
        "front, members answer from the cache of another",
    .cause = "tokens and requests are the same number in plain decoding",
    .fix = "count members, not rows, where lengths and tables are cut",
    .source = "vllm-project/vllm#25196",
    .trigger = "a packed batch over pages, and a member of other than one row",
    .killed_by = {"packed_members_equal_calls", "agrees_with_oracle"},
    .when =
        "packed && page_size > 0 && members(queries != 1) && "
        "members(member > 0)",
};

// Positions are counted from the longest length of the batch.
struct PackedPagesDiagonalOfLongest : PackedPagesHooks {
  static void member(const ServingCall& s, int64_t, ForwardCall* member) {
    if (!s.packed() || member->top_left) {
      return;
    }
    int64_t longest = 0;
    for (int64_t n = 0; n < s.members(); ++n) {
      longest = keys_of(s, n) > longest ? keys_of(s, n) : longest;
    }
    member->diagonal += longest - member->keys;
  }
};
QKVET_FAULT(packed_pages_diagonal_of_longest) = {
    .kernel = packed_pages_fault<PackedPagesDiagonalOfLongest>,
    .mechanism =
        "the causal offset is taken from the longest length, not from that of "
        "the member",
    .symptom = "rows of shorter members see their future",
    .cause = "max_seqlen_k, which sizes the launch, is used as a length",
    .fix = "kv_len[m] - (cu_seqlens_q[m + 1] - cu_seqlens_q[m])",
    .source = "vllm-project/flash-attention#18",
    .trigger =
        "a packed batch over pages, the causal rule from the bottom right, and "
        "a member of several rows that is not the longest",
    .killed_by = {"packed_members_equal_calls", "agrees_with_oracle"},
    .when =
        "packed && page_size > 0 && bottom_right && members(queries > 1) "
        "&& members(member > 0)",
};

// The prefix of the first member stands for that of all.
struct PackedPagesFirstPrefix : PackedPagesHooks {
  static void member(const ServingCall& s, int64_t, ForwardCall* member) {
    if (s.packed() && !member->top_left) {
      member->diagonal = keys_of(s, 0) - rows_of(s, 0);
    }
  }
};
QKVET_FAULT(packed_pages_first_prefix_for_all) = {
    .kernel = packed_pages_fault<PackedPagesFirstPrefix>,
    .mechanism = "the rows of all members begin where those of the first do",
    .symptom =
        "steps of decoding in a batch with a prompt see as few keys as its "
        "first row",
    .cause = "one prefix length is broadcast over prompts and decoding",
    .fix = "a prefix for each member: kv_len minus its rows",
    .source = "lightseekorg/tokenspeed#315",
    .trigger =
        "a packed batch over pages, the causal rule from the bottom right, and "
        "two members",
    .killed_by = {"packed_members_equal_calls", "packed_order_changes_nothing",
                  "agrees_with_oracle"},
    .when = "packed && page_size > 0 && bottom_right && members(member > 0)",
};

// Cumulative lengths are taken for lengths.
struct PackedPagesCumulativeLength : PackedPagesHooks {
  static int64_t attended(const ServingCall& s, int64_t b) {
    int64_t keys = keys_of(s, b);
    const int64_t end = s.packed() ? first_key(s, b + 1) : keys;
    while (keys < end && has_slot(s, b, keys)) {
      ++keys;
    }
    return keys;
  }
};
QKVET_FAULT(packed_pages_cumulative_lengths) = {
    .kernel = packed_pages_fault<PackedPagesCumulativeLength>,
    .mechanism = "where a member ends among all keys is taken for its length",
    .symptom =
        "the first member is right; later ones run on through slots and table "
        "entries that are not theirs",
    .cause = "cumulative lengths are handed on where pages need plain ones",
    .fix = "kv_len with pages, cumulative lengths without",
    .source =
        "sgl-project/sgl-kernel-xpu#191, "
        "vllm-project/vllm-xpu-kernels#115",
    .trigger = "a packed batch over pages of two members",
    .killed_by = {"packed_members_equal_calls", "unowned_pages_change_nothing",
                  "agrees_with_oracle"},
    .when = "packed && page_size > 0 && members(member > 0)",
};

// Members are looked for as if their lengths filled their pages.
struct PackedPagesDenseStarts : PackedPagesHooks {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    if (!s.packed()) {
      return s.slot(b, token);
    }
    int64_t place = first_key(s, b) + token;
    for (int64_t n = 0; n < s.members(); ++n) {
      const int64_t pages = (keys_of(s, n) + s.page_size - 1) / s.page_size;
      if (place < pages * s.page_size) {
        return s.slot(n, place);
      }
      place -= pages * s.page_size;
    }
    return s.slot(b, token);
  }
};
QKVET_FAULT(packed_pages_dense_starts) = {
    .kernel = packed_pages_fault<PackedPagesDenseStarts>,
    .mechanism =
        "slots are listed by whole pages, and members are found in the list by "
        "the sum of the lengths before",
    .symptom =
        "the first member is right; each later one is off by the empty slots "
        "of all pages before it",
    .cause = "two places sum lengths, one of them rounds up to pages",
    .fix = "the same sums in both",
    .source = "sgl-project/sglang-jax#1297",
    .trigger =
        "a packed batch over pages, and a length before the last that fills no "
        "page",
    .killed_by = {"packed_members_equal_calls", "page_size_changes_nothing",
                  "agrees_with_oracle"},
    .when =
        "packed && page_size > 1 && members(keys % page_size != 0) && "
        "members(member > 0)",
};

// Members of several rows are looked up in the table as if it had no others.
struct PackedPagesPromptRow : PackedPagesHooks {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    if (!s.packed() || rows_of(s, b) <= 1) {
      return s.slot(b, token);
    }
    int64_t row = b;
    for (int64_t n = 0; n < s.members() && row > 0; ++n) {
      row -= rows_of(s, n) == 1 ? 1 : 0;
    }
    return has_slot(s, row, token) ? s.slot(row, token) : s.slot(b, token);
  }
};
QKVET_FAULT(packed_pages_prompt_row_of_part) = {
    .kernel = packed_pages_fault<PackedPagesPromptRow>,
    .mechanism =
        "the table is that of the whole batch, and a prompt is looked up by "
        "its number among the prompts",
    .symptom = "prompts read the pages of decoding requests beside them",
    .cause =
        "a batch that is cut into decoding and prompts, a table that is "
        "not",
    .fix = "cut the table as well, or look up by the number in the batch",
    .source = "ModelEngine-Group/unified-cache-management#882",
    .trigger =
        "a packed batch over pages in which a member of one row stands with "
        "one of several",
    .killed_by = {"packed_members_equal_calls", "packed_order_changes_nothing",
                  "agrees_with_oracle"},
    .when =
        "packed && page_size > 0 && members(queries == 1) && "
        "members(member > 0 && queries > 1)",
};

// The pool is read as if it were the keys, one behind the other.
struct PackedPagesPoolAsRows : PackedPagesHooks {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    if (!s.packed()) {
      return s.slot(b, token);
    }
    const int64_t place = first_key(s, b) + token;
    return {place / s.page_size, place % s.page_size};
  }
};
QKVET_FAULT(packed_pages_pool_as_rows) = {
    .kernel = packed_pages_fault<PackedPagesPoolAsRows>,
    .mechanism =
        "the block table is not read: members follow each other in "
        "the pool",
    .symptom =
        "prompts are right as long as nothing of them is cached; with a cached "
        "prefix they read any slots",
    .cause = "the call for packed keys is made with the cache as its keys",
    .fix = "hand on the block table and the lengths",
    .source = "tanishqkumar/ssd#22",
    .trigger = "a packed batch over pages",
    .killed_by = {"packed_members_equal_calls",
                  "page_placement_changes_nothing", "agrees_with_oracle"},
    .when = "packed && page_size > 0",
};

}  // namespace qkvet::impl
