// SPDX-License-Identifier: Apache-2.0
// faulty/member_offsets_rounded_alone: members begin at whole tiles of a buffer
// that is rounded once.
#include <cstddef>

#include "impl/faulty/lane_reads.h"
#include "impl/faulty/option_fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

// The sums of the rows of all members, in the workspace.
struct Sums {
  float* memory = nullptr;                   // NULL: a caller that gives none
  int64_t begin = 0, rows = 0, written = 0;  // of the member
};

struct MemberOffsetsRoundedAlone : OptionSeams {
  static void member(const ForwardCall&, int64_t n, ForwardCall* member) {
    Sums& all = sums();
    all.begin = n == 0 ? 0 : all.begin + whole_lanes(all.rows, tile());
    all.rows = member->queries;
    all.written = 0;
  }
  static float denominator(float sum, float, int64_t) {
    Sums& all = sums();
    if (all.memory == nullptr) {
      return sum;
    }
    volatile float& place = all.memory[all.begin + all.written++ % all.rows];
    place = sum;
    return place;
  }
  static Sums& sums() {
    thread_local Sums of_this_call;
    return of_this_call;
  }
};

qkvet_status workspace(const qkvet_kernel*, qkvet_context*,
                       const qkvet_forward_args* args, size_t* bytes) {
  *bytes = static_cast<size_t>(whole_lanes(args->q.shape[2], tile())) *
           sizeof(float);
  return QKVET_OK;
}

qkvet_status forward(const qkvet_kernel* self, qkvet_context* context,
                     const qkvet_forward_args* args, const qkvet_exec* exec,
                     qkvet_text* why) {
  qkvet_exec known = {};
  const qkvet_status status =
      exec != nullptr ? read_struct(exec, &known, why) : QKVET_OK;
  MemberOffsetsRoundedAlone::sums() = {static_cast<float*>(known.workspace)};
  return status == QKVET_OK ? OptionsKernel<MemberOffsetsRoundedAlone>::forward(
                                  self, context, args, exec, why)
                            : status;
}

constexpr qkvet_kernel kernel_at(Place place, const qkvet_fault* fault) {
  qkvet_kernel kernel = plain_kernel("faulty/member_offsets_rounded_alone",
                                     fault->mechanism, place, &kSeamsPrecision,
                                     forward, &kF32With<QKVET_OPTION_PACKED>);
  kernel.workspace = workspace;
  kernel.dialect = &kOptionsDialect;
  return with_fault(kernel, fault);
}

constexpr const char* kKilledBy[] = {"reads_only_its_inputs", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "each member of a packed batch begins at a multiple of 4 rows of "
        "scratch, which is as large as all rows together, rounded up once",
    .symptom =
        "right for one member and for members of whole tiles; else the last "
        "ones write behind the workspace",
    .cause = "two functions round, one the offsets and one the size",
    .fix = "compute the size as the offset behind the last member",
    .source = "Dao-AILab/flash-attention#2337",
    .trigger = "two members of a packed batch whose rows are no multiple of 4",
    .killed_by = kKilledBy,
    .when = "packed && members(queries % 4 != 0) > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_member_offsets_rounded_alone =
    kernel_at({"impl/faulty/member_offsets_rounded_alone.cpp", __LINE__},
              &kFault) /*MemberOffsetsRoundedAlone*/;

}  // namespace qkvet::impl
