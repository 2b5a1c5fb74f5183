// SPDX-License-Identifier: Apache-2.0
// Faults of the members of a batch: with lengths, packed, packed over pages.
#include "impl/faulty/kernels.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

struct KvLenInclusive : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (whole.options.kv_len.data != nullptr && member->keys < whole.keys)
      ++member->keys;
  }
};
QKVET_FAULT(kv_len_inclusive,
            kOptionFault<KvLenInclusive, QKVET_OPTION_LENGTHS>) = {
    .when = "kv_len && members(keys < Tk)",
    .cause = "kv_len is taken for the last key instead of the number of keys: "
             "<= instead of <",
    .fix = "keys below kv_len only",
    .killed_by = {"lengths_equal_shorter_call", "every_key_counts_once"},
};

struct DiagonalFromCapacity : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (!whole.top_left && whole.options.kv_len.data != nullptr)
      member->diagonal = whole.keys - member->queries;
  }
};
QKVET_FAULT(diagonal_from_capacity,
            kOptionFault<DiagonalFromCapacity, QKVET_OPTION_LENGTHS>) = {
    .when = "bottom_right && kv_len && members(keys < Tk)",
    .cause = "the diagonal counts from Tk instead of the keys of the sequence: "
             "the cache's capacity is taken for its length",
    .fix = "count from kv_len",
    .killed_by = {"lengths_equal_shorter_call", "weights_sum_to_one"},
};

struct DiagonalIgnoresQLen : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (!whole.top_left && whole.options.q_len.data != nullptr)
      member->diagonal = member->keys - whole.queries;
  }
};
QKVET_FAULT(diagonal_ignores_q_len,
            kOptionFault<DiagonalIgnoresQLen, QKVET_OPTION_LENGTHS>) = {
    .when = "bottom_right && q_len && members(queries < Tq)",
    .cause = "the diagonal counts from Tq instead of the rows of the sequence: "
             "padding rows count as queries",
    .fix = "count from q_len",
    .killed_by = {"lengths_equal_shorter_call", "every_key_counts_once"},
};

struct PackedAsOneMember : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (whole.options.cu_k.data != nullptr && !whole.causal) {
      member->k = whole.k;
      member->v = whole.v;
      member->keys = whole.keys;
    }
  }
};
QKVET_FAULT(packed_as_one_member,
            kOptionFault<PackedAsOneMember, QKVET_OPTION_PACKED>) = {
    .when = "packed && !causal && members(keys < Tk)",
    .cause = "cu_seqlens_k is not read, and every sequence sees the keys of "
             "all: only the causal path gets the lengths",
    .fix = "keys cu_k[n] .. cu_k[n + 1] for sequence n, on every path",
    .source = "onnxruntime/mobius#358",
    .killed_by = {"packed_members_equal_calls", "lse_counts_equal_keys"},
};

struct PackedSeesNextMember : OptionHooks {
  static void member(const ForwardCall& whole, int64_t n, ForwardCall* member) {
    const View<const int64_t>& starts = whole.options.cu_k;
    if (starts.data != nullptr && *starts.at(n + 1, 0, 0) < whole.keys)
      ++member->keys;
  }
};
QKVET_FAULT(packed_sees_next_member,
            kOptionFault<PackedSeesNextMember, QKVET_OPTION_PACKED>) = {
    .when = "packed && members(keys < Tk)",
    .cause = "the end of a packed sequence is inclusive, so it sees the first "
             "key of the next one: <= instead of <",
    .fix = "keys below cu_k[n + 1] only",
    .source = "textbook, cf. AI-Hypercomputer/maxtext#4476",
    .killed_by = {"packed_members_equal_calls", "every_pair_is_seen_as_asked"},
};

struct PackedBordersLeftToCausal : OptionHooks {
  static void member(const ForwardCall& whole, int64_t n, ForwardCall* member) {
    const View<const int64_t>& starts = whole.options.cu_k;
    if (starts.data == nullptr || !whole.causal) return;
    const int64_t before = *starts.at(n, 0, 0);
    member->k.data = whole.k.data;
    member->v.data = whole.v.data;
    member->keys += before;
    member->diagonal += before;
  }
};
QKVET_FAULT(packed_borders_left_to_causal,
            kOptionFault<PackedBordersLeftToCausal, QKVET_OPTION_PACKED>) = {
    .when = "packed && causal && members(member > 0)",
    .cause = "with the causal rule, rows of a packed sequence see all earlier "
             "keys: the causal mask replaces that of the borders",
    .fix = "keys from cu_k[n] on, and the causal rule among them",
    .source = "AI-Hypercomputer/maxtext#4476",
    .killed_by = {"packed_members_equal_calls", "every_pair_is_seen_as_asked"},
};

struct EmptyMemberClearsTile : OptionHooks {
  static void member(const ForwardCall& whole, int64_t n, ForwardCall* member) {
    const View<const int64_t>& starts = whole.options.cu_q;
    if (starts.data == nullptr || member->keys > 0) return;
    const int64_t begin = *starts.at(n, 0, 0), before = begin % half_tile();
    member->q.data = whole.q.at(0, 0, begin - before);
    member->o.data = whole.o.at(0, 0, begin - before);
    if (whole.lse.data != nullptr)
      member->lse.data = whole.lse.at(0, 0, begin - before);
    member->queries += before;
  }
};
QKVET_FAULT(empty_member_clears_tile,
            kOptionFault<EmptyMemberClearsTile, QKVET_OPTION_PACKED>) = {
    .when = "packed && members(member > 0 && keys == 0)",
    .cause = "a packed sequence without keys clears the whole tile of its "
             "first row: the early exit stores unmasked",
    .fix = "write the rows of the sequence only, on every path",
    .source = "Dao-AILab/flash-attention#1155",
    .killed_by = {"packed_members_equal_calls", "every_pair_is_seen_as_asked"},
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
constexpr qkvet_kernel kPackedPagesFault = kServingFault<Hooks, &kPackedPages>;

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

struct PackedPagesMemberByToken : PackedPagesHooks {
  static int64_t other(const ServingCall& s, int64_t b) {
    if (!s.packed()) return b;
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
QKVET_FAULT(packed_pages_member_by_token,
            kPackedPagesFault<PackedPagesMemberByToken>) = {
    .when = "packed && page_size > 0 && members(queries != 1) && "
            "members(member > 0)",
    .cause = "lengths and block table are indexed by the first row of a "
             "sequence instead of its number: the same in plain decoding",
    .fix = "count sequences, not rows, where lengths and tables are cut",
    .source = "vllm-project/vllm#25196",
    .killed_by = {"packed_members_equal_calls", "agrees_with_oracle"},
};

struct PackedPagesDiagonalOfLongest : PackedPagesHooks {
  static void member(const ServingCall& s, int64_t, ForwardCall* member) {
    if (!s.packed() || member->top_left) return;
    int64_t longest = 0;
    for (int64_t n = 0; n < s.members(); ++n)
      longest = keys_of(s, n) > longest ? keys_of(s, n) : longest;
    member->diagonal += longest - member->keys;
  }
};
QKVET_FAULT(packed_pages_diagonal_of_longest,
            kPackedPagesFault<PackedPagesDiagonalOfLongest>) = {
    .when = "packed && page_size > 0 && bottom_right && members(queries > 1) "
            "&& members(member > 0)",
    .cause = "the causal offset is that of the longest sequence: max_seqlen_k "
             "is used as a length",
    .fix = "kv_len[m] - (cu_seqlens_q[m + 1] - cu_seqlens_q[m])",
    .source = "vllm-project/flash-attention#18, Dao-AILab/flash-attention#1455",
    .killed_by = {"packed_members_equal_calls", "agrees_with_oracle"},
};

struct PackedPagesFirstPrefix : PackedPagesHooks {
  static void member(const ServingCall& s, int64_t, ForwardCall* member) {
    if (s.packed() && !member->top_left)
      member->diagonal = keys_of(s, 0) - rows_of(s, 0);
  }
};
QKVET_FAULT(packed_pages_first_prefix_for_all,
            kPackedPagesFault<PackedPagesFirstPrefix>) = {
    .when = "packed && page_size > 0 && bottom_right && members(member > 0)",
    .cause = "the rows of all sequences begin at the position of the first: "
             "one prefix length is broadcast",
    .fix = "a prefix for each sequence: kv_len minus its rows",
    .source = "lightseekorg/tokenspeed#315",
    .killed_by = {"packed_members_equal_calls", "packed_order_changes_nothing"},
};

struct PackedPagesCumulativeLength : PackedPagesHooks {
  static int64_t attended(const ServingCall& s, int64_t b) {
    int64_t keys = keys_of(s, b);
    const int64_t end = s.packed() ? first_key(s, b + 1) : keys;
    while (keys < end && has_slot(s, b, keys)) ++keys;
    return keys;
  }
};
QKVET_FAULT(packed_pages_cumulative_lengths,
            kPackedPagesFault<PackedPagesCumulativeLength>) = {
    .when = "packed && page_size > 0 && members(member > 0)",
    .cause = "cumulative lengths are read as the lengths of the sequences",
    .fix = "kv_len with pages, cumulative lengths without",
    .source =
        "sgl-project/sgl-kernel-xpu#191, vllm-project/vllm-xpu-kernels#115",
    .killed_by = {"packed_members_equal_calls", "unowned_pages_change_nothing"},
};

struct PackedPagesDenseStarts : PackedPagesHooks {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    if (!s.packed()) return s.slot(b, token);
    int64_t place = first_key(s, b) + token;
    for (int64_t n = 0; n < s.members(); ++n) {
      const int64_t pages = (keys_of(s, n) + s.page_size - 1) / s.page_size;
      if (place < pages * s.page_size) return s.slot(n, place);
      place -= pages * s.page_size;
    }
    return s.slot(b, token);
  }
};
QKVET_FAULT(packed_pages_dense_starts,
            kPackedPagesFault<PackedPagesDenseStarts>) = {
    .when = "packed && page_size > 1 && members(keys % page_size != 0) && "
            "members(member > 0)",
    .cause = "slots are listed by whole pages, and a sequence's first slot is "
             "the sum of the earlier lengths, not rounded up to pages",
    .fix = "the same sums in both",
    .source = "sgl-project/sglang-jax#1297",
    .killed_by = {"packed_members_equal_calls", "page_size_changes_nothing"},
};

struct PackedPagesPromptRow : PackedPagesHooks {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    if (!s.packed() || rows_of(s, b) <= 1) return s.slot(b, token);
    int64_t row = b;
    for (int64_t n = 0; n < s.members() && row > 0; ++n)
      row -= rows_of(s, n) == 1 ? 1 : 0;
    return has_slot(s, row, token) ? s.slot(row, token) : s.slot(b, token);
  }
};
QKVET_FAULT(packed_pages_prompt_row_of_part,
            kPackedPagesFault<PackedPagesPromptRow>) = {
    .when = "packed && page_size > 0 && members(queries == 1) && "
            "members(member > 0 && queries > 1)",
    .cause = "a prompt is looked up in the block table of the whole batch by "
             "its number among the prompts",
    .fix = "cut the table as well, or look up by the number in the batch",
    .source = "ModelEngine-Group/unified-cache-management#882",
    .killed_by = {"packed_members_equal_calls", "packed_order_changes_nothing"},
};

struct PackedPagesPoolAsRows : PackedPagesHooks {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    if (!s.packed()) return s.slot(b, token);
    const int64_t place = first_key(s, b) + token;
    return {place / s.page_size, place % s.page_size};
  }
};
QKVET_FAULT(packed_pages_pool_as_rows,
            kPackedPagesFault<PackedPagesPoolAsRows>) = {
    .when = "packed && page_size > 0",
    .cause = "the block table is not read: sequences are taken to follow each "
             "other in the pool",
    .fix = "pass the block table and the lengths on",
    .source = "tanishqkumar/ssd#22",
    .killed_by = {"packed_members_equal_calls",
                  "page_placement_changes_nothing"},
};

}  // namespace qkvet::impl
