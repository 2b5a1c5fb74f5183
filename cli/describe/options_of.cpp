// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cli/describe/pages.h"

namespace qkvet::cli {

std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  return command.get_options(
      [](const CLI::Option* option) { return !option->get_group().empty(); });
}

std::vector<const CLI::App*> commands_of(const CLI::App& command) {
  return command.get_subcommands(
      [](const CLI::App* one) { return !one->get_group().empty(); });
}

std::vector<std::string> names_of(const CLI::Option& option) {
  if (option.get_positional()) return {option.get_name(true)};
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames())
    names.push_back("-" + name);
  for (const std::string& name : option.get_lnames())
    names.push_back("--" + name);
  return names;
}

bool repeats(const CLI::Option& option) {
  return option.get_items_expected_max() > 1;
}

std::string help_of(const CLI::Option& option) {
  const std::string start = option.get_default_str();
  return option.get_description() + (start.empty() ? "" : " [" + start + "]");
}

// CLI11 adds descriptions of the checks: "TEXT:{small,medium}".
std::string type_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  const std::string type = option.get_type_name();
  for (const char* kind : {"INT:", "UINT:", "FLOAT:", "TEXT:"})
    if (type.rfind(kind, 0) == 0) return type.substr(0, type.find(':'));
  return type;
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return {};
  const std::string type = option.get_type_name();
  const size_t open = type.find('{'), close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

}  // namespace qkvet::cli
