// SPDX-License-Identifier: Apache-2.0
// The definition of a fault: the class that replaces one hook of a correct
// kernel, and a row about it (qkvet_fault, qkvet/kernel.h).
//
//   struct NoScale : OptionHooks {
//     static float scale(const ForwardCall&) { return 1; }
//   };
//   QKVET_FAULT(no_scale, kPlainFault<NoScale>) = {
//       .cause = "the scores are not scaled",
//       ...
//   };
//
// The row adds kernel faulty/no_scale to the family (collected.h), and a
// report refers to its line.
#ifndef QKVET_IMPL_FAULTY_FAULT_H_
#define QKVET_IMPL_FAULTY_FAULT_H_

#include <cstring>

#include "impl/call/collected.h"
#include "impl/call/declare.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

// A qkvet_fault in which most fields may be left out.
struct FaultRow {
  const char* when = "";
  const char* cause;
  const char* fix;
  const char* source = nullptr;
  const char* killed_by[2];
  const char* extents = nullptr;
  bool tiled = false;
};

struct NamedFault {
  const char* name;
  Place place;
  qkvet_kernel kernel;
  FaultRow row = {};

  // Lets a row follow its name as `= {...}`.
  constexpr NamedFault operator=(const FaultRow& of) const {
    return {name, place, kernel, of};
  }
};

// A kernel with its fault; the fault's cause is its description. It needs
// static storage because it points into itself: for g++ 14 one that a function
// returns would be no constant.
class Fault : public qkvet_kernel {
 public:
  constexpr Fault(const NamedFault& of)
      : qkvet_kernel(of.kernel),
        other_(get_extension),
        fault_{.struct_size = sizeof(qkvet_fault),
               .when = of.row.when,
               .cause = of.row.cause,
               .fix = of.row.fix,
               .source = of.row.source,
               .killed_by = {of.row.killed_by[0], of.row.killed_by[1]},
               .extents = of.row.extents,
               .tiled = of.row.tiled} {
    name = of.name;
    description = of.row.cause;
    source_file = of.place.file;
    source_line = of.place.line;
    user = &fault_;
    get_extension = extension;
  }
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;

 private:
  using Extension = const void* (*)(const qkvet_kernel*, const char*);

  // `self` is one of these.
  static const void* extension(const qkvet_kernel* self, const char* id) {
    const Extension other = static_cast<const Fault*>(self)->other_;
    if (std::strcmp(id, QKVET_EXTENSION_FAULT) == 0) {
      return self->user;
    }
    return other == nullptr ? nullptr : other(self, id);
  }

  Extension other_;  // of the kernel beside its fault
  qkvet_fault fault_;
};

// QKVET_FAULT(<name>, <its kernel, kPlainFault and its kin>) = {<the row>};
#define QKVET_FAULT(name, ...)                              \
  extern const Fault faulty_##name;                         \
  QKVET_COLLECT(faulty_##name);                             \
  extern constinit const Fault faulty_##name = NamedFault { \
    "faulty/" #name, {__FILE__, __LINE__}, __VA_ARGS__      \
  }

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_FAULTY_FAULT_H_
