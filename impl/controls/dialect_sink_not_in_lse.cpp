// SPDX-License-Identifier: Apache-2.0
// controls/dialect_sink_not_in_lse: the sink takes its share of the weights,
// and lse is that of the keys alone.
#include "impl/controls/dialect.h"
#include "impl/controls/sink_last.h"

namespace qkvet::impl {
namespace {

constexpr qkvet_dialect kDialect =
    deviating(&qkvet_dialect::sink_in_lse, QKVET_SINK_NOT_IN_LSE);

}  // namespace

extern constinit const qkvet_kernel controls_dialect_sink_not_in_lse =
    dialect_kernel(
        "controls/dialect_sink_not_in_lse", "the sink does not count in lse",
        {"impl/controls/dialect_sink_not_in_lse.cpp", __LINE__}, &kDialect,
        kRowForward<SinkLast</*kSinkInLse=*/false>>, &kSinkLastPrecision);

}  // namespace qkvet::impl
