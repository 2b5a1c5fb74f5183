// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal/environment.h"

#include <sys/utsname.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>

namespace qkvet::cli {
namespace {

#if defined(__clang__)
constexpr const char* kCompiler = "clang " __VERSION__;
#else
constexpr const char* kCompiler = "gcc " __VERSION__;
#endif

// "model name : AMD EPYC ..."; "" if the system does not provide it.
std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t from = line.find(": ");
    return from == std::string::npos ? "" : line.substr(from + 2);
  }
  return "";
}

std::string utc_now() {
  const std::time_t now =
      std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

Environment environment() {
  utsname system{};
  uname(&system);
  return {QKVET_VERSION,
          kCompiler,
          cpu_model(),
          std::thread::hardware_concurrency(),
          std::string(system.sysname) + " " + system.release,
          system.machine,
          utc_now()};
}

}  // namespace qkvet::cli
