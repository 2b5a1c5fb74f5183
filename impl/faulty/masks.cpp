// SPDX-License-Identifier: Apache-2.0
// Faults of masks: what a mask hides, of whom, and beside what other rule.
#include <algorithm>
#include <array>
#include <vector>

#include "impl/faulty/kernels.h"

namespace qkvet::impl {

struct MaskAfterSoftmax : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t) {
    return call.visible(i) > 0;
  }
  static bool reaches(const ForwardCall& call, RowAt at, int64_t j, bool) {
    return j < call.visible(at.i);
  }
};
QKVET_FAULT(mask_after_softmax, kPlainFault<MaskAfterSoftmax>) = {
    .when = "causal && rows(seen > 0 && hidden > 0)",
    .cause = "hidden keys keep their share of the denominator",
    .fix = "mask the scores with -inf, then take the softmax",
    .source = "ilivans/tf-rnn-attention#11",
    .killed_by = {"weights_sum_to_one", "future_changes_nothing"},
};

struct MaskInverted : OptionHooks {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return call.options.mask.data == nullptr ||
           !OptionHooks::allows(call, at, j);
  }
};
QKVET_FAULT(
    mask_inverted,
    kOptionFault<MaskInverted, QKVET_OPTION_MASK | QKVET_OPTION_BIAS>) = {
    .when = "mask",
    .cause = "nonzero in the mask hides a key: true means drop in one library "
             "and keep in the other",
    .fix = "nonzero means: attend",
    .source = "neuro-galaxy/torch_brain#74",
    .killed_by = {"every_pair_is_seen_as_asked", "mask_equals_bias"},
};

struct MaskKeepsOne : OptionHooks {
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    return OptionHooks::biased(call, at, j, s) +
           (call.options.mask.data != nullptr ? 1.0f : 0.0f);
  }
};
QKVET_FAULT(mask_keeps_one, kOptionFault<MaskKeepsOne, QKVET_OPTION_MASK>) = {
    .when = "mask",
    .cause = "shown keys get a score higher by 1: the mask is added after only "
             "its 0 was turned to -inf",
    .fix = "add 0 where a key is shown",
    .source = "tinygrad/tinygrad#2425",
    .killed_by = {"causal_equals_mask", "lse_counts_equal_keys"},
};

struct MaskAddedAsNumber : OptionHooks {
  static bool allows(const ForwardCall&, RowAt, int64_t) { return true; }
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    const bool kept = OptionHooks::allows(call, at, j);
    return call.options.mask.data != nullptr && kept ? s + 1 : s;
  }
};
QKVET_FAULT(mask_added_as_number,
            kOptionFault<MaskAddedAsNumber, QKVET_OPTION_MASK>) = {
    .when = "mask",
    .cause = "the 0 and 1 of a boolean mask are added to the scores: an "
             "additive mask was expected",
    .fix = "turn it into 0 and -infinity first",
    .source = "HKUSTDial/flash-sparse-attention#146",
    .killed_by = {"masked_keys_change_nothing", "every_pair_is_seen_as_asked"},
};

struct MaskedWeightTimesNan : OptionHooks {
  static bool reaches(const ForwardCall&, RowAt, int64_t, bool) { return true; }
};
QKVET_FAULT(masked_weight_times_nan,
            kOptionFault<MaskedWeightTimesNan, QKVET_OPTION_MASK>) = {
    .when = "rows(seen > 0 && hidden > 0)",
    .cause = "hidden values are multiplied by weight 0, and 0 times NaN is "
             "NaN, though they are declared to be ignored",
    .fix = "clear the values of hidden keys, or skip them",
    .source = "vllm-project/vllm#936",
    .killed_by = {"masked_nonfinite_is_ignored"},
};

struct MaskOfFirstHead : OptionHooks {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return OptionHooks::allows(call, {at.b, 0, at.i}, j);
  }
};
QKVET_FAULT(mask_of_first_head,
            kOptionFault<MaskOfFirstHead, QKVET_OPTION_MASK>) = {
    .when = "mask.heads && H > 1",
    .cause = "the mask of head 0 is used for all heads: its head stride is "
             "taken to be 0",
    .fix = "use the stride that the tensor has",
    .source = "textbook, cf. facebookresearch/xformers#813",
    .killed_by = {"every_pair_is_seen_as_asked", "rows_stay_in_hull"},
};

struct MaskReachesHead0 : OptionHooks {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    const View<const uint8_t>& mask = call.options.mask;
    return (mask.data != nullptr && mask.step[1] == 0 && at.h > 0) ||
           OptionHooks::allows(call, at, j);
  }
};
QKVET_FAULT(mask_reaches_head_0,
            kOptionFault<MaskReachesHead0, QKVET_OPTION_MASK>) = {
    .when = "mask && !mask.heads && H > 1",
    .cause = "a mask that all heads share is applied to head 0 alone: the loop "
             "runs over the mask's own extents",
    .fix = "broadcast the mask over heads: a stride of 0",
    .source = "tracel-ai/burn#4778",
    .killed_by = {"every_pair_is_seen_as_asked", "masked_keys_change_nothing"},
};

struct MaskOfFirstMember : OptionHooks {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return OptionHooks::allows(call, {0, at.h, at.i}, j);
  }
};
QKVET_FAULT(mask_of_first_member,
            kOptionFault<MaskOfFirstMember, QKVET_OPTION_MASK>) = {
    .when = "mask.members && B > 1",
    .cause = "the mask of batch element 0 is used for all: its address lacks "
             "the batch index",
    .fix = "use the stride that the tensor has",
    .source = "textbook, cf. facebookresearch/xformers#813",
    .killed_by = {"every_pair_is_seen_as_asked", "agrees_with_oracle"},
};

struct MaskRowsAssumedAdjacent : OptionHooks {
  // Only of rows that are longer than one element and are not all the same.
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    View<const uint8_t>& mask = member->options.mask;
    if (mask.data != nullptr && mask.step[2] != 0 && mask.step[3] == 1)
      mask.step[2] = whole.keys;
  }
};
QKVET_FAULT(mask_rows_assumed_adjacent,
            kOptionFault<MaskRowsAssumedAdjacent, QKVET_OPTION_MASK>) = {
    .when = "mask && (layout == gaps || layout == far) && Tq > 1 && Tk > 1",
    .cause = "row i of the mask is read i Tk elements after the first: its "
             "stride is computed instead of read",
    .fix = "use the strides of the mask",
    .source = "textbook, cf. facebookresearch/xformers#813",
    .killed_by = {"layout_changes_nothing"},
};

struct MaskOverridesCausal : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    return call.options.mask.data != nullptr ||
           OptionHooks::in_reach(call, i, j);
  }
};
QKVET_FAULT(mask_overrides_causal,
            kOptionFault<MaskOverridesCausal, QKVET_OPTION_MASK>) = {
    .when = "mask && causal",
    .cause = "with a mask, the causal flag is ignored, though both are "
             "declared to hold: two branches replace a conjunction",
    .fix = "hide what either of them hides, or refuse the two together",
    .source = "pytorch/pytorch#187801",
    .killed_by = {"causal_equals_mask", "every_pair_is_seen_as_asked"},
};

struct MaskWalkStillCausal : OptionHooks {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return OptionHooks::allows(call, at, j) &&
           (call.options.mask.data == nullptr || j <= call.position(at.i));
  }
};
QKVET_FAULT(mask_walk_still_causal,
            kOptionFault<MaskWalkStillCausal, QKVET_OPTION_MASK>) = {
    .when = "mask && !causal && Tq > 1",
    .cause = "with a mask the loop over keys still ends at the diagonal: the "
             "bound of the causal path was kept",
    .fix = "go over all keys that the mask may show",
    .source = "sgl-project/sglang#39593, vllm-project/vllm#30974",
    .killed_by = {"lse_counts_equal_keys", "every_pair_is_seen_as_asked"},
};

struct MaskKeptWhileExtentsMatch : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall*) {
    const Extents asked = {whole.batch, whole.heads, whole.queries, whole.keys};
    if (whole.options.mask.data != nullptr && kept().extents != asked)
      keep(whole, asked, &kept());
  }
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    const Kept& mask = kept();
    if (call.options.mask.data == nullptr) return true;
    const auto& [batch, heads, queries, keys] = mask.extents;
    return mask.pairs[static_cast<size_t>(
               ((at.b * heads + at.h) * queries + at.i) * keys + j)] != 0;
  }
  using Extents = std::array<int64_t, 4>;
  struct Kept {
    Extents extents = {};
    std::vector<uint8_t> pairs;
  };
  static Kept& kept() {
    thread_local Kept mask;
    return mask;
  }
  static void keep(const ForwardCall& whole, const Extents& extents,
                   Kept* mask) {
    mask->extents = extents;
    mask->pairs.clear();
    for (int64_t b = 0; b < whole.batch; ++b)
      for (int64_t h = 0; h < whole.heads; ++h)
        for (int64_t i = 0; i < whole.queries; ++i)
          for (int64_t j = 0; j < whole.keys; ++j)
            mask->pairs.push_back(whole.options.allows(b, h, i, j) ? 1 : 0);
  }
};
QKVET_FAULT(mask_kept_while_extents_match,
            kOptionFault<MaskKeptWhileExtentsMatch, QKVET_OPTION_MASK>) = {
    .when = "mask",
    .cause = "a prepared mask is used again for another mask of the same "
             "extents: the cache key has the extents alone",
    .fix = "compare the content, or do not keep what the caller may change",
    .source = "ml-explore/mlx#3071",
    .killed_by = {"causal_equals_mask"},
};

// ---- Masks that follow a text -----------------------------------------------

// One head of a mask: who sees whom of a member.
class MaskPairs {
 public:
  MaskPairs(uint8_t* first, int64_t row_count, int64_t key_count)
      : queries(row_count), keys(key_count), first_(first) {}
  uint8_t& at(int64_t i, int64_t j) { return first_[i * keys + j]; }
  // The token that row i is, whose key is the last that it sees where nothing
  // ahead is shown.
  int64_t token(int64_t i) const { return i + keys - queries; }
  bool sees_ahead(int64_t i) {
    for (int64_t j = std::max<int64_t>(token(i) + 1, 0); j < keys; ++j)
      if (at(i, j) != 0) return true;
    return false;
  }

  const int64_t queries, keys;

 private:
  uint8_t* first_;
};

// The mask is rewritten, member by member and head by head, before it is used.
template <class Fault>
struct MaskRewritten : OptionHooks {
  static void member(const ForwardCall&, int64_t, ForwardCall* member) {
    View<const uint8_t>& mask = member->options.mask;
    if (mask.data == nullptr) return;
    thread_local std::vector<uint8_t> written;
    const int64_t rows = member->queries, keys = member->keys;
    const int64_t heads = member->batch * member->heads;
    written.resize(
        static_cast<size_t>(std::max<int64_t>(heads * rows * keys, 1)));
    for (int64_t n = 0; n < heads; ++n) {
      MaskPairs pairs(written.data() + n * rows * keys, rows, keys);
      for (int64_t i = 0; i < rows; ++i) {
        const uint8_t* const from =
            mask.at(n / member->heads, n % member->heads, i);
        for (int64_t j = 0; j < keys; ++j)
          pairs.at(i, j) = from[j * mask.step[3]];
      }
      Fault::rewrite(*member, pairs);
    }
    mask = {written.data(),
            {member->heads * rows * keys, rows * keys, keys, 1}};
  }
};

template <class Fault>
constexpr qkvet_kernel kMaskFault = kOptionFault<Fault, QKVET_OPTION_MASK>;

struct MaskSkippedBelowDiagonal : MaskRewritten<MaskSkippedBelowDiagonal> {
  static void rewrite(const ForwardCall&, MaskPairs& pairs) {
    for (int64_t i = 0; i < pairs.queries; ++i) {
      const int64_t first_row = i / tile() * tile();
      const int64_t end = (pairs.token(first_row) + 1) / tile() * tile();
      for (int64_t j = 0; j < std::min(end, pairs.keys); ++j)
        pairs.at(i, j) = 1;
    }
  }
};
QKVET_FAULT(mask_skipped_below_diagonal,
            kMaskFault<MaskSkippedBelowDiagonal>) = {
    .when = "mask && Tk > 1",
    .cause = "the mask is read only in tiles on or above the diagonal: the "
             "causal rule hides nothing below it",
    .fix = "look the mask up in every tile, unless it is known to be causal",
    .source = "PaddlePaddle/FastDeploy#3514",
    .killed_by = {"tree_branches_equal_sequences",
                  "every_pair_is_seen_as_asked"},
    .tiled = true,
};

struct MaskTakenForCausal : MaskRewritten<MaskTakenForCausal> {
  static void rewrite(const ForwardCall&, MaskPairs& pairs) {
    for (int64_t i = 0; i < pairs.queries; ++i) {
      const int64_t token = pairs.token(i);
      const bool is_last = token + 1 == pairs.keys;
      if (token < 0 || pairs.at(i, token) == 0 ||
          (!is_last && pairs.at(i, token + 1) != 0)) {
        return;
      }
    }
    for (int64_t i = 0; i < pairs.queries; ++i)
      for (int64_t j = 0; j < pairs.keys; ++j)
        pairs.at(i, j) = j <= pairs.token(i) ? 1 : 0;
  }
};
QKVET_FAULT(mask_taken_for_causal, kMaskFault<MaskTakenForCausal>) = {
    .when = "mask && Tk > 1",
    .cause = "a mask that shows every row its own key and hides the next is "
             "taken for the causal rule: only its diagonal is tested",
    .fix = "compare all of the mask, or let the caller say what it is",
    .source = "vllm-project/vllm#17560",
    .killed_by = {"tree_branches_equal_sequences"},
};

struct MaskReducedToPadding : MaskRewritten<MaskReducedToPadding> {
  static void rewrite(const ForwardCall&, MaskPairs& pairs) {
    for (int64_t j = 0; j < pairs.keys; ++j) {
      uint8_t any = 0;
      for (int64_t i = 0; i < pairs.queries; ++i) any = any | pairs.at(i, j);
      for (int64_t i = 0; i < pairs.queries; ++i) pairs.at(i, j) = any;
    }
  }
};
QKVET_FAULT(mask_reduced_to_padding, kMaskFault<MaskReducedToPadding>) = {
    .when = "mask.rows && Tq > 1 && Tk > 1",
    .cause = "a mask of pairs is reduced to the keys that any row sees: the "
             "path supports padding alone",
    .fix = "use the pairs, or refuse a mask that differs from row to row",
    .source = "axolotl-ai-cloud/axolotl#3796, huggingface/nanoVLM#204",
    .killed_by = {"documents_equal_sequences", "local_chunks_equal_calls"},
};

struct BidirectionalAcrossBlocks : MaskRewritten<BidirectionalAcrossBlocks> {
  static void rewrite(const ForwardCall&, MaskPairs& pairs) {
    // What the first token of a block shows of it: its length.
    std::vector<char> in_block(static_cast<size_t>(pairs.keys), 0);
    for (int64_t i = 0; i < pairs.queries; ++i) {
      if (!pairs.sees_ahead(i)) continue;
      const int64_t token = std::max<int64_t>(pairs.token(i), 0);
      for (int64_t j = token; j < pairs.keys; ++j)
        in_block[static_cast<size_t>(j)] |= static_cast<char>(pairs.at(i, j));
    }
    for (int64_t i = 0; i < pairs.queries; ++i) {
      const int64_t token = pairs.token(i);
      if (token < 0 || in_block[static_cast<size_t>(token)] == 0) continue;
      for (int64_t j = 0; j < pairs.keys; ++j)
        pairs.at(i, j) |=
            static_cast<uint8_t>(in_block[static_cast<size_t>(j)]);
    }
  }
};
QKVET_FAULT(bidirectional_across_blocks,
            kMaskFault<BidirectionalAcrossBlocks>) = {
    .when = "mask && Tk > 1",
    .cause = "tokens of any two bidirectional blocks see each other: a token "
             "stores one bit instead of its block",
    .fix = "number the blocks, and compare the numbers",
    .source = "huggingface/transformers#38080",
    .killed_by = {"ranges_equal_blocks", "every_pair_is_seen_as_asked"},
};

struct AheadEndsWithRowTile : MaskRewritten<AheadEndsWithRowTile> {
  static void rewrite(const ForwardCall&, MaskPairs& pairs) {
    for (int64_t i = 0; i < pairs.queries; ++i) {
      const int64_t last_row = i / tile() * tile() + tile() - 1;
      for (int64_t j = std::max<int64_t>(pairs.token(last_row) + 1, 0);
           j < pairs.keys; ++j) {
        pairs.at(i, j) = 0;
      }
    }
  }
};
QKVET_FAULT(ahead_ends_with_row_tile, kMaskFault<AheadEndsWithRowTile>) = {
    .when = "mask && Tk > 1",
    .cause = "keys ahead of a row are seen only up to the end of its tile of "
             "rows: the next tiles are not loaded yet",
    .fix = "make a tile of all that is seen both ways, or read the keys first",
    .source = "RBLN-SW/optimum-rbln#646",
    .killed_by = {"prefix_equals_two_calls", "every_pair_is_seen_as_asked"},
    .tiled = true,
};

struct MaskedRunWidenedToTiles : MaskRewritten<MaskedRunWidenedToTiles> {
  static void rewrite(const ForwardCall&, MaskPairs& pairs) {
    for (int64_t i = 0; i < pairs.queries; ++i) {
      int64_t first = 0, end = pairs.keys;
      while (first < end && pairs.at(i, first) == 0) ++first;
      while (end > first && pairs.at(i, end - 1) == 0) --end;
      bool is_run = first < end;
      for (int64_t j = first; j < end; ++j)
        is_run = is_run && pairs.at(i, j) != 0;
      for (int64_t j = first / tile() * tile(); is_run && j < first; ++j)
        pairs.at(i, j) = 1;
    }
  }
};
QKVET_FAULT(masked_run_widened_to_tiles,
            kMaskFault<MaskedRunWidenedToTiles>) = {
    .when = "mask && Tk > 1",
    .cause = "a run of shown keys begins at the start of the tile that holds "
             "its first key: runs are counted in tiles",
    .fix = "look the mask up in the first tile of a run, as in the last",
    .killed_by = {"local_chunks_equal_calls", "documents_equal_sequences"},
    .tiled = true,
};

struct MaskUnreadInDecode : MaskRewritten<MaskUnreadInDecode> {
  static void rewrite(const ForwardCall&, MaskPairs& pairs) {
    for (int64_t i = 0; pairs.queries < pairs.keys && i < pairs.queries; ++i)
      for (int64_t j = 0; j < pairs.keys; ++j)
        pairs.at(i, j) = j <= pairs.token(i) ? 1 : 0;
  }
};
QKVET_FAULT(mask_unread_in_decode, kMaskFault<MaskUnreadInDecode>) = {
    .when = "mask && Tq < Tk",
    .cause = "with fewer queries than keys the mask is accepted and not read: "
             "the decode path masks causally",
    .fix = "read it, or refuse a mask there",
    .source = "vllm-project/vllm#46754",
    .killed_by = {"tree_branches_equal_sequences",
                  "every_pair_is_seen_as_asked"},
};

struct MaskRowsAreColumns : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    View<const uint8_t>& mask = member->options.mask;
    const bool turned = mask.data != nullptr && mask.step[2] == 1 &&
                        mask.step[3] == whole.queries;
    if (turned && whole.queries > 1 && whole.keys > 1) {
      mask.step[2] = whole.keys;
      mask.step[3] = 1;
    }
  }
};
QKVET_FAULT(mask_plane_taken_for_row_major,
            kOptionFault<MaskRowsAreColumns, QKVET_OPTION_MASK>) = {
    .when = "mask && layout == turned && Tq > 1 && Tk > 1",
    .cause = "a plane of the mask that fills its memory is read row by row: "
             "contiguous is taken to mean row-major",
    .fix = "use both strides of the plane",
    .killed_by = {"agrees_with_oracle"},
};

}  // namespace qkvet::impl
