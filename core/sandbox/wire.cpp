// SPDX-License-Identifier: Apache-2.0
#include "core/sandbox/wire.h"

#include <cstring>
#include <optional>
#include <tuple>
#include <type_traits>

namespace qkvet {
namespace {

class Writer {
 public:
  template <class Plain>
  void field(const Plain& value) {
    static_assert(std::is_trivially_copyable_v<Plain>);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void field(const bool& flag) { field(static_cast<uint8_t>(flag ? 1 : 0)); }
  void field(const std::string& text) {
    field(static_cast<uint64_t>(text.size()));
    bytes += text;
  }
  void field(const std::vector<std::string>& texts) {
    count(texts.size());
    for (const std::string& text : texts) field(text);
  }
  void field(const std::optional<FaultInfo>& fault) {
    field(fault.has_value());
    if (!fault) return;
    std::apply([this](auto&... one) { (field(one), ...); },
               fault_fields(*fault));
  }
  void count(size_t n) { field(static_cast<uint64_t>(n)); }

  std::string bytes;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  template <class Plain>
  void field(Plain& value) {
    if (!take(sizeof value)) return;
    std::memcpy(&value, taken_.data(), sizeof value);
  }
  // Not every byte is a bool.
  void field(bool& flag) {
    uint8_t byte = 0;
    field(byte);
    flag = byte != 0;
  }
  void field(std::string& text) {
    uint64_t size = 0;
    field(size);
    if (take(size)) text = taken_;
  }
  void field(std::vector<std::string>& texts) {
    texts.resize(count(sizeof(uint64_t)));
    for (std::string& text : texts) field(text);
  }
  void field(std::optional<FaultInfo>& fault) {
    bool faulty = false;
    field(faulty);
    if (!faulty) return;
    std::apply([this](auto&... one) { (field(one), ...); },
               fault_fields(fault.emplace()));
  }
  // A count of items, each at least so many bytes long.
  size_t count(size_t least) {
    uint64_t n = 0;
    field(n);
    if (n <= rest_.size() / least) return static_cast<size_t>(n);
    good_ = false;
    return 0;
  }
  bool done() const { return good_ && rest_.empty(); }

 private:
  bool take(uint64_t size) {
    if (!good_ || size > rest_.size()) return good_ = false;
    taken_ = rest_.substr(0, static_cast<size_t>(size));
    rest_.remove_prefix(static_cast<size_t>(size));
    return true;
  }

  std::string_view rest_;
  std::string_view taken_;
  bool good_ = true;
};

// One list of fields for both directions.
template <class Stream, class Fields>
void pass(Stream& stream, Fields fields) {
  std::apply([&](auto&... field) { (stream.field(field), ...); }, fields);
}

}  // namespace

std::string pack_kernels(const std::vector<KernelInfo>& kernels) {
  Writer writer;
  writer.count(kernels.size());
  for (const KernelInfo& info : kernels) pass(writer, kernel_fields(info));
  return std::move(writer.bytes);
}

bool unpack_kernels(std::string_view bytes, std::vector<KernelInfo>* kernels) {
  Reader reader(bytes);
  // A kernel takes a thousand times the room of a byte: a wrong count must not.
  kernels->resize(reader.count(sizeof(qkvet_capabilities)));
  for (KernelInfo& info : *kernels) pass(reader, kernel_fields(info));
  return reader.done();
}

}  // namespace qkvet
