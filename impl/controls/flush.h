// SPDX-License-Identifier: Apache-2.0
// A processor that flushes subnormal results to zero and takes subnormal inputs
// for zero, as -ffast-math and GPUs do, until the end of a scope. Where there
// is no such mode here (not x86), nothing is flushed, which the declaration
// allows too.
#ifndef QKVET_IMPL_CONTROLS_FLUSH_H_
#define QKVET_IMPL_CONTROLS_FLUSH_H_

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace qkvet::impl {

#if defined(__x86_64__)
constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;

// Replaces the mode of this thread; returns the one before.
inline unsigned exchange_mode(unsigned mode) {
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

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CONTROLS_FLUSH_H_
