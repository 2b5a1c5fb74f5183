// SPDX-License-Identifier: Apache-2.0
// How a fault is written down: the class that replaces one hook of a right
// kernel, and a block that names the kernel and tells its story.
//
//   // The scores are not scaled.
//   struct NoScale : PlainHooks {
//     static float scale(const ForwardCall&) { return 1; }
//   };
//   QKVET_FAULT(no_scale) = {
//       .kernel = plain_fault<NoScale>,
//       .mechanism = "...",
//       ...
//   };
//
// That is all: kernel faulty/no_scale is in the family because its block stands
// in a theme file (list_faults.cmake reads them when the family is built), and
// a report points at the line of its block.
#ifndef QKVET_IMPL_FAULTY_FAULT_H_
#define QKVET_IMPL_FAULTY_FAULT_H_

#include <cstring>

#include "impl/abi/declare.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

// What a block says; qkvet_fault (qkvet/kernel.h) explains the texts.
struct FaultBlock {
  static constexpr int kMostLaws = 12;

  // The kernel, which does not know that it has a fault: plain_fault and its
  // kin. Its description is the mechanism.
  qkvet_kernel (*kernel)(const char* name, const char* description, Place);
  const char* mechanism;
  const char* symptom;
  const char* cause;
  const char* fix;
  const char* source;
  const char* trigger;
  const char* killed_by[kMostLaws];
  const char* when;
  // Extents at which it shows, "Tk=513", where hardly any drawn case has such:
  // `qkvet check --faults` asks for these.
  const char* extents = nullptr;
  // Whether the fault lies in tiles or lanes, whose width is tile.h's: a
  // diagnosis tries other widths. Read by list_faults.cmake.
  bool tiled = false;
};

// A block with its name, and where it is.
struct NamedFault {
  const char* kernel;
  Place place;
  FaultBlock block;
};

// A kernel that tells its fault. A constant of static storage: it points into
// itself, so a function that returned one would be no constant to g++ 14.
class Fault : public qkvet_kernel {
 public:
  constexpr Fault(const NamedFault& fault) : Fault(fault, fault.block) {}
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;

 private:
  using Extension = const void* (*)(const qkvet_kernel*, const char*);

  constexpr Fault(const NamedFault& fault, const FaultBlock& block)
      : qkvet_kernel(block.kernel(fault.kernel, block.mechanism, fault.place)),
        other_(get_extension),
        killed_by_{},
        told_{.struct_size = sizeof(qkvet_fault),
              .mechanism = block.mechanism,
              .symptom = block.symptom,
              .cause = block.cause,
              .fix = block.fix,
              .source = block.source,
              .trigger = block.trigger,
              .killed_by = killed_by_,
              .when = block.when,
              .extents = block.extents} {
    for (int i = 0; i < FaultBlock::kMostLaws; ++i) {
      killed_by_[i] = block.killed_by[i];
    }
    user = &told_;
    get_extension = extension;
  }

  // `self` is one of these.
  static const void* extension(const qkvet_kernel* self, const char* id) {
    const Extension other = static_cast<const Fault*>(self)->other_;
    if (std::strcmp(id, QKVET_EXTENSION_FAULT) == 0) {
      return self->user;
    }
    return other == nullptr ? nullptr : other(self, id);
  }

  Extension other_;  // of the kernel beside its fault
  const char* killed_by_[FaultBlock::kMostLaws + 1];  // NULL-ended
  qkvet_fault told_;
};

// Lets a block follow its name as `= {...}`.
struct FaultName {
  const char* kernel;
  Place place;

  constexpr NamedFault operator=(const FaultBlock& block) const {
    return {kernel, place, block};
  }
};

#define QKVET_FAULT(name)                                  \
  extern constinit const Fault faulty_##name = FaultName { \
    "faulty/" #name, { __FILE__, __LINE__ }                \
  }

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_FAULTY_FAULT_H_
