// SPDX-License-Identifier: Apache-2.0
// Times of work on a device, by its own events. Contenders take turns in
// rounds, so that clocks and heat are the same for all; the result is the
// median.
#ifndef QKVET_IMPL_CUDA_BENCH_DEVICE_TIMING_H_
#define QKVET_IMPL_CUDA_BENCH_DEVICE_TIMING_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace qkvet::bench {

// Ends the program with one line that names `what`.
void check(cudaError_t error, const char* what);

// Memory of the device, freed at the end.
class Memory {
 public:
  explicit Memory(size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* at() const { return at_; }
  size_t bytes() const { return bytes_; }

 private:
  void* at_ = nullptr;
  size_t bytes_ = 0;
};

// bf16 numbers of mean 0 and about unit variance: a device computes faster on
// zeros, which draw less power.
void fill_bf16(const Memory& memory, uint64_t seed);

struct Contender {
  std::string name;
  // Queues one run on the default stream; "" or the reason of failure.
  std::function<std::string()> run;
};

struct Timed {
  std::string why;                         // not "": it did not run
  double median = 0, least = 0, most = 0;  // seconds a run
};

// One for each contender.
std::vector<Timed> race(const std::vector<Contender>& contenders, int rounds);

}  // namespace qkvet::bench

#endif  // QKVET_IMPL_CUDA_BENCH_DEVICE_TIMING_H_
