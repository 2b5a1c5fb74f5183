// SPDX-License-Identifier: Apache-2.0
// Prints a recording of a simulated serving system, for qkvet replay.
#include <cstdio>
#include <cstdlib>

#include "cli/serving_log/serving_log.h"

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4 || std::atoll(argv[1]) < 1) {
    std::fprintf(stderr, "usage: serving_log COMMANDS [SEED [forks]]\n");
    return 2;
  }
  qkvet::cli::ServingOptions options;
  options.commands = std::atoll(argv[1]);
  if (argc > 2) options.seed = std::strtoull(argv[2], nullptr, 10);
  options.forks = argc > 3;
  std::fputs(qkvet::cli::serving_log(options).c_str(), stdout);
  return 0;
}
