// SPDX-License-Identifier: Apache-2.0
#include "cli/kernels/build_cache.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/base/child.h"
#include "cli/kernels/compiler.h"
#include "core/base/read_file.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

namespace fs = std::filesystem;

// FNV-1a of 64 bits: a cache of one user's kernels guards against accident, not
// against malice.
class Hash {
 public:
  void add(const std::string& text) {
    for (const char c : text) mix(static_cast<unsigned char>(c));
    mix(0x100);  // no byte: the end of a text
  }
  std::string text() const { return fmt::format("{:016x}", state_); }

 private:
  void mix(uint64_t value) {
    constexpr uint64_t kPrime = 0x100000001b3;
    state_ = (state_ ^ value) * kPrime;
  }
  uint64_t state_ = 0xcbf29ce484222325;
};

std::string hash_of_file(const std::string& path) {
  std::string text;
  if (!read_file(path, &text).empty()) return "none";
  Hash hash;
  hash.add(text);
  return hash.text();
}

// A compiler that is replaced has another size or time.
std::string stamp_of(const std::string& program) {
  struct stat info {};
  if (stat(program.c_str(), &info) != 0) return program;
  return fmt::format("{} {} {}.{}", program, info.st_size, info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec);
}

// "target: a b\ c \<newline> d" of a make rule: a, "b c", d.
std::vector<std::string> rule_files(const std::string& rule) {
  std::vector<std::string> files;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) files.push_back(word);
    word.clear();
  };
  const size_t colon = rule.find(": ");
  for (size_t i = colon + 2; colon != std::string::npos && i < rule.size();
       ++i) {
    const char c = rule[i], next = i + 1 < rule.size() ? rule[i + 1] : '\n';
    if (c == '\\' && next != '\n') {
      word += next;
      ++i;
    } else if (c == '$' && next == '$') {
      word += '$';
      ++i;
    } else if (c == '\n') {
      break;
    } else if (c == ' ' || c == '\\') {
      end_word();
      if (c == '\\') ++i;
    } else {
      word += c;
    }
  }
  end_word();
  return files;
}

// One line per header, "hash path". Paths are relative to the working folder,
// which is part of the library's name.
std::string header_list(const std::string& rule) {
  std::string out;
  for (const std::string& file : rule_files(rule))
    out += hash_of_file(file) + " " + file + "\n";
  return out;
}

bool is_current(const std::string& library, const std::string& list) {
  std::error_code code;
  std::ifstream lines(list);
  if (!fs::exists(library, code) || !lines) return false;
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.find(' ');
    if (space == std::string::npos ||
        hash_of_file(line.substr(space + 1)) != line.substr(0, space))
      return false;
  }
  return true;
}

// Removes libraries that were unused for a month.
void remove_old(const std::string& directory) {
  constexpr auto kKept = std::chrono::hours(24 * 30);
  const auto now = fs::file_time_type::clock::now();
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(directory, code)) {
    const auto time = entry.last_write_time(code);
    if (!code && now - time > kKept) fs::remove(entry.path(), code);
  }
}

// One build: the command, and the paths of its files.
struct Build {
  std::string source;
  Language language = Language::kCxx;
  Compiler compiler;
  std::vector<std::string> flags;
  std::string library, list;

  std::string line() const {
    std::string out = compiler.shown;
    for (const std::string& word :
         compile_arguments(language, source, library, flags))
      out += " " + (word == library ? shell_path(word) : shell_quoted(word));
    return out;
  }
};

// The library's name, without an ending.
std::string name_of(const Build& build) {
  Hash hash;
  std::string text;
  read_file(build.source, &text);
  hash.add(text);
  hash.add(build.source);
  std::error_code code;
  hash.add(fs::current_path(code).string());
  for (const std::string& word : build.compiler.words) hash.add(word);
  hash.add(stamp_of(build.compiler.words[0]));
  for (const std::string& word :
       compile_arguments(build.language, build.source, "", build.flags))
    hash.add(word);
  return fs::path(build.source).stem().string() + "-" + hash.text();
}

// "" or one line. The files appear under their names only when all is done, so
// that two runs at once do no harm.
std::string compile(const Build& build) {
  const std::string part = fmt::format("{}.{}.part", build.library, getpid());
  const std::string rule = part + ".d";
  std::vector<std::string> words = build.compiler.words;
  for (const auto& more :
       {compile_arguments(build.language, build.source, part, build.flags),
        dependency_arguments(build.language, rule)})
    words.insert(words.end(), more.begin(), more.end());
  // The options that only list headers are not shown: they change nothing.
  fmt::print("{}\n", build.line());
  std::fflush(stdout);
  const ChildResult ran = run_child(words);
  std::fputs(ran.output.c_str(), stderr);
  std::string text, error = ran.error;
  if (error.empty() && !ran.ended_well())
    error = "does not compile (" + build.compiler.shown + " " + ran.end() + ")";
  if (error.empty()) {
    read_file(rule, &text);
    error = write_file(build.list, header_list(text));
  }
  if (error.empty() && std::rename(part.c_str(), build.library.c_str()) != 0)
    error = "the compiler wrote no library";
  std::remove(part.c_str());
  std::remove(rule.c_str());
  return error;
}

// "" or one line: `path` is there, is ours and can be written.
std::string make_directory(const fs::path& path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (!fs::is_directory(path, code))
    return path.string() + ": the cache directory cannot be made";
  if (access(path.c_str(), W_OK | X_OK) != 0)
    return path.string() + ": the cache directory cannot be written";
  return "";
}

}  // namespace

std::string cache_directory(std::string* error) {
  const char* asked = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  fs::path path;
  // The specification: a relative path is to be ignored.
  if (asked != nullptr && asked[0] == '/')
    path = fs::path(asked) / "qkvet";
  else if (home != nullptr && home[0] == '/')
    path = fs::path(home) / ".cache" / "qkvet";
  if (!path.empty()) {
    *error = make_directory(path);
    if (error->empty()) return path.string();
  }
  std::error_code code;
  path = fs::temp_directory_path(code) / fmt::format("qkvet-{}", getuid());
  if (code) path = fmt::format("/tmp/qkvet-{}", getuid());
  mkdir(path.c_str(), 0700);
  // Anybody may have made a folder of this name; libraries are loaded from it.
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) ||
      info.st_uid != getuid() || (info.st_mode & 0022) != 0) {
    *error = path.string() + ": is not a cache directory of this user's own";
    return "";
  }
  *error = make_directory(path);
  return error->empty() ? path.string() : "";
}

BuiltKernel build_kernel(const std::string& source, const std::string& flags) {
  const auto no = [&](const std::string& reason) {
    return BuiltKernel{"", source + ": " + reason};
  };
  Build build;
  build.source = source;
  std::string error = source_language(source, &build.language);
  if (!error.empty()) return no(error);
  if (!split_words(flags, &build.flags))
    return {"", "--cflags: a quote is not closed"};
  build.compiler = find_compiler(build.language);
  if (!build.compiler.error.empty()) return no(build.compiler.error);
  const std::string directory = cache_directory(&error);
  if (!error.empty()) return {"", error};
  const std::string stem = directory + "/" + name_of(build);
  build.library = stem + ".so";
  build.list = stem + ".headers";
  if (is_current(build.library, build.list)) {
    std::error_code code;
    const auto now = fs::file_time_type::clock::now();
    fs::last_write_time(build.library, now, code);
    fs::last_write_time(build.list, now, code);
  } else {
    error = compile(build);
    remove_old(directory);
  }
  return error.empty() ? BuiltKernel{build.library, ""} : no(error);
}

}  // namespace qkvet::cli
