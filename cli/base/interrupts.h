// SPDX-License-Identifier: Apache-2.0
// Ctrl-C as a request: the current work ends in good order and reports its
// findings so far. A second Ctrl-C has its usual effect: it ends a program, and
// raises KeyboardInterrupt in an interpreter.
#ifndef QKVET_CLI_BASE_INTERRUPTS_H_
#define QKVET_CLI_BASE_INTERRUPTS_H_

#include <csignal>

namespace qkvet::cli {

// While one of these lives; there is one at a time.
class Interrupts {
 public:
  Interrupts() {
    interrupted_ = 0;
    struct sigaction action {};
    action.sa_handler = [](int /*signal*/) {
      interrupted_ = 1;
      sigaction(SIGINT, &before_, nullptr);
    };
    sigaction(SIGINT, nullptr, &before_);
    sigaction(SIGINT, &action, nullptr);
  }
  ~Interrupts() { sigaction(SIGINT, &before_, nullptr); }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  static bool seen() { return interrupted_ != 0; }

 private:
  static inline volatile sig_atomic_t interrupted_ = 0;
  static inline struct sigaction before_ {};
};

}  // namespace qkvet::cli

#endif  // QKVET_CLI_BASE_INTERRUPTS_H_
