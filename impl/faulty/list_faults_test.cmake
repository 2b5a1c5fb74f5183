# SPDX-License-Identifier: Apache-2.0
# What list_faults.cmake writes, and what it must refuse:
#
#   cmake -DLIST=<list_faults.cmake> -DFOLDER=<for its files> -P <this file>
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${FOLDER})
file(WRITE ${FOLDER}/first.cpp "// A [fault]; of two.
struct First : Hooks {};
QKVET_FAULT(first) = {
    .tiled = true,
};
QKVET_FAULT(second) = {
};
")
file(WRITE ${FOLDER}/third.cpp "struct Third {};\nQKVET_FAULT(third) = {\n};\n")
file(WRITE ${FOLDER}/again.cpp "QKVET_FAULT(second) = {\n};\n")
file(WRITE ${FOLDER}/class.cpp
     "class First {\n};\nQKVET_FAULT(other) = {\n};\n")
file(WRITE ${FOLDER}/indented.cpp
     "QKVET_FAULT(fourth) = {\n};\n  QKVET_FAULT(fifth) = {\n};\n")
file(WRITE ${FOLDER}/none.cpp "struct None {};\n")

function(run)
  list(TRANSFORM ARGN PREPEND ${FOLDER}/)
  execute_process(COMMAND ${CMAKE_COMMAND} -DKERNELS=${FOLDER}/kernels
    -DTILED=${FOLDER}/tiled -P ${LIST} -- ${ARGN}
    RESULT_VARIABLE status ERROR_VARIABLE error)
  string(REGEX REPLACE "[ \n]+" " " error "${error}")
  set(status ${status} PARENT_SCOPE)
  set(error "${error}" PARENT_SCOPE)
endfunction()

function(expect_lists kernels tiled)
  foreach(file kernels tiled)
    file(READ ${FOLDER}/${file} text)
    if(NOT text STREQUAL "${${file}}")
      message(SEND_ERROR "${file}: ${text}, not ${${file}}")
    endif()
  endforeach()
endfunction()

function(expect_refused why)
  run(${ARGN})
  if(status EQUAL 0 OR NOT error MATCHES "${why}")
    message(SEND_ERROR "${ARGN}: status ${status}, not refused: ${error}")
  endif()
endfunction()

run(third.cpp first.cpp)
if(NOT status EQUAL 0)
  message(SEND_ERROR "refused: ${error}")
endif()
expect_lists("QKVET_KERNEL(faulty_third)
QKVET_KERNEL(faulty_first)
QKVET_KERNEL(faulty_second)
" "\"first\",\n")

# What did not change is not written.
file(TIMESTAMP ${FOLDER}/kernels before "%s")
execute_process(COMMAND ${CMAKE_COMMAND} -E sleep 1.1)
run(third.cpp first.cpp)
file(TIMESTAMP ${FOLDER}/kernels after "%s")
if(NOT before EQUAL after)
  message(SEND_ERROR "an unchanged list was written")
endif()

expect_refused("two faults named second" first.cpp again.cpp)
expect_refused("two classes First" first.cpp class.cpp)
expect_refused("a block begins with a line" indented.cpp)
expect_refused("none.cpp: a theme file without a fault" first.cpp none.cpp)
