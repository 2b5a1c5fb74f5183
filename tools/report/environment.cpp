// SPDX-License-Identifier: Apache-2.0
#include "tools/report/environment.h"

#include <sys/utsname.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>

namespace qkvet::tools {
namespace {

#if defined(__clang__)
constexpr const char* kCompiler = "clang " __VERSION__;
#else
constexpr const char* kCompiler = "gcc " __VERSION__;
#endif

// "model name : AMD EPYC ..."; "" where the system does not say.
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

Json environment_json() {
  utsname system{};
  uname(&system);
  Json json;
  json["qkvet"] = QKVET_VERSION;
  json["compiler"] = kCompiler;
  if (const std::string cpu = cpu_model(); !cpu.empty()) json["cpu"] = cpu;
  json["cores"] = std::thread::hardware_concurrency();
  json["system"] = std::string(system.sysname) + " " + system.release;
  json["machine"] = system.machine;
  json["began"] = utc_now();
  return json;
}

}  // namespace qkvet::tools
