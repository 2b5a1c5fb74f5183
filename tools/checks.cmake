# Conformance of what comes with QKVet, as entries of ctest.

# One entry per correct kernel: qkvet_add_kernel_check(<family/variant>). The
# number of cases is fixed, so the same cases are judged everywhere (sanitizers
# look at fewer of them); the long form is ci/long.sh.
set(QKVET_CHECK_CASES 3200 CACHE STRING "Cases of each check.* test")
function(qkvet_add_kernel_check kernel)
  if(QKVET_BUILD_TESTS)
    add_test(NAME check.${kernel} COMMAND qkvet check --kernel ${kernel}
             --cases ${QKVET_CHECK_CASES} --allow-loose)
    set_tests_properties(check.${kernel} PROPERTIES TIMEOUT 300)
  endif()
endfunction()
# On a CPU that cannot run it: a skip, for this reason and no other.
function(qkvet_add_avx2_check kernel)
  qkvet_add_kernel_check(${kernel})
  if(QKVET_BUILD_TESTS)
    set_tests_properties(check.${kernel} PROPERTIES
      SKIP_REGULAR_EXPRESSION "needs AVX2")
  endif()
endfunction()
foreach(kernel scalar/plain controls/f64_plain scalar/layer eigen/plain
        eigen/layer)
  qkvet_add_kernel_check(${kernel})
endforeach()
set(caches contiguous growing paged prefix ring quantised split)
list(TRANSFORM caches PREPEND kv_cache/ OUTPUT_VARIABLE kernels)
foreach(kernel ${kernels})
  qkvet_add_kernel_check(${kernel})
endforeach()
if(TARGET qkvet_avx2)
  list(TRANSFORM caches PREPEND kv_cache_avx2/ OUTPUT_VARIABLE kernels)
  foreach(kernel avx2/flash avx2/layer ${kernels})
    qkvet_add_avx2_check(${kernel})
  endforeach()
endif()
foreach(kernel gathered paged)
  qkvet_add_kernel_check(serving/${kernel})
  if(TARGET qkvet_serving_avx2)
    qkvet_add_avx2_check(serving_avx2/${kernel})
  endif()
endforeach()
foreach(kernel ${QKVET_CUDA_KERNELS})
  qkvet_add_kernel_check(simt/${kernel})
endforeach()
# Three tiles of 64 keys and two blocks of rows, which few cases reach: without
# the barrier behind a tile 17 laws fail here.
if(QKVET_BUILD_TESTS)
  add_test(NAME check.simt/three_tiles COMMAND qkvet check
           --kernel simt/flash_mma --cases 500 --pin Tq=90,Tk=150,d=16,dv=16)
endif()
foreach(control naive reversed pairwise lanes8 online3 online16 online64
        right_to_left folded_exp2 poly_exp split2_lse split7_lse lazy_rescale
        split3_mlo exp2_tile32 prescaled_q flush_to_zero random_order
        half_online64 flash_p_rounded bf16_sum_rounded f16_sum_rounded
        bf16_p_normalised f16_p_normalised plain_seams option_seams dropout_not_returned tiled_seams split_seams
        serving_seams pages_only
        layer_half_stages cache_online4 cache_turned_keys
        backward_from_columns backward_recomputes_lse backward_delta_from_p
        backward_half_operands bias_before_scale softcap_by_exp
        alibi_by_position sink_last mask_minus_inf select_after_exp
        dialect_empty_row_nan dialect_empty_row_mean
        dialect_empty_lse_plus_inf dialect_empty_lse_nan dialect_lse_base2
        dialect_softcap_after_bias dialect_sink_not_in_lse
        dialect_masked_nonfinite dialect_mask_and_causal)
  qkvet_add_kernel_check(controls/${control})
endforeach()

# What index logic can do wrong, decided and not sampled.
if(QKVET_BUILD_TESTS)
  add_test(NAME exhaustive.scalar_plain
           COMMAND qkvet check --kernel scalar/plain --exhaustive)
  # The longest of all: it starts first, beside the others.
  set_tests_properties(exhaustive.scalar_plain PROPERTIES TIMEOUT 900
                       LABELS slow COST 1000)
endif()

# Two lanes, each with workers of its own, over all default families.
if(QKVET_BUILD_TESTS)
  add_test(NAME check.two_threads
           COMMAND qkvet check --cases 320 --sizes small --jobs 2)
  set_tests_properties(check.two_threads PROPERTIES TIMEOUT 300 LABELS threads)
endif()
