// SPDX-License-Identifier: Apache-2.0
// controls/flush_to_zero: the plain order of everything on a processor that
// flushes subnormal results to zero and takes subnormal inputs for zero, as
// -ffast-math and GPUs do. The mode is put back before the call returns. Where
// there is no such mode here (not x86), nothing is flushed, which the
// declaration allows too.
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "impl/controls/arithmetic.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

#if defined(__x86_64__)
constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;

// Replaces the mode of this thread; returns the one before.
unsigned exchange_mode(unsigned mode) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(mode);
  return before;
}

class Flushing {
 public:
  Flushing()
      : before_(
            exchange_mode(_mm_getcsr() | kFlushToZero | kDenormalsAreZero)) {}
  ~Flushing() { exchange_mode(before_); }
  Flushing(const Flushing&) = delete;
  Flushing& operator=(const Flushing&) = delete;

 private:
  unsigned before_;
};
#else
struct Flushing {
  Flushing() {}
};
#endif

// Not inlined: no floating-point operation may move past the change of mode.
[[gnu::noinline]] void plain_row(const Row& row) {
  TwoPass<dot_ascending, libm_exp>::row(row);
}

struct FlushToZero {
  static void row(const Row& row) {
    const Flushing flushing;
    plain_row(row);
  }
};

// expf ends where f32 goes subnormal: off by 2^-126 at most.
constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.exp_floor = kClampedExpFloor;
  p.ftz = 1;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel controls_flush_to_zero =
    plain_kernel("controls/flush_to_zero", "subnormal numbers flushed to zero",
                 {"impl/controls/flush_to_zero.cpp", __LINE__}, &kPrecision,
                 kRowForward<FlushToZero>, &kAllF32Capabilities);

}  // namespace qkvet::impl
