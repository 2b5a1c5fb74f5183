// SPDX-License-Identifier: Apache-2.0
// Faults of windows and of lists of keys: which keys near or far are seen.
#include <algorithm>

#include "impl/faulty/kernels.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

// One key too few to the left.
struct WindowOffByOneLeft : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const Run run = call.in_reach(i);
    const bool limited = call.options.window_left >= 0 &&
                         call.position(i) - call.options.window_left >= 0;
    return run.begin + (limited ? 1 : 0) <= j && j < run.end;
  }
};
QKVET_FAULT(window_off_by_one_left) = {
    .kernel = option_fault<WindowOffByOneLeft,
                           QKVET_OPTION_WINDOW | QKVET_OPTION_MASK>,
    .mechanism = "the left side of the window is exclusive",
    .symptom = "rows see one key less than they should, the oldest",
    .cause =
        "a comparison with > for one with >=, or a width that counts the "
        "diagonal",
    .fix = "keys from position - left on, inclusive",
    .source = "textbook, cf. flashinfer-ai/flashinfer#4972",
    .trigger = "a window whose left border lies inside the keys",
    .killed_by = {"every_pair_is_seen_as_asked", "window_equals_mask",
                  "every_key_counts_once", "rows_stay_in_hull",
                  "agrees_with_oracle"},
    .when = "window.left >= 0 && rows(diagonal >= window.left)",
};

// A window open to the right.
struct WindowRightIgnored : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    ForwardCall open = call;
    open.options.window_right = -1;
    return OptionHooks::in_reach(open, i, j);
  }
};
QKVET_FAULT(window_right_ignored) = {
    .kernel = option_fault<WindowRightIgnored, QKVET_OPTION_WINDOW>,
    .mechanism = "only the left side of the window is honoured",
    .symptom = "without the causal rule, rows see everything behind them",
    .cause = "a window that only ever ran together with the causal rule",
    .fix = "limit both sides",
    .source = "textbook",
    .trigger =
        "a window with a right side, and no causal rule that hides the same "
        "keys",
    .killed_by = {"every_pair_is_seen_as_asked", "masked_keys_change_nothing",
                  "every_key_counts_once", "rows_stay_in_hull",
                  "agrees_with_oracle"},
    .when = "window.right >= 0 && !causal && rows(hidden > 0)",
};

// The window forgets the keys in front of a chunk.
struct WindowFromTopLeft : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const Options& o = call.options;
    return j < call.visible(i) &&
           (o.window_left < 0 || j >= i - o.window_left) &&
           (o.window_right < 0 || j <= i + o.window_right);
  }
};
QKVET_FAULT(window_from_top_left) = {
    .kernel = option_fault<WindowFromTopLeft, QKVET_OPTION_WINDOW>,
    .mechanism = "the window counts from key i instead of key i + Tk - Tq",
    .symptom = "right for prompts, wrong for every chunk on earlier keys",
    .cause = "the row number of the chunk taken for a position",
    .fix =
        "count from the diagonal: i + Tk - Tq unless causal from the top left",
    .source = "flashinfer-ai/flashinfer#4972",
    .trigger = "a window, and Tq != Tk",
    .killed_by = {"every_pair_is_seen_as_asked", "masked_keys_change_nothing",
                  "every_key_counts_once", "rows_stay_in_hull",
                  "agrees_with_oracle"},
    .when = "window && !top_left && Tq != Tk",
};

// The first tile of a window is found as if the chunk began the sequence.
struct WindowFirstTileWithoutOffset : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const Run run = call.in_reach(i);
    const int64_t left = call.options.window_left, tile = half_tile();
    if (left < 0) {
      return run.begin <= j && j < run.end;
    }
    // Only the first tile is thought to hold keys in front of the window.
    const int64_t first = std::max<int64_t>(i - left, 0) / tile * tile;
    return first <= j && j < run.end && (first + tile <= j || run.begin <= j);
  }
};
QKVET_FAULT(window_first_tile_without_offset) = {
    .kernel = option_fault<WindowFirstTileWithoutOffset, QKVET_OPTION_WINDOW>,
    .mechanism =
        "the tile in which a window begins is found from the row, without the "
        "offset of the chunk",
    .symptom =
        "prefill from the start is right; later chunks see keys that left the "
        "window",
    .cause =
        "the loop over tiles begins at a tile that is counted from the first "
        "query",
    .fix = "count from the position of the query, as its mask does",
    .source = "flashinfer-ai/flashinfer#4972",
    .trigger = "a window to the left, and Tq other than Tk",
    .killed_by = {"every_pair_is_seen_as_asked", "masked_keys_change_nothing",
                  "agrees_with_oracle"},
    .when = "window.left >= 0 && !top_left && Tq != Tk",
    .tiled = true,
};

// With one query the window is not looked at.
struct WindowLostInDecode : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    return call.queries == 1 ? j < call.visible(i)
                             : OptionHooks::in_reach(call, i, j);
  }
};
QKVET_FAULT(window_lost_in_decode) = {
    .kernel = option_fault<WindowLostInDecode, QKVET_OPTION_WINDOW>,
    .mechanism = "the path for one query knows no window",
    .symptom =
        "prefill is right, and decoding drifts once the context is longer than "
        "the window",
    .cause = "a decode path of its own, written for models without windows",
    .fix = "limit the keys of the decode path as well",
    .source = "textbook (decode paths)",
    .trigger = "a window shorter than what one query could see, and Tq = 1",
    .killed_by = {"masked_keys_change_nothing", "every_pair_is_seen_as_asked",
                  "agrees_with_oracle"},
    .when = "window && Tq == 1 && rows(hidden > 0)",
};

// Prefill sees one key more than decoding.
struct WindowWiderInPrefill : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const Run run = call.in_reach(i);
    const bool wider = call.queries > 1 && call.options.window_left >= 0;
    return run.begin - (wider ? 1 : 0) <= j && j < run.end;
  }
};
QKVET_FAULT(window_wider_in_prefill) = {
    .kernel = option_fault<WindowWiderInPrefill, QKVET_OPTION_WINDOW>,
    .mechanism =
        "with several queries the window reaches one key further than with one",
    .symptom =
        "the same token has another output in the prompt than when it is "
        "decoded",
    .cause =
        "the mask of prefill counts the keys beside the diagonal, the ring of "
        "decoding counts the diagonal as well",
    .fix = "one definition of the window for both paths",
    .source = "mistralai/mistral-inference#60",
    .trigger = "a window to the left that hides a key, and two rows",
    .killed_by = {"every_pair_is_seen_as_asked", "every_key_counts_once",
                  "agrees_with_oracle"},
    .when = "window.left >= 0 && Tq > 1 && rows(diagonal > window.left)",
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
QKVET_FAULT(window_kept_in_int) = {
    .kernel =
        argument_fault<window_in_int, QKVET_OPTION_WINDOW | QKVET_OPTION_MASK>,
    .mechanism = "both sides of a window are cut to 32 bits",
    .symptom =
        "right for every window of a model; a caller that says `no limit` by a "
        "number beyond 2^32 gets a narrow window",
    .cause = "a parameter of type int for a field of 64 bits",
    .fix = "keep the sides in 64 bits, or cut them to Tq + Tk first",
    .source = "textbook (narrowing)",
    .trigger = "a side of 2^32 or more that leaves a small number",
    .killed_by = {"every_pair_is_seen_as_asked", "window_equals_mask",
                  "every_key_counts_once", "agrees_with_oracle"},
    .when = "window.left > 2147483647 || window.right > 2147483647",
};

// The end of a window is added up in 32 bits.
struct WindowEndInInt : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    if (user_right() < 0) {
      return OptionHooks::in_reach(call, i, j);
    }
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
    const qkvet_status status = read_struct(args, &known, why);
    if (status != QKVET_OK) {
      return status;
    }
    user_right() = known.has_window != 0 ? known.window_right : -1;
    return OptionsKernel<WindowEndInInt>::forward(self, context, args, exec,
                                                  why);
  }
  static constexpr qkvet_kernel kernel(const char* name,
                                       const char* description, Place place) {
    qkvet_kernel made =
        option_fault<WindowEndInInt, QKVET_OPTION_WINDOW | QKVET_OPTION_MASK>(
            name, description, place);
    made.forward = forward;
    return made;
  }
};
QKVET_FAULT(window_end_in_int) = {
    .kernel = WindowEndInInt::kernel,
    .mechanism = "position + right + 1 is computed in 32 bits",
    .symptom =
        "right for every window of a model; where the right side is the "
        "largest number of its type rows see nothing",
    .cause = "`no limit` is spelled INT_MAX, and is added to",
    .fix = "compare key - position with the side, or cut it to Tq + Tk first",
    .source = "textbook (overflow)",
    .trigger = "a right side near 2^31 or beyond",
    .killed_by = {"every_pair_is_seen_as_asked", "window_equals_mask",
                  "every_key_counts_once", "agrees_with_oracle"},
    .when = "window.right > 2000000000",
};

// All rows have the beginning of the last window.
struct WindowOfLastDraft : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const int64_t begin = call.in_reach(call.queries - 1).begin;
    return begin <= j && j < call.in_reach(i).end;
  }
};
QKVET_FAULT(window_of_last_draft) = {
    .kernel = option_fault<WindowOfLastDraft, QKVET_OPTION_WINDOW>,
    .mechanism = "the window of the last row is used for all rows",
    .symptom =
        "one query is right; of several drafts all but the last miss their "
        "oldest keys",
    .cause =
        "the first key is computed once a call, from the length that the last "
        "draft reaches",
    .fix = "compute it for each row",
    .source = "flashinfer-ai/flashinfer#4137",
    .trigger =
        "a window to the left that hides keys of the last row, and two rows",
    .killed_by = {"every_pair_is_seen_as_asked", "every_key_counts_once",
                  "agrees_with_oracle"},
    .when =
        "window.left >= 0 && Tq > 1 && rows(row + 1 == queries && diagonal > "
        "window.left)",
};

// A window is counted in rows that are pairs of token and head.
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
QKVET_FAULT(window_in_packed_rows) = {
    .kernel = option_fault<WindowInPackedRows, QKVET_OPTION_WINDOW>,
    .mechanism =
        "heads of a group are packed behind each other as rows, and the window "
        "takes such a row for a token",
    .symptom =
        "grouped heads lose the keys near them; without groups all is right",
    .cause =
        "the row of the tile is not divided by the size of the group before it "
        "is compared with a key",
    .fix = "divide by H / Hkv first",
    .source = "flashinfer-ai/flashinfer#714, pytorch/pytorch#171271",
    .trigger = "a window, and Hkv < H",
    .killed_by = {"every_pair_is_seen_as_asked",
                  "grouped_heads_equal_repeated_heads", "agrees_with_oracle"},
    .when = "window && Hkv < H",
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
    if (!call.options.shows(at.b, at.h, at.i, j)) {
      return false;
    }
    if (!lists.present()) {
      return true;
    }
    const RowAt from = Wrong::row(call, at);
    const int64_t end = Wrong::end(lists, at);
    for (int64_t n = 0; n < end; ++n) {
      const int32_t entry = lists.entry(from.b, from.h, from.i, n);
      if (Wrong::ends(entry)) {
        return false;
      }
      const int64_t key = Wrong::key(call, entry);
      if (key >= 0 && Wrong::holds(lists.block, key, lists.j + j)) {
        return true;
      }
    }
    return false;
  }
};

constexpr uint64_t kLists = QKVET_OPTION_MASK | kListOptions;

// As Python counts from the end.
struct MinusOneIsLast : RightList {
  static int64_t key(const ForwardCall& call, int32_t entry) {
    const int64_t block = call.options.lists.block;
    return entry < 0 ? (call.keys + block - 1) / block + entry : entry;
  }
};
QKVET_FAULT(list_minus_one_is_last_key) = {
    .kernel = option_fault<ListHooks<MinusOneIsLast>, kLists>,
    .mechanism = "the entry -1 of a list is the last key",
    .symptom =
        "rows whose lists are not full see the newest token, whether it was "
        "chosen or not",
    .cause = "a gather by index, where -1 counts from the end",
    .fix = "hide the entries below 0 before the keys are fetched",
    .source = "textbook (lists padded with -1)",
    .trigger = "-1 among the entries that count, and the last key not in them",
    .killed_by = {"lists_equal_masks", "agrees_with_oracle"},
    .when = "lists && Tk > 1",
};

// Whatever was put behind the length is read.
struct LengthOfListIgnored : RightList {
  static int64_t end(const KeyLists& lists, RowAt) { return lists.entries; }
};
QKVET_FAULT(list_length_ignored) = {
    .kernel = option_fault<ListHooks<LengthOfListIgnored>, kLists>,
    .mechanism = "all entries of a list count, whatever topk_length says",
    .symptom =
        "right where -1 stands behind the length; where a buffer is used "
        "again, keys of an earlier step are seen",
    .cause = "the loop ends at the width of the buffer of lists",
    .fix = "end it at topk_length of the row",
    .source = "flashinfer-ai/flashinfer#5095",
    .trigger = "topk_length below the width, and another key behind it",
    .killed_by = {"rest_of_lists_changes_nothing", "lists_equal_masks",
                  "agrees_with_oracle"},
    .when = "lists.lengths",
};

// The loop ends one entry early.
struct LastOfListDropped : RightList {
  static int64_t end(const KeyLists& lists, RowAt at) {
    return lists.count(at.b, at.i) - 1;
  }
};
QKVET_FAULT(list_last_entry_dropped) = {
    .kernel = option_fault<ListHooks<LastOfListDropped>, kLists>,
    .mechanism = "the last entry of a list is not looked at",
    .symptom =
        "nothing to see where the least of the chosen keys comes last: its "
        "weight is small",
    .cause = "a bound of a loop that is one too low",
    .fix = "all entries up to topk_length count",
    .source = "textbook (bounds of loops)",
    .trigger = "a key as the last entry that counts",
    .killed_by = {"listed_order_changes_nothing", "lists_equal_masks",
                  "agrees_with_oracle"},
    .when = "lists",
};

// -1 ends a list as a zero ends a text.
struct MinusOneEndsList : RightList {
  static bool ends(int32_t entry) { return entry < 0; }
};
QKVET_FAULT(list_ends_at_minus_one) = {
    .kernel = option_fault<ListHooks<MinusOneEndsList>, kLists>,
    .mechanism = "the first -1 of a list ends it",
    .symptom =
        "right where all -1 stand at the end; what a parallel selection wrote "
        "behind one is lost",
    .cause = "padding is taken to be behind all keys",
    .fix = "skip -1 and go on",
    .source = "textbook (lists padded with -1)",
    .trigger = "a key behind a -1",
    .killed_by = {"listed_order_changes_nothing", "lists_equal_masks",
                  "agrees_with_oracle"},
    .when = "lists && lists.entries > 1",
};

// One list for all heads.
struct ListOfFirstHead : RightList {
  static RowAt row(const ForwardCall& call, RowAt at) {
    return {at.b, -call.options.lists.h, at.i};
  }
};
QKVET_FAULT(list_of_first_head) = {
    .kernel = option_fault<ListHooks<ListOfFirstHead>, kLists>,
    .mechanism = "the list of head 0 is used for all heads",
    .symptom = "right where all heads have one list, as in MLA",
    .cause = "the stride of the heads is left out of the address of a list",
    .fix = "add the key/value head times the stride of the lists",
    .source = "textbook (lists of each head)",
    .trigger = "Hkv > 1, and lists of each key/value head",
    .killed_by = {"lists_equal_masks", "agrees_with_oracle"},
    .when = "lists.heads && Hkv > 1 && Tk > 1",
};

// Query heads are dealt out to lists one by one.
struct ListModulo : RightList {
  static RowAt row(const ForwardCall& call, RowAt at) {
    const KeyLists& lists = call.options.lists;
    const int64_t h = lists.h + at.h, heads = call.heads / lists.group;
    const int64_t list = heads > 0 ? h % heads : 0;
    return {at.b, list * lists.group - lists.h, at.i};
  }
};
QKVET_FAULT(list_of_head_modulo) = {
    .kernel = option_fault<ListHooks<ListModulo>,
                           kLists | QKVET_OPTION_GROUPED_HEADS>,
    .mechanism = "query head h has the list h mod Hkv in place of h / group",
    .symptom = "right without groups, and where one key/value head is left",
    .cause = "heads are grouped by turns in one place and by blocks in another",
    .fix = "the list of query head h is that of key/value head h / (H / Hkv)",
    .source = "textbook (grouped heads)",
    .trigger = "1 < Hkv < H, and lists of each key/value head",
    .killed_by = {"lists_equal_masks", "agrees_with_oracle"},
    .when = "lists.heads && Hkv > 1 && Hkv < H && Tk > 1",
};

// One list for all rows of a tile.
struct ListOfFirstRow : RightList {
  static RowAt row(const ForwardCall& call, RowAt at) {
    return {at.b, at.h, -call.options.lists.i};
  }
};
QKVET_FAULT(list_of_first_row) = {
    .kernel = option_fault<ListHooks<ListOfFirstRow>, kLists>,
    .mechanism = "all rows have the list of row 0, as far as their own reaches",
    .symptom = "decoding is right, one row at a time; prefill is not",
    .cause = "one list is fetched for a tile of queries",
    .fix = "fetch the list of each row",
    .source = "textbook (tiles of queries)",
    .trigger = "two rows with other lists",
    .killed_by = {"lists_equal_masks", "agrees_with_oracle"},
    .when = "lists && Tq > 1 && Tk > 1",
};

// The block size is not asked.
struct BlockNumberIsKey : RightList {
  static bool holds(int64_t, int64_t entry, int64_t j) { return entry == j; }
};
QKVET_FAULT(block_number_is_key_number) = {
    .kernel = option_fault<ListHooks<BlockNumberIsKey>, kLists>,
    .mechanism = "an entry of a list of blocks is taken for a key",
    .symptom =
        "of all keys that were chosen as many are seen as there are blocks, "
        "all near the beginning of the text",
    .cause = "the kernel for single keys is called with a list of blocks",
    .fix = "multiply by the block size, and take all keys of the block",
    .source = "textbook (lists of blocks)",
    .trigger = "key_block_size above 1, and two keys",
    .killed_by = {"block_lists_equal_key_lists", "lists_equal_masks",
                  "full_lists_equal_dense", "agrees_with_oracle"},
    .when = "lists.block > 1 && Tk > 1",
};

// Only whole blocks are there.
struct PartialBlockDropped : OptionHooks {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    const int64_t block = call.options.lists.block;
    return OptionHooks::allows(call, at, j) &&
           (!call.options.lists.present() ||
            (j / block + 1) * block <= call.keys);
  }
};
QKVET_FAULT(partial_block_of_list_dropped) = {
    .kernel = option_fault<PartialBlockDropped, kLists | QKVET_OPTION_LENGTHS>,
    .mechanism = "a listed block that is not full is left out",
    .symptom =
        "right where the text fills its blocks; else the newest tokens, which "
        "matter most, are lost until their block is full",
    .cause = "blocks are counted as keys / block size, rounded down",
    .fix = "round up, and hide the keys behind the last one",
    .source = "textbook (lists of blocks)",
    .trigger = "key_block_size above 1, and a last block that is not full",
    .killed_by = {"block_lists_equal_key_lists", "lists_equal_masks",
                  "full_lists_equal_dense", "agrees_with_oracle"},
    .when = "lists.block > 1",
};

// The selection is trusted to look back alone.
struct ListOverridesCausal : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    return call.options.lists.present() || OptionHooks::in_reach(call, i, j);
  }
};
QKVET_FAULT(list_overrides_causal) = {
    .kernel = option_fault<ListOverridesCausal, kLists>,
    .mechanism = "with lists neither the causal rule nor the window is asked",
    .symptom =
        "right where what chooses the keys looks back alone; the first rows, "
        "which have fewer keys than entries, see the future",
    .cause = "the path of lists leaves out what hides keys on the dense one",
    .fix = "hide what is listed and not in reach, or refuse the two together",
    .source = "textbook (causal and sparse)",
    .trigger = "lists with a key behind the diagonal, and the causal rule",
    .killed_by = {"lists_equal_masks", "full_lists_equal_dense",
                  "agrees_with_oracle"},
    .when = "lists && (causal || window)",
};

}  // namespace qkvet::impl
