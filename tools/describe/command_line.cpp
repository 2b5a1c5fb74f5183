// SPDX-License-Identifier: Apache-2.0
#include "tools/describe/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

namespace qkvet::tools {
namespace {

// "" or what is wrong with the first words; CLI11 would only say that some
// subcommand is required.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  int i = 1;
  // The program's own options are flags, and stand in front.
  while (i < argc && argv[i][0] == '-') ++i;
  for (; i < argc && argv[i][0] != '-'; ++i) {
    const auto commands = at->get_subcommands({});
    if (commands.empty()) return "";
    const auto known = std::find_if(
        commands.begin(), commands.end(),
        [&](const CLI::App* one) { return one->get_name() == argv[i]; });
    if (known == commands.end()) {
      std::string names;
      for (const CLI::App* one : commands)
        names += (names.empty() ? "" : ", ") + one->get_name();
      return "unknown command \"" + std::string(argv[i]) +
             "\"; allowed: " + names;
    }
    at = *known;
  }
  return "";
}

// "TEXT:{small,medium}" are the words that it takes.
std::vector<std::string> choices_in(const std::string& type) {
  const size_t open = type.find('{'), close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  std::vector<std::string> out;
  for (size_t from = open + 1; from < close;) {
    const size_t comma = std::min(type.find(',', from), close);
    out.push_back(type.substr(from, comma - from));
    from = comma + 1;
  }
  return out;
}

OptionDescription describe_option(const CLI::Option& option) {
  OptionDescription out;
  out.positional = option.get_positional();
  if (out.positional) out.names.push_back(option.get_name(true, false));
  if (!out.positional)
    for (const auto& name : option.get_snames())
      out.names.push_back("-" + name);
  if (!out.positional)
    for (const auto& name : option.get_lnames())
      out.names.push_back("--" + name);
  out.what = option.get_description();
  out.required = option.get_required();
  out.repeats = option.get_items_expected_max() > 1;
  if (option.get_items_expected_max() == 0) return out;
  out.type = option.get_type_name();
  out.choices = choices_in(out.type);
  // What it is, without how it is checked.
  for (const char* kind : {"INT:", "UINT:", "FLOAT:", "TEXT:"})
    if (out.type.rfind(kind, 0) == 0) out.type.resize(out.type.find(':'));
  if (!option.get_default_str().empty())
    out.what += " [" + option.get_default_str() + "]";
  return out;
}

CommandDescription describe_app(const CLI::App& app) {
  CommandDescription out{app.get_name(), app.get_description(), {}, {}};
  // What is in no group is not in the help either.
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty())
      out.options.push_back(describe_option(*option));
  for (const CLI::App* command : app.get_subcommands({}))
    out.commands.push_back(describe_app(*command));
  return out;
}

}  // namespace

CommandOption CommandOption::type_name(const std::string& name) const {
  option_->type_name(name);
  return *this;
}

CommandOption CommandOption::required() const {
  option_->required();
  return *this;
}

CommandOption CommandOption::one_at_a_time() const {
  option_->allow_extra_args(false);
  return *this;
}

CommandOption CommandOption::shows_default() const {
  option_->capture_default_str();
  return *this;
}

template <class Number>
CommandOption CommandOption::within(Number low, Number high) const {
  option_->check(CLI::Range(low, high));
  return *this;
}
template CommandOption CommandOption::within(int, int) const;
template CommandOption CommandOption::within(int64_t, int64_t) const;
template CommandOption CommandOption::within(size_t, size_t) const;
template CommandOption CommandOption::within(double, double) const;

CommandOption CommandOption::one_of(
    const std::vector<std::string>& words) const {
  option_->check(CLI::IsMember(words));
  return *this;
}

CommandOption CommandOption::excludes(CommandOption other) const {
  option_->excludes(other.option_);
  return *this;
}

Command Command::add_command(const char* name, const char* what) const {
  return Command(app_->add_subcommand(name, what));
}

void Command::needs_a_command() const { app_->require_subcommand(1); }

template <class Value>
CommandOption Command::add_option(const std::string& names, Value& value,
                                  const std::string& what) const {
  return CommandOption(app_->add_option(names, value, what));
}
#define QKVET_OPTION_OF(Value)                                           \
  template CommandOption Command::add_option(const std::string&, Value&, \
                                             const std::string&) const;
QKVET_OPTION_OF(std::string)
QKVET_OPTION_OF(std::vector<std::string>)
QKVET_OPTION_OF(int)
QKVET_OPTION_OF(int64_t)
QKVET_OPTION_OF(std::optional<int64_t>)
QKVET_OPTION_OF(uint64_t)
QKVET_OPTION_OF(double)
#undef QKVET_OPTION_OF

CommandOption Command::add_taker(
    const std::string& names,
    std::function<void(const std::vector<std::string>&)> take,
    const std::string& what) const {
  return CommandOption(
      app_->add_option_function<std::vector<std::string>>(names, take, what));
}

CommandOption Command::add_flag(const std::string& names, bool& value,
                                const std::string& what) const {
  return CommandOption(app_->add_flag(names, value, what));
}

void Command::refuse_option(const std::string& name,
                            const std::string& reason) const {
  app_->add_option_function<std::string>(
          name,
          [name, reason](const std::string& value) {
            throw CLI::ValidationError(name + " " + value, reason);
          })
      ->group("");
}

CommandOption Command::option(const std::string& name) const {
  return CommandOption(app_->get_option(name));
}

void Command::footer(const std::string& text) const { app_->footer(text); }

void Command::when_chosen(std::function<void()> act) const {
  app_->callback(std::move(act));
}

Command Command::program() const {
  CLI::App* app = app_;
  while (app->get_parent() != nullptr) app = app->get_parent();
  return Command(app);
}

CommandDescription Command::describe() const { return describe_app(*app_); }

CommandLine::CommandLine(const std::string& what, const std::string& name,
                         const char* version)
    : app_(std::make_unique<CLI::App>(what, name)) {
  if (version != nullptr) app_->set_version_flag("--version", version);
}

CommandLine::~CommandLine() = default;

CommandLine::Read CommandLine::read(int argc, char** argv,
                                    std::string* error) const {
  *error = unknown_command(*app_, argc, argv);
  if (!error->empty()) return Read::kWrong;
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    app_->exit(help);
    return Read::kShown;
  } catch (const CLI::CallForVersion& shown) {
    app_->exit(shown);
    return Read::kShown;
  } catch (const CLI::ParseError& wrong) {
    *error = wrong.what();
    std::replace(error->begin(), error->end(), '\n', ' ');
    *error += " (--help shows what is allowed)";
    return Read::kWrong;
  }
  return Read::kRun;
}

}  // namespace qkvet::tools
