// SPDX-License-Identifier: Apache-2.0
// A kernel as the laws see it, and the time that a run takes of it.
#ifndef QKVET_PROPERTIES_JUDGING_JUDGED_KERNEL_H_
#define QKVET_PROPERTIES_JUDGING_JUDGED_KERNEL_H_

#include <chrono>
#include <string>
#include <vector>

#include "core/base/floors.h"
#include "core/capability/kernel_info.h"
#include "core/case/case.h"
#include "reference/arithmetic/precision.h"

namespace qkvet::properties {

// One field of qkvet_dialect that was found out.
struct Assumption {
  std::string field;     // "lse_base"
  std::string constant;  // to declare: "QKVET_LSE_NATURAL"
};

// How long calls take, in seconds: for a row of a head with one key, and for a
// product of two numbers in a call of some dozens of rows and keys. A kernel
// that starts a block of threads for each row, or a process, takes long for few
// products.
struct Pace {
  double row = 0;  // 0: unknown
  double product = 0;

  // Defined in checking/probe.cpp.
  double seconds(Operation operation, const Shape& shape) const;
};

struct JudgedKernel {
  KernelInfo info;  // with assumptions filled in
  PrecisionModel model;
  bool looser_than_generic = false;
  std::vector<Assumption> assumed = {};
  Pace pace = {};  // as measured by probes
};

// The time of a run by its use, in seconds of wall clock, summed over threads.
struct TimeUse {
  double generate = 0;  // drawing cases, making and storing inputs
  double oracle = 0;    // oracle, twin and the bound's facts
  double bound = 0;     // the bound, per model
  double kernel = 0;    // calls, with their way to the worker and back
  double judge = 0;

  double total() const { return generate + oracle + bound + kernel + judge; }
  void add(const TimeUse& other) {
    generate += other.generate;
    oracle += other.oracle;
    bound += other.bound;
    kernel += other.kernel;
    judge += other.judge;
  }
};

class Stopwatch {
 public:
  explicit Stopwatch(double& sum)
      : sum_(sum), start_(std::chrono::steady_clock::now()) {}
  ~Stopwatch() {
    sum_ +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_)
            .count();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& sum_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_JUDGED_KERNEL_H_
