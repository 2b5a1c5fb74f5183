# SPDX-License-Identifier: Apache-2.0
# cmake -DKERNELS=<file> -DFILES=<a;b> -P list_controls.cmake
#
# Writes a line QKVET_KERNEL(controls_<name>) for each line of FILES that begins
# with QKVET_CONTROL(<name> or QKVET_ARITHMETIC(<name>, in their order: the list
# of the family (impl/family.cpp).
cmake_minimum_required(VERSION 3.25)
set(names "")
set(kernels "")
foreach(file IN LISTS FILES)
  file(STRINGS ${file} lines REGEX "QKVET_(CONTROL|ARITHMETIC)")
  if(NOT lines)
    message(FATAL_ERROR "${file}: no control is written down here")
  endif()
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "^QKVET_(CONTROL|ARITHMETIC)\\(([a-z0-9_]+)")
      message(FATAL_ERROR "${file}: a control begins its line with its name "
                          "behind the macro, unlike `${line}`")
    endif()
    set(name ${CMAKE_MATCH_2})
    if(name IN_LIST names)
      message(FATAL_ERROR "${file}: there are two controls named ${name}")
    endif()
    list(APPEND names ${name})
    string(APPEND kernels "QKVET_KERNEL(controls_${name})\n")
  endforeach()
endforeach()
file(WRITE ${KERNELS} "${kernels}")
