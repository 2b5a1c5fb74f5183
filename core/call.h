// SPDX-License-Identifier: Apache-2.0
// One forward call as data: what goes in, what came of it. Only executors
// (core/executor.h) turn the one into the other.
#ifndef QKVET_CORE_CALL_H_
#define QKVET_CORE_CALL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace qkvet {

// Where each tensor lies between its two guard pages.
enum class Placement : uint8_t {
  kEnd,         // the last element touches the guard page behind
  kEndAligned,  // the same, moved down to a multiple of 64 bytes
  kStart        // the first element touches the guard page in front
};
inline constexpr int kPlacementCount = 3;

enum class TensorName : uint8_t { kQ, kK, kV, kO, kLse, kWeights };
inline constexpr int kTensorCount = 6;
const char* tensor_name(TensorName tensor);  // "q", "k", ..., "weights"

// The inputs are packed, row-major, in their storage type, and must outlive
// the call.
struct ForwardCall {
  Shape shape;
  Dtype q_dtype = Dtype::kF32;
  Dtype kv_dtype = Dtype::kF32;
  Dtype o_dtype = Dtype::kF32;
  Causal causal = Causal::kNone;
  std::optional<float> scale;  // absent: the kernel takes 1/sqrt(d)
  bool want_lse = false;
  bool want_weights = false;
  Placement placement = Placement::kEnd;
  double oracle_seconds = 0;  // time of the oracle, for the limit on a hang
  const std::byte* q = nullptr;
  const std::byte* k = nullptr;
  const std::byte* v = nullptr;
};

enum class CallStatus : uint8_t {
  kDone,         // forward() returned QKVET_OK
  kUnsupported,  // supports() or the capabilities say no
  kUnavailable,  // the context could not be opened
  kRefused,      // forward() returned an error after supports() had said yes
  kFault,        // a guard page or a read-only input was touched
  kCrash,        // any other deadly signal, abort, exit or exception
  kHang,
  kOutOfMemory,
  kNotRun  // an earlier call of the batch hung or took all memory
};

// A touch outside a tensor, or a write into an input.
struct MemoryFault {
  std::optional<TensorName> tensor;  // absent: the workspace, or far from
                                     // every tensor
  bool is_write = false;
  bool before_start = false;
  int64_t bytes = 0;  // distance past the end or before the start; inside: from
                      // the start
  bool inside = false;
  int64_t tensor_bytes = 0;
};

struct CallOutcome {
  CallStatus status = CallStatus::kDone;
  std::string text;    // the kernel's reason, or what the signal was
  std::string output;  // last lines that a crashed kernel printed
  std::optional<MemoryFault> fault;     // kFault: what the guard pages saw
  std::optional<MemoryFault> damage;    // a canary that was overwritten
  bool dirty_environment = false;       // MXCSR or rounding mode left changed
  std::optional<TensorName> unwritten;  // an output with elements never written
  int64_t unwritten_index = 0;          // the first of them, packed
  double seconds = 0;                   // inside forward()

  // Packed, row-major. lse is f32, or f64 where o is f64; weights have the
  // type of o. Empty unless kDone.
  std::vector<std::byte> o;        // [B,H,Tq,dv]
  std::vector<std::byte> lse;      // [B,H,Tq]
  std::vector<std::byte> weights;  // [B,H,Tq,Tk]
};

}  // namespace qkvet

#endif  // QKVET_CORE_CALL_H_
