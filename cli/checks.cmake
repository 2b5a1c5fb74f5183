# Conformance of the built-in kernels, as entries of ctest.

# One entry per correct kernel: qkvet_add_kernel_check(<family/variant>
# [<percent>]). The number of cases is fixed, so the same cases are judged
# everywhere (sanitizers judge fewer), or this percentage of them without
# sanitizers; the long form is ci/long.sh.
set(QKVET_CHECK_CASES 1000 CACHE STRING "Cases of each check.* test")
function(qkvet_add_kernel_check kernel)
  string(REGEX REPLACE "/.*" "" family ${kernel})
  set(cases ${QKVET_CHECK_CASES})
  if(ARGC GREATER 1 AND QKVET_TESTS STREQUAL "all")
    math(EXPR cases "${cases} * ${ARGV1} / 100")
  endif()
  qkvet_add_test(check.${kernel} NEEDS qkvet_${family} COMMAND qkvet check --kernel ${kernel}
    --cases ${cases})
  qkvet_set_test(check.${kernel} LABELS check COST 30)
endfunction()
# On a CPU that cannot run it: a skip, only for this reason.
function(qkvet_add_avx2_check kernel)
  qkvet_add_kernel_check(${kernel})
  qkvet_set_test(check.${kernel} SKIP_REGULAR_EXPRESSION "needs AVX2")
endfunction()
# Entries of the program. ThreadSanitizer sees it in
# properties/run/two_threads_test.cpp.
if(QKVET_TESTS STREQUAL "threads")
  return()
endif()

# Two lanes with separate workers, over all default families.
qkvet_add_test(check.two_threads NEEDS qkvet_default_program
  COMMAND qkvet check --cases 320 --sizes small --jobs 2)

# Findings of earlier hunts, and a short hunt with every target: inputs of
# parsers are read once more under sanitizers.
set(fuzz_dir ${PROJECT_SOURCE_DIR}/fuzz)
qkvet_add_test(fuzz.regressions
  COMMAND qkvet replay @${fuzz_dir}/regressions.txt)
foreach(target ${QKVET_FUZZ_TARGETS})
  file(GLOB corpus ${fuzz_dir}/corpus/${target} ${fuzz_dir}/corpus/${target}.txt)
  if(corpus)
    qkvet_add_test(fuzz.corpus.${target}
      COMMAND qkvet fuzz ${target} --replay ${corpus})
  endif()
  if(QKVET_LIBFUZZER)
    set(words --cases 500)
    if(corpus)
      list(APPEND words --seeds ${corpus})
    endif()
    if(target STREQUAL "differential")
      list(APPEND words --kernel scalar/plain --kernel eigen/plain)
    endif()
    qkvet_add_test(fuzz.hunt.${target} COMMAND qkvet fuzz ${target} ${words})
    qkvet_set_test(fuzz.hunt.${target} COST 30)
  endif()
endforeach()

foreach(kernel scalar/plain scalar/layer scalar/merge eigen/plain eigen/layer)
  qkvet_add_kernel_check(${kernel})
endforeach()
set(caches contiguous growing paged prefix ring quantised split)
list(TRANSFORM caches PREPEND kv_cache/ OUTPUT_VARIABLE kernels)
foreach(kernel ${kernels})
  qkvet_add_kernel_check(${kernel})
endforeach()
if(TARGET qkvet_avx2)
  qkvet_add_avx2_check(avx2/flash)
  qkvet_add_avx2_check(avx2/layer)
  qkvet_add_avx2_check(avx2/merge)
endif()
if(TARGET qkvet_kv_cache_avx2)
  foreach(kernel ${caches})
    qkvet_add_avx2_check(kv_cache_avx2/${kernel})
  endforeach()
endif()
foreach(kernel gathered paged planned)
  qkvet_add_kernel_check(serving/${kernel})
  if(TARGET qkvet_serving_avx2)
    qkvet_add_avx2_check(serving_avx2/${kernel})
  endif()
endforeach()
# The emulator is slow, and these two have the same arithmetic.
set(percent_of_decode 60)
set(percent_of_planned 25)
foreach(kernel ${QKVET_CUDA_KERNELS})
  qkvet_add_kernel_check(simt/${kernel} ${percent_of_${kernel}})
endforeach()
# Correct kernels of families that are not built with sanitizers.
if(NOT QKVET_TESTS STREQUAL "all")
  return()
endif()

# Three tiles of 64 keys and two blocks of rows, which few cases reach: without
# the barrier after a tile 17 laws fail here.
qkvet_add_test(check.simt/three_tiles COMMAND qkvet check
  --kernel simt/flash_mma --cases 500 --pin Tq=90,Tk=150,d=16,dv=16)
qkvet_set_test(check.simt/three_tiles LABELS check COST 30)
# All controls, in groups of about equal time: qkvet_add_controls_check(<name>
# <glob>...). Each has its own plan. Four cases of a law are too few to say how
# often the bound of sums in f16 is uninformative.
set(percent_of_half 35)
function(qkvet_add_controls_check name)
  set(percent 25)
  if(DEFINED percent_of_${name})
    set(percent ${percent_of_${name}})
  endif()
  math(EXPR cases "${QKVET_CHECK_CASES} * ${percent} / 100")
  set(kernels)
  foreach(glob ${ARGN})
    list(APPEND kernels --kernel controls/${glob})
  endforeach()
  qkvet_add_test(check.controls_${name} COMMAND qkvet check ${kernels}
    --cases ${cases})
  qkvet_set_test(check.controls_${name} LABELS check COST 500)
endfunction()
qkvet_add_controls_check(a_to_h "a*" "b[!afl]*" "c[!h]*" "[de]*" "f[!1al]*" "fl[!a]*"
  "g*" "hal[!f]*")
qkvet_add_controls_check(half "bf16_*" "blocks*" "f16_*" "fast_*" "flash_p_*"
  "half_*")
qkvet_add_controls_check(i_to_z "[i-pr-u]*" "value_*")
qkvet_add_controls_check(in_one_block "ch*" "q*" "values_*")
qkvet_add_controls_check(backward "backward_[!h]*")
qkvet_add_controls_check(backward_half "backward_h*")
qkvet_add_controls_check(caches "cache_*")
qkvet_add_controls_check(layers "layer_*")

# Errors of index logic, decided and not sampled: a fault of few shapes, found
# in the small scope. A correct kernel completes all of it in ci/long.sh, two
# minutes of computing.
qkvet_add_test(exhaustive.finds_a_fault
  COMMAND qkvet check --kernel faulty/head_divided_by_kv_heads --exhaustive)
qkvet_set_test(exhaustive.finds_a_fault
  PASS_REGULAR_EXPRESSION "FAIL +agrees_with_oracle +faulty/head_div")

# The command itself; Kill.* judges every fault, and ci/long.sh does so by this
# command.
qkvet_add_test(faults.named COMMAND qkvet check --faults=named -k faulty/[q-z]*)
qkvet_set_test(faults.named COST 900)
# The page of the laws, and a page without content.
set(page ${CMAKE_COMMAND} -E env python3 ${PROJECT_SOURCE_DIR}/ci/law_pages.py
  $<TARGET_FILE:qkvet> --check)
qkvet_add_test(docs.laws NEEDS qkvet_faulty COMMAND ${page})
qkvet_add_test(docs.laws_can_fail NEEDS qkvet_faulty COMMAND ${page} /dev/null)
qkvet_set_test(docs.laws_can_fail WILL_FAIL ON)
# Records of runs against their schema, and the reports of them.
qkvet_add_test(record.schema NEEDS qkvet_faulty qkvet_scalar
  COMMAND ${CMAKE_COMMAND} -E env
  python3 ${PROJECT_SOURCE_DIR}/report/record_test.py $<TARGET_FILE:qkvet>)
qkvet_set_test(record.schema COST 30)
# The pages in a browser; skipped with a message if there is none (Debian:
# chromium).
qkvet_add_test(record.pages NEEDS qkvet_faulty qkvet_scalar
  COMMAND ${CMAKE_COMMAND} -E env
  python3 ${PROJECT_SOURCE_DIR}/report/page_test.py $<TARGET_FILE:qkvet>)
qkvet_set_test(record.pages COST 60 SKIP_REGULAR_EXPRESSION
  "skipped: no chromium")
qkvet_add_test(diagnosis_scores.refuses_other_kernels NEEDS diagnosis_scores
  COMMAND diagnosis_scores --kernel nope)
qkvet_set_test(diagnosis_scores.refuses_other_kernels
  PASS_REGULAR_EXPRESSION "nope: is none of those that are mutated .scalar/plain")
# Each line with a known stage is in its source.
qkvet_add_test(diagnosis_scores.stages NEEDS diagnosis_scores qkvet_faulty
  COMMAND diagnosis_scores --count 4 --only none)
qkvet_add_test(sabotage.refuses_other_words NEEDS sabotage
  COMMAND sabotage many)
qkvet_set_test(sabotage.refuses_other_words
  PASS_REGULAR_EXPRESSION "^usage: sabotage")
qkvet_add_test(fuzz.regressions_can_fail
  COMMAND qkvet replay @${PROJECT_SOURCE_DIR}/fuzz/regressions.txt
          --kernel faulty/no_max_subtraction)
qkvet_set_test(fuzz.regressions_can_fail
  PASS_REGULAR_EXPRESSION "FAIL +agrees_with_oracle +faulty/no_max")
