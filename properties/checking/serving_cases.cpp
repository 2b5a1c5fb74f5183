// SPDX-License-Identifier: Apache-2.0
#include "properties/checking/serving_cases.h"

#include <algorithm>

#include "core/case/paging.h"

namespace qkvet::properties {
namespace {

// A packed batch has pages already, or none. The layout is compatible with
// neither pages nor appended tokens.
Case without_packing(Case value) {
  if (value.paging.size == 0) {
    value.cu_q.clear();
    value.cu_k.clear();
  }
  if (value.layout == Layout::kPacked) value.layout = Layout::kBthd;
  for (int64_t* extent : {&value.shape.B, &value.shape.Tq, &value.shape.Tk})
    *extent = std::max<int64_t>(*extent, 1);
  return value;
}

// Options that hide keys are removed if they hide all of them.
Case with_seen_keys(Case value) {
  if (some_row_sees_a_key(value)) return value;
  value.mask = {};
  value.window.reset();
  value.q_len.clear();
  for (int64_t& length : value.kv_len) length = std::max<int64_t>(length, 1);
  if (!some_row_sees_a_key(value)) value.causal = Causal::kNone;
  if (!some_row_sees_a_key(value)) value.listed = {};
  if (!some_row_sees_a_key(value)) {
    value.cu_q.clear();
    value.cu_k.clear();
  }
  return value;
}

}  // namespace

Case with_pages(Case value) {
  value = without_packing(std::move(value));
  if (value.paging.size == 0) value.paging.size = 2;
  value.share = static_cast<uint8_t>(value.share & kShareB);
  if (value.share != 0) value.append = 0;
  return with_seen_keys(std::move(value));
}

Case with_new_tokens(Case value) {
  value = without_packing(std::move(value));
  value.share = 0;
  value.append = std::clamp<int64_t>(value.append, 1, value.shape.Tk);
  if (static_cast<int64_t>(value.kv_len.size()) != value.shape.B)
    value.kv_len.clear();
  for (int64_t& length : value.kv_len) length = std::max<int64_t>(length, 1);
  // Every member of a packed batch has some, too.
  if (!value.cu_k.empty() && new_tokens(value) == 0) {
    value.cu_q.clear();
    value.cu_k.clear();
  }
  value.append = new_tokens(value);
  return with_seen_keys(std::move(value));
}

}  // namespace qkvet::properties
