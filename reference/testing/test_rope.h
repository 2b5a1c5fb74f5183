// SPDX-License-Identifier: Apache-2.0
// Random rotations, for the tests of this folder.
#ifndef QKVET_REFERENCE_TESTING_TEST_ROPE_H_
#define QKVET_REFERENCE_TESTING_TEST_ROPE_H_

#include "reference/testing/test_problems.h"

namespace qkvet::reference {

// Points on the circle as in tables, with steps of a quarter turn and none in
// between, and numbers that are on no circle. The number of channels of `p`
// must be even.
inline void add_rotation(TestRandom& random, TestProblem& p) {
  const Shape& s = p.problem.shape;
  const int64_t positions = 1 + random.below(2 * s.Tk + 2);
  for (int64_t n = 0; n < positions * s.d / 2; ++n) {
    double cos = 1 - 2 * random.uniform();
    double sin = (random.below(2) == 0 ? 1 : -1) * std::sqrt(1 - cos * cos);
    const int64_t kind = random.below(8);
    if (kind == 0) cos = 1, sin = 0;
    if (kind == 1) cos = 0, sin = -1;
    if (kind == 2) sin = 3 * random.normal();
    p.rope_cos.push_back(cos);
    p.rope_sin.push_back(sin);
  }
  round_to_f32(p.rope_cos);
  round_to_f32(p.rope_sin);
  for (int64_t i = 0; i < s.B * s.Tq; ++i)
    p.q_positions.push_back(random.below(positions));
  for (int64_t j = 0; j < s.B * s.Tk; ++j)
    p.k_positions.push_back(random.below(positions));
  p.problem.rotation.style =
      random.below(2) == 0 ? RopeStyle::kHalf : RopeStyle::kInterleaved;
}

inline Shape with_even_width(Shape shape) {
  shape.d += shape.d % 2;
  return shape;
}

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_TESTING_TEST_ROPE_H_
