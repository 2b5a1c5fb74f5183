// SPDX-License-Identifier: Apache-2.0
// Every pair under every law, with the right oracle and with the one that
// shares the fault: a line of JSON for each, and on stderr the laws that kill
// each pair. Fails if a pair survives without a known reason. Usage: sabotage
// [CASES]
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "cli/base/arguments.h"
#include "cli/hunt/sabotage.h"

namespace qkvet::cli {
namespace {

constexpr int64_t kCasesOfAPair = 150;  // for each oracle and law

void print(const SabotageLine& line) {
  const bool needs_no_oracle =
      std::string_view(line.law->kept_for).find("(d)") !=
      std::string_view::npos;
  const std::string seeded(seeded_fault_name(line.pair->seeded));
  std::printf(
      "{\"fault\":\"%s\",\"seeded\":\"%s\",\"oracle\":\"%s\",\"law\":\"%s\","
      "\"needs_no_oracle\":%s,\"killed\":%s,\"checked\":%lld}\n",
      line.pair->fault, seeded.c_str(), line.shares ? seeded.c_str() : "plain",
      line.law->id, needs_no_oracle ? "true" : "false",
      line.result.killed ? "true" : "false",
      static_cast<long long>(line.result.checked));
}

int run_all(int64_t cases) {
  std::string error;
  const std::vector<SabotageLine> lines =
      run_sabotage(cases, jobs_or_cores(0), &error);
  if (!error.empty()) {
    std::fprintf(stderr, "sabotage: %s\n", error.c_str());
    return kWrongUse;
  }
  for (const SabotageLine& line : lines) print(line);
  std::fputs(sabotage_text(lines).c_str(), stderr);
  return sabotage_exit(lines);
}

}  // namespace
}  // namespace qkvet::cli

int main(int argc, char** argv) {
  int64_t cases = qkvet::cli::kCasesOfAPair;
  if (argc > 1) {
    char* end = nullptr;
    cases = std::strtoll(argv[1], &end, 10);
    if (argc > 2 || *end != '\0' || cases < 1) {
      std::fprintf(stderr, "usage: sabotage [CASES]\n");
      return qkvet::cli::ExitCode::kWrongUse;
    }
  }
  return qkvet::cli::run_all(cases);
}
