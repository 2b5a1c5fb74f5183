/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of the plug-in ABI (kernel.h, which includes this file): storage types,
 * and the arithmetic that a kernel declares.
 */
#ifndef QKVET_PRECISION_H_
#define QKVET_PRECISION_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* DLPack's dtype codes (dlpack.h, DLDataTypeCode). */
enum {
  QKVET_DTYPE_INT = 0,
  QKVET_DTYPE_UINT = 1,
  QKVET_DTYPE_FLOAT = 2,
  QKVET_DTYPE_BFLOAT = 4,
  QKVET_DTYPE_BOOL = 6,
  QKVET_DTYPE_FLOAT8_E4M3FN = 10,
  QKVET_DTYPE_FLOAT8_E5M2 = 12
};

typedef struct qkvet_dtype {
  uint8_t code;   /* QKVET_DTYPE_* */
  uint8_t bits;   /* bits of one element */
  uint16_t lanes; /* always 1 */
} qkvet_dtype;

/* The arithmetic of a kernel, from which the allowed error of every output
 * element is derived: a preset, and knobs that replace single values of it. A
 * knob counts only if its bit is set in `declared`. Nothing declared means the
 * generic preset: any order, any tile of 16 keys or more, exp to 8 units of
 * 2^-24 (2^-53 for f64 storage), up to 8 merged parts, results flushed to zero.
 * A declaration looser than generic is accepted, and the report names the
 * difference; `--strict` does not accept it. */
enum {
  QKVET_PRECISION_GENERIC = 0,
  QKVET_PRECISION_CPU_F32 = 1,     /* f32, FMA or not, exp within 1.01 * 2^-24,
                                      the scale after the dot product */
  QKVET_PRECISION_FLASH_HALF = 2,  /* half storage, P rounded to it */
  QKVET_PRECISION_TENSOR_CORE = 3, /* CUDA_FAST, sums of tensor cores, sm_80 */
  QKVET_PRECISION_CUDA_FAST = 4,   /* FLASH_HALF with ex2.approx and the like */
  QKVET_PRECISION_MATH_HALF = 5    /* refused: declare softmax_dtype */
};
/* The order in which terms are added. */
enum {
  QKVET_SUM_ANY = 0,
  QKVET_SUM_LANES = 1,   /* term k goes to lane k mod lanes, ascending; then
                            the lanes are added as a tree */
  QKVET_SUM_PAIRWISE = 2 /* recursive halves: depth ceil(log2 n) */
};
enum {
  QKVET_SCALE_AFTER_DOT = 0,
  QKVET_SCALE_ON_Q = 1,  /* q is multiplied before the dot product; with
                            sqrt(scale) on q and on k, leave it undeclared */
  QKVET_SCALE_FOLDED = 2 /* into the fused multiply-add before exp2 */
};
enum {
  QKVET_MERGE_NONE = 0,
  QKVET_MERGE_MLO = 1, /* parts (max, sum, unnormalised o), rescaled */
  QKVET_MERGE_LSE = 2  /* parts (o, lse), weighted by exp(lse - total) */
};
#define QKVET_KNOB_ACCUMULATOR_U (UINT64_C(1) << 0)
#define QKVET_KNOB_DOT_SUM (UINT64_C(1) << 1)   /* dot_sum and dot_lanes */
#define QKVET_KNOB_VALUE_SUM (UINT64_C(1) << 2) /* value_sum */
#define QKVET_KNOB_FMA (UINT64_C(1) << 3)
#define QKVET_KNOB_SCALE_STAGE (UINT64_C(1) << 4)
#define QKVET_KNOB_EXP_ERROR (UINT64_C(1) << 5) /* exp_error and exp_floor */
#define QKVET_KNOB_ARG_ROUNDINGS (UINT64_C(1) << 6)
#define QKVET_KNOB_REF_ROUNDINGS (UINT64_C(1) << 7)
#define QKVET_KNOB_TILE (UINT64_C(1) << 8)
#define QKVET_KNOB_LAZY (UINT64_C(1) << 9)
#define QKVET_KNOB_SPLITS (UINT64_C(1) << 10) /* splits and merge */
#define QKVET_KNOB_NORM (UINT64_C(1) << 11)   /* norm_roundings, norm_first */
#define QKVET_KNOB_P_DTYPE                      \
  (UINT64_C(1) << 12) /* p_dtype, p_normalised, \
                         sum_of_rounded_p */
#define QKVET_KNOB_SCORE_DTYPE (UINT64_C(1) << 13)
#define QKVET_KNOB_FTZ (UINT64_C(1) << 14)
#define QKVET_KNOB_TENSOR_CORE (UINT64_C(1) << 15)
#define QKVET_KNOB_DEFAULT_SCALE_ERROR (UINT64_C(1) << 16)
#define QKVET_KNOB_TANH_ERROR \
  (UINT64_C(1) << 17) /* tanh_error and tanh_floor */
#define QKVET_KNOB_OPERAND_DTYPE (UINT64_C(1) << 18)
#define QKVET_KNOB_LSE_DTYPE (UINT64_C(1) << 19)
#define QKVET_KNOB_SINK_DTYPE (UINT64_C(1) << 20)
#define QKVET_KNOB_SOFTMAX_DTYPE (UINT64_C(1) << 21)
#define QKVET_KNOB_DOT_SUM_DTYPE (UINT64_C(1) << 22)
#define QKVET_KNOB_VALUE_SUM_DTYPE (UINT64_C(1) << 23)
#define QKVET_KNOB_ROTATED (UINT64_C(1) << 24) /* rotated_as_stored */
#define QKVET_KNOB_LOG_ERROR (UINT64_C(1) << 25)

typedef struct qkvet_precision {
  size_t struct_size;
  int32_t preset;    /* QKVET_PRECISION_* */
  int32_t reserved;  /* 0 */
  uint64_t declared; /* QKVET_KNOB_* */

  double accumulator_u; /* unit roundoff of the accumulators; f32: 2^-24. It
                           does not depend on the storage, nor do exp_error and
                           tanh_error; undeclared it is 2^-53 for f64 storage */
  int32_t dot_sum;      /* QKVET_SUM_* of q.k */
  int32_t dot_lanes;    /* with QKVET_SUM_LANES; 1: sequential */
  int32_t value_sum;    /* QKVET_SUM_* over keys, of P v and of the
                           denominator; LANES means one lane, keys ascending */
  int32_t fma;          /* nonzero: products of q.k and P v are not rounded */
  int32_t scale_stage;  /* QKVET_SCALE_* */
  int32_t tile; /* keys per tile, at least; 0: the row maximum is known before
                   any exponential is taken */
  double exp_error; /* relative error of exp, its own rounding included */
  double exp_floor; /* absolute error of exp where it underflows, weight 1 */
  double arg_roundings;  /* roundings of the argument of exp in proportion to
                            the distance from the maximum: exp(s - m) 1,
                            exp2((s - m) * log2e) 2.3, folded 3.3 */
  double ref_roundings;  /* roundings in proportion to the scores themselves:
                            fma(s, c, -(m * c)) with several tiles 1, else 0 */
  double lazy;           /* largest lag of the maximum, in natural log units */
  int32_t splits;        /* parts of the keys computed on their own; 1: none */
  int32_t merge;         /* QKVET_MERGE_* */
  double norm_roundings; /* division 1, reciprocal times value 2 */
  int32_t norm_first;    /* nonzero: weights are normalised before P v */
  qkvet_dtype p_dtype;   /* type of rounded P; {0,0,0}: not rounded */
  int32_t p_normalised;  /* nonzero: P is rounded after its normalisation */
  int32_t sum_of_rounded_p; /* nonzero: the denominator adds rounded P */
  qkvet_dtype score_dtype;  /* type of stored scores, f16 or bf16: after the dot
                               product, after a separate scale (AFTER_DOT or
                               undeclared), after every addition and the cap.
                               Scores beyond its largest number are not judged;
                               products that a smaller scale on q would have
                               kept below it are. {0,0,0}: as f32 */
  int32_t ftz;              /* nonzero: subnormal results or inputs become 0 */
  int32_t tensor_core;      /* nonzero: sums of tensor cores, which truncate */
  double default_scale_error;  /* relative error of 1/sqrt(d) if the kernel
                                  computes it, in units of accumulator_u */
  int32_t exp_inexact_at_zero; /* nonzero: exp(0) need not be exactly 1. 0: it
                                  is, and equal scores make exact weights.
                                  Counts with KNOB_EXP_ERROR */
  double tanh_error;           /* relative error of tanh */
  qkvet_dtype operand_dtype;   /* type to which q, k, P and v may be rounded,
                                  once each, before their products, f16 or bf16;
                                  P to p_dtype if declared. {0,0,0}: not
                                  rounded */
  qkvet_dtype lse_dtype;       /* f16 or bf16: type to which lse is rounded,
                                  still returned in f32; {0,0,0}: as f32 */
  qkvet_dtype sink_dtype;      /* type to which sinks are rounded when read; the
                                  same */
  /* Type in which the softmax is computed: f16 or bf16 in any call, f32 in f64
   * calls. Each result is stored as this type: scores (score_dtype may name
   * another half type for them), the scale, differences, exponentials, their
   * sum, quotients, logarithms. Sums of one tile are added in f32, or with
   * accumulator_u. An undeclared exp_error is the preset's, in units of this
   * type. {0,0,0}: accumulator_u holds. */
  qkvet_dtype softmax_dtype;
  /* Type in which sums of q.k, and of P v, are kept, f16 or bf16: each product
   * (without fma), each partial sum and each rescale of P v is stored as this
   * type. A kernel that adds in f32 and stores only the sum declares
   * score_dtype or nothing. The denominator is no such sum: softmax_dtype and
   * accumulator_u define its addition. Rows with partial sums that may exceed
   * the largest number of the type are not judged. {0,0,0}: accumulator_u
   * holds. */
  qkvet_dtype dot_sum_dtype;
  qkvet_dtype value_sum_dtype;
  int32_t rotated_as_stored; /* nonzero: rotated q and k are rounded to their
                                storage type before they are multiplied, as in
                                a cache of rotated keys. Implied if P is rounded
                                to half storage */
  double tanh_floor; /* absolute error of tanh, added to tanh_error: near 0 a
                        tanh made of exponentials has it, and one stored in half
                        where that underflows */
  double log_error;  /* error of the natural logarithm x of a sum of weights, in
                        units of max(1, |x|), its own rounding included; in base
                        2 times ln 2. Undeclared: that of a good library, twice
                        that if exp is coarse */
} qkvet_precision;

#ifdef __cplusplus
}
#endif

#endif /* QKVET_PRECISION_H_ */
