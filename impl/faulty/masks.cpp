// SPDX-License-Identifier: Apache-2.0
// Faults of masks: what a mask hides, of whom, and beside what other rule.
#include <algorithm>
#include <array>
#include <vector>

#include "impl/faulty/kernels.h"

namespace qkvet::impl {

// The softmax runs over all keys, and the weights of hidden keys are set to
// zero afterwards.
struct MaskAfterSoftmax : PlainHooks {
  static bool visible(const ForwardCall&, int64_t, int64_t) { return true; }
  static bool keep(const ForwardCall& call, int64_t i, int64_t j) {
    return j < call.visible(i);
  }
};
QKVET_FAULT(mask_after_softmax) = {
    .kernel = plain_fault<MaskAfterSoftmax>,
    .mechanism = "hidden keys keep their share of the denominator",
    .symptom =
        "the weights of a row sum to less than one, and future keys still dim "
        "it",
    .cause = "the mask is multiplied with the weights",
    .fix = "mask the scores with -inf, then take the softmax",
    .source = "textbook",
    .trigger = "causal, and a row with at least one visible and one hidden key",
    .killed_by = {"weights_sum_to_one", "future_changes_nothing",
                  "every_key_counts_once", "rows_stay_in_hull",
                  "lse_counts_equal_keys", "agrees_with_oracle"},
    .when = "causal && rows(seen > 0 && hidden > 0)",
};

// The mask has the opposite sense.
struct MaskInverted : OptionHooks {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return call.options.mask.data == nullptr ||
           !OptionHooks::allows(call, at, j);
  }
};
QKVET_FAULT(mask_inverted) = {
    .kernel = option_fault<MaskInverted, QKVET_OPTION_MASK | QKVET_OPTION_BIAS>,
    .mechanism = "nonzero in the mask hides a key",
    .symptom = "rows see exactly what they must not",
    .cause = "true means drop in one library and keep in the other",
    .fix = "nonzero means: attend",
    .source = "neuro-galaxy/torch_brain#74",
    .trigger = "any mask",
    .killed_by = {"every_pair_is_seen_as_asked", "masked_keys_change_nothing",
                  "mask_equals_bias", "causal_equals_mask",
                  "weights_sum_to_one", "every_key_counts_once",
                  "lse_counts_equal_keys", "agrees_with_oracle"},
    .when = "mask",
};

// A mask adds 1 to what it shows.
struct MaskKeepsOne : OptionHooks {
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    return OptionHooks::biased(call, at, j, s) +
           (call.options.mask.data != nullptr ? 1.0f : 0.0f);
  }
};
QKVET_FAULT(mask_keeps_one) = {
    .kernel = option_fault<MaskKeepsOne, QKVET_OPTION_MASK>,
    .mechanism = "shown keys get a score higher by 1",
    .symptom =
        "outputs are right, lse is higher by 1: merging with another part is "
        "wrong",
    .cause =
        "a mask of 1 and 0 is added to the scores, after the 0 was turned to "
        "-inf",
    .fix = "add 0 where a key is shown",
    .source = "textbook (masks as numbers)",
    .trigger = "a mask; only lse shows it",
    .killed_by = {"causal_equals_mask", "lse_counts_equal_keys",
                  "agrees_with_oracle"},
    .when = "mask",
};

// A boolean mask is added.
struct MaskAddedAsNumber : OptionHooks {
  static bool allows(const ForwardCall&, RowAt, int64_t) { return true; }
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    const bool kept = OptionHooks::allows(call, at, j);
    return call.options.mask.data != nullptr && kept ? s + 1 : s;
  }
};
QKVET_FAULT(mask_added_as_number) = {
    .kernel = option_fault<MaskAddedAsNumber, QKVET_OPTION_MASK>,
    .mechanism = "the 0 and 1 of a boolean mask are added to the scores",
    .symptom = "hidden keys keep about a third of their weight",
    .cause = "a boolean mask passed where an additive one is expected",
    .fix = "turn it into 0 and -infinity first",
    .source = "HKUSTDial/flash-sparse-attention#146",
    .trigger = "a mask that hides a key",
    .killed_by = {"masked_keys_change_nothing", "every_pair_is_seen_as_asked",
                  "every_key_counts_once", "lse_counts_equal_keys",
                  "agrees_with_oracle"},
    .when = "mask",
};

// 0 * NaN at hidden keys.
struct MaskedWeightTimesNan : OptionHooks {
  static bool adds_hidden() { return true; }
};
QKVET_FAULT(masked_weight_times_nan) = {
    .kernel = option_fault<MaskedWeightTimesNan, QKVET_OPTION_MASK>,
    .mechanism =
        "hidden keys take part with weight 0, and 0 times NaN is NaN; "
        "non-finite values there are declared to be ignored",
    .symptom = "NaN out of memory that nothing should depend on",
    .cause = "a product over the whole tile after hidden weights became 0",
    .fix = "clear the values of hidden keys, or skip them",
    .source = "vllm-project/vllm#936",
    .trigger = "a NaN or infinity in V at a hidden key",
    .killed_by = {"masked_nonfinite_is_ignored"},
    .when = "rows(seen > 0 && hidden > 0)",
};

// One mask for all heads.
struct MaskOfFirstHead : OptionHooks {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return OptionHooks::allows(call, {at.b, 0, at.i}, j);
  }
};
QKVET_FAULT(mask_of_first_head) = {
    .kernel = option_fault<MaskOfFirstHead, QKVET_OPTION_MASK>,
    .mechanism = "the mask of head 0 is used for all heads",
    .symptom = "right for every mask that is broadcast over heads",
    .cause = "a stride of 0 assumed for the heads of the mask",
    .fix = "use the stride that the tensor has",
    .source = "textbook, cf. facebookresearch/xformers#813",
    .trigger = "H > 1, and a mask that differs from head to head",
    .killed_by = {"every_pair_is_seen_as_asked", "rows_stay_in_hull",
                  "agrees_with_oracle"},
    .when = "mask.heads && H > 1",
};

// A mask that heads share has one head, and is applied to one.
struct MaskReachesHead0 : OptionHooks {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    const View<const uint8_t>& mask = call.options.mask;
    return (mask.data != nullptr && mask.step[1] == 0 && at.h > 0) ||
           OptionHooks::allows(call, at, j);
  }
};
QKVET_FAULT(mask_reaches_head_0) = {
    .kernel = option_fault<MaskReachesHead0, QKVET_OPTION_MASK>,
    .mechanism =
        "a mask that all heads share is applied to head 0, and the others see "
        "every key",
    .symptom = "right with one head, and with a mask for each head",
    .cause =
        "a mask that is not expanded over heads in front of a loop over its "
        "own extents",
    .fix = "broadcast the mask over heads: a stride of 0",
    .source = "tracel-ai/burn#4778",
    .trigger = "H > 1, and a mask that heads share and that hides a key",
    .killed_by = {"every_pair_is_seen_as_asked", "masked_keys_change_nothing",
                  "broadcast_equals_materialised", "agrees_with_oracle"},
    .when = "mask && !mask.heads && H > 1",
};

// One mask for all members.
struct MaskOfFirstMember : OptionHooks {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return OptionHooks::allows(call, {0, at.h, at.i}, j);
  }
};
QKVET_FAULT(mask_of_first_member) = {
    .kernel = option_fault<MaskOfFirstMember, QKVET_OPTION_MASK>,
    .mechanism = "the mask of member 0 is used for all members",
    .symptom = "right for every mask that is broadcast over the batch",
    .cause = "the batch index missing from the address of the mask",
    .fix = "use the stride that the tensor has",
    .source = "textbook, cf. facebookresearch/xformers#813",
    .trigger = "B > 1, and a mask that differs from member to member",
    .killed_by = {"every_pair_is_seen_as_asked", "agrees_with_oracle"},
    .when = "mask.members && B > 1",
};

// The rows of a mask are taken to lie Tk elements apart.
struct MaskRowsAssumedAdjacent : OptionHooks {
  // Only of rows that are longer than one element and are not all the same.
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    View<const uint8_t>& mask = member->options.mask;
    if (mask.data != nullptr && mask.step[2] != 0 && mask.step[3] == 1) {
      mask.step[2] = whole.keys;
    }
  }
};
QKVET_FAULT(mask_rows_assumed_adjacent) = {
    .kernel = option_fault<MaskRowsAssumedAdjacent, QKVET_OPTION_MASK>,
    .mechanism = "row i of the mask is read i Tk elements behind the first",
    .symptom =
        "right for a mask that was made for the call; the rows of a slice of a "
        "larger one are those of others",
    .cause =
        "the stride of a mask is computed where that of q, k and v is asked "
        "for",
    .fix = "use the strides of the mask",
    .source = "textbook, cf. facebookresearch/xformers#813",
    .trigger =
        "a mask with rows and keys of its own that lies in a wider buffer",
    .killed_by = {"layout_changes_nothing"},
    .when = "mask && (layout == gaps || layout == far) && Tq > 1 && Tk > 1",
};

// A mask switches the causal rule off.
struct MaskOverridesCausal : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    return call.options.mask.data != nullptr ||
           OptionHooks::in_reach(call, i, j);
  }
};
QKVET_FAULT(mask_overrides_causal) = {
    .kernel = option_fault<MaskOverridesCausal, QKVET_OPTION_MASK>,
    .mechanism =
        "with a mask, the causal flag is ignored; both are declared to hold",
    .symptom = "a padding mask opens the future",
    .cause = "two branches where a conjunction is meant",
    .fix = "hide what either of them hides, or refuse the two together",
    .source = "pytorch/pytorch#187801",
    .trigger = "a mask together with the causal rule",
    .killed_by = {"causal_equals_mask", "every_pair_is_seen_as_asked",
                  "every_key_counts_once", "lse_counts_equal_keys",
                  "agrees_with_oracle"},
    .when = "mask && causal",
};

// A mask is walked only up to the diagonal.
struct MaskWalkStillCausal : OptionHooks {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return OptionHooks::allows(call, at, j) &&
           (call.options.mask.data == nullptr || j <= call.position(at.i));
  }
};
QKVET_FAULT(mask_walk_still_causal) = {
    .kernel = option_fault<MaskWalkStillCausal, QKVET_OPTION_MASK>,
    .mechanism = "with a mask the loop over keys still ends at the diagonal",
    .symptom = "keys behind the diagonal that the mask shows are never seen",
    .cause = "the loop bound of the causal path was kept when masks came",
    .fix = "go over all keys that the mask may show",
    .source = "textbook (loop bounds of a causal kernel)",
    .trigger =
        "a mask, no causal rule, and a key behind the diagonal that the mask "
        "shows",
    .killed_by = {"lse_counts_equal_keys", "every_pair_is_seen_as_asked",
                  "agrees_with_oracle"},
    .when = "mask && !causal && Tq > 1",
};

// A mask of the same extents is taken for the same mask.
struct MaskKeptWhileExtentsMatch : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall*) {
    const Extents asked = {whole.batch, whole.heads, whole.queries, whole.keys};
    if (whole.options.mask.data != nullptr && kept().extents != asked) {
      keep(whole, asked, &kept());
    }
  }
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    const Kept& mask = kept();
    if (call.options.mask.data == nullptr) {
      return true;
    }
    const auto& [batch, heads, queries, keys] = mask.extents;
    return mask.pairs[static_cast<size_t>(
               ((at.b * heads + at.h) * queries + at.i) * keys + j)] != 0;
  }

 private:
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
    for (int64_t b = 0; b < whole.batch; ++b) {
      for (int64_t h = 0; h < whole.heads; ++h) {
        for (int64_t i = 0; i < whole.queries; ++i) {
          for (int64_t j = 0; j < whole.keys; ++j) {
            mask->pairs.push_back(whole.options.allows(b, h, i, j) ? 1 : 0);
          }
        }
      }
    }
  }
};
QKVET_FAULT(mask_kept_while_extents_match) = {
    .kernel = option_fault<MaskKeptWhileExtentsMatch, QKVET_OPTION_MASK>,
    .mechanism =
        "a mask that was prepared is used again for a call whose mask has the "
        "same extents",
    .symptom =
        "the first call of a shape is right; later ones have its mask, until "
        "the shape changes",
    .cause =
        "the key under which a mask is remembered says what it looks like and "
        "not which it is",
    .fix = "compare the content, or do not keep what the caller may change",
    .source = "ml-explore/mlx#3071",
    .trigger = "two calls with masks of the same extents, one after the other",
    .killed_by = {"causal_equals_mask"},
    .when = "mask",
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
    for (int64_t j = std::max<int64_t>(token(i) + 1, 0); j < keys; ++j) {
      if (at(i, j) != 0) {
        return true;
      }
    }
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
    if (mask.data == nullptr) {
      return;
    }
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
        for (int64_t j = 0; j < keys; ++j) {
          pairs.at(i, j) = from[j * mask.step[3]];
        }
      }
      Fault::rewrite(*member, pairs);
    }
    mask = {written.data(),
            {member->heads * rows * keys, rows * keys, keys, 1}};
  }
};

template <class Fault>
constexpr qkvet_kernel mask_fault(const char* name, const char* description,
                                  Place place) {
  return option_fault<Fault, QKVET_OPTION_MASK>(name, description, place);
}

// Tiles of keys that lie behind no row of their tile are taken as they are.
struct MaskSkippedBelowDiagonal : MaskRewritten<MaskSkippedBelowDiagonal> {
  static void rewrite(const ForwardCall&, MaskPairs& pairs) {
    for (int64_t i = 0; i < pairs.queries; ++i) {
      const int64_t first_row = i / tile() * tile();
      const int64_t end = (pairs.token(first_row) + 1) / tile() * tile();
      for (int64_t j = 0; j < std::min(end, pairs.keys); ++j) {
        pairs.at(i, j) = 1;
      }
    }
  }
};
QKVET_FAULT(mask_skipped_below_diagonal) = {
    .kernel = mask_fault<MaskSkippedBelowDiagonal>,
    .mechanism =
        "the mask is looked up only in tiles that the diagonal crosses or that "
        "lie above it",
    .symptom =
        "right for what is causal and more; drafts of a tree see the branches "
        "that came before theirs, tokens the document in front",
    .cause =
        "below the diagonal nothing was ever hidden when the causal rule was "
        "the only mask",
    .fix = "look the mask up in every tile, unless it is known to be causal",
    .source = "PaddlePaddle/FastDeploy#3514",
    .trigger = "a mask that hides a key more than a tile in front of the row",
    .killed_by = {"tree_branches_equal_sequences",
                  "every_pair_is_seen_as_asked", "agrees_with_oracle"},
    .when = "mask && Tk > 1",
    .tiled = true,
};

// A mask with a hidden key behind every row's own is taken for the causal rule.
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
    for (int64_t i = 0; i < pairs.queries; ++i) {
      for (int64_t j = 0; j < pairs.keys; ++j) {
        pairs.at(i, j) = j <= pairs.token(i) ? 1 : 0;
      }
    }
  }
};
QKVET_FAULT(mask_taken_for_causal) = {
    .kernel = mask_fault<MaskTakenForCausal>,
    .mechanism =
        "a mask that shows every row its own key and hides the next is taken "
        "for the causal rule",
    .symptom =
        "drafts of a tree that do not follow one another see each other; "
        "chains and prompts are right",
    .cause = "whether a mask is causal is asked of its diagonal alone",
    .fix = "compare all of the mask, or let the caller say what it is",
    .source = "vllm-project/vllm#17560",
    .trigger = "a tree of drafts with two branches",
    .killed_by = {"tree_branches_equal_sequences"},
    .when = "mask && Tk > 1",
};

// A key is shown to all rows if it is shown to one.
struct MaskReducedToPadding : MaskRewritten<MaskReducedToPadding> {
  static void rewrite(const ForwardCall&, MaskPairs& pairs) {
    for (int64_t j = 0; j < pairs.keys; ++j) {
      uint8_t any = 0;
      for (int64_t i = 0; i < pairs.queries; ++i) {
        any = any | pairs.at(i, j);
      }
      for (int64_t i = 0; i < pairs.queries; ++i) {
        pairs.at(i, j) = any;
      }
    }
  }
};
QKVET_FAULT(mask_reduced_to_padding) = {
    .kernel = mask_fault<MaskReducedToPadding>,
    .mechanism = "of a mask it is kept which keys somebody sees, and not who",
    .symptom =
        "padding is hidden as it should be; documents that share a row of "
        "tokens see each other",
    .cause =
        "a path that knows padding alone turns a mask of pairs into one of "
        "keys",
    .fix = "use the pairs, or refuse a mask that differs from row to row",
    .source = "axolotl-ai-cloud/axolotl#3796, huggingface/nanoVLM#204",
    .trigger = "a mask whose rows differ",
    .killed_by = {"documents_equal_sequences", "local_chunks_equal_calls",
                  "every_pair_is_seen_as_asked", "agrees_with_oracle"},
    .when = "mask.rows && Tq > 1 && Tk > 1",
};

// Tokens that somebody in front of them sees are all of one block.
struct BidirectionalAcrossBlocks : MaskRewritten<BidirectionalAcrossBlocks> {
  static void rewrite(const ForwardCall&, MaskPairs& pairs) {
    // What the first token of a block shows of it: its length.
    std::vector<char> in_block(static_cast<size_t>(pairs.keys), 0);
    for (int64_t i = 0; i < pairs.queries; ++i) {
      if (!pairs.sees_ahead(i)) {
        continue;
      }
      const int64_t token = std::max<int64_t>(pairs.token(i), 0);
      for (int64_t j = token; j < pairs.keys; ++j) {
        in_block[static_cast<size_t>(j)] |= static_cast<char>(pairs.at(i, j));
      }
    }
    for (int64_t i = 0; i < pairs.queries; ++i) {
      const int64_t token = pairs.token(i);
      if (token < 0 || in_block[static_cast<size_t>(token)] == 0) {
        continue;
      }
      for (int64_t j = 0; j < pairs.keys; ++j) {
        pairs.at(i, j) |=
            static_cast<uint8_t>(in_block[static_cast<size_t>(j)]);
      }
    }
  }
};
QKVET_FAULT(bidirectional_across_blocks) = {
    .kernel = mask_fault<BidirectionalAcrossBlocks>,
    .mechanism =
        "tokens of any two blocks that are seen both ways see each other",
    .symptom = "right with one image; with two the first one sees the second",
    .cause =
        "being in a block is kept as one bit of a token, and not which block",
    .fix = "number the blocks, and compare the numbers",
    .source = "huggingface/transformers#38080",
    .trigger = "two ranges that are seen both ways",
    .killed_by = {"ranges_equal_blocks", "every_pair_is_seen_as_asked",
                  "agrees_with_oracle"},
    .when = "mask && Tk > 1",
};

// Keys ahead of a row are shown as far as its tile of rows goes.
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
QKVET_FAULT(ahead_ends_with_row_tile) = {
    .kernel = mask_fault<AheadEndsWithRowTile>,
    .mechanism =
        "keys ahead of a row are seen as far as its tile of rows goes, and no "
        "further",
    .symptom =
        "a prefix, or an image, that fits into one tile is right; of a longer "
        "one each tile sees what is in front and itself",
    .cause =
        "the prompt is read tile by tile, and the keys of the tiles to come "
        "are not there yet",
    .fix = "make a tile of all that is seen both ways, or read the keys first",
    .source = "RBLN-SW/optimum-rbln#646",
    .trigger = "a prefix or a range that crosses a tile of rows",
    .killed_by = {"prefix_equals_two_calls", "every_pair_is_seen_as_asked",
                  "agrees_with_oracle"},
    .when = "mask && Tk > 1",
    .tiled = true,
};

// A run of keys is widened to whole tiles.
struct MaskedRunWidenedToTiles : MaskRewritten<MaskedRunWidenedToTiles> {
  static void rewrite(const ForwardCall&, MaskPairs& pairs) {
    for (int64_t i = 0; i < pairs.queries; ++i) {
      int64_t first = 0, end = pairs.keys;
      while (first < end && pairs.at(i, first) == 0) {
        ++first;
      }
      while (end > first && pairs.at(i, end - 1) == 0) {
        --end;
      }
      bool is_run = first < end;
      for (int64_t j = first; j < end; ++j) {
        is_run = is_run && pairs.at(i, j) != 0;
      }
      for (int64_t j = first / tile() * tile(); is_run && j < first; ++j) {
        pairs.at(i, j) = 1;
      }
    }
  }
};
QKVET_FAULT(masked_run_widened_to_tiles) = {
    .kernel = mask_fault<MaskedRunWidenedToTiles>,
    .mechanism = "a run of shown keys begins at the tile that its first is in",
    .symptom =
        "local chunks of whole tiles are right, and others see the end of the "
        "chunk in front",
    .cause =
        "runs of keys are kept as numbers of tiles, and the first tile is "
        "taken whole",
    .fix = "look the mask up in the first tile of a run, as in the last",
    .source = "textbook (masks as runs of tiles)",
    .trigger = "a mask whose first shown key is not the first of a tile",
    .killed_by = {"local_chunks_equal_calls", "documents_equal_sequences",
                  "every_pair_is_seen_as_asked", "agrees_with_oracle"},
    .when = "mask && Tk > 1",
    .tiled = true,
};

// Few queries behind many keys are a step of decoding, which knows no mask.
struct MaskUnreadInDecode : MaskRewritten<MaskUnreadInDecode> {
  static void rewrite(const ForwardCall&, MaskPairs& pairs) {
    for (int64_t i = 0; pairs.queries < pairs.keys && i < pairs.queries; ++i) {
      for (int64_t j = 0; j < pairs.keys; ++j) {
        pairs.at(i, j) = j <= pairs.token(i) ? 1 : 0;
      }
    }
  }
};
QKVET_FAULT(mask_unread_in_decode) = {
    .kernel = mask_fault<MaskUnreadInDecode>,
    .mechanism =
        "with fewer queries than keys the mask is taken and not read: the call "
        "is answered as a causal one",
    .symptom =
        "prompts with a mask are right; when drafts are verified they see "
        "their siblings",
    .cause = "the path for decoding declares a mask and never reads it",
    .fix = "read it, or refuse a mask there",
    .source = "vllm-project/vllm#46754",
    .trigger = "a mask, and fewer queries than keys",
    .killed_by = {"tree_branches_equal_sequences",
                  "every_pair_is_seen_as_asked", "agrees_with_oracle"},
    .when = "mask && Tq < Tk",
};

// A mask is read as the transposed one.
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
QKVET_FAULT(mask_plane_taken_for_row_major) = {
    .kernel = option_fault<MaskRowsAreColumns, QKVET_OPTION_MASK>,
    .mechanism = "a plane of the mask that fills its memory is read row by row",
    .symptom =
        "right for a mask that was made for the call; one that was transposed "
        "without a copy hides other pairs",
    .cause = "contiguous is taken to mean row-major",
    .fix = "use both strides of the plane",
    .source = "textbook",
    .trigger = "a transposed mask with two rows and two keys",
    .killed_by = {"agrees_with_oracle"},
    .when = "mask && layout == turned && Tq > 1 && Tk > 1",
};

}  // namespace qkvet::impl
