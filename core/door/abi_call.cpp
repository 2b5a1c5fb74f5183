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
    : device_(device), byte_offset_(plan.byte_offset) {
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
#define QKVET_FORWARD_SCALE(...)
#define QKVET_FORWARD_TENSOR(field, name, ...) \
  forward_.field = tensor(plan, addresses, TensorName::k##name);
#include "qkvet/tensors.def"
  if (plan.tensors[static_cast<size_t>(TensorName::kKNew)].present()) {
    forward_.k = tensor(plan, addresses, TensorName::kKCache);
    forward_.v = tensor(plan, addresses, TensorName::kVCache);
  }
  forward_.page_size = plan.page_size;
  forward_.channel_group = plan.channel_group;
  forward_.key_block_size = plan.key_block_size;
  forward_.chunk = plan.chunk;
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
  forward_.rope = rope_to_abi(plan.rope);
}

void AbiCall::fill_backward(const CallPlan& plan,
                            const TensorAddresses& addresses) {
  fill_forward(plan, addresses);
  forward_.o = tensor(plan, addresses, TensorName::kGivenO);
  forward_.lse = tensor(plan, addresses, TensorName::kGivenLse);
  backward_.struct_size = sizeof backward_;
  backward_.forward = &forward_;
#define QKVET_BACKWARD_TENSOR(field, name) \
  backward_.field = tensor(plan, addresses, TensorName::k##name);
#include "qkvet/tensors.def"
}

void AbiCall::fill_layer(const CallPlan& plan,
                         const TensorAddresses& addresses) {
  layer_.struct_size = sizeof layer_;
  layer_.heads = plan.heads;
  layer_.kv_heads = plan.kv_heads;
  const struct {
    qkvet_tensor& tensor;
    TensorName name;
  } rows[] = {
#define QKVET_LAYER_TENSOR(field, name) {layer_.field, TensorName::k##name},
#include "qkvet/tensors.def"
  };
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
  layer_backward_.struct_size = sizeof layer_backward_;
  layer_backward_.layer = &layer_;
#define QKVET_LAYER_BACKWARD_TENSOR(field, name) \
  layer_backward_.field = tensor(plan, addresses, TensorName::k##name);
#include "qkvet/tensors.def"
}

void AbiCall::fill_merge(const CallPlan& plan,
                         const TensorAddresses& addresses) {
  merge_.struct_size = sizeof merge_;
#define QKVET_MERGE_TENSOR(field, name) \
  merge_.field = tensor(plan, addresses, TensorName::k##name);
#include "qkvet/tensors.def"
  merge_.in_place = plan.in_place ? 1 : 0;
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
#define QKVET_CACHE_TENSOR(field, name) \
  create_.field = tensor(plan, addresses, TensorName::k##name);
#include "qkvet/tensors.def"
  create_.softcap = plan.softcap;
  if (form.stored == StoredAs::kAsGiven) return;
  const bool int8 = form.stored <= StoredAs::kInt8PerChannel;
  create_.stored = dtype_to_abi(int8 ? Dtype::kInt8 : Dtype::kFp8e4m3);
  create_.scales =
      form.per_channel() ? QKVET_SCALES_PER_CHANNEL : QKVET_SCALES_PER_TOKEN;
}

void AbiCall::fill_step(const CallPlan& plan,
                        const TensorAddresses& addresses) {
  step_.struct_size = sizeof step_;
  step_.sequence = plan.sequence;
#define QKVET_STEP_TENSOR(field, name) \
  step_.field = tensor(plan, addresses, TensorName::k##name);
#include "qkvet/tensors.def"
  step_.rope = rope_to_abi(plan.rope);
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
  tensor.data = data - byte_offset_;
  tensor.byte_offset = static_cast<uint64_t>(byte_offset_);
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
