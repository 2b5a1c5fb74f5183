// SPDX-License-Identifier: Apache-2.0
#include "core/door.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <set>

#include "core/abi_call.h"
#include "core/kernel_reader.h"
#include "core/machine.h"

namespace qkvet {
namespace {

constexpr size_t kMostErrorText = 300;

// The caller's buffer for the reasons of a library.
class Reason {
 public:
  qkvet_text* text() { return &text_; }
  std::string line() {
    buffer_.back() = 0;
    return one_line(buffer_.data(), CallReply::kTextBytes - 1);
  }

 private:
  std::array<char, CallReply::kTextBytes> buffer_{};
  qkvet_text text_{sizeof(qkvet_text), buffer_.data(), buffer_.size()};
};

std::string status_line(const char* function, qkvet_status status,
                        const std::string& reason) {
  std::string line =
      std::string(function) + "() returned " + status_name(status);
  return reason.empty() ? line : line + ": " + reason;
}

void reply_with(CallReply* reply, CallStatus status, const std::string& text) {
  reply->status = static_cast<uint32_t>(status);
  const size_t size = std::min(text.size(), CallReply::kTextBytes - 1);
  std::memcpy(reply->text, text.data(), size);
  reply->text[size] = 0;
}

void enter_phase(CallReply* reply, Phase phase) {
  reply->phase.store(static_cast<uint32_t>(phase), std::memory_order_release);
}

// What the loader says, without the path that it repeats in front.
std::string loader_text(const std::string& path) {
  const char* text = dlerror();
  if (text == nullptr) return "cannot be loaded";
  const std::string line = one_line(text, kMostErrorText);
  const std::string lead = path + ": ";
  return line.starts_with(lead) ? line.substr(lead.size()) : line;
}

// "" if the file may be a shared library.
std::string bad_file(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0)
    return errno == ENOENT ? "no such file" : std::strerror(errno);
  if (S_ISDIR(info.st_mode)) return "is a directory";
  std::ifstream file(path, std::ios::binary);
  if (!file) return "cannot be read";
  std::array<char, 4> magic{};
  file.read(magic.data(), magic.size());
  constexpr std::array<char, 4> kElf = {0x7f, 'E', 'L', 'F'};
  return magic == kElf ? "" : "not a shared library";
}

}  // namespace

Door::Door(LibrarySpec library) : library_(std::move(library)) {}

Door::~Door() {
  for (Kernel& kernel : kernels_)
    if (kernel.opened && kernel.open_status == QKVET_OK &&
        kernel.table.open != nullptr && kernel.table.close != nullptr)
      kernel.table.close(kernel.self, kernel.context);
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
  std::string bad = bad_file(library_.path);
  if (!bad.empty()) return bad;
  // Without a slash the loader would search the system's folders.
  const std::string path = library_.path.find('/') == std::string::npos
                               ? "./" + library_.path
                               : library_.path;
  handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) return loader_text(path);
  void* entry = dlsym(handle_, "qkvet_open");
  if (entry == nullptr) return "does not export qkvet_open";
  bad = enter(entry);
  return bad.empty() ? read_kernels() : bad;
}

std::string Door::enter(void* entry) {
  const auto function = reinterpret_cast<qkvet_open_function>(entry);
  table_.struct_size = sizeof table_;
  Reason reason;
  const qkvet_status status =
      function(&host_table(), library_.config.c_str(), &table_, reason.text());
  if (table_.abi_major != 0 && table_.abi_major != QKVET_ABI_MAJOR)
    return "is for ABI " + std::to_string(table_.abi_major) +
           ", this program speaks " + std::to_string(QKVET_ABI_MAJOR);
  if (status != QKVET_OK)
    return status_line("qkvet_open", status, reason.line());
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
    if (!names.insert(info.name).second)
      return "holds two kernels named " + info.name;
    Kernel& kernel = kernels_.emplace_back();
    kernel.self = self;
    kernel.table = copy_sized(self);
    infos_.push_back(std::move(info));
  }
  return "";
}

bool Door::open_context(Kernel& kernel, CallReply* reply) {
  if (!kernel.opened && kernel.table.open != nullptr) {
    enter_phase(reply, Phase::kOpen);
    Reason reason;
    const qkvet_exec exec = plain_exec();
    kernel.open_status =
        kernel.table.open(kernel.self, &exec, &kernel.context, reason.text());
    kernel.open_text = reason.line();
    if (kernel.open_text.empty() && kernel.open_status != QKVET_OK)
      kernel.open_text = status_line("open", kernel.open_status, "");
  }
  kernel.opened = true;
  if (kernel.open_status == QKVET_OK) return true;
  reply_with(reply, CallStatus::kUnavailable, kernel.open_text);
  return false;
}

bool Door::supported(const Kernel& kernel, const qkvet_forward_args& args,
                     CallReply* reply) {
  if (kernel.table.supports == nullptr) return true;
  enter_phase(reply, Phase::kSupports);
  Reason reason;
  const qkvet_status status =
      kernel.table.supports(kernel.self, &args, reason.text());
  if (status == QKVET_OK) return true;
  std::string text = reason.line();
  if (text.empty() || status != QKVET_UNSUPPORTED)
    text = status_line("supports", status, text);
  reply_with(reply,
             status == QKVET_UNAVAILABLE ? CallStatus::kUnavailable
                                         : CallStatus::kUnsupported,
             text);
  return false;
}

bool Door::give_workspace(const Kernel& kernel, const qkvet_forward_args& args,
                          qkvet_exec* exec, CallReply* reply) {
  if (kernel.table.workspace == nullptr) return true;
  enter_phase(reply, Phase::kWorkspace);
  size_t bytes = 0;
  const qkvet_status status =
      kernel.table.workspace(kernel.self, kernel.context, &args, &bytes);
  enter_phase(reply, Phase::kOutside);
  if (status != QKVET_OK) {
    reply_with(reply, CallStatus::kRefused,
               status_line("workspace", status, ""));
    return false;
  }
  if (bytes == 0) return true;
  constexpr size_t kSmall = size_t{32} << 20;  // not worth asking the system
  const auto most =
      kSmall >= bytes ? bytes : static_cast<size_t>(available_memory());
  std::byte* memory = nullptr;
  if (bytes <= most) memory = workspace_.prepare(static_cast<int64_t>(bytes));
  if (memory == nullptr) {
    reply_with(reply, CallStatus::kOutOfMemory,
               "workspace() asks for " + std::to_string(bytes) + " bytes");
    return false;
  }
  exec->workspace = memory;
  exec->workspace_size = bytes;
  reply->workspace = reinterpret_cast<uint64_t>(memory);
  reply->workspace_bytes = static_cast<int64_t>(bytes);
  return true;
}

void Door::forward(const Kernel& kernel, const qkvet_forward_args& args,
                   const qkvet_exec& exec, CallReply* reply) {
  Reason reason;
  const FpEnvironment before = fp_environment();
  enter_phase(reply, Phase::kForward);
  const auto start = std::chrono::steady_clock::now();
  const qkvet_status status = kernel.table.forward(kernel.self, kernel.context,
                                                   &args, &exec, reason.text());
  const auto end = std::chrono::steady_clock::now();
  enter_phase(reply, Phase::kOutside);
  reply->dirty_environment = fp_environment() == before ? 0 : 1;
  reply->seconds = std::chrono::duration<double>(end - start).count();
  if (status == QKVET_OK)
    reply_with(reply, CallStatus::kDone, "");
  else
    reply_with(reply,
               status == QKVET_OUT_OF_MEMORY ? CallStatus::kOutOfMemory
                                             : CallStatus::kRefused,
               status_line("forward", status, reason.line()));
  if (exec.workspace == nullptr) return;
  const auto damage = workspace_.damage();
  reply->workspace_damaged = damage.has_value() ? 1 : 0;
  reply->workspace_damage = damage.value_or(0);
}

void Door::call(int number, const CallPlan& plan,
                const TensorAddresses& addresses, CallReply* reply) noexcept {
  Kernel& kernel = kernels_[static_cast<size_t>(number)];
  const FpEnvironment before = fp_environment();
  const AbiCall call(plan, addresses);
  qkvet_exec exec = plain_exec();
  reply->workspace = 0;
  reply->workspace_damaged = 0;
  reply->dirty_environment = 0;
  const bool ready = open_context(kernel, reply) &&
                     supported(kernel, call.args(), reply) &&
                     give_workspace(kernel, call.args(), &exec, reply);
  // What open() or supports() left is not charged to forward().
  restore_fp_environment(before);
  if (ready) {
    forward(kernel, call.args(), exec, reply);
    restore_fp_environment(before);
  }
  enter_phase(reply, Phase::kOutside);
}

CallOutcome outcome_of(const CallReply& reply) {
  CallOutcome outcome;
  const bool known =
      reply.status <= static_cast<uint32_t>(CallStatus::kOutOfMemory);
  outcome.status =
      known ? static_cast<CallStatus>(reply.status) : CallStatus::kCrash;
  outcome.text =
      known ? std::string(reply.text, strnlen(reply.text, sizeof reply.text))
            : "the kernel wrote over the memory of its host";
  outcome.dirty_environment = reply.dirty_environment != 0;
  outcome.seconds = reply.seconds;
  if (reply.workspace_damaged != 0) {
    MemoryFault damage;
    damage.is_write = true;
    damage.before_start = reply.workspace_damage < 0;
    damage.bytes =
        damage.before_start ? -reply.workspace_damage : reply.workspace_damage;
    damage.tensor_bytes = reply.workspace_bytes;
    outcome.damage = damage;
  }
  return outcome;
}

}  // namespace qkvet
