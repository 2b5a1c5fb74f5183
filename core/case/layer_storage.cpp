// SPDX-License-Identifier: Apache-2.0
#include "core/case/layer_storage.h"

#include <cstring>

#include "core/case/case_text.h"

namespace qkvet {
namespace {

constexpr uint8_t kProjected = kBiasQ | kBiasK | kBiasV;

// Rows of q, k and v, one after the other, from tensors that begin at `first`.
void fuse(const Case& c, const Inputs& inputs, TensorName first, int64_t rows,
          std::vector<std::byte>& out) {
  const Shape& s = c.shape;
  const std::array<int64_t, 3> widths = {s.H * s.d, s.Hkv * s.d, s.Hkv * s.dv};
  const auto columns = fused_columns(c.fused, widths);
  const auto element = static_cast<size_t>(dtype_bytes(c.q_dtype));
  const auto all = static_cast<size_t>(widths[0] + widths[1] + widths[2]);
  out.resize(static_cast<size_t>(rows) * all * element);
  for (size_t which = 0; which < 3; ++which) {
    const auto& from =
        inputs.bytes(static_cast<TensorName>(static_cast<int>(first) + which));
    const size_t bytes = static_cast<size_t>(widths[which]) * element;
    const size_t begin = static_cast<size_t>(columns[which]) * element;
    for (size_t row = 0; row < static_cast<size_t>(rows); ++row)
      std::memcpy(out.data() + row * all * element + begin,
                  from.data() + row * bytes, bytes);
  }
}

const std::byte* pointer_to(const void* data) {
  return static_cast<const std::byte*>(data);
}

}  // namespace

bool is_layer_storage_key(std::string_view key) {
  return key == "fused" || key == "context";
}

std::string read_layer_storage(std::string_view key, std::string_view text,
                               std::string_view token, Case& value) {
  if (key == "fused") {
    const auto order = fused_from_name(text);
    if (!order) return quoted(token) + ": allowed qkv qvk kqv kvq vqk vkq";
    value.fused = *order;
    return "";
  }
  const auto context = number<int64_t>(text);
  if (!context || *context < 1 || *context > kMaxExtent)
    return quoted(token) + ": allowed 1 .. " + std::to_string(kMaxExtent);
  value.context = *context;
  return "";
}

void add_layer_storage(std::string& text, const Case& c) {
  if (c.fused != FusedOrder::kNone)
    add_token(text, "fused=" + std::string(fused_name(c.fused)));
  if (c.context > 0) add_token(text, "context=" + std::to_string(c.context));
}

std::string layer_storage_reason(const Case& c) {
  if (c.fused == FusedOrder::kNone && c.context == 0) return "";
  if (c.subject() == Subject::kLayerBackward)
    return "the gradient of a layer has no fused, context";
  if (c.subject() != Subject::kLayer) return "only a layer has fused, context";
  const uint8_t projected = c.biases & kProjected;
  if (c.fused != FusedOrder::kNone && projected != 0 && projected != kProjected)
    return "fused=" + std::string(fused_name(c.fused)) +
           ": the biases of q, k and v are given all or none";
  if (c.context == 0) return "";
  const std::string token = "context=" + std::to_string(c.context);
  if (c.causal == Causal::kNone)
    return token + ": a mask buffer is that of a causal layer; add causal";
  if (c.context < c.shape.Tq)
    return token + ": T" + std::to_string(c.shape.Tq) +
           " is longer; allowed from T on";
  if (c.context > kMaxElements / c.context)
    return token + ": the mask buffer has more than " +
           std::to_string(kMaxElements) + " elements, the most allowed";
  return "";
}

void store_layer(const Case& c, Inputs& inputs) {
  if (c.subject() != Subject::kLayer) return;
  inputs.w_qkv_bytes.clear();
  inputs.b_qkv_bytes.clear();
  if (c.fused != FusedOrder::kNone) {
    fuse(c, inputs, TensorName::kWq, c.shape.D, inputs.w_qkv_bytes);
    if (!inputs.values(TensorName::kBq).empty())
      fuse(c, inputs, TensorName::kBq, 1, inputs.b_qkv_bytes);
  }
  inputs.mask_buffer.assign(static_cast<size_t>(c.context * c.context), 0);
  for (int64_t i = 0; i < c.context; ++i)
    std::memset(inputs.mask_buffer.data() + i * c.context, 1,
                static_cast<size_t>(i + 1));
}

void fill_layer_storage(const Case& c, const Inputs& inputs, KernelCall& call) {
  call.fused = c.fused;
  if (c.fused != FusedOrder::kNone) {
    call.w_qkv = pointer_to(inputs.w_qkv_bytes.data());
    if (!inputs.b_qkv_bytes.empty())
      call.b_qkv = pointer_to(inputs.b_qkv_bytes.data());
  }
  if (c.context == 0) return;
  call.context = c.context;
  call.mask_buffer = pointer_to(inputs.mask_buffer.data());
  call.causal = Causal::kNone;
}

}  // namespace qkvet
