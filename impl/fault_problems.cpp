// SPDX-License-Identifier: Apache-2.0
#include "impl/fault_problems.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>

namespace qkvet::impl {
namespace {

bool is_one_of(const qkvet_kernel* kernel,
               std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) {
    return kernel->name == std::string("faulty/") + name;
  });
}

}  // namespace

bool needs_other_problem(const qkvet_kernel* kernel) {
  return is_one_of(kernel, {"barrier_in_a_branch",
                            "channel_stride_of_one_decides",
                            "diagonal_always_bottom_right",
                            "flushed_before_merge",
                            "groups_unfolded_both_ways",
                            "head_block_mixes_groups",
                            "head_divided_by_kv_heads",
                            "head_offset_in_16_bits",
                            "head_offset_is_quotient",
                            "head_pairs_take_odd",
                            "key_offset_in_16_bits",
                            "key_strides_assumed",
                            "keys_aligned_as_queries",
                            "keys_of_first_member",
                            "kv_head_of_shard",
                            "lanes_behind_last_key_loaded",
                            "maximum_begins_at_finite",
                            "maximum_begins_at_smallest_positive",
                            "maximum_carried_over",
                            "member_stride_of_token",
                            "nan_weighs_nothing",
                            "odd_batch_splits_keys",
                            "output_strides_assumed",
                            "part_of_old_scratch",
                            "parts_in_scratch_of_storage_size",
                            "parts_without_lse",
                            "put_off_rescaling_leaves_fp8",
                            "query_strides_assumed",
                            "root_of_negative_scale",
                            "row_padding_over_next_head",
                            "rows_before_first_key_not_written",
                            "scale_rounded_to_bf16",
                            "scale_truncated_to_bf16",
                            "scratch_kept_between_calls",
                            "shared_tile_overwritten_early",
                            "tail_channels_lost",
                            "tail_row_not_written",
                            "threads_drop_last_keys",
                            "threads_race_for_sums",
                            "value_channels_side_by_side",
                            "values_saturate"});
}

bool is_never_harmless(const qkvet_kernel* kernel) {
  return is_one_of(
      kernel,
      {"scratch_kept_between_calls", "exp2_without_log2e", "lse_in_base_2",
       "lse_without_maximum", "parts_weighed_by_length", "values_lose_sign",
       "put_off_rescaling_leaves_fp8", "shared_tile_read_early"});
}

bool needs_large_scores(const qkvet_kernel* kernel) {
  return std::string(kernel->name) == "faulty/no_max_subtraction";
}

// Arithmetic tells a frame, and is declared. odd_batch_splits_keys has that of
// two frames.
const qkvet_kernel* frame_of(const qkvet_kernel* fault) {
  for (const char* const name :
       {"controls/tiled_seams", "controls/split_seams", "simt/flash"}) {
    const qkvet_kernel* const frame = find_kernel(name);
    if (!is_one_of(fault, {"odd_batch_splits_keys"}) &&
        std::memcmp(fault->precision, frame->precision,
                    sizeof(qkvet_precision)) == 0) {
      return frame;
    }
  }
  return find_kernel("controls/plain_seams");
}

Problem trigger() {
  return {.batch = 1,
          .heads = 4,
          .kv_heads = 2,
          .queries = 6,
          .keys = 6,
          .width = 8,
          .value_width = 3,
          .causal = QKVET_CAUSAL_BOTTOM_RIGHT};
}

Problem harmless(const std::string& name) {
  Problem p = trigger();
  if (name == "faulty/sqrt_model_width") {
    p.heads = p.kv_heads = 1;
  } else if (name == "faulty/scale_of_padded_width") {
    p.width = 16;
  } else if (name == "faulty/no_scale" || name == "faulty/scale_twice" ||
             name == "faulty/scale_rounded_to_bf16" ||
             name == "faulty/scale_truncated_to_bf16" ||
             name == "faulty/default_scale_of_zero") {
    p.scale_given = true;
    p.scale = 1;
  } else if (name == "faulty/wrong_transpose_of_k") {
    p.width = 1;
  } else if (name == "faulty/key_head_modulo" ||
             name == "faulty/tokens_repeated_for_heads") {
    p.kv_heads = p.heads;
  } else if (name == "faulty/query_row_held" ||
             name == "faulty/maximum_carried_over") {
    p.heads = p.kv_heads = p.queries = 1;
  } else if (name == "faulty/mean_of_values" ||
             name == "faulty/weights_in_fp8_sum_is_not" ||
             name == "faulty/accumulator_not_rescaled") {
    p.keys = 1;
    p.causal = QKVET_CAUSAL_NONE;
  } else if (name == "faulty/key_counted_twice") {
    p.keys = 2;
    p.causal = QKVET_CAUSAL_NONE;
  } else if (name == "faulty/threads_leave_before_loading") {
    p.queries = 64;
  } else if (name == "faulty/tail_tile_unmasked" ||
             name == "faulty/lanes_behind_last_key_loaded") {
    p.keys = 8;
    p.causal = QKVET_CAUSAL_NONE;
  } else if (name != "faulty/no_max_subtraction") {
    p.causal = QKVET_CAUSAL_NONE;
  }
  return p;
}

const std::vector<std::string>& known_laws() {
  static const std::vector<std::string> laws = {
      "reads_only_its_inputs",
      "future_weights_are_zero",
      "weights_sum_to_one",
      "scale_is_one_over_sqrt_d",
      "every_key_counts_once",
      "lse_counts_equal_keys",
      "query_heads_read_their_kv_head",
      "other_rows_change_nothing",
      "future_changes_nothing",
      "other_heads_change_nothing",
      "other_members_change_nothing",
      "nan_stays_in_its_head",
      "nan_reaches_its_row",
      "same_call_same_bits",
      "threads_change_nothing",
      "scaled_values_scale_output",
      "scale_moves_to_queries",
      "rows_stay_in_hull",
      "shifted_keys_change_nothing",
      "permuted_keys_change_nothing",
      "permuted_heads_permute_output",
      "permuted_members_permute_output",
      "duplicated_keys_share_their_weight",
      "grouped_heads_equal_repeated_heads",
      "split_and_merge_by_lse",
      "prefill_equals_decode",
      "chunks_equal_whole",
      "agrees_with_oracle",
      "every_pair_is_seen_as_asked",
      "bias_alone_decides",
      "softcap_is_tanh",
      "sink_joins_the_denominator",
      "window_equals_mask",
      "rope_turns_pairs_of_channels",
      "rope_sees_only_distances",
      "causal_equals_mask",
      "mask_equals_bias",
      "broadcast_equals_materialised",
      "layout_changes_nothing",
      "lengths_equal_shorter_call",
      "page_placement_changes_nothing",
      "page_size_changes_nothing",
      "unowned_pages_change_nothing",
      "append_writes_only_its_tokens",
      "append_equals_given",
      "packed_members_equal_calls",
      "poison_beyond_lengths_changes_nothing",
      "masked_keys_change_nothing",
      "masked_nonfinite_is_ignored",
      "rows_without_a_key_follow_the_dialect",
      "empty_extents_are_legal",
      "alibi_equals_bias",
      "cache_decode_equals_prefill",
      "cache_chunks_equal_whole",
      "cache_length_grows",
      "cache_reset_forgets",
      "cache_truncate_forgets",
      "cache_evict_forgets",
      "cache_sequences_are_separate",
      "cache_forks_are_independent",
      "cache_reorder_moves_histories",
      "cache_stores_what_it_is_given",
      "cache_answers_from_what_it_stores",
      "cache_refuses_illegal_calls",
      "cache_agrees_with_history",
      "split_and_merge_place_every_element",
      "output_projection_is_applied",
      "every_bias_counts",
      "projections_are_separate",
      "mismatched_widths_are_refused",
      "fused_equals_separate",
      "context_overrun_is_refused",
      "layer_weights_sum_to_one",
      "layer_agrees_with_oracle",
      "backward_reads_only_its_inputs",
      "backward_same_call_same_bits",
      "backward_threads_change_nothing",
      "backward_heads_are_separate",
      "permuted_heads_permute_gradients",
      "permuted_keys_permute_gradients",
      "backward_is_the_adjoint",
      "backward_is_linear_in_d_o",
      "future_gradients_are_zero",
      "backward_agrees_with_oracle",
      "dropout_keeps_its_share",
      "dropout_is_a_function_of_its_seed",
      "dropout_zero_is_no_dropout",
      "dropout_agrees_with_oracle",
      "dropout_same_in_backward",
      "layer_backward_reads_only_its_inputs",
      "layer_future_gradients_are_zero",
      "lone_token_gradients_are_exact",
      "layer_backward_is_the_adjoint",
      "layer_backward_agrees_with_oracle"};
  return laws;
}

}  // namespace qkvet::impl
