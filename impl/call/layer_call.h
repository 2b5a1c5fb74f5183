// SPDX-License-Identifier: Apache-2.0
// Checked, typed access to the arguments of one layer call. A call that
// contradicts itself is refused with the name of the matrix, the width found
// and the width needed, before anything is written.
#ifndef QKVET_IMPL_CALL_LAYER_CALL_H_
#define QKVET_IMPL_CALL_LAYER_CALL_H_

#include <cstdint>

#include "impl/call/declare.h"
#include "impl/call/rope.h"
#include "impl/call/tensor_view.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

// One of the four products with a matrix.
struct Projection {
  Stored matrix;     // [rows, columns]
  Stored bias;       // [columns], may be absent
  int64_t rows = 0;  // D, of w_o H dv
  int64_t columns = 0;
};

struct LayerCall {
  int64_t batch = 0;        // B, 1 if x is [T, D]
  int64_t tokens = 0;       // T
  int64_t model_width = 0;  // D
  int64_t heads = 0;        // H
  int64_t kv_heads = 0;     // Hkv
  int64_t width = 0;        // d
  int64_t value_width = 0;  // dv

  Storage storage = Storage::kF32;
  Stored x;  // [B, T, D]
  Stored y;  // [B, T, D]
  Projection w_q, w_k, w_v, w_o;

  // No data if not requested; in the declared type.
  Stored q;         // [B, H, T, d]
  Stored k;         // [B, Hkv, T, d]
  Stored v;         // [B, Hkv, T, dv]
  Stored attended;  // [B, H, T, dv]

  // All three side by side; w_q, w_k and w_v are then parts of it.
  int32_t fused = QKVET_FUSED_NONE;
  Projection w_qkv;

  // The mask buffer [C, C]; its first rows and columns contain the causal rule.
  // No data if there is none.
  View<const uint8_t> buffer;
  int64_t context = 0;  // C

  Stored weights;  // [B, H, T, T], no data if not requested

  Rope rope;  // its q: the positions [B, T] of queries and keys

  float scale = 0;
  bool causal = false;
};

// Rotates q [B, H, T, d] or k [B, Hkv, T, d], contiguous.
template <class Turn = PlainTurn>
void turn_heads(const LayerCall& call, int64_t heads, float* rows) {
  for (int64_t n = 0; call.rope.present() && n < call.batch * heads; ++n) {
    turn_rows<Turn>(call.rope, call.rope.q, n / heads, 0, call.tokens,
                    call.width, rows);
    rows += call.tokens * call.width;
  }
}

// Fills *call or refuses: *why is then the reason.
qkvet_status read_layer(const qkvet_kernel* self, const qkvet_layer_args& args,
                        LayerCall* call, qkvet_text* why);

// The same as a part of other checks.
void read_layer(const qkvet_kernel* self, const qkvet_layer_args& args,
                Check* check, LayerCall* call);

// A checked [B, T, D] or [T, D] as [B, T, D].
Stored batched(const qkvet_tensor& t, Storage storage);
// A checked matrix and its bias, which may be absent.
Projection projection(const qkvet_tensor& matrix, const qkvet_tensor& bias);
// "qkv" for QKVET_FUSED_QKV; `fused` is a legal number.
const char* parts_in_order(int32_t fused);
// The part of w_qkv and its bias that begins at this column.
void take_part(const LayerCall& call, int64_t column, Projection* part);

// Capabilities of every layer here: no lse, one T, both causal alignments.
// Inputs are copied before the computation, so their strides change nothing.
constexpr qkvet_capabilities layer_capabilities() {
  qkvet_capabilities c = capabilities_with(
      kCommonOptions & ~(QKVET_OPTION_LSE | QKVET_OPTION_CROSS_LENGTHS),
      {kF32, kF16, kBf16});
  c.flags |= QKVET_FLAG_LAYOUT_INVARIANT;
  return c;
}
inline constexpr qkvet_capabilities kLayerCapabilities = layer_capabilities();

inline constexpr uint64_t kFusedOrders =
    QKVET_LAYER_FUSED_QKV | QKVET_LAYER_FUSED_QVK | QKVET_LAYER_FUSED_KQV |
    QKVET_LAYER_FUSED_KVQ | QKVET_LAYER_FUSED_VQK | QKVET_LAYER_FUSED_VKQ;

using LayerFunction = qkvet_status (*)(const qkvet_kernel*, qkvet_context*,
                                       const qkvet_layer_args*,
                                       const qkvet_exec*, qkvet_text*);

constexpr qkvet_layer_table layer_table(LayerFunction forward,
                                        qkvet_dtype stage) {
  qkvet_layer_table table = {};
  table.struct_size = sizeof(table);
  table.options = QKVET_LAYER_BIASES | QKVET_LAYER_STAGES |
                  QKVET_LAYER_UNBATCHED | QKVET_LAYER_ROPE |
                  QKVET_LAYER_ROPE_PART | kFusedOrders |
                  QKVET_LAYER_MASK_BUFFER | QKVET_LAYER_WEIGHTS;
  table.stage = stage;
  table.forward = forward;
  return table;
}

// A kernel that is only a layer.
constexpr qkvet_kernel layer_kernel(const char* name, const char* description,
                                    Place place,
                                    const qkvet_precision* precision,
                                    const qkvet_layer_table* table) {
  qkvet_kernel kernel = plain_kernel(name, description, place, precision,
                                     nullptr, &kLayerCapabilities);
  kernel.supports = nullptr;
  kernel.layer = table;
  return kernel;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CALL_LAYER_CALL_H_
