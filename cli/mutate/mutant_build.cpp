// SPDX-License-Identifier: Apache-2.0
#include "cli/mutate/mutant_build.h"

#include <elf.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "cli/base/child.h"
#include "core/base/read_file.h"
#include "core/base/sha256.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

namespace fs = std::filesystem;

// A header of a section, or a section's name; false beyond the file's end.
template <class T>
bool take(const std::string& bytes, size_t at, T* value) {
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) return false;
  std::memcpy(value, bytes.data() + at, sizeof(T));
  return true;
}

}  // namespace

std::string mutant_scratch() {
  std::error_code code;
  return (fs::temp_directory_path(code) / "qkvet-mutate").string();
}

std::string find_mutant_compiler(const std::string& source,
                                 const std::string& cflags,
                                 MutantCompiler* compiler) {
  compiler->source = source;
  if (const std::string error = source_language(source, &compiler->language);
      !error.empty())
    return source + ": " + error;
  if (!split_words(cflags, &compiler->flags))
    return "--cflags: a quote is not closed";
  compiler->compiler = find_compiler(compiler->language);
  return compiler->compiler.error.empty()
             ? ""
             : source + ": " + compiler->compiler.error;
}

std::string line_directive(const MutantCompiler& compiler, int line) {
  const bool is_rust = compiler.language == Language::kRust;
  const bool is_quoted_badly =
      compiler.source.find_first_of("\"\\\n") != std::string::npos;
  return is_rust || is_quoted_badly ? ""
                                    : "#line " + std::to_string(line) + " \"" +
                                          compiler.source + "\"\n";
}

std::string build_mutant(const MutantCompiler& compiler,
                         const std::string& text, const std::string& folder,
                         const std::string& library) {
  const bool rust = compiler.language == Language::kRust;
  const fs::path source(compiler.source);
  const std::string file = (fs::path(folder) / source.filename()).string();
  if (const std::string error =
          write_file(file, line_directive(compiler, 1) + text);
      !error.empty())
    return error;
  std::string beside = source.parent_path().string();
  if (beside.empty()) beside = ".";
  std::vector<std::string> flags = compiler.flags;
  if (rust) {
    flags.insert(flags.end(),
                 {"--remap-path-prefix", file + "=" + compiler.source});
  } else {
    // Warnings of mutants are uninteresting and must not stop the build, and no
    // debugger is used.
    flags.insert(flags.end(), {"-iquote", beside, "-w", "-g0"});
  }
  std::vector<std::string> words = compiler.compiler.words;
  const std::vector<std::string> more =
      compile_arguments(compiler.language, file, library, flags);
  words.insert(words.end(), more.begin(), more.end());
  const ChildResult ran = run_child(words);
  if (!ran.error.empty()) return ran.error;
  std::error_code code;
  if (ran.ended_well() && fs::exists(library, code)) return "";
  return ran.output.empty() ? compiler.compiler.shown + " " + ran.end()
                            : ran.output;
}

std::string build_original(const MutantCompiler& compiler,
                           const std::string& text, const std::string& folder,
                           const std::string& library) {
  if (folder.empty()) return "no folder for temporary files";
  const std::string said = build_mutant(compiler, text, folder, library);
  if (said.empty()) return "";
  std::fputs((said + "\n").c_str(), stderr);
  return compiler.source + ": does not compile (" + compiler.compiler.shown +
         ")";
}

std::string code_hash(const std::string& library) {
  std::string bytes;
  if (!read_file(library, &bytes).empty()) return "";
  Elf64_Ehdr header{};
  if (!take(bytes, 0, &header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64)
    return "";
  std::string code;
  for (size_t n = 0; n < header.e_shnum; ++n) {
    Elf64_Shdr section{};
    if (!take(bytes, header.e_shoff + n * header.e_shentsize, &section))
      return "";
    if ((section.sh_flags & SHF_ALLOC) == 0 || section.sh_type == SHT_NOTE)
      continue;
    // Its address and size, also for data that is zero at the start.
    for (const uint64_t number :
         {section.sh_addr, section.sh_size, uint64_t{section.sh_type}})
      code.append(reinterpret_cast<const char*>(&number), sizeof number);
    if (section.sh_type == SHT_NOBITS) continue;
    if (section.sh_offset > bytes.size() ||
        bytes.size() - section.sh_offset < section.sh_size)
      return "";
    code.append(bytes, section.sh_offset, section.sh_size);
  }
  return sha256_hex(std::as_bytes(std::span(code))).substr(0, 16);
}

}  // namespace qkvet::cli
