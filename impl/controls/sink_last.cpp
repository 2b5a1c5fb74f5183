// SPDX-License-Identifier: Apache-2.0
// controls/sink_last: the sink joins the denominator after the last key.
#include "impl/controls/sink_last.h"

namespace qkvet::impl {

extern constinit const qkvet_kernel controls_sink_last =
    plain_kernel("controls/sink_last", "the sink joins after the last key",
                 {"impl/controls/sink_last.cpp", __LINE__}, &kSinkLastPrecision,
                 kRowForward<SinkLast</*kSinkInLse=*/true>>, &kAllCapabilities);

}  // namespace qkvet::impl
