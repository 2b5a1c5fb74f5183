// SPDX-License-Identifier: Apache-2.0
#include "core/door/abi_call.h"

#include <algorithm>
#include <utility>

namespace qkvet {
namespace {

int32_t causal_to_abi(Causal causal) {
  switch (causal) {
    case Causal::kTopLeft:
      return QKVET_CAUSAL_TOP_LEFT;
    case Causal::kBottomRight:
      return QKVET_CAUSAL_BOTTOM_RIGHT;
    default:
      return QKVET_CAUSAL_NONE;
  }
}

int32_t rope_to_abi(RopeStyle rope) {
  switch (rope) {
    case RopeStyle::kHalf:
      return QKVET_ROPE_HALF;
    case RopeStyle::kInterleaved:
      return QKVET_ROPE_INTERLEAVED;
    default:
      return QKVET_ROPE_NONE;
  }
}

}  // namespace

AbiCall::AbiCall(const CallPlan& plan, const TensorAddresses& addresses,
                 int32_t device)
    : device_(device) {
  switch (plan.operation) {
    case Operation::kForward:
      fill_forward(plan, addresses);
      break;
    case Operation::kBackward:
      fill_backward(plan, addresses);
      break;
    case Operation::kLayer:
      fill_layer(plan, addresses);
      break;
    case Operation::kLayerBackward:
      fill_layer_backward(plan, addresses);
      break;
    case Operation::kMerge:
      fill_merge(plan, addresses);
      break;
    case Operation::kCacheCreate:
      fill_create(plan, addresses);
      break;
    case Operation::kCacheStep:
      fill_step(plan, addresses);
      break;
    case Operation::kCacheReadBack:
      read_k_ = tensor(plan, addresses, TensorName::kStageK);
      read_v_ = tensor(plan, addresses, TensorName::kStageV);
      break;
    default:  // numbers only
      break;
  }
}

void AbiCall::fill_forward(const CallPlan& plan,
                           const TensorAddresses& addresses) {
  forward_.struct_size = plan.unknown_field ? sizeof newer_ : sizeof forward_;
  newer_.unknown = plan.unknown_field ? 1 : 0;
  forward_.q = tensor(plan, addresses, TensorName::kQ);
  const bool appends =
      plan.tensors[static_cast<size_t>(TensorName::kKNew)].present();
  forward_.k =
      tensor(plan, addresses, appends ? TensorName::kKCache : TensorName::kK);
  forward_.v =
      tensor(plan, addresses, appends ? TensorName::kVCache : TensorName::kV);
  forward_.block_table = tensor(plan, addresses, TensorName::kBlockTable);
  forward_.page_size = plan.page_size;
  forward_.channel_group = plan.channel_group;
  forward_.page_indptr = tensor(plan, addresses, TensorName::kPageIndptr);
  forward_.page_indices = tensor(plan, addresses, TensorName::kPageIndices);
  forward_.last_page_len = tensor(plan, addresses, TensorName::kLastPageLen);
  forward_.key_indices = tensor(plan, addresses, TensorName::kKeyIndices);
  forward_.topk_length = tensor(plan, addresses, TensorName::kTopkLength);
  forward_.key_block_size = plan.key_block_size;
  forward_.segments_q = tensor(plan, addresses, TensorName::kSegmentsQ);
  forward_.segments_k = tensor(plan, addresses, TensorName::kSegmentsK);
  forward_.full_ranges = tensor(plan, addresses, TensorName::kFullRanges);
  forward_.chunk = plan.chunk;
  forward_.tree_mask = tensor(plan, addresses, TensorName::kTreeMask);
  forward_.k_new = tensor(plan, addresses, TensorName::kKNew);
  forward_.v_new = tensor(plan, addresses, TensorName::kVNew);
  forward_.o = tensor(plan, addresses, TensorName::kO);
  forward_.lse = tensor(plan, addresses, TensorName::kLse);
  forward_.weights = tensor(plan, addresses, TensorName::kWeights);
  forward_.mask = tensor(plan, addresses, TensorName::kMask);
  forward_.bias = tensor(plan, addresses, TensorName::kBias);
  forward_.sink = tensor(plan, addresses, TensorName::kSink);
  forward_.slopes = tensor(plan, addresses, TensorName::kSlopes);
  forward_.q_len = tensor(plan, addresses, TensorName::kQLen);
  forward_.kv_len = tensor(plan, addresses, TensorName::kKvLen);
  forward_.cu_seqlens_q = tensor(plan, addresses, TensorName::kCuQ);
  forward_.cu_seqlens_k = tensor(plan, addresses, TensorName::kCuK);
  forward_.causal = causal_to_abi(plan.causal);
  forward_.scale_given = plan.scale ? 1 : 0;
  forward_.scale = plan.scale.value_or(0);
  forward_.has_window = plan.window ? 1 : 0;
  const Window window = plan.window.value_or(Window{});
  forward_.window_left = window.left;
  forward_.window_right = window.right;
  for (const OptionNumber& number : kOptionNumbers)
    forward_.*number.in_abi = plan.*number.in_call;
  forward_.dropout_p = plan.dropout.p;
  forward_.dropout_seed = plan.dropout.seed;
  forward_.dropout_offset = plan.dropout.offset;
  forward_.dropout_mask = tensor(plan, addresses, TensorName::kDropoutMask);
  forward_.rope = rope_to_abi(plan.rope);
  forward_.rope_cos = tensor(plan, addresses, TensorName::kRopeCos);
  forward_.rope_sin = tensor(plan, addresses, TensorName::kRopeSin);
  forward_.q_positions = tensor(plan, addresses, TensorName::kQPositions);
  forward_.k_positions = tensor(plan, addresses, TensorName::kKPositions);
}

void AbiCall::fill_backward(const CallPlan& plan,
                            const TensorAddresses& addresses) {
  fill_forward(plan, addresses);
  forward_.o = tensor(plan, addresses, TensorName::kGivenO);
  forward_.lse = tensor(plan, addresses, TensorName::kGivenLse);
  backward_.struct_size = sizeof backward_;
  backward_.forward = &forward_;
  backward_.d_o = tensor(plan, addresses, TensorName::kDO);
  backward_.d_q = tensor(plan, addresses, TensorName::kDQ);
  backward_.d_k = tensor(plan, addresses, TensorName::kDK);
  backward_.d_v = tensor(plan, addresses, TensorName::kDV);
  backward_.d_bias = tensor(plan, addresses, TensorName::kDBias);
  backward_.d_sink = tensor(plan, addresses, TensorName::kDSink);
}

void AbiCall::fill_layer(const CallPlan& plan,
                         const TensorAddresses& addresses) {
  layer_.struct_size = sizeof layer_;
  layer_.heads = plan.heads;
  layer_.kv_heads = plan.kv_heads;
  const struct {
    qkvet_tensor& tensor;
    TensorName name;
  } rows[] = {{layer_.x, TensorName::kX},
              {layer_.w_q, TensorName::kWq},
              {layer_.w_k, TensorName::kWk},
              {layer_.w_v, TensorName::kWv},
              {layer_.w_o, TensorName::kWo},
              {layer_.b_q, TensorName::kBq},
              {layer_.b_k, TensorName::kBk},
              {layer_.b_v, TensorName::kBv},
              {layer_.b_o, TensorName::kBo},
              {layer_.y, TensorName::kY},
              {layer_.q, TensorName::kStageQ},
              {layer_.k, TensorName::kStageK},
              {layer_.v, TensorName::kStageV},
              {layer_.attended, TensorName::kAttended},
              {layer_.rope_cos, TensorName::kRopeCos},
              {layer_.rope_sin, TensorName::kRopeSin},
              {layer_.positions, TensorName::kQPositions},
              {layer_.w_qkv, TensorName::kWqkv},
              {layer_.b_qkv, TensorName::kBqkv},
              {layer_.mask_buffer, TensorName::kMaskBuffer},
              {layer_.weights, TensorName::kWeights}};
  for (const auto& row : rows) row.tensor = tensor(plan, addresses, row.name);
  layer_.fused = static_cast<int32_t>(plan.fused);
  for (const TensorPart& part : plan.parts) {
    if (!part.spec.present()) continue;
    std::byte* data = addresses[static_cast<size_t>(part.whole)];
    if (data != nullptr) data += part.first * dtype_bytes(part.spec.dtype);
    for (const auto& row : rows)
      if (row.name == part.name)
        row.tensor = described(part.spec, data, static_cast<size_t>(part.name));
  }
  layer_.causal = causal_to_abi(plan.causal);
  layer_.scale_given = plan.scale ? 1 : 0;
  layer_.scale = plan.scale.value_or(0);
  layer_.rope = rope_to_abi(plan.rope);
}

void AbiCall::fill_layer_backward(const CallPlan& plan,
                                  const TensorAddresses& addresses) {
  fill_layer(plan, addresses);
  qkvet_layer_backward_args& args = layer_backward_;
  args.struct_size = sizeof args;
  args.layer = &layer_;
  const std::pair<qkvet_tensor*, TensorName> rows[] = {
      {&args.d_y, TensorName::kDY},    {&args.d_x, TensorName::kDX},
      {&args.d_w_q, TensorName::kDWq}, {&args.d_w_k, TensorName::kDWk},
      {&args.d_w_v, TensorName::kDWv}, {&args.d_w_o, TensorName::kDWo},
      {&args.d_b_q, TensorName::kDBq}, {&args.d_b_k, TensorName::kDBk},
      {&args.d_b_v, TensorName::kDBv}, {&args.d_b_o, TensorName::kDBo}};
  for (const auto& [to, name] : rows) *to = tensor(plan, addresses, name);
}

void AbiCall::fill_merge(const CallPlan& plan,
                         const TensorAddresses& addresses) {
  merge_.struct_size = sizeof merge_;
  merge_.states = tensor(plan, addresses, TensorName::kStates);
  merge_.states_lse = tensor(plan, addresses, TensorName::kStatesLse);
  merge_.indptr = tensor(plan, addresses, TensorName::kIndptr);
  merge_.o = tensor(plan, addresses, TensorName::kO);
  merge_.lse = tensor(plan, addresses, TensorName::kLse);
  merge_.in_place = plan.in_place ? 1 : 0;
  merge_.row_mask = tensor(plan, addresses, TensorName::kRowMask);
}

void AbiCall::fill_create(const CallPlan& plan,
                          const TensorAddresses& addresses) {
  create_.struct_size = sizeof create_;
  create_.sequences = plan.sequences;
  create_.heads = plan.heads;
  create_.kv_heads = plan.kv_heads;
  create_.d = plan.d;
  create_.dv = plan.dv;
  create_.capacity = plan.tokens;
  create_.q = dtype_to_abi(plan.q_dtype);
  create_.kv = dtype_to_abi(plan.kv_dtype);
  create_.o = dtype_to_abi(plan.o_dtype);
  create_.scale_given = plan.scale ? 1 : 0;
  create_.scale = plan.scale.value_or(0);
  const CacheForm& form = plan.cache;
  create_.window = form.window;
  create_.first_tokens = form.first_tokens;
  create_.rollback = form.rollback;
  create_.slopes = tensor(plan, addresses, TensorName::kSlopes);
  create_.sink = tensor(plan, addresses, TensorName::kSink);
  create_.softcap = plan.softcap;
  if (form.stored == StoredAs::kAsGiven) return;
  const bool int8 = form.stored <= StoredAs::kInt8PerChannel;
  create_.stored = dtype_to_abi(int8 ? Dtype::kInt8 : Dtype::kFp8e4m3);
  create_.scales =
      form.per_channel() ? QKVET_SCALES_PER_CHANNEL : QKVET_SCALES_PER_TOKEN;
  create_.k_scale = tensor(plan, addresses, TensorName::kKScale);
  create_.v_scale = tensor(plan, addresses, TensorName::kVScale);
}

void AbiCall::fill_step(const CallPlan& plan,
                        const TensorAddresses& addresses) {
  step_.struct_size = sizeof step_;
  step_.sequence = plan.sequence;
  step_.k = tensor(plan, addresses, TensorName::kK);
  step_.v = tensor(plan, addresses, TensorName::kV);
  step_.q = tensor(plan, addresses, TensorName::kQ);
  step_.o = tensor(plan, addresses, TensorName::kO);
  step_.lse = tensor(plan, addresses, TensorName::kLse);
  step_.rope = rope_to_abi(plan.rope);
  step_.rope_cos = tensor(plan, addresses, TensorName::kRopeCos);
  step_.rope_sin = tensor(plan, addresses, TensorName::kRopeSin);
}

qkvet_tensor AbiCall::tensor(const CallPlan& plan,
                             const TensorAddresses& addresses,
                             TensorName name) {
  const auto number = static_cast<size_t>(name);
  return plan.tensors[number].present()
             ? described(plan.seen(number), addresses[number], number)
             : qkvet_tensor{};
}

qkvet_tensor AbiCall::described(const TensorSpec& spec, std::byte* data,
                                size_t number) {
  std::copy(spec.shape.begin(), spec.shape.end(), shapes_[number]);
  std::copy(spec.strides.begin(), spec.strides.end(), strides_[number]);
  qkvet_tensor tensor{};
  tensor.data = data;
  tensor.device_type = device_;
  tensor.ndim = spec.ndim;
  tensor.dtype = dtype_to_abi(spec.dtype);
  tensor.shape = shapes_[number];
  tensor.strides = strides_[number];
  return tensor;
}

qkvet_exec plain_exec(int32_t threads, int32_t device) {
  qkvet_exec exec{};
  exec.struct_size = sizeof exec;
  exec.device_type = device;
  exec.threads = threads;
  return exec;
}

std::string status_name(qkvet_status status) {
  switch (status) {
    case QKVET_OK:
      return "OK";
    case QKVET_UNSUPPORTED:
      return "UNSUPPORTED";
    case QKVET_UNAVAILABLE:
      return "UNAVAILABLE";
    case QKVET_INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case QKVET_OUT_OF_MEMORY:
      return "OUT_OF_MEMORY";
    case QKVET_INTERNAL:
      return "INTERNAL";
    default:
      return "status " + std::to_string(status);
  }
}

}  // namespace qkvet
