// SPDX-License-Identifier: Apache-2.0
// faulty/key_offset_in_16_bits: the offset of a key has 16 bits.
#include <cmath>
#include <cstdint>

#include "impl/faulty/option_fault.h"
#include "impl/faulty/plain_scores.h"

namespace qkvet::impl {
namespace {

template <class Seams>
struct NarrowRows : PlainScores<Seams> {
  using typename PlainScores<Seams>::Memory;
  using PlainScores<Seams>::sees;

  // What wraps round is the offset in bytes: it stays within K.
  static const float* key(const ForwardCall& call, RowAt kv, int64_t j) {
    const int64_t offset = call.k.at(kv.b, kv.h, j) - call.k.data;
    const auto bytes =
        static_cast<uint16_t>(offset * static_cast<int64_t>(sizeof(float)));
    return call.k.data + bytes / sizeof(float);
  }

  static float score(const ForwardCall& call, RowAt at, int64_t j) {
    const float* const q = call.q.at(at.b, at.h, at.i);
    const float* const k = key(call, Seams::kv_head(call, at), j);
    float dot = 0;
    for (int64_t c = 0; c < call.width; ++c) {
      dot += q[c * call.q.step[3]] * k[c * call.k.step[3]];
    }
    return dot * call.scale;
  }

  // Scores become weights; returns their sum, and in *lse what is returned.
  static float weigh(const ForwardCall& call, RowAt at, float* weights,
                     float* lse) {
    float max = OptionSeams::kNone, sum = 0;
    for (int64_t j = 0; j < call.keys; ++j) {
      weights[j] = sees(call, at, j) ? score(call, at, j) : OptionSeams::kNone;
      max = std::fmax(max, weights[j]);
    }
    for (int64_t j = 0; j < call.keys && max > OptionSeams::kNone; ++j) {
      weights[j] = std::exp(weights[j] - max);
      sum += weights[j];
    }
    *lse = sum > 0 ? max + std::log(sum) : OptionSeams::kNone;
    return sum;
  }

  static void row(const ForwardCall& call, RowAt at, Memory* memory) {
    float lse = 0;
    const float sum = weigh(call, at, memory->weights, &lse);
    const RowAt kv = Seams::kv_head(call, at);
    for (int64_t c = 0; c < call.value_width; ++c) {
      float acc = 0;
      for (int64_t j = 0; j < call.keys; ++j) {
        if (sees(call, at, j)) {
          acc +=
              memory->weights[j] * call.v.at(kv.b, kv.h, j)[c * call.v.step[3]];
        }
      }
      call.o.at(at.b, at.h, at.i)[c * call.o.step[3]] = sum > 0 ? acc / sum : 0;
    }
    if (call.lse.data != nullptr) {
      *call.lse.at(at.b, at.h, at.i) = lse;
    }
  }
};

constexpr const char* kKilledBy[] = {"agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the offset of a row of K, in bytes, is kept in 16 bits",
    .symptom = "right for small tensors; behind 64 KiB the keys begin again",
    .cause =
        "an index has the type that was wide enough for the tensors of the "
        "tests",
    .fix = "compute offsets in 64 bits, or refuse what is larger",
    .source =
        "ggml-org/llama.cpp#24912, Dao-AILab/flash-attention#772, which are of "
        "32 bits",
    .trigger = "a K of more than 64 KiB, gaps among them",
    .killed_by = kKilledBy,
    .when =
        "(layout != qkv && B * Hkv * Tk * d > 16384) || (layout == qkv && B * "
        "Tk * (H + 2 * Hkv) * d > 16384) || (layout == gaps && B * Hkv * Tk * "
        "(d + 15) > 16384) || (layout == apart && B * Hkv * Tk * d > 8192)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_key_offset_in_16_bits =
    option_fault_on<NarrowRows, OptionSeams, 0>(
        "faulty/key_offset_in_16_bits", &kFault,
        {"impl/faulty/key_offset_in_16_bits.cpp", __LINE__},
        &kSeamsPrecision) /*KeyOffsetIn16Bits*/;

}  // namespace qkvet::impl
