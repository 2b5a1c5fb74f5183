// SPDX-License-Identifier: Apache-2.0
// qkvet new: writes a kernel that compiles and conforms, or a task, for the
// user to change. The texts are the files in templates/.
#include <fmt/core.h>

#include <cstring>
#include <filesystem>
#include <string_view>

#include "cli/commands/flags.h"
#include "cli/kernels/compiler.h"
#include "cli/kernels/write_new.h"
#include "cli/terminal/select.h"

namespace qkvet::cli {
namespace {

struct NewOptions {
  std::string file;
  std::string kind;  // "": by the file's ending
};

namespace fs = std::filesystem;

struct Template {
  std::string_view ending;
  std::string_view kind;
  std::string_view text;
};

constexpr Template kTemplates[] = {
#include QKVET_TEMPLATES
};

// The ending of the templates for a file, "" if there is none.
std::string_view template_ending(const std::string& file) {
  const std::string ending = fs::path(file).extension().string();
  if (ending == ".cc" || ending == ".cxx") return ".cpp";
  for (const Template& one : kTemplates)
    if (one.ending == ending) return one.ending;
  return "";
}

// "plain, abi, ...", each once.
std::string template_names() {
  std::string names;
  for (const Template& one : kTemplates) {
    const std::string name(one.kind);
    if ((", " + names + ", ").find(", " + name + ", ") != std::string::npos)
      continue;
    names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

// The template, or null with one line in *error.
const Template* find_template(const NewOptions& options, std::string* error) {
  const std::string_view ending = template_ending(options.file);
  if (ending.empty()) {
    *error = options.file +
             ": no template has this ending; allowed: .cpp .cc .cxx .c .cu .rs "
             ".toml";
    return nullptr;
  }
  const Template* other = nullptr;  // of the wanted name
  for (const Template& one : kTemplates) {
    const bool wanted = options.kind.empty() || one.kind == options.kind;
    if (wanted && one.ending == ending) return &one;
    if (wanted) other = &one;
  }
  *error = other == nullptr
               ? "no template is named \"" + options.kind +
                     "\"; allowed: " + template_names()
               : options.file + ": template " + options.kind + " is for " +
                     std::string(other->ending) + " files";
  return nullptr;
}

// "my attention.cpp" makes family my_attention: kernel names are [a-z0-9_].
std::string family_of(const std::string& file) {
  std::string name = fs::path(file).stem().string();
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9')) c = '_';
  }
  return name;
}

// The text in the user's name: his family, and no licence of ours on top.
std::string text_for(const Template& one, const std::string& file) {
  std::string text(one.text);
  constexpr std::string_view kLicence = "SPDX-License-Identifier: Apache-2.0\n";
  const size_t licence = text.find(kLicence);
  // "// SPDX" is a separate line; "/* SPDX" opens the comment that follows.
  const size_t line = text.starts_with("/*") ? licence : 0;
  size_t end = licence + kLicence.size();
  if (line > 0) end = text.find_first_not_of(" *", end);
  text.erase(line, end - line);
  const std::string family = family_of(file);
  for (const std::string_view quoted : {"\"mine/", "\"mine\""})
    for (size_t at = 0; (at = text.find(quoted, at)) != std::string::npos;
         at += family.size() + 1)
      text.replace(at + 1, std::strlen("mine"), family);
  return text;
}

ExitCode run(const NewOptions& options) {
  std::string error;
  const Template* one = find_template(options, &error);
  if (one == nullptr) return wrong_use(error);
  std::error_code code;
  const fs::path folder = fs::path(options.file).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, code))
    return wrong_use(options.file + ": the directory is not there");
  error = write_new(options.file, text_for(*one, options.file));
  if (!error.empty()) return wrong_use(error);
  const std::string name = shell_quoted(options.file);
  if (one->kind == "task") {
    fmt::print("{}: a task for candidates of a kernel\n", options.file);
    fmt::print("next: qkvet verdict {} candidate.py\n", name);
    return kConforms;
  }
  fmt::print("{}: template {}, compiles and conforms as it is\n", options.file,
             one->kind);
  fmt::print("next: qkvet check {}\n", name);
  return kConforms;
}

void add_flags(CLI::App& command, NewOptions& options) {
  command
      .add_option("file", options.file,
                  "New file: .c, .cpp, .cc, .cxx, .cu, .rs or .toml")
      ->required();
  command
      .add_option("-t,--template", options.kind,
                  "plain (dense f32), abi (all options), cache, plan, "
                  "rust, cuda, task")
      ->type_name("NAME");
}

}  // namespace

void add_new(CLI::App& app, Chosen& chosen) {
  add_command<NewOptions>(app, chosen, "new",
                          "Write a conforming kernel, or a task, to start from",
                          add_flags, run);
}

}  // namespace qkvet::cli
