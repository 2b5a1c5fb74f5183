/* SPDX-License-Identifier: Apache-2.0 */
/* What a call does with a plan (qkvet/plan.h): plan_none is a call of
 * forward(), or by a plan of its own where there is no forward(). */
enum { plan_none, plan_make, plan_update, plan_run };

typedef struct call_row {
  int32_t threads, plan_use, plan_slot, causal, scale_given;
  float scale;
  int32_t has_window;
  int64_t window_left, window_right;
  int64_t page_size, key_block_size, channel_group, chunk;
  int32_t values_in_keys, rope;
  float options[/* OPTION COUNT */];
} call_row;

/* An element that must be `factor` times another, bit for bit. */
typedef struct pair_row {
  int first_output;
  int64_t first;
  int second_output;
  int64_t second;
  double factor;
} pair_row;
