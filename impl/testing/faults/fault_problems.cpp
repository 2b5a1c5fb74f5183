// SPDX-License-Identifier: Apache-2.0
#include "impl/testing/faults/fault_problems.h"

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
  // Every fault of the one theme begins past the extents of trigger() or after
  // a thousand calls, and of the other in calls that are refused.
  const std::string theme = kernel->source_file;
  if (theme == "impl/faulty/long.cpp") return true;
  if (theme == "impl/faulty/malformed.cpp") return true;
  return is_one_of(kernel, {"barrier_in_a_branch",
                            "block_told_by_strides",
                            "calls_counted_in_one_byte",
                            "channel_stride_of_one_decides",
                            "diagonal_always_bottom_right",
                            "factor_in_constant_memory",
                            "flushed_before_merge",
                            "groups_unfolded_both_ways",
                            "head_block_mixes_groups",
                            "head_divided_by_kv_heads",
                            "head_offset_in_16_bits",
                            "head_offset_is_quotient",
                            "head_pairs_take_odd",
                            "key_strides_assumed",
                            "keys_aligned_as_queries",
                            "keys_kept_by_address",
                            "keys_of_first_member",
                            "kv_head_of_shard",
                            "lanes_behind_last_key_loaded",
                            "maximum_begins_at_finite",
                            "maximum_begins_at_smallest_positive",
                            "maximum_begins_far_below",
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
                            "room_of_first_call",
                            "root_of_negative_scale",
                            "row_padding_over_next_head",
                            "rows_before_first_key_not_written",
                            "rule_kept_by_address",
                            "scale_rounded_to_bf16",
                            "scale_truncated_to_bf16",
                            "scratch_kept_between_calls",
                            "scratch_shared_by_calls",
                            "scratch_tail_of_larger_call",
                            "shared_tile_overwritten_early",
                            "strides_kept_while_extents_match",
                            "strides_of_first_call",
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

// Arithmetic tells a skeleton, and is declared. odd_batch_splits_keys has that
// of two skeletons.
const qkvet_kernel* skeleton_of(const qkvet_kernel* fault) {
  for (const char* const name : {"controls/tiled_hooks", "controls/split_hooks",
                                 "simt/flash", "simt/decode"}) {
    const qkvet_kernel* const skeleton = find_kernel(name);
    if (!is_one_of(fault, {"odd_batch_splits_keys"}) &&
        std::memcmp(fault->precision, skeleton->precision,
                    sizeof(qkvet_precision)) == 0) {
      return skeleton;
    }
  }
  return find_kernel("controls/plain_hooks");
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
  } else if (name == "faulty/softmax_over_queries") {
    p.queries = p.keys = 1;
  } else if (name == "faulty/half_of_each_step_seen") {
    p.keys = 4;
    p.causal = QKVET_CAUSAL_NONE;
  } else if (name == "faulty/row_number_taken_for_check" ||
             name == "faulty/output_quarters_exchanged") {
    p.queries = 2;
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

}  // namespace qkvet::impl
