// SPDX-License-Identifier: Apache-2.0
#include "core/sandbox/wire.h"

#include <cstring>
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
template <class Stream, class Info>
void plain_fields(Stream& stream, Info& info) {
  stream.field(info.name);
  stream.field(info.description);
  stream.field(info.source_file);
  stream.field(info.source_line);
  stream.field(info.capabilities);
  stream.field(info.dialect);
  stream.field(info.precision);
  stream.field(info.has_forward);
  stream.field(info.has_cache);
  stream.field(info.has_truncate);
  stream.field(info.has_evict);
  stream.field(info.has_fork);
  stream.field(info.has_reorder);
  stream.field(info.has_read_back);
  stream.field(info.has_layer);
  stream.field(info.has_backward);
  stream.field(info.has_layer_backward);
  stream.field(info.has_workspace);
  stream.field(info.has_merge);
  stream.field(info.has_plan);
  stream.field(info.only_plans);
  stream.field(info.orders_threads);
  stream.field(info.cache_options);
  stream.field(info.layer_options);
  stream.field(info.backward_options);
  stream.field(info.merge_options);
  stream.field(info.plan_options);
  stream.field(info.min_states);
  stream.field(info.max_states);
  stream.field(info.layer_stage);
  stream.field(info.unavailable);
}

template <class Stream, class Fault>
void fault_fields(Stream& stream, Fault& fault) {
  stream.field(fault.mechanism);
  stream.field(fault.symptom);
  stream.field(fault.cause);
  stream.field(fault.fix);
  stream.field(fault.source);
  stream.field(fault.trigger);
  stream.field(fault.when);
  stream.field(fault.extents);
}

}  // namespace

std::string pack_kernels(const std::vector<KernelInfo>& kernels) {
  Writer writer;
  writer.count(kernels.size());
  for (const KernelInfo& info : kernels) {
    plain_fields(writer, info);
    writer.field(static_cast<uint8_t>(info.fault.has_value()));
    if (!info.fault) continue;
    fault_fields(writer, *info.fault);
    writer.count(info.fault->killed_by.size());
    for (const std::string& law : info.fault->killed_by) writer.field(law);
  }
  return std::move(writer.bytes);
}

bool unpack_kernels(std::string_view bytes, std::vector<KernelInfo>* kernels) {
  Reader reader(bytes);
  // A kernel takes a thousand times the room of a byte: a wrong count must not.
  kernels->resize(reader.count(sizeof(qkvet_capabilities)));
  for (KernelInfo& info : *kernels) {
    plain_fields(reader, info);
    uint8_t faulty = 0;
    reader.field(faulty);
    if (faulty == 0) continue;
    fault_fields(reader, info.fault.emplace());
    info.fault->killed_by.resize(reader.count(sizeof(uint64_t)));
    for (std::string& law : info.fault->killed_by) reader.field(law);
  }
  return reader.done();
}

}  // namespace qkvet
