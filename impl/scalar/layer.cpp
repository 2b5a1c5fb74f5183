// SPDX-License-Identifier: Apache-2.0
// scalar/layer: multi-head self-attention from X to Y as in the paper
// (Vaswani et al. 2017, 3.2.2): project, split, attend, merge, project. The
// stages are those of layer_skeleton.h with every hook correct; they are
// f32 and are returned on request. The gradient is that of
// layer_gradient.h.
//
// Cost: 2 B T D (H d + Hkv (d + dv) + H dv) flops of projections and 2 (d + dv)
// a visible pair, element by element: written to be read.
#include "impl/skeletons/layer_gradient.h"
#include "impl/skeletons/layer_skeleton.h"

namespace qkvet::impl {

extern constinit const qkvet_kernel scalar_layer = with_backward(
    layer_kernel("scalar/layer",
                 "project, split, attend, merge, project; f32 stages",
                 {"impl/scalar/layer.cpp", __LINE__}, &kLayerPrecision,
                 &kLayerTable<PlainLayer>),
    &kLayerGradientTable<PlainLayerGradient>);

}  // namespace qkvet::impl
