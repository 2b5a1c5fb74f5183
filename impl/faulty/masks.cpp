// SPDX-License-Identifier: Apache-2.0
// Faults of masks: what a mask hides, of whom, and beside what other rule.
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
    if (mask.data != nullptr && mask.step[2] != 0 && mask.step[3] != 0) {
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
    .when = "mask && layout == gaps && Tq > 1 && Tk > 1",
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

}  // namespace qkvet::impl
