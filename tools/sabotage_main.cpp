// SPDX-License-Identifier: Apache-2.0
// Every pair under every law, with the right oracle and with the one that
// shares the fault: a line of JSON for each. Usage: sabotage [CASES]
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tools/sabotage.h"

namespace qkvet {
namespace {

constexpr int64_t kDefaultCases = 150;  // per pair, oracle and law
constexpr int kBadUsage = 2;

void print(const SabotagePair& pair, bool shares, const Law& law,
           const SabotageResult& result) {
  const bool needs_no_oracle =
      std::string_view(law.earns).find("(d)") != std::string_view::npos;
  const std::string seeded(seeded_fault_name(pair.seeded));
  std::printf(
      "{\"fault\":\"%s\",\"seeded\":\"%s\",\"oracle\":\"%s\",\"law\":\"%s\","
      "\"needs_no_oracle\":%s,\"killed\":%s,\"checked\":%lld}\n",
      pair.fault, seeded.c_str(), shares ? seeded.c_str() : "plain", law.id,
      needs_no_oracle ? "true" : "false", result.killed ? "true" : "false",
      static_cast<long long>(result.checked));
}

int run_all(int64_t cases) {
  Sabotage sabotage;
  if (!sabotage.error().empty()) {
    std::fprintf(stderr, "sabotage: %s\n", sabotage.error().c_str());
    return kBadUsage;
  }
  for (const SabotagePair& pair : sabotage_pairs())
    for (const bool shares : {false, true})
      for (const Law* law : Sabotage::laws()) {
        const Oracle oracle = shares ? pair.oracle : plain_forward;
        print(pair, shares, *law, sabotage.run(pair, oracle, *law, cases));
      }
  return 0;
}

}  // namespace
}  // namespace qkvet

int main(int argc, char** argv) {
  int64_t cases = qkvet::kDefaultCases;
  if (argc > 1) {
    char* end = nullptr;
    cases = std::strtoll(argv[1], &end, 10);
    if (argc > 2 || *end != '\0' || cases < 1) {
      std::fprintf(stderr, "usage: sabotage [CASES]\n");
      return qkvet::kBadUsage;
    }
  }
  return qkvet::run_all(cases);
}
