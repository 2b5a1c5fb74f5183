# SPDX-License-Identifier: Apache-2.0
# Reads the blocks of theme files (fault.h) and writes two lists, each only if
# it changes:
#
#   cmake -DKERNELS=<file> -DTILED=<file> -P list_faults.cmake -- <theme file>...
#
# KERNELS gets a line QKVET_KERNEL(faulty_<name>) a block, in the order of files
# and blocks: the list of the family (impl/family.cpp). TILED gets the names,
# as string literals, of those whose block says `.tiled = true`.
cmake_minimum_required(VERSION 3.25)

set(kernels "")
set(tiled "")
set(names "")
set(classes "")
set(files "")
set(is_file OFF)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(n RANGE ${last})
  if(is_file)
    list(APPEND files ${CMAKE_ARGV${n}})
  elseif(CMAKE_ARGV${n} STREQUAL "--")
    set(is_file ON)
  endif()
endforeach()

foreach(file ${files})
  # Line by line; what means something to a list of CMake means nothing here.
  file(READ ${file} text)
  string(REGEX REPLACE "[][;\\]" " " text "${text}")
  string(REPLACE "\n" ";" lines "${text}")
  set(name "")
  set(found OFF)
  foreach(line IN LISTS lines)
    if(line MATCHES "^QKVET_FAULT\\(([a-z0-9_]+)\\) = {$")
      set(name ${CMAKE_MATCH_1})
      if(name IN_LIST names)
        message(FATAL_ERROR "${file}: there are two faults named ${name}")
      endif()
      set(found ON)
      list(APPEND names ${name})
      string(APPEND kernels "QKVET_KERNEL(faulty_${name})\n")
    elseif(line MATCHES "QKVET_FAULT")
      message(FATAL_ERROR "${file}: a block begins with a line "
                          "`QKVET_FAULT(<name>) = {`, not with `${line}`")
    elseif(line MATCHES "^}")
      set(name "")
    elseif(line MATCHES "^ +[.]tiled = true,")
      string(APPEND tiled "\"${name}\",\n")
    elseif(line MATCHES "^(struct|class) ([A-Za-z0-9]+)")
      # They have linkage, so that a block needs no namespace around its class.
      if(CMAKE_MATCH_2 IN_LIST classes)
        message(FATAL_ERROR "${file}: there are two classes ${CMAKE_MATCH_2}")
      endif()
      list(APPEND classes ${CMAKE_MATCH_2})
    endif()
  endforeach()
  if(NOT found)
    message(FATAL_ERROR "${file}: a theme file without a fault")
  endif()
endforeach()

file(CONFIGURE OUTPUT ${KERNELS} CONTENT "${kernels}" @ONLY)
file(CONFIGURE OUTPUT ${TILED} CONTENT "${tiled}" @ONLY)
