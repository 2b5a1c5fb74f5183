// SPDX-License-Identifier: Apache-2.0
// Faults of kernels that serve: appended tokens, and pages.
#include <algorithm>

#include "impl/faulty/kernels.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

// Only the first of several new tokens is stored.
struct ServingAppendFirstOnly : ServingHooks {
  static void append(const ServingCall& s, int64_t b) {
    store_new_key(s, b, 0, s.slot(b, s.held(b)));
    store_new_value(s, b, 0, s.slot(b, s.held(b)));
  }
};
QKVET_FAULT(serving_append_first_only) = {
    .kernel = serving_fault<ServingAppendFirstOnly>,
    .mechanism = "one new token a member is stored",
    .symptom =
        "slots that were never written are attended after a step of several "
        "tokens",
    .cause = "written for decoding, called with drafts",
    .fix = "store all of them",
    .source = "textbook (speculative decoding)",
    .trigger = "two new tokens or more",
    .killed_by = {"append_writes_only_its_tokens", "append_equals_given"},
    .when = "new_tokens > 1",
};

// New tokens are stored one slot behind their place.
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
QKVET_FAULT(serving_append_one_late) = {
    .kernel = serving_fault<ServingAppendOneLate>,
    .mechanism = "kv_len is taken for the last token that is held",
    .symptom = "a slot is left as it was and attended",
    .cause = "an index where a count is meant",
    .fix = "the first new token goes to slot kv_len",
    .source = "textbook",
    .trigger = "new tokens",
    .killed_by = {"append_writes_only_its_tokens", "append_equals_given"},
    .when = "new_tokens > 0",
};

// New tokens are stored in tiles of 4, padded with zeros.
struct ServingAppendPadsTile : ServingHooks {
  static void append(const ServingCall& s, int64_t b) {
    const int64_t held = s.held(b);
    const int64_t tiles = (s.new_tokens + tile() - 1) / tile();
    for (int64_t n = s.new_tokens; n < tiles * tile(); ++n) {
      if (has_slot(s, b, held + n)) {
        clear(s, s.slot(b, held + n));
      }
    }
    ServingHooks::append(s, b);
  }
};
QKVET_FAULT(serving_append_pads_tile) = {
    .kernel = serving_fault<ServingAppendPadsTile>,
    .mechanism = "a whole tile is stored, with zeros behind the new tokens",
    .symptom = "tokens of other sequences become zero",
    .cause = "stores are not masked, and the tail of a block table is followed",
    .fix = "mask the store of the last tile",
    .source = "tenstorrent/tt-metal#56324",
    .trigger = "new tokens that fill no tile of 4",
    .killed_by = {"append_writes_only_its_tokens"},
    .when = "new_tokens % 4 != 0",
    .tiled = true,
};

// New tokens that cross a page border go to the next page of the pool.
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
QKVET_FAULT(serving_append_runs_into_next_page) = {
    .kernel = serving_fault<ServingAppendRunsIntoNextPage>,
    .mechanism = "the slots of new tokens follow each other in memory",
    .symptom = "another sequence's page is overwritten",
    .cause = "the slot is looked up once a call, not once a token",
    .fix = "look up the page of every token",
    .source = "textbook",
    .trigger = "new tokens that cross a page border",
    .killed_by = {"append_writes_only_its_tokens", "append_equals_given"},
    .when =
        "page_size > 0 && members((keys - new_tokens) % page_size + new_tokens "
        "> page_size)",
};

// Tokens that pad a tile are written to the first slot of the pool.
struct ServingPadsIntoFirstSlot : ServingHooks {
  static void append(const ServingCall& s, int64_t b) {
    if (s.page_size > 0 && s.pages > 0 && s.new_tokens % tile() != 0) {
      clear(s, {0, 0});
    }
    ServingHooks::append(s, b);
  }
};
QKVET_FAULT(serving_pads_into_first_slot) = {
    .kernel = serving_fault<ServingPadsIntoFirstSlot>,
    .mechanism =
        "a tile of 4 new tokens is stored whole, and what pads it goes to slot "
        "0 of page 0, which the kernel takes to be its own",
    .symptom =
        "one token of whoever owns that page is overwritten in every step",
    .cause = "a slot that one allocator keeps free is not kept free by another",
    .fix = "mask the store, or let the caller say which slot is free",
    .source = "sgl-project/sglang#36207",
    .trigger = "pages, and new tokens that fill no tile of 4",
    .killed_by = {"append_writes_only_its_tokens"},
    .when = "page_size > 0 && new_tokens % 4 != 0",
    .tiled = true,
};

// The new tokens are stored and not attended.
struct ServingLengthBeforeAppend : ServingHooks {
  static int64_t attended(const ServingCall& s, int64_t b) { return s.held(b); }
};
QKVET_FAULT(serving_length_before_append) = {
    .kernel = serving_fault<ServingLengthBeforeAppend>,
    .mechanism = "keys are counted before the new tokens are appended",
    .symptom = "a token does not see itself",
    .cause = "kv_len is read as what is attended",
    .fix = "attend kv_len + Tnew keys",
    .source = "textbook",
    .trigger = "new tokens",
    .killed_by = {"append_equals_given", "agrees_with_oracle"},
    .when = "new_tokens > 0",
};

// The diagonal is counted from the length before appending.
struct ServingDiagonalBeforeAppend : ServingHooks {
  static void member(const ServingCall& s, int64_t, ForwardCall* member) {
    if (!member->top_left) {
      member->diagonal -= s.new_tokens;
    }
  }
};
QKVET_FAULT(serving_diagonal_before_append) = {
    .kernel = serving_fault<ServingDiagonalBeforeAppend>,
    .mechanism = "the causal rule counts from kv_len without the new tokens",
    .symptom = "rows do not see the last keys, themselves included",
    .cause = "kv_len is updated after the mask was made",
    .fix = "count from kv_len + Tnew",
    .source = "textbook",
    .trigger = "new tokens and the causal rule from the bottom right",
    .killed_by = {"append_equals_given", "agrees_with_oracle"},
    .when = "new_tokens > 0 && bottom_right",
};

// All slots of the last page are attended.
struct ServingLastPageWhole : ServingHooks {
  static int64_t attended(const ServingCall& s, int64_t b) {
    const int64_t keys = ServingHooks::attended(s, b);
    return s.page_size == 0
               ? keys
               : (keys + s.page_size - 1) / s.page_size * s.page_size;
  }
  static void member(const ServingCall& s, int64_t b, ForwardCall* member) {
    // The diagonal is right: what is wrong is the end of the keys.
    if (!member->top_left) {
      member->diagonal -= member->keys - ServingHooks::attended(s, b);
    }
  }
};
QKVET_FAULT(serving_last_page_whole) = {
    .kernel = serving_fault<ServingLastPageWhole>,
    .mechanism = "the length is rounded up to whole pages",
    .symptom = "rows see what an earlier tenant of the page left",
    .cause = "the mask of the last page is left to the causal rule",
    .fix = "keys below the length only",
    .source = "vllm-project/vllm#936",
    .trigger = "a length that fills no page, and no causal rule",
    .killed_by = {"unowned_pages_change_nothing", "agrees_with_oracle"},
    .when = "page_size > 0 && !bottom_right && members(keys % page_size != 0)",
};

// One key is read behind a length that fills its pages.
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
QKVET_FAULT(serving_tail_page_read) = {
    .kernel = serving_fault<ServingTailPageRead>,
    .mechanism = "a member has length / page_size + 1 pages",
    .symptom =
        "a token of another sequence joins whenever a length fills its pages",
    .cause = "a division that is not rounded up",
    .fix = "(length + page_size - 1) / page_size",
    .source = "vllm-project/vllm#42494",
    .trigger = "a length that is a multiple of the page size",
    .killed_by = {"unowned_pages_change_nothing", "agrees_with_oracle"},
    .when = "page_size > 0 && members(keys % page_size == 0)",
};

// Pages behind the first one are taken to follow it.
struct ServingPagesAssumedAdjacent : ServingHooks {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    if (s.page_size == 0) {
      return s.slot(b, token);
    }
    const Slot first = s.slot(b, 0);
    return {(first.block + token / s.page_size) % s.pages, token % s.page_size};
  }
};
QKVET_FAULT(serving_pages_assumed_adjacent) = {
    .kernel = serving_fault<ServingPagesAssumedAdjacent>,
    .mechanism = "only the first entry of a block table is looked up",
    .symptom =
        "right until the pool is fragmented, then tokens of other sequences",
    .cause = "tested on a fresh pool, whose pages are handed out in order",
    .fix = "look up every page",
    .source = "textbook (PagedAttention)",
    .trigger = "a member with two pages that do not follow each other",
    .killed_by = {"page_placement_changes_nothing",
                  "unowned_pages_change_nothing", "agrees_with_oracle"},
    .when = "page_size > 0 && members(keys > page_size)",
};

// Slots are counted in pages of 4 tokens, whatever their size.
struct ServingSlotOfOtherPageSize : ServingHooks {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    if (s.page_size == 0 || token / tile() >= s.columns) {
      return s.slot(b, token);
    }
    const Slot other = {s.entry(b, token / tile()),
                        token % tile() % s.page_size};
    return inside(s, other) ? other : s.slot(b, token);
  }
};
QKVET_FAULT(serving_slot_of_other_page_size) = {
    .kernel = serving_fault<ServingSlotOfOtherPageSize>,
    .mechanism = "the page size of a slot is a constant of the kernel",
    .symptom = "wrong tokens for every other page size",
    .cause = "a constant in one of two places",
    .fix = "take page_size from the call, or declare the sizes",
    .source = "vllm-project/vllm#47056",
    .trigger = "pages of another size than 4, and more tokens than one holds",
    .killed_by = {"page_size_changes_nothing", "agrees_with_oracle"},
    .when =
        "page_size > 0 && page_size != 4 && members(keys > 4 || keys > "
        "page_size)",
    .tiled = true,
};

// Every member reads through the block table of the first.
struct ServingTableOfFirstMember : ServingHooks {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    const Slot first = s.slot(0, token);
    return inside(s, first) ? first : s.slot(b, token);
  }
};
QKVET_FAULT(serving_table_of_first_member) = {
    .kernel = serving_fault<ServingTableOfFirstMember>,
    .mechanism = "the block table of the first member is used for all",
    .symptom = "members answer with the tokens of the first",
    .cause = "the batch stride of the table is left out",
    .fix = "table[b][page] and not table[page]",
    .source = "textbook",
    .trigger = "more than one member",
    .killed_by = {"other_members_change_nothing",
                  "permuted_members_permute_output", "agrees_with_oracle"},
    .when = "B > 1",
};

// Rows of the block table are taken to be as long as they need to be.
struct ServingTableStrideOfLongest : ServingHooks {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    int64_t columns = 0;
    for (int64_t n = 0; s.page_size > 0 && n < s.call.batch; ++n) {
      const int64_t keys = ServingHooks::attended(s, n);
      const int64_t pages = (keys + s.page_size - 1) / s.page_size;
      columns = columns < pages ? pages : columns;
    }
    if (columns == 0) {
      return s.slot(b, token);
    }
    const int64_t entry = b * columns + token / s.page_size;
    const Slot other = {s.entry(entry / s.columns, entry % s.columns),
                        token % s.page_size};
    return inside(s, other) ? other : s.slot(b, token);
  }
};
QKVET_FAULT(serving_table_stride_of_longest) = {
    .kernel = serving_fault<ServingTableStrideOfLongest>,
    .mechanism =
        "the row stride of the block table is computed from the longest length",
    .symptom = "every member but the first reads entries of others",
    .cause = "the table was made for this batch alone in the test",
    .fix = "take the stride of the table",
    .source = "textbook",
    .trigger = "two members, and a table that is wider than the longest needs",
    .killed_by = {"page_size_changes_nothing", "agrees_with_oracle"},
    .when = "page_size > 0 && B > 1",
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
constexpr qkvet_kernel lists_fault(const char* name, const char* description,
                                   Place place) {
  qkvet_kernel kernel = serving_fault<Hooks>(name, description, place);
  kernel.capabilities = &kListsCapabilities;
  return kernel;
}

// Entry `at` of the list, if it is one and names a page; else that of the
// member's own page.
int64_t page_at(const ServingCall& s, int64_t at, int64_t own) {
  if (at < 0 || at >= s.entries) {
    return own;
  }
  const int64_t page = *s.list.at(at, 0, 0);
  return page >= 0 && page < s.pages ? page : own;
}

}  // namespace

// What the last page holds is not asked.
struct CsrLastPageWhole : ServingHooks {
  static int64_t attended(const ServingCall& s, int64_t b) {
    return s.csr() ? s.page_count(b) * s.page_size
                   : ServingHooks::attended(s, b);
  }
};
QKVET_FAULT(csr_last_page_whole) = {
    .kernel = lists_fault<CsrLastPageWhole>,
    .mechanism =
        "with a list of pages the length of a member is the number of its "
        "pages times their size",
    .symptom =
        "rows see what the rest of the last page holds: zeros of a fresh pool, "
        "tokens of an earlier request later on",
    .cause = "the list says how many pages there are, and no more is asked",
    .fix = "(pages - 1) * page_size + last_page_len",
    .source = "pegainfer-project/pegainfer#291",
    .trigger = "a list of pages, and a length that fills no page",
    .killed_by = {"page_lists_equal_block_table",
                  "unowned_pages_change_nothing", "agrees_with_oracle"},
    .when = "csr && page_size > 1 && members(keys % page_size != 0)",
};

// The number of pages stands for the number of tokens in the last.
struct CsrLastPageFromPageCount : ServingHooks {
  static int64_t attended(const ServingCall& s, int64_t b) {
    const int64_t pages = s.csr() ? s.page_count(b) : 0;
    return pages == 0
               ? ServingHooks::attended(s, b)
               : (pages - 1) * s.page_size + (pages - 1) % s.page_size + 1;
  }
};
QKVET_FAULT(csr_last_page_from_page_count) = {
    .kernel = lists_fault<CsrLastPageFromPageCount>,
    .mechanism =
        "the tokens of the last page are computed from the number of pages, "
        "not from that of tokens",
    .symptom = "right for pages of one token; else lengths are off at random",
    .cause = "a formula of lengths is handed the lengths in pages",
    .fix = "(tokens - 1) % page_size + 1, or last_page_len as it is given",
    .source = "flashinfer-ai/flashinfer#2079",
    .trigger = "a list of pages, and pages of more than one token",
    .killed_by = {"page_lists_equal_block_table", "page_size_changes_nothing",
                  "agrees_with_oracle"},
    .when = "csr && page_size > 1 && members(keys > 0)",
};

// Every page holds as many tokens as the last.
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
QKVET_FAULT(csr_last_page_for_all) = {
    .kernel = lists_fault<CsrLastPageForAll>,
    .mechanism = "last_page_len limits every page of a member, not the last",
    .symptom = "tokens at the end of each full page are not seen",
    .cause = "the limit is the same in the first and the last turn of a loop",
    .fix = "page_size tokens of every page but the last",
    .source = "textbook (lists of pages)",
    .trigger = "a list of pages, and two pages of which the last is not full",
    .killed_by = {"page_lists_equal_block_table", "every_key_counts_once",
                  "agrees_with_oracle"},
    .when =
        "csr && page_size > 1 && "
        "members(keys > page_size && keys % page_size != 0)",
};

// An entry of the list is a token.
struct CsrPagesAsTokens : ServingHooks {
  static int64_t attended(const ServingCall& s, int64_t b) {
    return s.csr() ? s.page_count(b) : ServingHooks::attended(s, b);
  }
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    return s.csr() ? Slot{s.entry(b, token), 0} : s.slot(b, token);
  }
};
QKVET_FAULT(csr_pages_as_tokens) = {
    .kernel = lists_fault<CsrPagesAsTokens>,
    .mechanism = "page_indptr counts tokens: an entry of the list is one token",
    .symptom =
        "right for pages of one token; else a token of each page is seen",
    .cause =
        "a kernel for pages of one token behind an allocator of larger ones",
    .fix = "refuse other page sizes, or count page_size tokens an entry",
    .source = "sgl-project/sglang#25556",
    .trigger = "a list of pages, and pages of more than one token",
    .killed_by = {"page_lists_equal_block_table", "page_size_changes_nothing",
                  "every_key_counts_once", "agrees_with_oracle"},
    .when = "csr && page_size > 1 && members(keys > 1)",
};

// All members have the pages of the first.
struct CsrFirstMemberForAll : ServingHooks {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    const Slot own = s.slot(b, token);
    return s.csr() && b > 0
               ? Slot{page_at(s, token / s.page_size, own.block), own.row}
               : own;
  }
};
QKVET_FAULT(csr_first_member_for_all) = {
    .kernel = lists_fault<CsrFirstMemberForAll>,
    .mechanism = "the pages of all members are those of the first",
    .symptom = "one request is right; in a batch each reads the first one's",
    .cause = "a step of one request at a time, with a table of all",
    .fix = "page_indices[page_indptr[b] + n]",
    .source = "quic/efficient-transformers#1209",
    .trigger = "a list of pages of two members",
    .killed_by = {"page_lists_equal_block_table", "packed_members_equal_calls",
                  "agrees_with_oracle"},
    .when = "csr && members(member > 0)",
};

// A member begins where it ends.
struct CsrStartsOfNext : ServingHooks {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    const Slot own = s.slot(b, token);
    return s.csr() ? Slot{page_at(s, s.first_page(b + 1) + token / s.page_size,
                                  own.block),
                          own.row}
                   : own;
  }
};
QKVET_FAULT(csr_starts_of_next) = {
    .kernel = lists_fault<CsrStartsOfNext>,
    .mechanism =
        "page_indptr is read one further on: a member has the pages of the "
        "next",
    .symptom =
        "members read each other's caches, the last one what stands behind the "
        "list",
    .cause = "a list of ends taken for one of starts",
    .fix = "page_indptr[b] is the first page, page_indptr[b + 1] the end",
    .source = "textbook (lists of pages)",
    .trigger = "a list of pages",
    .killed_by = {"page_lists_equal_block_table", "packed_members_equal_calls",
                  "agrees_with_oracle"},
    .when = "csr && members(keys > 0)",
};

// ---- The width of lengths ---------------------------------------------------
namespace {

constexpr qkvet_capabilities kBothWidths = capabilities_with(
    kCommonOptions | kServingOptions | QKVET_OPTION_INT32_LENGTHS, {kF32});

}  // namespace

// Numbers of 64 bits are read as twice as many of 32.
struct LengthsHalved : ServingHooks {
  static int64_t attended(const ServingCall& s, int64_t b) {
    if (s.narrow_kv_len.given.data != nullptr || s.before.data == nullptr) {
      return ServingHooks::attended(s, b);
    }
    // Of small numbers the lower half is there, and the upper one is 0.
    const int64_t held = b % 2 == 0 ? s.held(b / 2) : 0;
    int64_t keys = 0;
    while (keys < held + s.new_tokens && has_slot(s, b, keys)) {
      ++keys;
    }
    return keys;
  }
};
QKVET_FAULT(lengths_int64_read_as_int32) = {
    .kernel =
        [](const char* name, const char* description, Place place) {
          qkvet_kernel kernel =
              serving_fault<LengthsHalved>(name, description, place);
          kernel.capabilities = &kBothWidths;
          return kernel;
        },
    .mechanism = "lengths are read as int32, whatever they are",
    .symptom =
        "one member is right; of int64 lengths the second member gets 0, the "
        "third the second's",
    .cause = "a pointer without its type, and no check of it",
    .fix = "ask for the type of the tensor, and refuse what is not read",
    .source = "flashinfer-ai/flashinfer#1654",
    .trigger = "lengths of two members in int64",
    .killed_by = {"int32_lengths_change_nothing", "agrees_with_oracle"},
    .when =
        "!int32_lengths && !csr && (kv_len || page_size > 0 || new_tokens > 0) "
        "&& members(member > 0)",
};

// ---- Lists of keys over pages ----------------------------------------------

bool lists_in_pages(const ServingCall& s) {
  return s.page_size > 0 && s.call.options.lists.present();
}

// An entry is looked up in the pool, and not in the sequence.
struct ListEntriesAreSlots : ServingHooks {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    const Slot slot = {token / std::max<int64_t>(s.page_size, 1),
                       token % std::max<int64_t>(s.page_size, 1)};
    return lists_in_pages(s) && inside(s, slot)
               ? slot
               : ServingHooks::source(s, b, token);
  }
};
QKVET_FAULT(list_entries_are_slots) = {
    .kernel = serving_fault<ListEntriesAreSlots, &kServingListCapabilities>,
    .mechanism =
        "an entry of a list is taken for a slot of the pool, page times size "
        "plus place, where it is a position in the sequence",
    .symptom =
        "right for the first sequence of a fresh pool, whose pages lie in "
        "order; else tokens of others are attended",
    .cause =
        "two conventions for the same tensor: the caller lists positions, the "
        "kernel wants what a block table has made of them",
    .fix =
        "look positions up in the block table, or let the caller do it and say "
        "so",
    .source = "textbook (FlashMLA lists slots, vLLM's indexer positions)",
    .trigger = "lists over pages that do not lie in order",
    .killed_by = {"page_placement_changes_nothing", "listed_pages_equal_rows",
                  "lists_equal_masks", "agrees_with_oracle"},
    .when = "lists && page_size > 0",
};

// The lists of all members are those of the first.
struct ListOfFirstMember : ServingHooks {
  static void member(const ServingCall& s, int64_t, ForwardCall* member) {
    if (lists_in_pages(s)) {
      member->options.lists.b = member->options.lists.i = 0;
    }
  }
};
QKVET_FAULT(list_of_first_member_over_pages) = {
    .kernel = serving_fault<ListOfFirstMember, &kServingListCapabilities>,
    .mechanism = "over pages all members have the lists of the first one",
    .symptom =
        "one sequence is right; in a batch the others see keys that "
        "were chosen for the first",
    .cause = "the row of the lists is counted within the member",
    .fix = "add the member's row, or the start of its queries",
    .source = "textbook (lists of each member)",
    .trigger = "lists over pages, and two members",
    .killed_by = {"lists_equal_masks", "listed_pages_equal_rows",
                  "agrees_with_oracle"},
    .when = "lists && page_size > 0 && (B > 1 || packed)",
};

// Keys of the last page count, whether they are there or not.
struct ListBeyondLength : ServingHooks {
  static void member(const ServingCall& s, int64_t b, ForwardCall* member) {
    if (!lists_in_pages(s)) {
      return;
    }
    while (member->keys < s.call.keys && member->keys % s.page_size != 0 &&
           has_slot(s, b, member->keys)) {
      ++member->keys;
    }
  }
};
QKVET_FAULT(list_entry_beyond_length_read) = {
    .kernel = serving_fault<ListBeyondLength, &kServingListCapabilities>,
    .mechanism =
        "a listed key that the sequence does not have yet is read from its "
        "last page",
    .symptom =
        "right where the lists hold no such key; else a slot counts that "
        "nobody has written",
    .cause = "with lists nobody compares an entry with kv_len",
    .fix = "hide the entries from kv_len on",
    .source = "textbook (lists and lengths)",
    .trigger = "a listed key beyond the length, in the last page",
    .killed_by = {"unowned_pages_change_nothing", "lists_equal_masks",
                  "full_lists_equal_dense", "agrees_with_oracle"},
    .when = "lists && page_size > 1",
};

// The last block of a list is read whole.
struct LastBlockIsWhole : ServingHooks {
  static void member(const ServingCall& s, int64_t b, ForwardCall* member) {
    const int64_t block = member->options.lists.block;
    while (member->options.lists.present() && member->keys < s.call.keys &&
           member->keys % block != 0 && has_slot(s, b, member->keys)) {
      ++member->keys;
    }
  }
};
QKVET_FAULT(blocks_last_is_whole) = {
    .kernel = serving_fault<LastBlockIsWhole, &kServingListCapabilities>,
    .mechanism = "of the last block of a sequence all keys count",
    .symptom =
        "right where sequences fill their blocks; else slots that nobody has "
        "written are attended",
    .cause = "a block is taken for a page, and pages for what is in them",
    .fix = "hide the keys of a block from kv_len on",
    .source = "textbook (lists of blocks)",
    .trigger = "key_block_size above 1, the last block listed and not full",
    .killed_by = {"poison_beyond_lengths_changes_nothing",
                  "unowned_pages_change_nothing", "lists_equal_masks",
                  "full_lists_equal_dense", "agrees_with_oracle"},
    .when = "lists.block > 1",
};

}  // namespace qkvet::impl
