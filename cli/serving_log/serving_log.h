// SPDX-License-Identifier: Apache-2.0
// For tests: a log like that of a serving system. Requests come and go; a
// prompt of 5 .. 60 tokens, in one step or in chunks, then token by token,
// sometimes four drafted tokens some of which are removed again, sometimes a
// fork.
#ifndef QKVET_CLI_SERVING_LOG_SERVING_LOG_H_
#define QKVET_CLI_SERVING_LOG_SERVING_LOG_H_

#include <cstdint>
#include <string>

namespace qkvet::cli {

struct ServingOptions {
  int64_t commands = 2000;
  uint64_t seed = 1;
  int64_t most_live = 24;  // requests at a time
  int64_t capacity = 256;
  std::string form = {};  // of the cache: ",win16,rollback8"
  bool forks = false;     // and reorders; not every cache offers them
  bool refused = false;   // now and then a step beyond the capacity
};

// A recording (core/story/story_log.h): a pure function of the options.
std::string serving_log(const ServingOptions& options);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_SERVING_LOG_SERVING_LOG_H_
