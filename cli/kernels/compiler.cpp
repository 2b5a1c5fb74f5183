// SPDX-License-Identifier: Apache-2.0
#include "cli/kernels/compiler.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>

#include "cli/kernels/kernels.h"
#include "core/base/read_file.h"

namespace qkvet::cli {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_program(const fs::path& path) {
  std::error_code code;
  return fs::is_regular_file(path, code) && access(path.c_str(), X_OK) == 0;
}

// The program's absolute path, "" if there is none.
std::string on_path(const std::string& name) {
  std::error_code code;
  if (name.find('/') != std::string::npos)
    return is_program(name) ? fs::absolute(name, code).string() : "";
  const std::string path = environment("PATH");
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    const fs::path found = fs::path(path.substr(at, end - at)) / name;
    if (is_program(found)) return fs::absolute(found, code).string();
    at = end + 1;
  }
  return "";
}

struct Toolchain {
  const char* what;
  const char* variable;
  std::span<const char* const> names;
};

Toolchain toolchain_of(Language language) {
  static constexpr std::array kC = {"cc", "gcc", "clang"};
  static constexpr std::array kCxx = {"c++", "g++", "clang++"};
  static constexpr std::array kRust = {"rustc"};
  switch (language) {
    case Language::kC:
      return {"C", "CC", kC};
    case Language::kCxx:
      return {"C++", "CXX", kCxx};
    default:
      return {"Rust", "RUSTC", kRust};
  }
}

bool is_elf(const std::string& path) {
  std::array<char, 4> magic{};
  std::ifstream(path, std::ios::binary).read(magic.data(), magic.size());
  return magic == std::array<char, 4>{0x7f, 'E', 'L', 'F'};
}

}  // namespace

std::string source_language(const std::string& source, Language* language) {
  std::string wrong = not_readable_reason(source);
  if (!wrong.empty()) return wrong;
  // A compiler would read it all.
  std::error_code code;
  if (fs::file_size(source, code) > kMostTextBytes)
    return "more than " + std::to_string(kMostTextBytes) + " bytes";
  if (is_elf(source)) return "is a shared library; name it X.so";
  const std::string ending = fs::path(source).extension().string();
  if (ending == ".c") {
    *language = Language::kC;
  } else if (ending == ".cpp" || ending == ".cc" || ending == ".cxx" ||
             ending == ".cu") {
    *language = Language::kCxx;
  } else if (ending == ".rs") {
    *language = Language::kRust;
  } else {
    return "is no source that can be compiled; allowed endings: .c .cpp .cc "
           ".cxx .cu .rs";
  }
  return "";
}

Compiler find_compiler(Language language) {
  const Toolchain tools = toolchain_of(language);
  const std::string wish = environment(tools.variable);
  Compiler found;
  if (!wish.empty() && split_words(wish, &found.words) &&
      !found.words.empty()) {
    found.shown = wish;
    const std::string path = on_path(found.words[0]);
    if (path.empty())
      found.error = std::string("no ") + tools.what +
                    " compiler: " + tools.variable + " names \"" +
                    found.words[0] + "\", which is not there";
    found.words[0] = path;
    return found;
  }
  std::string looked_for = std::string("$") + tools.variable;
  for (const char* name : tools.names) {
    looked_for += std::string(", ") + name;
    const std::string path = on_path(name);
    if (!path.empty()) return {{path}, name, ""};
  }
  found.error = std::string("no ") + tools.what + " compiler: looked for " +
                looked_for + " on PATH";
  return found;
}

bool split_words(const std::string& text, std::vector<std::string>* words) {
  words->clear();
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      in_word = false;
      continue;
    }
    if (!in_word) words->emplace_back();
    in_word = true;
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      words->back() += text[++i];
    } else {
      words->back() += c;
    }
  }
  return quote == 0;
}

std::string shell_quoted(const std::string& word) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
      "_-+=./,:@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos)
    return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string shell_path(const std::string& path) {
  const std::string home = environment("HOME") + "/";
  if (home.size() < 2 || !path.starts_with(home)) return shell_quoted(path);
  const std::string rest = shell_quoted(path.substr(home.size()));
  return "~/" + rest;
}

std::string header_directory() {
  return (fs::path(program_directory()) / ".." / "include")
      .lexically_normal()
      .string();
}

std::vector<std::string> compile_arguments(
    Language language, const std::string& source, const std::string& output,
    const std::vector<std::string>& flags) {
  // Compilers read more out of names that begin with - or @.
  const bool odd = source.starts_with("-") || source.starts_with("@");
  const std::string file = odd ? "./" + source : source;
  // The emulator's headers make CUDA valid C++. By its ending, g++ would take
  // the file for an input of the linker, and clang++ would search for CUDA
  // itself.
  const bool cuda = fs::path(source).extension() == ".cu";
  std::vector<std::string> words;
  if (language == Language::kRust)
    words = {"--crate-type", "cdylib", "--crate-name", "qkvet_kernel",
             "--edition",    "2021",   "-C",           "opt-level=1",
             "-g",           file,     "-o",           output};
  else
    words = {language == Language::kC ? "-std=c11" : "-std=c++17",
             "-O1",
             "-g",
             "-shared",
             "-fPIC",
             "-I" + header_directory()};
  // Vector loads of CUDA read memory of one type as another, and its headers
  // are those of the emulator.
  if (cuda)
    words.insert(words.end(),
                 {"-fno-strict-aliasing",
                  "-I" + header_directory() + "/qkvet/simt/cuda", "-x", "c++"});
  if (language != Language::kRust) words.push_back(file);
  if (cuda) words.insert(words.end(), {"-x", "none"});
  if (language != Language::kRust) words.insert(words.end(), {"-o", output});
  words.insert(words.end(), flags.begin(), flags.end());
  if (language == Language::kC) words.emplace_back("-lm");
  return words;
}

std::vector<std::string> dependency_arguments(Language language,
                                              const std::string& dependencies) {
  if (language == Language::kRust)
    return {"--emit", "link,dep-info=" + dependencies};
  return {"-MMD", "-MF", dependencies, "-MT", "library"};
}

}  // namespace qkvet::cli
