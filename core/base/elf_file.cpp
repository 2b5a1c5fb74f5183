// SPDX-License-Identifier: Apache-2.0
#include "core/base/elf_file.h"

#include <dlfcn.h>
#include <link.h>

#include <fstream>
#include <optional>
#include <vector>

namespace qkvet {
namespace {

// An unchecked file: every read may fail.
class File {
 public:
  explicit File(const std::string& path) : file_(path, std::ios::binary) {}

  template <class T>
  std::optional<T> read(uint64_t offset) {
    T value;
    if (!bytes(offset, reinterpret_cast<char*>(&value), sizeof value))
      return std::nullopt;
    return value;
  }

  // Up to the zero, or the longest name that a file can have.
  std::string text(uint64_t offset) {
    constexpr size_t kMost = 255;
    std::string text;
    for (; text.size() < kMost; ++offset) {
      const auto c = read<char>(offset);
      if (!c || *c == 0) break;
      text += *c;
    }
    return text;
  }

 private:
  bool bytes(uint64_t offset, char* to, size_t size) {
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(offset));
    return bool(file_.read(to, static_cast<std::streamsize>(size)));
  }

  std::ifstream file_;
};

std::string machine_name(unsigned machine) {
  constexpr struct {
    unsigned machine;
    const char* name;
  } kNames[] = {{EM_X86_64, "x86-64"},   {EM_386, "32-bit x86"},
                {EM_AARCH64, "aarch64"}, {EM_ARM, "32-bit ARM"},
                {EM_RISCV, "RISC-V"},    {EM_PPC64, "PowerPC 64"},
                {EM_S390, "s390"}};
  for (const auto& row : kNames)
    if (row.machine == machine) return row.name;
  return "machine " + std::to_string(machine) + " of the ELF format";
}

// The file offset of an address in a loaded library.
std::optional<uint64_t> offset_of(const std::vector<ElfW(Phdr)>& segments,
                                  uint64_t address) {
  for (const auto& s : segments)
    if (s.p_type == PT_LOAD && address >= s.p_vaddr &&
        address - s.p_vaddr < s.p_filesz)
      return s.p_offset + (address - s.p_vaddr);
  return std::nullopt;
}

// The libraries that this one needs.
std::vector<std::string> needed_by(File& file, const ElfW(Ehdr) & header) {
  std::vector<ElfW(Phdr)> segments;
  for (unsigned i = 0; i < header.e_phnum; ++i)
    if (const auto s =
            file.read<ElfW(Phdr)>(header.e_phoff + i * sizeof(ElfW(Phdr))))
      segments.push_back(*s);
  std::vector<uint64_t> names;
  std::optional<uint64_t> strings;
  for (const auto& s : segments) {
    if (s.p_type != PT_DYNAMIC) continue;
    for (uint64_t at = 0; at < s.p_filesz; at += sizeof(ElfW(Dyn))) {
      const auto entry = file.read<ElfW(Dyn)>(s.p_offset + at);
      if (!entry || entry->d_tag == DT_NULL) break;
      if (entry->d_tag == DT_NEEDED) names.push_back(entry->d_un.d_val);
      if (entry->d_tag == DT_STRTAB)
        strings = offset_of(segments, entry->d_un.d_ptr);
    }
  }
  std::vector<std::string> needed;
  for (size_t i = 0; strings && i < names.size(); ++i)
    needed.push_back(file.text(*strings + names[i]));
  return needed;
}

// Sanitizers with a runtime that must be loaded before the program starts.
constexpr struct Sanitizer {
  const char* name;
  const char* libraries[2];  // of GCC and of LLVM
  const char* symbols;       // how those of its runtime begin
  const char* symbol;        // one that every runtime has
} kSanitizers[] = {
    {"AddressSanitizer",
     {"libasan.so", "libclang_rt.asan"},
     "__asan_",
     "__asan_init"},
    {"HWAddressSanitizer",
     {"libhwasan.so", "libclang_rt.hwasan"},
     "__hwasan_",
     "__hwasan_init"},
    {"ThreadSanitizer",
     {"libtsan.so", "libclang_rt.tsan"},
     "__tsan_",
     "__tsan_init"},
    {"MemorySanitizer",
     {"libmsan.so", "libclang_rt.msan"},
     "__msan_",
     "__msan_init"},
};

std::string needs(const Sanitizer& sanitizer) {
  return std::string("was built with ") + sanitizer.name +
         " and this program was not: build both with it, or neither";
}

}  // namespace

std::string elf_obstacle(const std::string& path) {
  File file(path);
  File self("/proc/self/exe");
  const auto header = file.read<ElfW(Ehdr)>(0);
  const auto own = self.read<ElfW(Ehdr)>(0);
  if (!header || !own) return "";
  const unsigned char* ident = header->e_ident;
  if ((ident[EI_CLASS] != ELFCLASS32 && ident[EI_CLASS] != ELFCLASS64) ||
      (ident[EI_DATA] != ELFDATA2LSB && ident[EI_DATA] != ELFDATA2MSB))
    return "";
  unsigned machine = header->e_machine;
  if (ident[EI_DATA] != own->e_ident[EI_DATA])
    machine = (machine & 0xff) << 8 | machine >> 8;
  if (machine != own->e_machine)
    return "is for " + machine_name(machine) + ", this program for " +
           machine_name(own->e_machine);
  if (ident[EI_CLASS] != own->e_ident[EI_CLASS]) return "";
  for (const std::string& library : needed_by(file, *header))
    for (const Sanitizer& sanitizer : kSanitizers)
      for (const char* start : sanitizer.libraries)
        if (library.starts_with(start) &&
            dlsym(RTLD_DEFAULT, sanitizer.symbol) == nullptr)
          return needs(sanitizer);
  return "";
}

std::string sanitizer_obstacle(const std::string& loader_text) {
  for (const Sanitizer& sanitizer : kSanitizers)
    if (loader_text.find(std::string("undefined symbol: ") +
                         sanitizer.symbols) != std::string::npos)
      return needs(sanitizer);
  return "";
}

}  // namespace qkvet
