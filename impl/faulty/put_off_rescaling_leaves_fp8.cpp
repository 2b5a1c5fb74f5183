// SPDX-License-Identifier: Apache-2.0
// faulty/put_off_rescaling_leaves_fp8: weights that a maximum out of date lets
// grow leave the range of fp8.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "impl/faulty/option_fault.h"
#include "impl/faulty/plain_scores.h"
#include "impl/faulty/tile.h"
#include "impl/fp8.h"

namespace qkvet::impl {
namespace {

// Only the end of the range of e4m3 is here and not its steps, which would show
// in every call.
constexpr float kRange = 256;  // weights of a fresh maximum go up to this
// Below 8 ln 2 = 5.5451...: the lag is computed with a rounding of its own.
constexpr float kLag = 5.5f;
constexpr double kDeclaredLag = 5.545177444479562;  // 8 ln 2

template <class Seams>
struct PutOffRows : PlainScores<Seams> {
  using typename PlainScores<Seams>::Memory;
  using PlainScores<Seams>::score;
  using PlainScores<Seams>::sees;

  // Sums so far; those of values stand in o.
  struct Running {
    float reference, sum;
  };

  static void rescale(const ForwardCall& call, float max, Running* row,
                      float* o) {
    if (max <= row->reference + kLag) {
      return;
    }
    const float factor = std::exp(row->reference - max);
    row->reference = max;
    row->sum *= factor;
    for (int64_t c = 0; c < call.value_width; ++c) {
      o[c * call.o.step[3]] *= factor;
    }
  }

  static void add_tile(const ForwardCall& call, RowAt at, int64_t begin,
                       float* weights, Running* row) {
    float* const o = call.o.at(at.b, at.h, at.i);
    const int64_t end = std::min(begin + half_tile(), call.keys);
    float max = OptionSeams::kNone;
    for (int64_t j = begin; j < end; ++j) {
      if (sees(call, at, j)) {
        weights[j] = score(call, at, j);
        max = std::fmax(max, weights[j]);
      }
    }
    rescale(call, max, row, o);
    const RowAt kv = Seams::kv_head(call, at);
    for (int64_t j = begin; j < end; ++j) {
      if (!sees(call, at, j)) {
        continue;
      }
      const float weight = std::exp(weights[j] - row->reference);
      row->sum += weight;
      const float stored = std::min(kRange * weight, kLargestE4m3) / kRange;
      for (int64_t c = 0; c < call.value_width; ++c) {
        o[c * call.o.step[3]] +=
            stored * call.v.at(kv.b, kv.h, j)[c * call.v.step[3]];
      }
    }
  }

  static void row(const ForwardCall& call, RowAt at, Memory* memory) {
    float* const o = call.o.at(at.b, at.h, at.i);
    Running row = {OptionSeams::kNone, 0};
    for (int64_t c = 0; c < call.value_width; ++c) {
      o[c * call.o.step[3]] = 0;
    }
    for (int64_t j = 0; j < call.keys; j += half_tile()) {
      add_tile(call, at, j, memory->weights, &row);
    }
    const bool seen = row.reference > OptionSeams::kNone;
    for (int64_t c = 0; seen && c < call.value_width; ++c) {
      o[c * call.o.step[3]] /= row.sum;
    }
    if (call.lse.data != nullptr) {
      *call.lse.at(at.b, at.h, at.i) =
          seen ? row.reference + std::log(row.sum) : OptionSeams::kNone;
    }
  }
};

constexpr qkvet_precision kPutOffPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.tile = 2;
  p.lazy = kDeclaredLag;
  return p;
}();

constexpr const char* kKilledBy[] = {"weights_sum_to_one", "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "weights of 1 are stored as 256, and a rescaling is put off until "
        "they, and a "
        "rescaling is put off until they are 256",
    .symptom =
        "rows sum to less than one where later scores are larger than the "
        "first, by too little to rescale",
    .cause = "two tricks, each right alone, share one range",
    .fix =
        "keep the range for weights of up to 2^8, or rescale as soon as the "
        "maximum grows",
    .source = "Dao-AILab/flash-attention#2577, Dao-AILab/flash-attention#2694",
    .trigger =
        "keys of different tiles of 2, the later with a score that is larger "
        "by 0.6 to 5.5",
    .killed_by = kKilledBy,
    .when = "Tk > 2 && rows(seen > 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_put_off_rescaling_leaves_fp8 =
    option_fault_on<PutOffRows, OptionSeams, 0>(
        "faulty/put_off_rescaling_leaves_fp8", &kFault,
        {"impl/faulty/put_off_rescaling_leaves_fp8.cpp", __LINE__},
        &kPutOffPrecision) /*PutOffRescalingLeavesFp8*/;

}  // namespace qkvet::impl
