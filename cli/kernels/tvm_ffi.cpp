// SPDX-License-Identifier: Apache-2.0
// A plug-in that wraps a function of a shared library, exported by tvm-ffi, as
// a kernel. FlashInfer, FlashAttention 4, TileLang and CuTe DSL build such
// libraries; no Python is in the process. Its config is "LIBRARY:FUNCTION:MAP";
// the map gives the order of the function's arguments and its capabilities
// (cli/tvm_ffi.md).
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "cli/kernels/tvm_ffi_abi.h"
#include "core/base/read_file.h"
#include "core/call/option_numbers.h"
#include "core/capability/declaration.h"
#include "properties/conventions/conventions.h"
#include "qkvet/kernel.h"

namespace qkvet::cli::tvm_ffi {
namespace {

enum class Axes { kAsGiven, kTimeFirst, kTokens };  // bhtd, bthd, thd

struct TensorWord {
  const char* word;
  qkvet_tensor qkvet_forward_args::*tensor;
};
constexpr TensorWord kTensors[] = {
#define QKVET_FORWARD_SCALE(...)
#define QKVET_FORWARD_TENSOR(field, ...) {#field, &qkvet_forward_args::field},
#include "qkvet/tensors.def"
};

int64_t longest_member(const qkvet_tensor& offsets) {
  const char* const first =
      static_cast<const char*>(offsets.data) + offsets.byte_offset;
  const auto at = [&](int64_t n) -> int64_t {
    return offsets.dtype.bits == 32
               ? reinterpret_cast<const int32_t*>(first)[n]
               : reinterpret_cast<const int64_t*>(first)[n];
  };
  int64_t longest = 0;
  for (int64_t n = 0; n + 1 < offsets.shape[0]; ++n)
    longest = std::max(longest, at(n + 1) - at(n));
  return longest;
}

Any none() { return {kNone, 0, {.as_int = 0}}; }
Any an_int(int64_t n) { return {kInt, 0, {.as_int = n}}; }
Any a_bool(bool b) { return {kBool, 0, {.as_int = b}}; }
Any a_float(double x) { return {kFloat, 0, {.as_float = x}}; }

// An argument of a call that is no tensor.
struct ScalarWord {
  const char* word;
  Any (*of)(const qkvet_forward_args& args);
};
constexpr ScalarWord kScalars[] = {
    {"causal", [](const auto& a) { return a_bool(a.causal != 0); }},
    {"scale",
     [](const auto& a) {
       const auto d = static_cast<double>(a.q.shape[a.q.ndim - 1]);
       return a_float(a.scale_given != 0 ? a.scale : 1 / std::sqrt(d));
     }},
    {"window_left",
     [](const auto& a) {
       return an_int(a.has_window != 0 ? a.window_left : -1);
     }},
    {"window_right",
     [](const auto& a) {
       return an_int(a.has_window != 0 ? a.window_right : -1);
     }},
    {"page_size", [](const auto& a) { return an_int(a.page_size); }},
    {"channel_group", [](const auto& a) { return an_int(a.channel_group); }},
    {"chunk", [](const auto& a) { return an_int(a.chunk); }},
    {"key_block_size", [](const auto& a) { return an_int(a.key_block_size); }},
    {"max_seqlen_q",
     [](const auto& a) {
       return an_int(a.cu_seqlens_q.ndim != 0 ? longest_member(a.cu_seqlens_q)
                                              : a.q.shape[2]);
     }},
    {"max_seqlen_k",
     [](const auto& a) {
       return an_int(a.cu_seqlens_k.ndim != 0 ? longest_member(a.cu_seqlens_k)
                                              : a.k.shape[2]);
     }},
};

struct Argument {
  qkvet_tensor qkvet_forward_args::*tensor = nullptr;
  Axes axes = Axes::kAsGiven;
  Any (*scalar)(const qkvet_forward_args& args) = nullptr;
  float qkvet_forward_args::*number = nullptr;
  Any constant = none();
  std::string text = {};  // of a constant that is one
};

std::string words_allowed() {
  std::string text = "allowed: ";
  for (const TensorWord& row : kTensors) text += std::string(row.word) + " ";
  for (const ScalarWord& row : kScalars) text += std::string(row.word) + " ";
  for (const OptionNumber& row : kOptionNumbers)
    text += std::string(row.name) + " ";
  return text + "none; int, float, bool, string with a value";
}

// "q bthd", "causal", "int 128": "" or one line.
std::string read_argument(const std::string& text, Argument& argument) {
  std::istringstream in(text);
  std::string word, value;
  in >> word >> value;
  const auto wrong = [&text](const std::string& allowed) {
    return "argument \"" + text + "\": " + allowed;
  };
  for (const TensorWord& row : kTensors) {
    if (word != row.word) continue;
    argument.tensor = row.tensor;
    if (value == "bthd")
      argument.axes = Axes::kTimeFirst;
    else if (value == "thd")
      argument.axes = Axes::kTokens;
    else if (!value.empty() && value != "bhtd")
      return wrong("axes are bhtd, bthd or thd");
    return "";
  }
  for (const ScalarWord& row : kScalars) {
    if (word != row.word) continue;
    argument.scalar = row.of;
    return value.empty() ? "" : wrong("no value behind it");
  }
  for (const OptionNumber& row : kOptionNumbers) {
    if (word != row.name) continue;
    argument.number = row.in_abi;
    return value.empty() ? "" : wrong("no value behind it");
  }
  if (word == "none") return "";
  std::istringstream number(value);
  if (word == "int" || word == "bool") {
    argument.constant = none();
    argument.constant.type = word == "int" ? kInt : kBool;
    number >> argument.constant.as_int;
  } else if (word == "float") {
    argument.constant.type = kFloat;
    number >> argument.constant.as_float;
  } else if (word == "string") {
    argument.constant.type = kRawString;
    argument.text = value;
    return "";
  } else {
    return wrong(words_allowed());
  }
  return number && number.eof() ? "" : wrong("a number behind it");
}

// The tensor with its axes in the function's order: the same memory.
struct MovedTensor {
  qkvet_tensor tensor{};
  std::array<int64_t, 8> shape{}, strides{};

  void set(const qkvet_tensor& from, Axes axes) {
    tensor = from;
    const auto rank = static_cast<size_t>(from.ndim);
    std::copy_n(from.shape, rank, shape.begin());
    std::copy_n(from.strides, rank, strides.begin());
    if (axes != Axes::kAsGiven && rank >= 3) {
      std::swap(shape[1], shape[2]);
      std::swap(strides[1], strides[2]);
    }
    const size_t left_out = axes == Axes::kTokens && rank >= 3 ? 1 : 0;
    tensor.ndim -= static_cast<int32_t>(left_out);
    tensor.shape = shape.data() + left_out;
    tensor.strides = strides.data() + left_out;
  }
};

void write(qkvet_text* why, const std::string& text) {
  if (why == nullptr || why->data == nullptr || why->capacity == 0) return;
  const size_t n = std::min(text.size(), why->capacity - 1);
  std::memcpy(why->data, text.data(), n);
  why->data[n] = 0;
}

class Library {
 public:
  // "" or one line.
  std::string open(const std::string& config);
  const qkvet_kernel* kernel() const { return &kernel_; }

  static qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                              const qkvet_forward_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
    return static_cast<const Library*>(self->user)->call(*args, *exec, why);
  }

 private:
  std::string read_map(const std::string& path);
  std::string load(const std::string& path, const std::string& function);
  template <class Symbol>
  Symbol find(const char* name) const {
    return reinterpret_cast<Symbol>(dlsym(handle_, name));
  }
  qkvet_status call(const qkvet_forward_args& args, const qkvet_exec& exec,
                    qkvet_text* why) const;
  qkvet_status raised(qkvet_text* why) const;

  std::vector<Argument> arguments_;
  std::string runtime_;                // a library to be loaded first
  std::vector<std::string> refusals_;  // kinds of errors
  Convention declared_;
  qkvet_precision precision_{};
  std::string name_, description_;
  qkvet_kernel kernel_{};
  void* handle_ = nullptr;
  Function function_ = nullptr;
};

std::string Library::read_map(const std::string& path) {
  std::string text;
  if (std::string wrong = read_file(path, &text); !wrong.empty()) return wrong;
  std::istringstream file(text);
  std::string precision;
  int64_t number = 0;
  bool declares = false;
  const auto at = [&](const std::string& wrong) {
    return path + ":" + std::to_string(number) + ": " + wrong;
  };
  for (std::string line; std::getline(file, line);) {
    ++number;
    line = line.substr(0, line.find('#'));
    const size_t equals = line.find('=');
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (equals == std::string::npos) return at("no \"field = value\"");
    std::istringstream in(line.substr(0, equals));
    std::string key;
    in >> key;
    const std::string value = line.substr(equals + 1);
    std::istringstream words(value);
    if (key == "argument") {
      std::string text;
      std::getline(words >> std::ws, text);
      Argument argument;
      const std::string wrong = read_argument(text, argument);
      if (!wrong.empty()) return at(wrong);
      arguments_.push_back(std::move(argument));
    } else if (key == "runtime") {
      words >> runtime_;
    } else if (key == "refuses") {
      for (std::string kind; words >> kind;) refusals_.push_back(kind);
    } else if (key.starts_with("precision.")) {
      precision += key.substr(std::strlen("precision.")) + " =" + value + "\n";
    } else {
      // The declaration of a convention would replace the lines above it.
      if (key == "like" && declares)
        return at("like: allowed only before all other fields");
      const std::string wrong = declare_lines(line, declared_);
      if (!wrong.empty()) return at(wrong);
      declares = true;
    }
  }
  if (arguments_.empty()) return path + ": no line \"argument = ...\"";
  precision_.struct_size = sizeof precision_;
  return precision.empty() ? "" : parse_precision(path, precision, precision_);
}

std::string Library::load(const std::string& path,
                          const std::string& function) {
  for (const std::string& one : {runtime_, path})
    if (std::string wrong = not_readable_reason(one);
        !one.empty() && one.find('/') != std::string::npos && !wrong.empty())
      return one + ": " + wrong;
  if (!runtime_.empty() &&
      dlopen(runtime_.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr)
    return dlerror();
  const std::string file =
      path.find('/') == std::string::npos ? "./" + path : path;
  handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle_ == nullptr) return dlerror();
  const std::string symbol = "__tvm_ffi_" + function;
  function_ = find<Function>(symbol.c_str());
  if (function_ == nullptr) return path + ": does not export " + symbol;
  const auto version_of = find<GetVersion>("TVMFFIGetVersion");
  if (version_of == nullptr)
    return path +
           ": comes without libtvm_ffi.so; allowed: a line \"runtime = "
           "PATH\" in the map";
  Version version{};
  version_of(&version);
  if (version.major != kMajor || version.minor != kMinor)
    return path + ": is for tvm-ffi " + std::to_string(version.major) + "." +
           std::to_string(version.minor) + ", this program speaks " +
           std::to_string(kMajor) + "." + std::to_string(kMinor);
  return "";
}

std::string Library::open(const std::string& config) {
  const size_t first = config.find(':');
  const size_t second =
      first == std::string::npos ? first : config.find(':', first + 1);
  if (second == std::string::npos)
    return "\"" + config + "\"; allowed: LIBRARY:FUNCTION:MAP";
  const std::string function = config.substr(first + 1, second - first - 1);
  qkvet_capabilities& can = declared_.declared.capabilities;
  can.struct_size = sizeof can;
  declared_.declared.dialect.struct_size = sizeof(qkvet_dialect);
  std::string wrong = read_map(config.substr(second + 1));
  if (wrong.empty()) wrong = load(config.substr(0, first), function);
  if (!wrong.empty()) return wrong;
  if (!refusals_.empty()) can.flags |= QKVET_FLAG_REFUSES_IN_CALL;
  name_ = "tvm_ffi/";
  for (const char c : function)
    name_ +=
        std::isalnum(static_cast<unsigned char>(c)) != 0
            ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
            : '_';
  description_ = function + " of " + config.substr(0, first) + ", by tvm-ffi";
  kernel_.struct_size = sizeof kernel_;
  kernel_.name = name_.c_str();
  kernel_.description = description_.c_str();
  kernel_.capabilities = &can;
  kernel_.dialect = &declared_.declared.dialect;
  kernel_.precision = &precision_;
  kernel_.user = this;
  kernel_.forward = forward;
  return "";
}

qkvet_status Library::raised(qkvet_text* why) const {
  const auto take = find<TakeError>("TVMFFIErrorMoveFromRaised");
  const auto drop = find<DropObject>("TVMFFIObjectDecRef");
  void* object = nullptr;
  if (take != nullptr) take(&object);
  if (object == nullptr) {
    write(why, "an error without a reason");
    return QKVET_INTERNAL;
  }
  const auto* error = static_cast<const Error*>(object);
  const std::string kind(error->kind.data, error->kind.size);
  write(why,
        kind + ": " + std::string(error->message.data, error->message.size));
  if (drop != nullptr) drop(object);
  const bool refused =
      std::find(refusals_.begin(), refusals_.end(), kind) != refusals_.end();
  return refused ? QKVET_UNSUPPORTED : QKVET_INTERNAL;
}

qkvet_status Library::call(const qkvet_forward_args& args,
                           const qkvet_exec& exec, qkvet_text* why) const {
  std::vector<MovedTensor> tensors(arguments_.size());
  std::vector<Any> given(arguments_.size(), none());
  for (size_t n = 0; n < arguments_.size(); ++n) {
    const Argument& one = arguments_[n];
    if (one.number != nullptr) {
      given[n] = a_float(args.*one.number);
    } else if (one.scalar != nullptr) {
      given[n] = one.scalar(args);
    } else if (one.tensor != nullptr) {
      const qkvet_tensor& tensor = args.*one.tensor;
      if (tensor.data == nullptr && tensor.ndim == 0) continue;
      tensors[n].set(tensor, one.axes);
      given[n].type = kDLTensorPtr;
      given[n].as_pointer = &tensors[n].tensor;
    } else {
      given[n] = one.constant;
      if (one.constant.type == kRawString)
        given[n].as_string = one.text.c_str();
    }
  }
  if (exec.stream != nullptr)
    if (const auto set = find<SetStream>("TVMFFIEnvSetStream"); set != nullptr)
      set(exec.device_type, exec.device_id, exec.stream, nullptr);
  Any result = none();
  const int failed = function_(nullptr, given.data(),
                               static_cast<int32_t>(given.size()), &result);
  if (failed != 0) return raised(why);
  if (result.type < kFirstObject) return QKVET_OK;
  if (const auto drop = find<DropObject>("TVMFFIObjectDecRef"); drop != nullptr)
    drop(result.as_pointer);
  return QKVET_OK;
}

}  // namespace
}  // namespace qkvet::cli::tvm_ffi

qkvet_status qkvet_open(const qkvet_host*, const char* config,
                        qkvet_library* out, qkvet_text* why) {
  using namespace qkvet::cli::tvm_ffi;
  // Lives as long as the process: functions of the library may have threads.
  static Library library;
  static const qkvet_kernel* kernels[1];
  const std::string wrong = library.open(config);
  if (!wrong.empty()) {
    write(why, wrong);
    return QKVET_INVALID_ARGUMENT;
  }
  kernels[0] = library.kernel();
  out->abi_major = QKVET_ABI_MAJOR;
  out->abi_minor = QKVET_ABI_MINOR;
  out->name = "tvm_ffi";
  out->kernel_count = 1;
  out->kernels = kernels;
  return QKVET_OK;
}
