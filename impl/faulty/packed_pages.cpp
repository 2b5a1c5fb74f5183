// SPDX-License-Identifier: Apache-2.0
// Faults of packed batches over pages: which rows, lengths, pages and positions
// are those of a member, in calls that mix prompts and steps of decoding. All
// else that these kernels take is right.
#include "impl/faulty/kernels.h"

namespace qkvet::impl {
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

// Of a call that check_serving() has passed.
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
