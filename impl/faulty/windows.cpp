// SPDX-License-Identifier: Apache-2.0
// Faults of windows and of lists of keys: which keys near or far are seen.
#include <algorithm>

#include "impl/faulty/kernels.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

struct WindowOffByOneLeft : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const Run run = call.in_reach(i);
    const bool limited = call.options.window_left >= 0 &&
                         call.position(i) - call.options.window_left >= 0;
    return run.begin + (limited ? 1 : 0) <= j && j < run.end;
  }
};
QKVET_FAULT(window_off_by_one_left,
            kOptionFault<WindowOffByOneLeft,
                         QKVET_OPTION_WINDOW | QKVET_OPTION_MASK>) = {
    .when = "window.left >= 0 && rows(diagonal >= window.left)",
    .cause = "the left side of the window is exclusive: > instead of >=, or "
             "the width counts the diagonal",
    .fix = "keys from position - left on, inclusive",
    .source = "textbook, cf. flashinfer-ai/flashinfer#4972",
    .killed_by = {"every_pair_is_seen_as_asked", "window_equals_mask"},
};

struct WindowRightIgnored : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    ForwardCall open = call;
    open.options.window_right = -1;
    return OptionHooks::in_reach(open, i, j);
  }
};
QKVET_FAULT(window_right_ignored,
            kOptionFault<WindowRightIgnored, QKVET_OPTION_WINDOW>) = {
    .when = "window.right >= 0 && !causal && rows(hidden > 0)",
    .cause = "only the left side of the window is honoured: it only ever ran "
             "together with the causal rule",
    .fix = "limit both sides",
    .killed_by = {"every_pair_is_seen_as_asked", "masked_keys_change_nothing"},
};

struct WindowFromTopLeft : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const Options& o = call.options;
    return j < call.visible(i) &&
           (o.window_left < 0 || j >= i - o.window_left) &&
           (o.window_right < 0 || j <= i + o.window_right);
  }
};
QKVET_FAULT(window_from_top_left,
            kOptionFault<WindowFromTopLeft, QKVET_OPTION_WINDOW>) = {
    .when = "window && !top_left && Tq != Tk",
    .cause = "the window counts from key i instead of key i + Tk - Tq: a row "
             "number is taken for a position",
    .fix =
        "count from the diagonal: i + Tk - Tq unless causal from the top left",
    .source = "flashinfer-ai/flashinfer#4972",
    .killed_by = {"every_pair_is_seen_as_asked", "masked_keys_change_nothing"},
};

struct WindowFirstTileWithoutOffset : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const Run run = call.in_reach(i);
    const int64_t left = call.options.window_left, tile = half_tile();
    if (left < 0) return run.begin <= j && j < run.end;
    // Only the first tile is thought to hold keys in front of the window.
    const int64_t first = std::max<int64_t>(i - left, 0) / tile * tile;
    return first <= j && j < run.end && (first + tile <= j || run.begin <= j);
  }
};
QKVET_FAULT(window_first_tile_without_offset,
            kOptionFault<WindowFirstTileWithoutOffset, QKVET_OPTION_WINDOW>) = {
    .when = "window.left >= 0 && !top_left && Tq != Tk",
    .cause = "the tile in which a window begins is computed from the row, "
             "without the offset of the chunk",
    .fix = "count from the position of the query, as its mask does",
    .source = "flashinfer-ai/flashinfer#4972",
    .killed_by = {"every_pair_is_seen_as_asked", "masked_keys_change_nothing"},
    .tiled = true,
};

struct WindowLostInDecode : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    return call.queries == 1 ? j < call.visible(i)
                             : OptionHooks::in_reach(call, i, j);
  }
};
QKVET_FAULT(window_lost_in_decode,
            kOptionFault<WindowLostInDecode, QKVET_OPTION_WINDOW>) = {
    .when = "window && Tq == 1 && rows(hidden > 0)",
    .cause = "the path for one query ignores the window: it was written for "
             "models without windows",
    .fix = "limit the keys of the decode path as well",
    .source = "karpathy/nanochat#456",
    .killed_by = {"masked_keys_change_nothing", "every_pair_is_seen_as_asked"},
};

struct WindowWiderInPrefill : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const Run run = call.in_reach(i);
    const bool wider = call.queries > 1 && call.options.window_left >= 0;
    return run.begin - (wider ? 1 : 0) <= j && j < run.end;
  }
};
QKVET_FAULT(window_wider_in_prefill,
            kOptionFault<WindowWiderInPrefill, QKVET_OPTION_WINDOW>) = {
    .when = "window.left >= 0 && Tq > 1 && rows(diagonal > window.left)",
    .cause = "with several queries the window reaches one key further than "
             "with one: only the decode path counts the diagonal",
    .fix = "one definition of the window for both paths",
    .source = "mistralai/mistral-inference#60",
    .killed_by = {"every_pair_is_seen_as_asked", "every_key_counts_once"},
};

namespace {

// The side in a variable of 32 bits; below 0: all keys, the meaning of -1.
int64_t in_int(int64_t side) {
  return std::max<int64_t>(static_cast<int32_t>(side), -1);
}

void window_in_int(qkvet_forward_args* args) {
  args->window_left = in_int(args->window_left);
  args->window_right = in_int(args->window_right);
}

}  // namespace

// A window is kept in 32 bits.
QKVET_FAULT(
    window_kept_in_int,
    kArgumentFault<window_in_int, QKVET_OPTION_WINDOW | QKVET_OPTION_MASK>) = {
    .when = "window.left > 2147483647 || window.right > 2147483647",
    .cause = "both sides of a window are cut to 32 bits: int parameters for "
             "fields of 64 bits",
    .fix = "keep the sides in 64 bits, or cut them to Tq + Tk first",
    .killed_by = {"every_pair_is_seen_as_asked", "window_equals_mask"},
};

struct WindowEndInInt : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    if (user_right() < 0) return OptionHooks::in_reach(call, i, j);
    const auto end = static_cast<uint32_t>(call.position(i)) +
                     static_cast<uint32_t>(user_right()) + 1;
    const Run run = call.in_reach(i);
    return run.begin <= j && j < call.visible(i) &&
           j < static_cast<int32_t>(end);
  }

  // As the caller said it; what a call holds is cut to its extents.
  static int64_t& user_right() {
    thread_local int64_t right = -1;
    return right;
  }
  static qkvet_status forward(const qkvet_kernel* self, qkvet_context* context,
                              const qkvet_forward_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
    qkvet_forward_args known = {};
    QKVET_TRY(read_struct(args, &known, why));
    user_right() = known.has_window != 0 ? known.window_right : -1;
    return OptionsKernel<WindowEndInInt>::forward(self, context, args, exec,
                                                  why);
  }
};
constexpr qkvet_kernel kWindowEndInInt =
    with(kOptionFault<WindowEndInInt, QKVET_OPTION_WINDOW | QKVET_OPTION_MASK>,
         &qkvet_kernel::forward, WindowEndInInt::forward);
QKVET_FAULT(window_end_in_int, kWindowEndInInt) = {
    .when = "window.right > 2000000000",
    .cause = "position + right + 1 is computed in 32 bits and overflows: "
             "INT_MAX is the value for no limit",
    .fix = "compare key - position with the side, or cut it to Tq + Tk first",
    .killed_by = {"every_pair_is_seen_as_asked", "window_equals_mask"},
};

struct WindowOfLastDraft : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const int64_t begin = call.in_reach(call.queries - 1).begin;
    return begin <= j && j < call.in_reach(i).end;
  }
};
QKVET_FAULT(window_of_last_draft,
            kOptionFault<WindowOfLastDraft, QKVET_OPTION_WINDOW>) = {
    .when = "window.left >= 0 && Tq > 1 && rows(row + 1 == queries && diagonal "
            "> window.left)",
    .cause = "the window of the last row is used for all rows: its first key "
             "is computed once a call",
    .fix = "compute it for each row",
    .source = "flashinfer-ai/flashinfer#4137",
    .killed_by = {"every_pair_is_seen_as_asked", "every_key_counts_once"},
};

struct WindowInPackedRows : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    return j < call.visible(i);
  }
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    const Options& o = call.options;
    const int64_t row = at.i * call.group() + at.h % call.group();
    const int64_t position = call.position(row);
    return (o.window_left < 0 || position - o.window_left <= j) &&
           (o.window_right < 0 || j <= position + o.window_right);
  }
};
QKVET_FAULT(window_in_packed_rows,
            kOptionFault<WindowInPackedRows, QKVET_OPTION_WINDOW>) = {
    .when = "window && Hkv < H",
    .cause = "heads of a group are packed as rows, and the window takes such a "
             "row for a token: it is not divided by the group size",
    .fix = "divide by H / Hkv first",
    .source = "flashinfer-ai/flashinfer#714, pytorch/pytorch#171271",
    .killed_by = {"every_pair_is_seen_as_asked",
                  "grouped_heads_equal_repeated_heads"},
};

// ---- Lists of keys ----------------------------------------------------------

// A row's list, looked through as Wrong has it: whose list it is, where it
// ends, and what key, or block of keys, an entry is.
struct RightList {
  static RowAt row(const ForwardCall&, RowAt at) { return at; }
  static int64_t end(const KeyLists& lists, RowAt at) {
    return lists.count(at.b, at.i);
  }
  static bool ends(int32_t) { return false; }
  static int64_t key(const ForwardCall&, int32_t entry) { return entry; }
  static bool holds(int64_t block, int64_t entry, int64_t j) {
    return entry == j / block;
  }
};

template <class Wrong>
struct ListHooks : OptionHooks {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    const KeyLists& lists = call.options.lists;
    if (!call.options.shows(at.b, at.h, at.i, j)) return false;
    if (!lists.present()) return true;
    const RowAt from = Wrong::row(call, at);
    const int64_t end = Wrong::end(lists, at);
    for (int64_t n = 0; n < end; ++n) {
      const int32_t entry = lists.entry(from.b, from.h, from.i, n);
      if (Wrong::ends(entry)) return false;
      const int64_t key = Wrong::key(call, entry);
      if (key >= 0 && Wrong::holds(lists.block, key, lists.j + j)) return true;
    }
    return false;
  }
};

constexpr uint64_t kLists = QKVET_OPTION_MASK | kListOptions;

struct MinusOneIsLast : RightList {
  static int64_t key(const ForwardCall& call, int32_t entry) {
    const int64_t block = call.options.lists.block;
    return entry < 0 ? (call.keys + block - 1) / block + entry : entry;
  }
};
QKVET_FAULT(list_minus_one_is_last_key,
            kOptionFault<ListHooks<MinusOneIsLast>, kLists>) = {
    .when = "lists && Tk > 1",
    .cause = "the entry -1 of a list is the last key: the gather counts "
             "negative indices from the end",
    .fix = "hide the entries below 0 before the keys are fetched",
    .killed_by = {"lists_equal_masks", "agrees_with_oracle"},
};

struct LengthOfListIgnored : RightList {
  static int64_t end(const KeyLists& lists, RowAt) { return lists.entries; }
};
QKVET_FAULT(list_length_ignored,
            kOptionFault<ListHooks<LengthOfListIgnored>, kLists>) = {
    .when = "lists.lengths",
    .cause = "all entries of a list count, whatever topk_length is: the loop "
             "ends at the width of the buffer",
    .fix = "end it at topk_length of the row",
    .source = "flashinfer-ai/flashinfer#5095",
    .killed_by = {"rest_of_lists_changes_nothing", "lists_equal_masks"},
};

struct LastOfListDropped : RightList {
  static int64_t end(const KeyLists& lists, RowAt at) {
    return lists.count(at.b, at.i) - 1;
  }
};
QKVET_FAULT(list_last_entry_dropped,
            kOptionFault<ListHooks<LastOfListDropped>, kLists>) = {
    .when = "lists",
    .cause = "the last entry of a list is not read: the bound of the loop is "
             "one too low",
    .fix = "all entries up to topk_length count",
    .killed_by = {"listed_order_changes_nothing", "lists_equal_masks"},
};

struct MinusOneEndsList : RightList {
  static bool ends(int32_t entry) { return entry < 0; }
};
QKVET_FAULT(list_ends_at_minus_one,
            kOptionFault<ListHooks<MinusOneEndsList>, kLists>) = {
    .when = "lists && lists.entries > 1",
    .cause =
        "the first -1 of a list ends it: padding is taken to follow all keys",
    .fix = "skip -1 and go on",
    .killed_by = {"listed_order_changes_nothing", "lists_equal_masks"},
};

struct ListOfFirstHead : RightList {
  static RowAt row(const ForwardCall& call, RowAt at) {
    return {at.b, -call.options.lists.h, at.i};
  }
};
QKVET_FAULT(list_of_first_head,
            kOptionFault<ListHooks<ListOfFirstHead>, kLists>) = {
    .when = "lists.heads && Hkv > 1 && Tk > 1",
    .cause = "the list of head 0 is used for all heads: the head stride is "
             "missing from its address",
    .fix = "add the key/value head times the stride of the lists",
    .killed_by = {"lists_equal_masks", "agrees_with_oracle"},
};

struct ListModulo : RightList {
  static RowAt row(const ForwardCall& call, RowAt at) {
    const KeyLists& lists = call.options.lists;
    const int64_t h = lists.h + at.h, heads = call.heads / lists.group;
    const int64_t list = heads > 0 ? h % heads : 0;
    return {at.b, list * lists.group - lists.h, at.i};
  }
};
QKVET_FAULT(list_of_head_modulo,
            kOptionFault<ListHooks<ListModulo>,
                         kLists | QKVET_OPTION_GROUPED_HEADS>) = {
    .when = "lists.heads && Hkv > 1 && Hkv < H && Tk > 1",
    .cause = "query head h has list h mod Hkv instead of h / group: heads are "
             "grouped in turns instead of blocks",
    .fix = "the list of query head h is that of key/value head h / (H / Hkv)",
    .killed_by = {"lists_equal_masks", "agrees_with_oracle"},
};

struct ListOfFirstRow : RightList {
  static RowAt row(const ForwardCall& call, RowAt at) {
    return {at.b, at.h, -call.options.lists.i};
  }
};
QKVET_FAULT(list_of_first_row,
            kOptionFault<ListHooks<ListOfFirstRow>, kLists>) = {
    .when = "lists && Tq > 1 && Tk > 1",
    .cause = "all rows use the list of row 0, cut to their own reach: one list "
             "is fetched for a tile of queries",
    .fix = "fetch the list of each row",
    .killed_by = {"lists_equal_masks", "agrees_with_oracle"},
};

struct BlockNumberIsKey : RightList {
  static bool holds(int64_t, int64_t entry, int64_t j) { return entry == j; }
};
QKVET_FAULT(block_number_is_key_number,
            kOptionFault<ListHooks<BlockNumberIsKey>, kLists>) = {
    .when = "lists.block > 1 && Tk > 1",
    .cause = "an entry of a list of blocks is taken for a key: the kernel for "
             "single keys is called",
    .fix = "multiply by the block size, and take all keys of the block",
    .killed_by = {"block_lists_equal_key_lists", "lists_equal_masks"},
};

struct PartialBlockDropped : OptionHooks {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    const int64_t block = call.options.lists.block;
    return OptionHooks::allows(call, at, j) &&
           (!call.options.lists.present() ||
            (j / block + 1) * block <= call.keys);
  }
};
QKVET_FAULT(
    partial_block_of_list_dropped,
    kOptionFault<PartialBlockDropped, kLists | QKVET_OPTION_LENGTHS>) = {
    .when = "lists.block > 1",
    .cause = "a listed block that is not full is left out: the number of "
             "blocks is rounded down",
    .fix = "round up, and hide the keys behind the last one",
    .killed_by = {"block_lists_equal_key_lists", "lists_equal_masks"},
};

struct ListOverridesCausal : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    return call.options.lists.present() || OptionHooks::in_reach(call, i, j);
  }
};
QKVET_FAULT(list_overrides_causal,
            kOptionFault<ListOverridesCausal, kLists>) = {
    .when = "lists && (causal || window)",
    .cause = "with lists neither the causal rule nor the window is applied: "
             "the sparse path lacks both",
    .fix = "hide listed keys that are out of reach, or refuse the two together",
    .killed_by = {"lists_equal_masks", "full_lists_equal_dense"},
};

}  // namespace qkvet::impl
