// SPDX-License-Identifier: Apache-2.0
// Which member of a call or an outcome holds a tensor.
#include "core/door/call_plan.h"

namespace qkvet {

std::vector<std::byte> CallOutcome::*output_member(TensorName output) {
  using Outcome = CallOutcome;
  static constexpr std::vector<std::byte> Outcome::*kMembers[kOutputCount] = {
      &Outcome::o,           &Outcome::lse,      &Outcome::weights,
      &Outcome::y,           &Outcome::stage_q,  &Outcome::stage_k,
      &Outcome::stage_v,     &Outcome::attended, &Outcome::k_cache,
      &Outcome::v_cache,     &Outcome::d_q,      &Outcome::d_k,
      &Outcome::d_v,         &Outcome::d_bias,   &Outcome::d_sink,
      &Outcome::d_x,         &Outcome::d_w_q,    &Outcome::d_w_k,
      &Outcome::d_w_v,       &Outcome::d_w_o,    &Outcome::d_b_q,
      &Outcome::d_b_k,       &Outcome::d_b_v,    &Outcome::d_b_o,
      &Outcome::dropout_mask};
  return kMembers[static_cast<size_t>(output) - kInputCount];
}

const std::byte* KernelCall::*input_member(TensorName tensor) {
  using Call = KernelCall;
  static constexpr const std::byte* Call::*kMembers[kInputCount] = {
      &Call::q,
      &Call::k,
      &Call::v,
      &Call::x,
      &Call::w_q,
      &Call::w_k,
      &Call::w_v,
      &Call::w_o,
      &Call::b_q,
      &Call::b_k,
      &Call::b_v,
      &Call::b_o,
      &Call::mask,
      &Call::bias,
      &Call::sink,
      &Call::slopes,
      &Call::q_len,
      &Call::kv_len,
      &Call::cu_q,
      &Call::cu_k,
      &Call::rope_cos,
      &Call::rope_sin,
      &Call::q_positions,
      &Call::k_positions,
      &Call::k_scale,
      &Call::v_scale,
      &Call::block_table,
      &Call::k_new,
      &Call::v_new,
      &Call::d_o,
      &Call::given_o,
      &Call::given_lse,
      &Call::d_y,
      &Call::w_qkv,
      &Call::b_qkv,
      &Call::mask_buffer,
      &Call::states,
      &Call::states_lse,
      &Call::indptr,
      &Call::row_mask,
      &Call::page_indptr,
      &Call::page_indices,
      &Call::last_page_len,
      &Call::key_indices,
      &Call::topk_length,
      &Call::segments_q,
      &Call::segments_k,
      &Call::full_ranges,
      &Call::tree_mask};
  return kMembers[static_cast<size_t>(tensor)];
}

const std::byte* content_of(const KernelCall& call, TensorName tensor) {
  if (is_cache(tensor)) return tensor == TensorName::kKCache ? call.k : call.v;
  if (call.operation == Operation::kMerge && call.in_place) {
    if (tensor == TensorName::kO) return call.given_o;
    if (tensor == TensorName::kLse) return call.given_lse;
  }
  return is_output(tensor) ? nullptr : call.*input_member(tensor);
}

}  // namespace qkvet
