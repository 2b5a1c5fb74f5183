// SPDX-License-Identifier: Apache-2.0
#include "core/door/door.h"

#include <dlfcn.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>

#include "core/base/elf_file.h"
#include "core/base/machine.h"
#include "core/base/read_file.h"
#include "core/door/kernel_reader.h"

namespace qkvet {
namespace {

constexpr size_t kMostErrorText = 300;

// The loader's text without the leading path, which it repeats.
std::string loader_text(const std::string& path) {
  const char* text = dlerror();
  if (text == nullptr) return "cannot be loaded";
  const std::string line = one_line(text, kMostErrorText);
  const std::string lead = path + ": ";
  std::string sanitizer = sanitizer_obstacle(line);
  if (!sanitizer.empty()) return sanitizer;
  return line.starts_with(lead) ? line.substr(lead.size()) : line;
}

// "" if the file may be a shared library.
std::string bad_file(const std::string& path) {
  if (std::string wrong = not_readable_reason(path); !wrong.empty())
    return wrong;
  std::ifstream file(path, std::ios::binary);
  std::array<char, 4> magic{};
  file.read(magic.data(), magic.size());
  constexpr std::array<char, 4> kElf = {0x7f, 'E', 'L', 'F'};
  return magic == kElf ? elf_obstacle(path) : "not a shared library";
}

// Without a slash the loader would search the system's folders.
std::string with_slash(const std::string& path) {
  return path.find('/') == std::string::npos ? "./" + path : path;
}

// Threads of the library may outlive close(): its code stays mapped.
void* opened(const std::string& path) {
  return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

}  // namespace

Door::Door(LibrarySpec library) : library_(std::move(library)) {}

Door::~Door() {
  CallReply unread;
  destroy_cache(held_, &unread);
  for (HeldPlan& plan : held_.plans) destroy_plan(plan, &unread);
  for (Kernel& kernel : kernels_)
    if (kernel.opened && kernel.open_status == QKVET_OK &&
        kernel.table.open != nullptr && kernel.table.close != nullptr) {
      for (qkvet_context* context : kernel.more_contexts)
        kernel.table.close(kernel.self, context);
      kernel.table.close(kernel.self, kernel.context);
    }
  if (stream_ != nullptr && !driver_->lost()) driver_->destroy_stream(stream_);
  if (entered_ && table_.close != nullptr) table_.close(&table_);
  if (handle_ != nullptr) dlclose(handle_);
}

std::unique_ptr<Door> Door::open(const LibrarySpec& library,
                                 std::string* error) {
  std::unique_ptr<Door> door(new Door(library));
  // Libraries built with -ffast-math change the environment when loaded.
  const FpEnvironment before = fp_environment();
  const std::string bad = door->load();
  restore_fp_environment(before);
  if (bad.empty()) return door;
  *error = library.path + ": " + bad;
  return nullptr;
}

std::string Door::load() {
  std::string bad;
  const qkvet_open_function entry =
      library_.entry != nullptr ? library_.entry : find_entry(&bad);
  if (entry == nullptr) return bad;
  bad = enter(entry);
  return bad.empty() ? read_kernels() : bad;
}

bool Door::load_ahead(const std::string& library) {
  if (!bad_file(library).empty()) return false;
  const FpEnvironment before = fp_environment();  // as in open()
  const bool loaded = opened(with_slash(library)) != nullptr;
  restore_fp_environment(before);
  return loaded;
}

qkvet_open_function Door::find_entry(std::string* bad) {
  *bad = bad_file(library_.path);
  if (!bad->empty()) return nullptr;
  const std::string path = with_slash(library_.path);
  handle_ = opened(path);
  void* entry = nullptr;
  if (handle_ == nullptr)
    *bad = loader_text(path);
  else if (entry = dlsym(handle_, "qkvet_open"); entry == nullptr)
    *bad = "does not export qkvet_open";
  else
    emulator_ = reinterpret_cast<void (*)(int32_t)>(
        dlsym(handle_, "qkvet_simt_threads"));
  return reinterpret_cast<qkvet_open_function>(entry);
}

std::string Door::enter(qkvet_open_function entry) {
  table_.struct_size = sizeof table_;
  CallReply reply;
  std::optional<Reason> reason(std::in_place, &reply);
  const qkvet_status status =
      entry(&host_.table(), library_.config.c_str(), &table_, reason->text());
  const std::string why = reason->line();
  reason.reset();
  if (reply.reason_damaged != 0)
    return "writes beside the text with the reason for which qkvet_open "
           "refuses";
  if (table_.abi_major != 0 && table_.abi_major != QKVET_ABI_MAJOR)
    return "is for ABI " + std::to_string(table_.abi_major) +
           ", this program speaks " + std::to_string(QKVET_ABI_MAJOR);
  if (status != QKVET_OK) return status_line("qkvet_open", status, why);
  if (table_.abi_major == 0) return "does not say which ABI it is for";
  entered_ = true;
  return "";
}

std::string Door::read_kernels() {
  if (table_.kernel_count <= 0 || table_.kernels == nullptr)
    return "holds no kernel";
  std::set<std::string> names;
  for (int i = 0; i < table_.kernel_count; ++i) {
    KernelInfo info;
    const qkvet_kernel* self = table_.kernels[i];
    std::string bad = read_kernel(self, i, &info);
    if (!bad.empty()) return bad;
    info.orders_threads = emulator_ != nullptr;
    info.capabilities.flags |= flags_of_version(table_.abi_minor, info);
    if (!names.insert(info.name).second)
      return "holds two kernels named " + info.name;
    Kernel& kernel = kernels_.emplace_back();
    kernel.self = self;
    kernel.table = copy_sized(self);
    kernel.device = info.device();
    kernel.alignment = info.capabilities.alignment;
    kernel.refuses_in_call = info.has_flag(QKVET_FLAG_REFUSES_IN_CALL);
    if (kernel.table.cache != nullptr)
      kernel.cache = copy_sized(kernel.table.cache);
    if (kernel.table.layer != nullptr)
      kernel.layer = copy_sized(kernel.table.layer);
    if (kernel.table.backward != nullptr)
      kernel.backward = copy_sized(kernel.table.backward);
    if (kernel.table.merge != nullptr)
      kernel.merge = copy_sized(kernel.table.merge);
    kernel.plans = plan_table_of(self);
    infos_.push_back(std::move(info));
  }
  return "";
}

}  // namespace qkvet
