// SPDX-License-Identifier: Apache-2.0
#include "core/files/npz.h"

#include <minizip/unzip.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace qkvet {
namespace {

constexpr std::string_view kMember = "PK\x03\x04";  // what a zip begins with
constexpr std::string_view kEnd = "PK\x05\x06";     // what its end begins with
constexpr size_t kEndBytes = 22;                    // there are no comments
constexpr std::string_view kSuffix = ".npy";
constexpr uLong kEncrypted = 1;  // a bit of the flags
constexpr uLong kStored = 0, kDeflated = 8;
// Deflate makes no more out of a byte: 258 bytes of two bits.
constexpr uint64_t kMostRatio = 1032;
// A file that unpacks to more than this multiple of its size does not contain
// tensors. Only masks shrink further, and they are small.
constexpr uint64_t kMostGrowth = 64, kSmallBytes = uint64_t{64} << 20;
// A claim is believed as far as it is borne out: so much at a time.
constexpr size_t kFirstStep = size_t{1} << 20;

// The file for minizip's callbacks. They are called from C, so no function here
// may throw.
struct Memory {
  std::span<const std::byte> bytes;
  size_t at = 0;
};

Memory& memory_of(voidpf stream) { return *static_cast<Memory*>(stream); }

voidpf open_memory(voidpf opaque, const void*, int) { return opaque; }

uLong read_memory(voidpf, voidpf stream, void* to, uLong size) {
  Memory& memory = memory_of(stream);
  const size_t left = memory.bytes.size() - memory.at;
  const size_t taken = std::min<size_t>(size, left);
  if (taken > 0) std::memcpy(to, memory.bytes.data() + memory.at, taken);
  memory.at += taken;
  return static_cast<uLong>(taken);
}

uLong refuse_to_write(voidpf, voidpf, const void*, uLong) { return 0; }

ZPOS64_T tell_memory(voidpf, voidpf stream) { return memory_of(stream).at; }

long seek_memory(voidpf, voidpf stream, ZPOS64_T offset, int origin) {
  Memory& memory = memory_of(stream);
  const size_t size = memory.bytes.size();
  size_t base = 0;
  if (origin == ZLIB_FILEFUNC_SEEK_CUR) base = memory.at;
  if (origin == ZLIB_FILEFUNC_SEEK_END) base = size;
  if (offset > size - base) return -1;
  memory.at = base + static_cast<size_t>(offset);
  return 0;
}

int close_memory(voidpf, voidpf) { return 0; }
int error_of_memory(voidpf, voidpf) { return 0; }

struct CloseArchive {
  void operator()(void* archive) const { unzClose(archive); }
};
using Archive = std::unique_ptr<void, CloseArchive>;

Archive open_archive(Memory& memory) {
  zlib_filefunc64_def functions = {
      open_memory, read_memory,  refuse_to_write, tell_memory,
      seek_memory, close_memory, error_of_memory, &memory};
  return Archive(unzOpen2_64("", &functions));
}

// Limits that are known before anything is unpacked.
struct Budget {
  uint64_t packed = 0;       // bytes that no member has claimed
  uint64_t most = 0;         // bytes of all arrays
  uint64_t unpacked = most;  // bytes that may still come
};

// "" or the reason why the archive's current member is not unpacked.
std::string check_claims(const unz_file_info64& info, Budget& budget) {
  if ((info.flag & kEncrypted) != 0) return "is encrypted";
  const uLong method = info.compression_method;
  if (method != kStored && method != kDeflated)
    return "is packed by method " + std::to_string(method) +
           "; allowed are 0 (stored) and 8 (deflated)";
  const uint64_t packed = info.compressed_size;
  const uint64_t unpacked = info.uncompressed_size;
  if (unpacked > budget.unpacked)
    return "makes the arrays larger than " + std::to_string(budget.most) +
           " bytes" +
           (budget.most < kMostNpzBytes ? ", 64 times the file" : "");
  if (packed > budget.packed)
    return "claims " + std::to_string(packed) +
           " bytes of the file, but only " + std::to_string(budget.packed) +
           " are left";
  if (method == kStored ? unpacked != packed : unpacked / kMostRatio > packed)
    return "claims to hold " + std::to_string(unpacked) + " bytes in " +
           std::to_string(packed);
  budget.packed -= packed;
  budget.unpacked -= unpacked;
  return "";
}

// Unpacks the archive's current member; returns "" or the problem.
std::string unpack(unzFile archive, size_t size,
                   std::vector<std::byte>& bytes) {
  constexpr const char* kDamaged = "is damaged";
  if (unzOpenCurrentFile(archive) != UNZ_OK) return kDamaged;
  size_t have = 0;
  int got = 1;
  while (have < size && got > 0) {
    if (have == bytes.size())
      bytes.resize(std::min(size, std::max(2 * have, kFirstStep)));
    const size_t room = std::min<size_t>(bytes.size() - have, 1u << 30);
    got = unzReadCurrentFile(archive, bytes.data() + have,
                             static_cast<unsigned>(room));
    have += static_cast<size_t>(std::max(got, 0));
  }
  // The checksum is compared here, if the last byte was read.
  const int closed = unzCloseCurrentFile(archive);
  if (closed == UNZ_CRCERROR) return "has another checksum than it should";
  if (got < 0 || have < size || closed != UNZ_OK) return kDamaged;
  return "";
}

// Reads the archive's current member; returns "" or the problem.
std::string read_member(unzFile archive, Budget& budget, NpzArrays& arrays) {
  unz_file_info64 info{};
  if (unzGetCurrentFileInfo64(archive, &info, nullptr, 0, nullptr, 0, nullptr,
                              0) != UNZ_OK)
    return "the directory is damaged";
  std::string name(info.size_filename, '\0');
  if (!name.empty() &&
      unzGetCurrentFileInfo64(archive, &info, name.data(), info.size_filename,
                              nullptr, 0, nullptr, 0) != UNZ_OK)
    return "the directory is damaged";
  const std::string member = "member " + shown(name);
  if (!name.ends_with(kSuffix))
    return member + " is no .npy file; allowed are those alone";
  if (std::string wrong = check_claims(info, budget); !wrong.empty())
    return member + " " + wrong;
  name.resize(name.size() - kSuffix.size());
  const auto [place, is_new] = arrays.try_emplace(std::move(name));
  if (!is_new) return member + " is there twice";
  NpzArray& result = place->second;
  if (std::string wrong = unpack(
          archive, static_cast<size_t>(info.uncompressed_size), result.file);
      !wrong.empty())
    return member + " " + wrong;
  std::string wrong;
  const auto array = parse_npy(result.file, &wrong);
  if (!array) return member + ": " + wrong;
  result.array = *array;
  return "";
}

std::string read_npz(std::span<const std::byte> file, NpzArrays& arrays) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()),
                              file.size());
  if (!text.starts_with(kMember) && !text.starts_with(kEnd))
    return "is not a .npz file: it begins with " +
           shown(text.substr(0, kMember.size())) + ", not with " +
           shown(kMember);
  // minizip would accept an end that is cut, and reject an archive that
  // consists only of an end.
  const bool whole = file.size() >= kEndBytes &&
                     text.substr(file.size() - kEndBytes).starts_with(kEnd) &&
                     text.ends_with(std::string_view("\0\0", 2));
  if (whole && file.size() == kEndBytes) return "";
  Memory memory = {file};
  const Archive archive = open_archive(memory);
  unz_global_info64 info{};
  if (!whole || !archive || unzGetGlobalInfo64(archive.get(), &info) != UNZ_OK)
    return "is not a whole .npz file: there is no directory at its end";
  if (info.number_entry == 0) return "";
  Budget budget = {
      .packed = file.size(),
      .most = std::min<uint64_t>(
          kMostNpzBytes, std::max(kSmallBytes, kMostGrowth * file.size()))};
  int moved = unzGoToFirstFile(archive.get());
  for (; moved == UNZ_OK; moved = unzGoToNextFile(archive.get()))
    if (std::string wrong = read_member(archive.get(), budget, arrays);
        !wrong.empty())
      return wrong;
  if (moved != UNZ_END_OF_LIST_OF_FILE || arrays.size() != info.number_entry)
    return "the directory is damaged";
  return "";
}

}  // namespace

std::optional<NpzArrays> parse_npz(std::span<const std::byte> file,
                                   std::string* error) {
  NpzArrays arrays;
  std::string wrong = read_npz(file, arrays);
  if (wrong.empty()) return arrays;
  *error = std::move(wrong);
  return std::nullopt;
}

}  // namespace qkvet
