// SPDX-License-Identifier: Apache-2.0
// For the tests of the emulator.
#ifndef QKVET_IMPL_CUDA_SIMT_SIMT_ORDERS_H_
#define QKVET_IMPL_CUDA_SIMT_SIMT_ORDERS_H_

#include <string>

#include "impl/cuda/simt/simt.h"

namespace simt {

inline constexpr Schedule kOrders[] = {{Order::kForward, 0},
                                       {Order::kReverse, 0},
                                       {Order::kRandom, 1},
                                       {Order::kRandom, 2}};

// Runs `test` with the threads of launches in each order.
template <class Test>
void in_every_order(const Test& test) {
  for (const Schedule order : kOrders) {
    set_schedule(order);
    test(order);
  }
  set_schedule({});
}

inline std::string fault_text() {
  char text[200] = "no fault";
  const Fault fault = take_fault();
  if (fault.what != nullptr) {
    describe(fault, text, sizeof(text));
  }
  return text;
}

}  // namespace simt

#endif  // QKVET_IMPL_CUDA_SIMT_SIMT_ORDERS_H_
