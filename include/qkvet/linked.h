// SPDX-License-Identifier: Apache-2.0
// Judges kernels that are linked into this program, from C++17, without the
// qkvet program. <qkvet/gtest.h> makes tests of it; other frameworks call
// judge_linked(). Needs the CMake target qkvet::linked.
//
// The kernels run in this process: one that crashes, hangs, exits or touches
// memory outside of its tensors ends the program and the remaining tests. To
// avoid that, build a plug-in and use <qkvet/suite.h>.
//
// Several libraries in one program: each entry needs its own name, with C or
// any other linkage; -Dqkvet_open=mine_open renames it without an edit.
#ifndef QKVET_LINKED_H_
#define QKVET_LINKED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "qkvet/kernel.h"
#include "qkvet/suite.h"

namespace qkvet {

// The kernels to judge. An entry means a library with the defaults:
//   Linked(mine_open).kernel("mine/fast").cases(500)
class Linked {
 public:
  Linked(qkvet_open_function open) : open_(open) {}  // NOLINT: an entry is one

  // The `config` text of the entry.
  Linked& config(const std::string& text) {
    config_ = text;
    return *this;
  }
  // A kernel of the library, or a glob; may be repeated. Without: all.
  Linked& kernel(const std::string& name) {
    kernels_.push_back(name);
    return *this;
  }
  // Per law.
  Linked& cases(int64_t count) {
    cases_ = count;
    return *this;
  }
  // Instead of cases: this one, as in a report. For debuggers.
  Linked& only(const std::string& text) {
    only_ = text;
    return *this;
  }

 private:
  friend LawResult judge_linked(const Linked& linked, const std::string& law);

  qkvet_open_function open_;
  std::string config_;
  std::vector<std::string> kernels_;
  std::string only_;
  int64_t cases_ = Plugin::kDefaultCases;
};

namespace linked_detail {

// The part in the archive. No type of the C++ library crosses the border,
// because the two sides may be built with different ones.
struct Request {
  qkvet_open_function open;
  const char* config;
  const char* const* kernels;
  size_t kernel_count;
  int64_t cases;
  const char* only;  // "": as many as `cases`
  const char* law;
  void (*say)(void* text, const char* all);  // called once, unless it holds
  void* text;
};
LawOutcome judge(const Request& request) noexcept;

// Null past the last law.
const char* law(size_t index) noexcept;

}  // namespace linked_detail

// Checks one law. One thread at a time: a library may be opened only once per
// process. Sets the default floating-point environment during the call.
inline LawResult judge_linked(const Linked& linked, const std::string& law) {
  std::vector<const char*> kernels;
  for (const std::string& name : linked.kernels_)
    kernels.push_back(name.c_str());
  LawResult result;
  linked_detail::Request request{};
  request.open = linked.open_;
  request.config = linked.config_.c_str();
  request.kernels = kernels.data();
  request.kernel_count = kernels.size();
  request.cases = linked.cases_;
  request.only = linked.only_.c_str();
  request.law = law.c_str();
  request.text = &result.text;
  request.say = [](void* text, const char* all) {
    *static_cast<std::string*>(text) = all;
  };
  result.outcome = linked_detail::judge(request);
  return result;
}

// The laws of judge_linked().
inline std::vector<std::string> linked_law_names() {
  std::vector<std::string> names;
  for (size_t i = 0; linked_detail::law(i) != nullptr; ++i)
    names.emplace_back(linked_detail::law(i));
  return names;
}

}  // namespace qkvet

#endif  // QKVET_LINKED_H_
