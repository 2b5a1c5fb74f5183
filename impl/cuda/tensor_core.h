// SPDX-License-Identifier: Apache-2.0
// Primitives of kernels on tensor cores, for sm_80 and later: products of small
// matrices with elements spread over a warp, and asynchronous copies. All lanes
// of a warp must call the first three together.
//
// Lane l, g = l / 4, t = l % 4; a register holds two halves, the low one first:
//
//   mma_m16n8k16     C[16 x 8] += A[16 x 16] B[16 x 8], C in f32
//     a[r]           row g + 8 (r % 2), columns 2t, 2t + 1, from r = 2 on + 8
//     b[r]           rows 2t + 8r, 2t + 8r + 1, column g
//     c[i]           row g + 8 (i / 2), column 2t + i % 2
//   ldmatrix_x4      four matrices of 8 rows of 16 bytes; lane l brings the
//                    address of row l % 8 of matrix l / 8, and of matrix r it
//                    gets into to[r] columns 2t, 2t + 1 of row g
//   ldmatrix_x4_trans  the same of their transposes: rows 2t, 2t + 1, column g
//   cp_async_16      16 bytes, of which `bytes` are read and the others 0
//   cp_async_commit  what was begun since the last one is a group
//   cp_async_wait<n> until all but the newest n groups are there, for the
//                    thread that began them; others need a barrier after it
//
// Addresses are multiples of 16. On the emulator products are added one by one
// in f32, k ascending. A copy is made as late as possible, at its wait; in
// reverse order at once; in random order half of them at once.
#ifndef QKVET_IMPL_CUDA_TENSOR_CORE_H_
#define QKVET_IMPL_CUDA_TENSOR_CORE_H_

#include "impl/cuda/numbers.h"
#include "impl/cuda/simt/simt.h"

#if defined(__CUDACC__)
#include "impl/cuda/tensor_core_ptx.h"
#else
#include "impl/cuda/tensor_core_twin.h"
#endif

#endif  // QKVET_IMPL_CUDA_TENSOR_CORE_H_
