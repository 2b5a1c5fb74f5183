# SPDX-License-Identifier: Apache-2.0
# Installs the built tree, moves it, and lets a user's project find it there:
# its good kernel passes and its broken one fails, under ctest and GoogleTest.
cmake_minimum_required(VERSION 3.25)

# run(<exit code> <command>...): sets `output`.
function(run expected)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code
    OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT code EQUAL expected)
    list(JOIN ARGN " " line)
    message(FATAL_ERROR "${line}\nended with ${code}, expected ${expected}\n"
      "${out}${err}")
  endif()
  set(output "${out}${err}" PARENT_SCOPE)
endfunction()

# expect(<regular expression>...): each matches `output`.
function(expect)
  foreach(pattern IN LISTS ARGN)
    if(NOT output MATCHES "${pattern}")
      message(FATAL_ERROR "\"${pattern}\" is not in:\n${output}")
    endif()
  endforeach()
endfunction()

set(prefix "${SCRATCH}/moved here")
set(build ${SCRATCH}/build)
set(configure ${CMAKE_COMMAND} -S ${CONSUMER} -B ${build} -G ${GENERATOR}
  -D CMAKE_C_COMPILER=${C_COMPILER} -D CMAKE_CXX_COMPILER=${CXX_COMPILER}
  "-DCMAKE_CXX_FLAGS=-O1 -Wall -Wextra -Wpedantic -Werror" -D CMAKE_C_FLAGS=-O2
  "-DCMAKE_PREFIX_PATH=${prefix}" -D CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
file(REMOVE_RECURSE ${SCRATCH})
run(0 ${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/first)
file(RENAME ${SCRATCH}/first "${prefix}")

run(0 ${configure} -D QKVET_VERSION=${VERSION})
run(0 ${CMAKE_COMMAND} --build ${build})
run(0 ${CMAKE_CTEST_COMMAND} --test-dir ${build}
  -R "^good|Laws/Good" --no-tests=error)
expect("good.all +\\.+ +Passed" "good.two +\\.+ +Passed"
  "good.streams +\\.+ +Passed"
  "Laws/Good.Holds/agrees_with_oracle +\\.+ +Passed"
  "Laws/Good.Holds/layer_agrees_with_oracle +\\.+\\*+Skipped"
  "linked.Laws/Good.Holds/agrees_with_oracle +\\.+ +Passed"
  "linked.Laws/Good.Holds/layer_agrees_with_oracle +\\.+\\*+Skipped"
  "100% tests passed")

# The controls: each fails as it must, with its reason.
run(8 ${CMAKE_CTEST_COMMAND} --test-dir ${build} --output-on-failure
  -R "^broken|^Laws/Broken.*(scale|layer_agrees)|^Laws/Missing.*(scale|layer)"
  --no-tests=error)
expect("broken.all +\\.+\\*+Failed"
  "Laws/Broken.Holds/scale_is_one_over_sqrt_d +\\.+\\*+Failed"
  "FAIL  scale_is_one_over_sqrt_d +consumer/attention +attention.c"
  "again +qkvet replay" "--law scale_is_one_over_sqrt_d"
  "Laws/Broken.Holds/layer_agrees_with_oracle +\\.+\\*+Skipped"
  "Laws/Missing.Holds/layer_agrees_with_oracle +\\.+\\*+Failed"
  "qkvet: no_such_file.so: no such file")
run(8 ${CMAKE_CTEST_COMMAND} --test-dir ${build} --output-on-failure
  -R "^linked.Laws/Broken.*(scale|layer_agrees)" --no-tests=error)
expect("linked.Laws/Broken.Holds/scale_is_one_over_sqrt_d +\\.+\\*+Failed"
  "FAIL  scale_is_one_over_sqrt_d +consumer/attention +attention.c"
  "again +this test, with .only"
  "linked.Laws/Broken.Holds/layer_agrees_with_oracle +\\.+\\*+Skipped")
foreach(test good_all good_two broken_all)
  if(NOT EXISTS ${build}/${test}.junit.xml)
    message(FATAL_ERROR "${test}.junit.xml is missing")
  endif()
endforeach()

# A missing program is one test, which fails.
file(RENAME "${prefix}/bin/qkvet" "${prefix}/bin/away")
run(1 ${build}/conformance --gtest_filter=*Good*)
expect("Good.Holds/no_program" "cannot run .*qkvet: No such file")
# Linked kernels need none.
run(0 ${build}/linked --gtest_filter=*Good*)
file(RENAME "${prefix}/bin/away" "${prefix}/bin/qkvet")

foreach(mistake
    "no_plugin: PLUGIN is missing"
    "no_target: PLUGIN nothing is no target"
    "program: PLUGIN conformance is of type EXECUTABLE"
    "unknown: unknown arguments: CASSES;3"
    "cases: CASES many is no positive number")
  string(REGEX MATCH "^([a-z_]+): (.*)" parts "${mistake}")
  set(name ${CMAKE_MATCH_1})
  set(text "${CMAKE_MATCH_2}")
  run(1 ${configure} -D QKVET_VERSION=${VERSION} -D MISTAKE=${name})
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  expect("qkvet_add_conformance_test: ${text}")
endforeach()
run(1 ${configure} -D QKVET_VERSION=99.0 -D MISTAKE=)
string(REGEX REPLACE "[ \n]+" " " output "${output}")
expect("compatible with requested version \"99.0\"")
file(REMOVE_RECURSE ${SCRATCH})
