// SPDX-License-Identifier: Apache-2.0
// The extents of one attention call, and which keys a query sees.
#ifndef QKVET_CORE_BASE_SHAPE_H_
#define QKVET_CORE_BASE_SHAPE_H_

#include <cstdint>

namespace qkvet {

// Which keys a query row sees: all, j <= i, or j <= i + Tk - Tq.
enum class Causal : uint8_t { kNone, kTopLeft, kBottomRight };

struct Shape {
  int64_t B = 1;    // batch members
  int64_t H = 1;    // query heads
  int64_t Hkv = 1;  // key/value heads; divides H
  int64_t Tq = 1;   // queries
  int64_t Tk = 1;   // keys
  int64_t d = 1;    // width of q and k heads
  int64_t dv = 1;   // width of v heads
  int64_t D = 0;    // model width of a layer; 0: not a layer

  // Query heads per key/value head: query head h reads head h / group().
  int64_t group() const { return H / Hkv; }
  int64_t q_elements() const { return B * H * Tq * d; }         // [B,H,Tq,d]
  int64_t k_elements() const { return B * Hkv * Tk * d; }       // [B,Hkv,Tk,d]
  int64_t v_elements() const { return B * Hkv * Tk * dv; }      // [B,Hkv,Tk,dv]
  int64_t o_elements() const { return B * H * Tq * dv; }        // [B,H,Tq,dv]
  int64_t lse_elements() const { return B * H * Tq; }           // [B,H,Tq]
  int64_t weights_elements() const { return B * H * Tq * Tk; }  // [B,H,Tq,Tk]

  friend bool operator==(const Shape&, const Shape&) = default;
};

}  // namespace qkvet

#endif  // QKVET_CORE_BASE_SHAPE_H_
