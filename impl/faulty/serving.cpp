// SPDX-License-Identifier: Apache-2.0
// Faults of kernels that serve: appended tokens, and pages.
#include <algorithm>

#include "impl/faulty/kernels.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

struct ServingAppendFirstOnly : ServingHooks {
  static void append(const ServingCall& s, int64_t b) {
    store_new_key(s, b, 0, s.slot(b, s.held(b)));
    store_new_value(s, b, 0, s.slot(b, s.held(b)));
  }
};
QKVET_FAULT(serving_append_first_only,
            kServingFault<ServingAppendFirstOnly>) = {
    .when = "new_tokens > 1",
    .cause = "one new token a sequence is stored: code for decoding is called "
             "with drafts",
    .fix = "store all of them",
    .killed_by = {"append_writes_only_its_tokens", "append_equals_given"},
};

struct ServingAppendOneLate : ServingHooks {
  static void append(const ServingCall& s, int64_t b) {
    for (int64_t n = 0; n < s.new_tokens; ++n) {
      const int64_t token = s.held(b) + n + 1;
      if (has_slot(s, b, token)) {
        store_new_key(s, b, n, s.slot(b, token));
        store_new_value(s, b, n, s.slot(b, token));
      }
    }
  }
};
QKVET_FAULT(serving_append_one_late, kServingFault<ServingAppendOneLate>) = {
    .when = "new_tokens > 0",
    .cause = "kv_len is taken for the index of the last held token instead of "
             "the count",
    .fix = "the first new token goes to slot kv_len",
    .killed_by = {"append_writes_only_its_tokens", "append_equals_given"},
};

struct ServingAppendPadsTile : ServingHooks {
  static void append(const ServingCall& s, int64_t b) {
    const int64_t held = s.held(b);
    const int64_t tiles = (s.new_tokens + tile() - 1) / tile();
    for (int64_t n = s.new_tokens; n < tiles * tile(); ++n)
      if (has_slot(s, b, held + n)) clear(s, s.slot(b, held + n));
    ServingHooks::append(s, b);
  }
};
QKVET_FAULT(serving_append_pads_tile, kServingFault<ServingAppendPadsTile>) = {
    .when = "new_tokens % 4 != 0",
    .cause = "a whole tile is stored, with zeros after the new tokens: the "
             "store is not masked",
    .fix = "mask the store of the last tile",
    .source = "tenstorrent/tt-metal#56324",
    .killed_by = {"append_writes_only_its_tokens"},
    .tiled = true,
};

struct ServingAppendRunsIntoNextPage : ServingHooks {
  static void append(const ServingCall& s, int64_t b) {
    const Slot first = s.slot(b, s.held(b));
    const int64_t rows = s.page_size == 0 ? s.call.keys : s.page_size;
    for (int64_t n = 0; n < s.new_tokens; ++n) {
      const int64_t row = first.row + n;
      const Slot slot = {
          s.page_size == 0 ? first.block : (first.block + row / rows) % s.pages,
          row % rows};
      store_new_key(s, b, n, slot);
      store_new_value(s, b, n, slot);
    }
  }
};
QKVET_FAULT(serving_append_runs_into_next_page,
            kServingFault<ServingAppendRunsIntoNextPage>) = {
    .when = "page_size > 0 && members((keys - new_tokens) % page_size + "
            "new_tokens > page_size)",
    .cause = "the slots of new tokens follow each other in memory: the slot is "
             "looked up once a call",
    .fix = "look up the page of every token",
    .killed_by = {"append_writes_only_its_tokens", "append_equals_given"},
};

struct ServingPadsIntoFirstSlot : ServingHooks {
  static void append(const ServingCall& s, int64_t b) {
    if (s.page_size > 0 && s.pages > 0 && s.new_tokens % tile() != 0)
      clear(s, {0, 0});
    ServingHooks::append(s, b);
  }
};
QKVET_FAULT(serving_pads_into_first_slot,
            kServingFault<ServingPadsIntoFirstSlot>) = {
    .when = "page_size > 0 && new_tokens % 4 != 0",
    .cause = "a tile of 4 new tokens is stored whole, and its padding goes to "
             "slot 0 of page 0, which the kernel takes to be free",
    .fix = "mask the store, or let the caller say which slot is free",
    .source = "sgl-project/sglang#36207",
    .killed_by = {"append_writes_only_its_tokens"},
    .tiled = true,
};

struct ServingLengthBeforeAppend : ServingHooks {
  static int64_t attended(const ServingCall& s, int64_t b) { return s.held(b); }
};
QKVET_FAULT(serving_length_before_append,
            kServingFault<ServingLengthBeforeAppend>) = {
    .when = "new_tokens > 0",
    .cause = "keys are counted before the new tokens are appended",
    .fix = "attend kv_len + Tnew keys",
    .killed_by = {"append_equals_given", "agrees_with_oracle"},
};

struct ServingDiagonalBeforeAppend : ServingHooks {
  static void member(const ServingCall& s, int64_t, ForwardCall* member) {
    if (!member->top_left) member->diagonal -= s.new_tokens;
  }
};
QKVET_FAULT(serving_diagonal_before_append,
            kServingFault<ServingDiagonalBeforeAppend>) = {
    .when = "new_tokens > 0 && bottom_right",
    .cause = "the causal rule counts from kv_len without the new tokens: "
             "kv_len is updated after the mask was made",
    .fix = "count from kv_len + Tnew",
    .killed_by = {"append_equals_given", "agrees_with_oracle"},
};

struct ServingLastPageWhole : ServingHooks {
  static int64_t attended(const ServingCall& s, int64_t b) {
    const int64_t keys = ServingHooks::attended(s, b);
    return s.page_size == 0
               ? keys
               : (keys + s.page_size - 1) / s.page_size * s.page_size;
  }
  static void member(const ServingCall& s, int64_t b, ForwardCall* member) {
    // The diagonal is right: what is wrong is the end of the keys.
    if (!member->top_left)
      member->diagonal -= member->keys - ServingHooks::attended(s, b);
  }
};
QKVET_FAULT(serving_last_page_whole, kServingFault<ServingLastPageWhole>) = {
    .when = "page_size > 0 && !bottom_right && members(keys % page_size != 0)",
    .cause =
        "the length is rounded up to whole pages: the last page is not masked",
    .fix = "keys below the length only",
    .source = "vllm-project/vllm#936",
    .killed_by = {"unowned_pages_change_nothing", "agrees_with_oracle"},
};

struct ServingTailPageRead : ServingHooks {
  static int64_t attended(const ServingCall& s, int64_t b) {
    const int64_t keys = ServingHooks::attended(s, b);
    const bool fills = s.page_size > 0 && keys % s.page_size == 0 &&
                       keys / s.page_size < s.columns;
    return fills ? keys + 1 : keys;
  }
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    const Slot slot = s.slot(b, token);
    return inside(s, slot) ? slot : Slot{0, 0};
  }
};
QKVET_FAULT(serving_tail_page_read, kServingFault<ServingTailPageRead>) = {
    .when = "page_size > 0 && members(keys % page_size == 0)",
    .cause = "a sequence has length / page_size + 1 pages: full last pages are "
             "followed by one more",
    .fix = "(length + page_size - 1) / page_size",
    .source = "vllm-project/vllm#42494",
    .killed_by = {"unowned_pages_change_nothing", "agrees_with_oracle"},
};

struct ServingPagesAssumedAdjacent : ServingHooks {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    if (s.page_size == 0) return s.slot(b, token);
    const Slot first = s.slot(b, 0);
    return {(first.block + token / s.page_size) % s.pages, token % s.page_size};
  }
};
QKVET_FAULT(serving_pages_assumed_adjacent,
            kServingFault<ServingPagesAssumedAdjacent>) = {
    .when = "page_size > 0 && members(keys > page_size)",
    .cause = "only the first entry of a block table is looked up: a fresh pool "
             "hands out pages in order",
    .fix = "look up every page",
    .source = "textbook (PagedAttention)",
    .killed_by = {"page_placement_changes_nothing",
                  "unowned_pages_change_nothing"},
};

struct ServingSlotOfOtherPageSize : ServingHooks {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    if (s.page_size == 0 || token / tile() >= s.columns)
      return s.slot(b, token);
    const Slot other = {s.entry(b, token / tile()),
                        token % tile() % s.page_size};
    return inside(s, other) ? other : s.slot(b, token);
  }
};
QKVET_FAULT(serving_slot_of_other_page_size,
            kServingFault<ServingSlotOfOtherPageSize>) = {
    .when = "page_size > 0 && page_size != 4 && members(keys > 4 || keys > "
            "page_size)",
    .cause = "the page size of a slot is a constant of the kernel",
    .fix = "take page_size from the call, or declare the sizes",
    .source = "vllm-project/vllm#47056",
    .killed_by = {"page_size_changes_nothing", "agrees_with_oracle"},
    .tiled = true,
};

struct ServingTableOfFirstMember : ServingHooks {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    const Slot first = s.slot(0, token);
    return inside(s, first) ? first : s.slot(b, token);
  }
};
QKVET_FAULT(serving_table_of_first_member,
            kServingFault<ServingTableOfFirstMember>) = {
    .when = "B > 1",
    .cause = "the block table of the first sequence is used for all: its batch "
             "stride is left out",
    .fix = "table[b][page] and not table[page]",
    .killed_by = {"other_members_change_nothing",
                  "permuted_members_permute_output"},
};

struct ServingTableStrideOfLongest : ServingHooks {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    int64_t columns = 0;
    for (int64_t n = 0; s.page_size > 0 && n < s.call.batch; ++n) {
      const int64_t keys = ServingHooks::attended(s, n);
      const int64_t pages = (keys + s.page_size - 1) / s.page_size;
      columns = columns < pages ? pages : columns;
    }
    if (columns == 0) return s.slot(b, token);
    const int64_t entry = b * columns + token / s.page_size;
    const Slot other = {s.entry(entry / s.columns, entry % s.columns),
                        token % s.page_size};
    return inside(s, other) ? other : s.slot(b, token);
  }
};
QKVET_FAULT(serving_table_stride_of_longest,
            kServingFault<ServingTableStrideOfLongest>) = {
    .when = "page_size > 0 && B > 1",
    .cause = "the row stride of the block table is computed from the longest "
             "length instead of read",
    .fix = "take the stride of the table",
    .killed_by = {"page_size_changes_nothing", "agrees_with_oracle"},
};

// ---- Lists of pages ---------------------------------------------------------
//
// page_indptr, page_indices and last_page_len. Calls with a block table, and
// what else these kernels take, are right.
namespace {

constexpr qkvet_capabilities kListsCapabilities =
    capabilities_with(kCommonOptions | kServingOptions |
                          QKVET_OPTION_PACKED_PAGES | QKVET_OPTION_PAGED_CSR,
                      {kF32});

template <class Hooks>
constexpr qkvet_kernel kListsFault = kServingFault<Hooks, &kListsCapabilities>;

// Entry `at` of the list, if it is one and names a page; else that of the
// member's own page.
int64_t page_at(const ServingCall& s, int64_t at, int64_t own) {
  if (at < 0 || at >= s.entries) return own;
  const int64_t page = *s.list.at(at, 0, 0);
  return page >= 0 && page < s.pages ? page : own;
}

}  // namespace

struct CsrLastPageWhole : ServingHooks {
  static int64_t attended(const ServingCall& s, int64_t b) {
    return s.csr() ? s.page_count(b) * s.page_size
                   : ServingHooks::attended(s, b);
  }
};
QKVET_FAULT(csr_last_page_whole, kListsFault<CsrLastPageWhole>) = {
    .when = "csr && page_size > 1 && members(keys % page_size != 0)",
    .cause = "with a list of pages the length of a sequence is the number of "
             "its pages times their size",
    .fix = "(pages - 1) * page_size + last_page_len",
    .source = "pegainfer-project/pegainfer#291, cf. vllm-project/vllm#31282",
    .killed_by = {"page_lists_equal_block_table",
                  "unowned_pages_change_nothing"},
};

struct CsrLastPageFromPageCount : ServingHooks {
  static int64_t attended(const ServingCall& s, int64_t b) {
    const int64_t pages = s.csr() ? s.page_count(b) : 0;
    return pages == 0
               ? ServingHooks::attended(s, b)
               : (pages - 1) * s.page_size + (pages - 1) % s.page_size + 1;
  }
};
QKVET_FAULT(csr_last_page_from_page_count,
            kListsFault<CsrLastPageFromPageCount>) = {
    .when = "csr && page_size > 1 && members(keys > 0)",
    .cause = "the tokens of the last page are computed from the number of "
             "pages instead of that of tokens",
    .fix = "(tokens - 1) % page_size + 1, or last_page_len as it is given",
    .source = "flashinfer-ai/flashinfer#2079",
    .killed_by = {"page_lists_equal_block_table", "page_size_changes_nothing"},
};

struct CsrLastPageForAll : ServingHooks {
  static int64_t held(const ServingCall& s, int64_t b) {
    return s.csr() && s.page_count(b) > 0 ? *s.last.at(b, 0, 0) : s.page_size;
  }
  static int64_t attended(const ServingCall& s, int64_t b) {
    return s.csr() ? s.page_count(b) * held(s, b)
                   : ServingHooks::attended(s, b);
  }
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    return s.csr() ? Slot{s.entry(b, token / held(s, b)), token % held(s, b)}
                   : s.slot(b, token);
  }
};
QKVET_FAULT(csr_last_page_for_all, kListsFault<CsrLastPageForAll>) = {
    .when = "csr && page_size > 1 && members(keys > page_size && keys % "
            "page_size != 0)",
    .cause =
        "last_page_len limits every page of a sequence instead of the last",
    .fix = "page_size tokens of every page but the last",
    .killed_by = {"page_lists_equal_block_table", "every_key_counts_once"},
};

struct CsrPagesAsTokens : ServingHooks {
  static int64_t attended(const ServingCall& s, int64_t b) {
    return s.csr() ? s.page_count(b) : ServingHooks::attended(s, b);
  }
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    return s.csr() ? Slot{s.entry(b, token), 0} : s.slot(b, token);
  }
};
QKVET_FAULT(csr_pages_as_tokens, kListsFault<CsrPagesAsTokens>) = {
    .when = "csr && page_size > 1 && members(keys > 1)",
    .cause = "page_indptr counts tokens: an entry of the list is taken for one "
             "token",
    .fix = "refuse other page sizes, or count page_size tokens an entry",
    .source = "sgl-project/sglang#25556, sgl-project/sglang#24587",
    .killed_by = {"page_lists_equal_block_table", "page_size_changes_nothing"},
};

struct CsrFirstMemberForAll : ServingHooks {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    const Slot own = s.slot(b, token);
    return s.csr() && b > 0
               ? Slot{page_at(s, token / s.page_size, own.block), own.row}
               : own;
  }
};
QKVET_FAULT(csr_first_member_for_all, kListsFault<CsrFirstMemberForAll>) = {
    .when = "csr && members(member > 0)",
    .cause = "the pages of all sequences are those of the first",
    .fix = "page_indices[page_indptr[b] + n]",
    .source = "quic/efficient-transformers#1209",
    .killed_by = {"page_lists_equal_block_table", "packed_members_equal_calls"},
};

struct CsrStartsOfNext : ServingHooks {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    const Slot own = s.slot(b, token);
    return s.csr() ? Slot{page_at(s, s.first_page(b + 1) + token / s.page_size,
                                  own.block),
                          own.row}
                   : own;
  }
};
QKVET_FAULT(csr_starts_of_next, kListsFault<CsrStartsOfNext>) = {
    .when = "csr && members(keys > 0)",
    .cause = "page_indptr is read one entry further on: a sequence has the "
             "pages of the next, ends are taken for starts",
    .fix = "page_indptr[b] is the first page, page_indptr[b + 1] the end",
    .killed_by = {"page_lists_equal_block_table", "packed_members_equal_calls"},
};

// ---- The width of lengths ---------------------------------------------------
namespace {

constexpr qkvet_capabilities kBothWidths = capabilities_with(
    kCommonOptions | kServingOptions | QKVET_OPTION_INT32_LENGTHS, {kF32});

}  // namespace

// Numbers of 64 bits are read as twice as many of 32.
struct LengthsHalved : ServingHooks {
  static int64_t attended(const ServingCall& s, int64_t b) {
    if (s.narrow_kv_len.given.data != nullptr || s.before.data == nullptr)
      return ServingHooks::attended(s, b);
    // Of small numbers the lower half is there, and the upper one is 0.
    const int64_t held = b % 2 == 0 ? s.held(b / 2) : 0;
    int64_t keys = 0;
    while (keys < held + s.new_tokens && has_slot(s, b, keys)) ++keys;
    return keys;
  }
};
QKVET_FAULT(lengths_int64_read_as_int32,
            kServingFault<LengthsHalved, &kBothWidths>) = {
    .when = "!int32_lengths && !csr && (kv_len || page_size > 0 || new_tokens "
            "> 0) && members(member > 0)",
    .cause = "lengths are read as int32 whatever their type: the pointer has "
             "no type, and it is not checked",
    .fix = "check the type of the tensor, and refuse others",
    .source = "flashinfer-ai/flashinfer#1654, flashinfer-ai/flashinfer#725",
    .killed_by = {"int32_lengths_change_nothing", "agrees_with_oracle"},
};

// ---- Lists of keys over pages ----------------------------------------------

bool lists_in_pages(const ServingCall& s) {
  return s.page_size > 0 && s.call.options.lists.present();
}

struct ListEntriesAreSlots : ServingHooks {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    const Slot slot = {token / std::max<int64_t>(s.page_size, 1),
                       token % std::max<int64_t>(s.page_size, 1)};
    return lists_in_pages(s) && inside(s, slot)
               ? slot
               : ServingHooks::source(s, b, token);
  }
};
QKVET_FAULT(list_entries_are_slots,
            kServingFault<ListEntriesAreSlots, &kServingListCapabilities>) = {
    .when = "lists && page_size > 0",
    .cause = "an entry of a list is taken for a slot of the pool instead of a "
             "position in the sequence",
    .fix = "look positions up in the block table, or document that the caller "
           "does",
    .source = "textbook (FlashMLA lists slots, vLLM's indexer positions)",
    .killed_by = {"page_placement_changes_nothing", "lists_equal_masks"},
};

struct ListOfFirstMember : ServingHooks {
  static void member(const ServingCall& s, int64_t, ForwardCall* member) {
    if (lists_in_pages(s))
      member->options.lists.b = member->options.lists.i = 0;
  }
};
QKVET_FAULT(list_of_first_member_over_pages,
            kServingFault<ListOfFirstMember, &kServingListCapabilities>) = {
    .when = "lists && page_size > 0 && (B > 1 || packed)",
    .cause = "over pages all sequences have the lists of the first one: the "
             "row is counted within the sequence",
    .fix = "add the row of the sequence, or the start of its queries",
    .killed_by = {"lists_equal_masks", "listed_pages_equal_rows"},
};

struct ListBeyondLength : ServingHooks {
  static void member(const ServingCall& s, int64_t b, ForwardCall* member) {
    if (!lists_in_pages(s)) return;
    while (member->keys < s.call.keys && member->keys % s.page_size != 0 &&
           has_slot(s, b, member->keys)) {
      ++member->keys;
    }
  }
};
QKVET_FAULT(list_entry_beyond_length_read,
            kServingFault<ListBeyondLength, &kServingListCapabilities>) = {
    .when = "lists && page_size > 1",
    .cause = "a listed key that the sequence does not have yet is read from "
             "its last page: it is not compared with kv_len",
    .fix = "hide the entries from kv_len on",
    .killed_by = {"unowned_pages_change_nothing", "lists_equal_masks"},
};

struct LastBlockIsWhole : ServingHooks {
  static void member(const ServingCall& s, int64_t b, ForwardCall* member) {
    const int64_t block = member->options.lists.block;
    while (member->options.lists.present() && member->keys < s.call.keys &&
           member->keys % block != 0 && has_slot(s, b, member->keys)) {
      ++member->keys;
    }
  }
};
QKVET_FAULT(blocks_last_is_whole,
            kServingFault<LastBlockIsWhole, &kServingListCapabilities>) = {
    .when = "lists.block > 1",
    .cause = "all keys of the last block of a sequence count, also those past "
             "its end",
    .fix = "hide the keys of a block from kv_len on",
    .killed_by = {"poison_beyond_lengths_changes_nothing", "lists_equal_masks"},
};

}  // namespace qkvet::impl
