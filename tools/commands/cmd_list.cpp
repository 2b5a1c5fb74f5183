// SPDX-License-Identifier: Apache-2.0
// qkvet list: kernels, laws and faults, with what they say of themselves.
#include <fmt/core.h>

#include <cstdio>

#include "core/base/json.h"
#include "properties/judging/law.h"
#include "tools/report/commands.h"

namespace qkvet::tools {
namespace {

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

void list_laws(bool json) {
  if (!json) print("laws\n");
  for (const Law* law : all_laws()) {
    if (json)
      print(json_text(Json{{"type", "law"},
                           {"id", law->id},
                           {"subject", subject_text(law->aim.subject)},
                           {"sentence", law->sentence},
                           {"formula", law->formula},
                           {"precondition", law->precondition},
                           {"reason", law->reason},
                           {"rounding", law->rounding},
                           {"earns", law->earns}}) +
            "\n");
    else
      print(fmt::format("  {}\n      {}\n", law->id, law->sentence));
  }
}

void print_kernel(const KernelInfo& info, const std::string& unavailable,
                  bool json) {
  if (json) {
    Json line{{"type", info.fault ? "fault" : "kernel"},
              {"name", info.name},
              {"description", info.description},
              {"source", info.source_file},
              {"line", info.source_line}};
    if (!unavailable.empty()) line["unavailable"] = unavailable;
    if (info.fault) {
      line["mechanism"] = info.fault->mechanism;
      line["symptom"] = info.fault->symptom;
      line["fix"] = info.fault->fix;
      line["when"] = info.fault->when;
      line["killed_by"] = info.fault->killed_by;
    }
    print(json_text(line) + "\n");
    return;
  }
  print(fmt::format("  {:<28} {}\n", info.name, info.description));
  if (!unavailable.empty())
    print(fmt::format("  {:<28} not on this machine: {}\n", "", unavailable));
}

// Kernels and faults both live in families; a kernel with fault metadata is a
// fault.
ExitCode list_family(const Family& family, bool faults, bool json) {
  const Opened opened =
      open_sandbox({family_path(family), ""}, {.worker = worker_path()});
  if (opened.executor == nullptr) return wrong_use(opened.error);
  const std::vector<KernelInfo> infos = opened.executor->kernels();
  for (size_t i = 0; i < infos.size(); ++i)
    if (infos[i].fault.has_value() == faults)
      print_kernel(infos[i],
                   unavailable_reason(*opened.executor, static_cast<int>(i)),
                   json);
  return kConforms;
}

ExitCode list_kernels(bool faults, bool json) {
  if (!json)
    print(faults ? "faults (laws must fail them; never judged by default)\n"
                 : "kernels\n");
  std::vector<const Family*> missing;
  for (const Family& family : families()) {
    if (!why_missing(family).empty()) {
      if ((&family == &faults_family()) == faults) missing.push_back(&family);
      continue;
    }
    if (const ExitCode code = list_family(family, faults, json);
        code != kConforms)
      return code;
  }
  if (!json)
    for (const std::string& why : why_missing(missing))
      print("  " + why + "\n");
  return kConforms;
}

}  // namespace

ExitCode run_list(const ListOptions& options) {
  // Nothing else could be listed.
  if (options.what == "faults")
    if (const std::string why = why_missing(faults_family()); !why.empty())
      return wrong_use(why);
  if (options.what.empty() || options.what == "laws") list_laws(options.json);
  for (const bool faults : {false, true}) {
    if (!options.what.empty() &&
        options.what != (faults ? "faults" : "kernels"))
      continue;
    if (const ExitCode code = list_kernels(faults, options.json);
        code != kConforms)
      return code;
  }
  return kConforms;
}

}  // namespace qkvet::tools
