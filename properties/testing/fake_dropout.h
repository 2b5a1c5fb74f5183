// SPDX-License-Identifier: Apache-2.0
// For tests: what a call drops, by a generator of our own.
#ifndef QKVET_PROPERTIES_TESTING_FAKE_DROPOUT_H_
#define QKVET_PROPERTIES_TESTING_FAKE_DROPOUT_H_

#include <cmath>
#include <vector>

#include "core/base/philox.h"
#include "core/call/call.h"
#include "reference/options/dropout.h"

namespace qkvet::properties {

class FakeDropout {
 public:
  explicit FakeDropout(const KernelCall& call)
      : drops_(call.dropout.has_value()), p_(0) {
    if (!drops_) return;
    const Shape& s = call.shape;
    p_ = static_cast<double>(call.dropout->p);
    const uint64_t seed =
        call.dropout->seed + call.dropout->offset * 0x9E3779B9;
    for (int64_t head = 0; head < s.B * s.H; ++head)
      for (int64_t i = 0; i < s.Tq; ++i)
        for (int64_t j = 0; j < s.Tk; ++j) {
          const uint64_t bits =
              philox_u64(seed, static_cast<uint32_t>(head),
                         static_cast<uint32_t>(i), static_cast<uint32_t>(j));
          kept.push_back(std::ldexp(static_cast<double>(bits), -64) >= p_);
        }
  }

  OracleOutput forward(const Problem& problem) const {
    return drops_ ? plain_dropout({problem, p_, kept.data()})
                  : plain_forward(problem);
  }
  GradientOutput backward(const GradientProblem& problem) const {
    return drops_ ? plain_dropout_backward({problem.forward, p_, kept.data()},
                                           problem.d_o)
                  : plain_backward(problem);
  }
  std::vector<std::byte> mask(const KernelCall& call) const {
    std::vector<std::byte> bytes;
    for (const uint8_t one : kept)
      if (call.want_dropout_mask) bytes.push_back(std::byte{one});
    return bytes;
  }

  std::vector<uint8_t> kept;  // [B,H,Tq,Tk]

 private:
  bool drops_;
  double p_;
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_TESTING_FAKE_DROPOUT_H_
