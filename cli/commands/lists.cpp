// SPDX-License-Identifier: Apache-2.0
// qkvet explain with the name of a list: kernels, laws, faults, fuzz targets,
// golden sets and conventions, with their descriptions.
#include "cli/commands/lists.h"

#include <fmt/core.h>

#include <cstdio>

#include "cli/commands/convention_text.h"
#include "cli/golden/golden_folders.h"
#include "cli/terminal/select.h"
#include "fuzz/targets/target.h"
#include "properties/judging/law.h"

namespace qkvet::cli {
namespace {

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

void list_laws(bool json) {
  if (!json) print("laws\n");
  for (const Law* law : all_laws()) {
    if (json)
      print(json_text(Json{{"type", "law"},
                           {"id", law->id},
                           {"subject", subject_text(law->domain.subject)},
                           {"sentence", law->sentence},
                           {"formula", law->formula},
                           {"precondition", law->precondition},
                           {"reason", law->reason},
                           {"rounding", law->rounding},
                           {"earns", law->kept_for}}) +
            "\n");
    else
      print(fmt::format("  {}\n      {}\n", law->id, law->sentence));
  }
}

void print_kernel(const KernelInfo& info, const std::string& unavailable,
                  bool json) {
  if (json) {
    Json line = kernel_line(info, unavailable);
    if (info.fault) {
      line["when"] = info.fault->when;
      line["cause"] = info.fault->cause;
      line["fix"] = info.fault->fix;
      line["seen_in"] = info.fault->source;
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

ExitCode list_fuzz_targets(bool json) {
  if (!json) std::puts("fuzz targets");
  for (const FuzzTarget* target : fuzz_targets()) {
    if (!json) {
      fmt::print("  {:<16} {}\n", target->name, target->sentence);
      continue;
    }
    Json line{{"type", "fuzz"},
              {"name", target->name},
              {"sentence", target->sentence}};
    line["laws"] = Json::array();
    if (target->about_kernels())
      for (const Law* law : laws_of(*target)) line["laws"].push_back(law->id);
    std::puts(json_text(line).c_str());
  }
  return kConforms;
}

ExitCode list_golden(bool json) {
  GoldenFolder folder;
  const std::string wrong = read_golden_folder(golden_folder(), &folder);
  if (!wrong.empty()) return wrong_use(wrong);
  size_t width = 0;
  for (const GoldenSet& set : folder.sets)
    width = std::max(width, set.name.size());
  if (!json) std::puts("golden sets");
  for (const GoldenSet& set : folder.sets) {
    if (!json) {
      fmt::print("  {:<{}}  {} ({}){}\n", set.name, width, set.pins, set.source,
                 set.finding.empty() ? "" : "; finding: " + set.finding);
      continue;
    }
    const Json line{{"type", "golden"},
                    {"name", set.name},
                    {"case", set.metadata.at("case")},
                    {"pins", set.pins},
                    {"source", set.source},
                    {"arithmetic", arithmetic_name(set.arithmetic)},
                    {"finding", set.finding}};
    std::puts(json_text(line).c_str());
  }
  return kConforms;
}

}  // namespace

Json kernel_line(const KernelInfo& info, const std::string& unavailable) {
  Json line{{"type", info.fault ? "fault" : "kernel"},
            {"name", info.name},
            {"description", info.description},
            {"source", info.source_file},
            {"line", info.source_line}};
  if (!unavailable.empty()) line["unavailable"] = unavailable;
  return line;
}

ExitCode show_lists(const ListOptions& options) {
  if (options.what == "fuzz") return list_fuzz_targets(options.json);
  if (options.what == "golden") return list_golden(options.json);
  if (options.what == "conventions") return list_conventions(options.json);
  // There would be nothing to list.
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

}  // namespace qkvet::cli
