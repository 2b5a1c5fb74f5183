// SPDX-License-Identifier: Apache-2.0
// Checked, typed access to the arguments of one forward call, and supports(),
// which is the same check: a call that passes it is computed.
//
// Everything here works on the CPU with any strides; q, k, v and o are all f32,
// all f16 or all bf16, as far as the kernel declares them. A field that is set
// but not declared by the kernel is refused with its name.
//
// Row i of a call with Lq queries and Lk keys has position i + diagonal: i for
// causal from the top left, i + Lk - Lq otherwise. Windows and ALiBi use it. A
// row sees key j if the causal rule, the window and the mask allow it.
#ifndef QKVET_IMPL_CALL_FORWARD_VIEW_H_
#define QKVET_IMPL_CALL_FORWARD_VIEW_H_

#include <cstdint>

#include "impl/call/half.h"
#include "impl/call/options_view.h"
#include "impl/call/tensor_view.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

// The tensors of a call in half storage, as bit patterns.
struct HalfViews {
  View<const uint16_t> q, k, v;
  View<uint16_t> o;
  View<uint16_t> weights;  // no data if not requested
};

// Keys [begin, end).
struct Run {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t count() const { return end - begin; }
};

struct ForwardCall {
  int64_t batch = 0;        // B
  int64_t heads = 0;        // H
  int64_t kv_heads = 0;     // Hkv
  int64_t queries = 0;      // Tq
  int64_t keys = 0;         // Tk
  int64_t width = 0;        // d
  int64_t value_width = 0;  // dv

  // f32: the six views below. Otherwise `half`, and only lse of these.
  Storage storage = Storage::kF32;
  View<const float> q;  // [B, H, Tq, d]
  View<const float> k;  // [B, Hkv, Tk, d]
  View<const float> v;  // [B, Hkv, Tk, dv]
  View<float> o;        // [B, H, Tq, dv]
  View<float> lse;      // [B, H, Tq], no data if not requested
  View<float> weights;  // [B, H, Tq, Tk], no data if not requested
  HalfViews half;
  View<uint8_t> dropout_mask;  // [B, H, Tq, Tk], no data if not requested; only
                               // in a whole call

  float scale = 0;
  bool scale_given = false;
  bool causal = false;
  bool top_left = false;  // else, or if not causal, from the bottom right
  int64_t diagonal = 0;
  Options options;
  const void* user = nullptr;  // of the kernel

  int64_t group() const { return heads / kv_heads; }
  int64_t position(int64_t i) const { return i + diagonal; }
  // Keys that row i sees in a call without options: always the first ones.
  int64_t visible(int64_t i) const {
    if (!causal) {
      return keys;
    }
    const int64_t count = position(i) + 1;
    return count < 0 ? 0 : (count > keys ? keys : count);
  }
  // Sets the positions of the rows of this call, a whole member, in the field
  // masks.
  void place_fields();
  // Keys that the causal rule, the window and chunks leave to row i. With
  // ranges it is all keys, and allows() decides.
  Run in_reach(int64_t i) const;
  // The keys of these that the mask leaves, ascending, into list [keys].
  // Returns their number.
  int64_t list_keys(int64_t b, int64_t h, int64_t i, int64_t* list) const;
};

// Applies softcap, bias and ALiBi to a score, scale * q.k, of row i and key
// j:
//
//   s = softcap * tanh(s / softcap);  s += bias;  s -= slope * |position - j|
float with_options(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                   int64_t j, float scaled);

// Writes the dropout mask if the call requests it: keeps(b, h, i, j) of every
// pair of a whole call.
template <class Keeps>
void write_dropout_mask(const ForwardCall& call, const Keeps& keeps) {
  const View<uint8_t>& mask = call.dropout_mask;
  for (int64_t b = 0; mask.data != nullptr && b < call.batch; ++b) {
    for (int64_t h = 0; h < call.heads; ++h) {
      for (int64_t i = 0; i < call.queries; ++i) {
        uint8_t* const row = mask.at(b, h, i);
        for (int64_t j = 0; j < call.keys; ++j) {
          row[j * mask.step[3]] = keeps(b, h, i, j) ? 1 : 0;
        }
      }
    }
  }
}
void write_dropout_mask(const ForwardCall& call);

// 1/sqrt(width), computed in double and rounded once: within 1 unit of 2^-24.
float default_scale(int64_t width);

// The options that only serving_call.h reads: pages and new tokens.
inline constexpr uint64_t kPageOptions =
    QKVET_OPTION_PAGED | QKVET_OPTION_PAGED_CSR | QKVET_OPTION_PACKED_PAGES |
    QKVET_OPTION_PAGED_CHANNEL_GROUPS | QKVET_OPTION_APPEND;

// Whether pages are in lists (page_indptr) and not in a block table.
inline bool has_page_lists(const qkvet_forward_args& a) {
  return !is_absent(a.page_indptr) || !is_absent(a.page_indices) ||
         !is_absent(a.last_page_len);
}

// Checks a call with these options, and if it is right, fills *call: without k
// and v in pages.
void read_attention(const qkvet_kernel* self, const qkvet_forward_args& args,
                    uint64_t options, Check* check, ForwardCall* call);

// Fills *call or refuses: *why is then the reason. Only the outputs that `self`
// declares may be requested, and q, k, v and o must have a storage type that it
// declares.
qkvet_status read_forward(const qkvet_kernel* self,
                          const qkvet_forward_args* args, ForwardCall* call,
                          qkvet_text* why);

// The supports() of every kernel here.
qkvet_status supports_forward(const qkvet_kernel* self,
                              const qkvet_forward_args* args, qkvet_text* why);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CALL_FORWARD_VIEW_H_
