// SPDX-License-Identifier: Apache-2.0
#include "cli/describe/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "core/base/read_file.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

// "" or the error in the first words; CLI11 would only report that some
// subcommand is required.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  int i = 1;
  // The program's own options are flags and come first.
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
        if (!one->get_group().empty())
          names += (names.empty() ? "" : ", ") + one->get_name();
      return "unknown command \"" + std::string(argv[i]) +
             "\"; allowed: " + names;
    }
    at = *known;
  }
  return "";
}

// "TEXT:{small,medium}" lists the allowed words.
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

// A script with a variable that is not set, and no option left out.
constexpr const char* kEmpty =
    "an empty value; leave the option out, or name one";

CLI::Option* with_a_value(CLI::Option* option) {
  option->check([](const std::string& value) {
    return std::string(value.empty() ? kEmpty : "");
  });
  return option;
}

// "" or the option with nothing after "=": CLI11 would take the next word.
std::string empty_value(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") break;
    if (word.starts_with("--") && word.ends_with('=') &&
        word.find('=') + 1 == word.size())
      return std::string(word.substr(0, word.size() - 1)) + ": " + kEmpty;
  }
  return "";
}

std::string listed(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ",") + word;
  return all;
}

std::set<const CLI::Option*>& output_options() {
  static std::set<const CLI::Option*> all;
  return all;
}

std::vector<CLI::Option*>& rare_options() {
  static std::vector<CLI::Option*> all;
  return all;
}

bool is_rare(const CLI::Option* option) {
  const auto& all = rare_options();
  return std::find(all.begin(), all.end(), option) != all.end();
}

// An option that changes the mode of its command, and the options allowed with
// it.
struct Mode {
  const CLI::App* command;
  const CLI::Option* option;
  std::vector<const CLI::Option*> taken;
};
std::vector<Mode>& modes() {
  static std::vector<Mode> all;
  return all;
}

std::string name_of(const CLI::Option& option) {
  return option.get_name(option.get_positional(), false);
}

// "" or the option that is not allowed in a mode, and those that are.
std::string beside_mode() {
  for (const Mode& mode : modes()) {
    if (mode.option->count() == 0) continue;
    const std::string name =
        mode.command->get_name() + " " + name_of(*mode.option);
    std::string allowed;
    for (const CLI::Option* option : mode.taken)
      allowed += (allowed.empty() ? "" : ", ") + name_of(*option);
    for (const CLI::Option* option : mode.command->get_options())
      if (option->count() > 0 && option != mode.option &&
          std::find(mode.taken.begin(), mode.taken.end(), option) ==
              mode.taken.end())
        return name + " takes no " + name_of(*option) + "; allowed: " + allowed;
  }
  return "";
}

// Includes the files in "@FILE", "FILE:config" and "LIB:FUNCTION:FILE".
void remember_files_in(std::string_view value) {
  if (value.starts_with('@')) value.remove_prefix(1);
  remember_input(std::string(value));
  for (size_t from = 0; from <= value.size();) {
    const size_t end = std::min(value.find(':', from), value.size());
    remember_input(std::string(value.substr(from, end - from)));
    from = end + 1;
  }
}

// The values of all options of the command that was chosen.
void collect_files(const CLI::App& app, std::vector<std::string>* outputs) {
  for (const CLI::Option* option : app.get_options())
    for (const std::string& value : option->results())
      if (output_options().contains(option))
        outputs->push_back(value);
      else
        remember_files_in(value);
  for (const CLI::App* command : app.get_subcommands())
    collect_files(*command, outputs);
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
  // The type without its checks.
  for (const char* kind : {"INT:", "UINT:", "FLOAT:", "TEXT:"})
    if (out.type.rfind(kind, 0) == 0) out.type.resize(out.type.find(':'));
  if (!option.get_default_str().empty())
    out.what += " [" + option.get_default_str() + "]";
  return out;
}

CommandDescription describe_app(const CLI::App& app) {
  CommandDescription out{app.get_name(), app.get_description(), {}, {}};
  // Options without a group are not in the help either.
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty() || is_rare(option))
      out.options.push_back(describe_option(*option));
  for (const CLI::App* command : app.get_subcommands({}))
    if (!command->get_group().empty())
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

CommandOption CommandOption::names_output() const {
  output_options().insert(option_);
  return *this;
}

CommandOption CommandOption::hide() const {
  option_->group("");
  return *this;
}

CommandOption CommandOption::excludes(CommandOption other) const {
  option_->excludes(other.option_);
  return *this;
}

CommandOption CommandOption::needs(CommandOption other) const {
  option_->needs(other.option_);
  return *this;
}

Command Command::add_command(const char* name, const char* what) const {
  return Command(app_->add_subcommand(name, what));
}

void Command::needs_a_command() const { app_->require_subcommand(1); }

template <class Value>
CommandOption Command::add_option(const std::string& names, Value& value,
                                  const std::string& what) const {
  return CommandOption(with_a_value(app_->add_option(names, value, what)));
}
#define QKVET_OPTION_OF(Value)                                           \
  template CommandOption Command::add_option(const std::string&, Value&, \
                                             const std::string&) const;
QKVET_OPTION_OF(std::string)
QKVET_OPTION_OF(std::vector<std::string>)
QKVET_OPTION_OF(int)
QKVET_OPTION_OF(int64_t)
QKVET_OPTION_OF(uint64_t)
QKVET_OPTION_OF(double)
QKVET_OPTION_OF(std::optional<int64_t>)
#undef QKVET_OPTION_OF

CommandOption Command::add_taker(
    const std::string& names,
    std::function<void(const std::vector<std::string>&)> take,
    const std::string& what) const {
  return CommandOption(with_a_value(
      app_->add_option_function<std::vector<std::string>>(names, take, what)));
}

CommandOption Command::add_flag(const std::string& names, bool& value,
                                const std::string& what) const {
  return CommandOption(app_->add_flag(names, value, what));
}

CommandOption Command::add_flag(const std::string& name, std::string& value,
                                const std::vector<std::string>& words,
                                const std::string& what) const {
  // CLI11 passes "true" for a flag without a word.
  const std::function<std::string(std::string)> word_of =
      [words](const std::string& word) {
        if (word == "true") return words[0];
        if (words.size() > 1 &&
            std::find(words.begin(), words.end(), word) == words.end())
          throw CLI::ValidationError(word + " not in {" + listed(words) + "}");
        return word;
      };
  return CommandOption(app_->add_flag(name, value, what)->transform(word_of));
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

void Command::takes_only(const std::string& mode,
                         const std::vector<std::string>& names) const {
  Mode added{app_, app_->get_option(mode), {}};
  for (const std::string& name : names)
    added.taken.push_back(app_->get_option(name));
  modes().push_back(std::move(added));
}

void Command::heading(const std::string& text,
                      const std::vector<std::string>& names) const {
  for (const std::string& name : names) app_->get_option(name)->group(text);
}

void Command::shows_headings_alone() const {
  for (CLI::Option* option : app_->get_options())
    if (option != app_->get_help_ptr() && !option->get_positional() &&
        option->get_group() == "Options")
      rare_options().push_back(option);
  footer("--help-all shows all options.");
}

Command Command::hide() const {
  app_->group("");
  return *this;
}

void Command::footer(const std::string& text) const {
  const std::string before = app_->get_footer();
  app_->footer(before.empty() ? text : before + "\n" + text);
}

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
  if (error->empty()) *error = empty_value(argc, argv);
  if (!error->empty()) return Read::kWrong;
  std::vector<char*> words(argv, argv + argc);
  char help[] = "--help";
  const auto all =
      std::find(words.begin(), words.end(), std::string_view("--help-all"));
  // A message names every option.
  if (all != words.end())
    *all = help;
  else if (std::any_of(words.begin(), words.end(), [](std::string_view word) {
             return word == "--help" || word == "-h";
           }))
    for (CLI::Option* option : rare_options()) option->group("");
  try {
    app_->parse(argc, words.data());
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
  *error = beside_mode();
  return error->empty() ? Read::kRun : Read::kWrong;
}

std::string CommandLine::bad_output() const {
  std::vector<std::string> outputs;
  collect_files(*app_, &outputs);
  std::set<std::string> seen;
  for (const std::string& path : outputs) {
    if (!seen.insert(path).second) return path + ": is named for two outputs";
    if (std::string why = not_writable_reason(path); !why.empty()) return why;
  }
  return "";
}

}  // namespace qkvet::cli
