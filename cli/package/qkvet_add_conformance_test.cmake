# SPDX-License-Identifier: Apache-2.0
# qkvet_add_conformance_test(NAME <test> PLUGIN <target>
#                            [CONFIG <text>] [KERNEL <family/variant>]
#                            [LAWS <law or glob>...] [CASES <n>] [ARGS <arg>...])
#
# One ctest entry that runs `qkvet check <target's file>`, and writes
# <test>.junit.xml into the current build folder. CONFIG is passed to
# qkvet_open, ARGS are further arguments of `qkvet check`.
#
# A kernel that this machine cannot run fails the test (exit 3, "nothing was
# checked"). If that is acceptable: set_tests_properties(<test> PROPERTIES
# SKIP_RETURN_CODE 3). But results that cannot be trusted end with 3, too.
function(qkvet_add_conformance_test)
  set(what "qkvet_add_conformance_test")
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;PLUGIN;CONFIG;KERNEL;CASES"
                        "LAWS;ARGS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${what}: unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(arg_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR
      "${what}: without a value: ${arg_KEYWORDS_MISSING_VALUES}")
  endif()
  foreach(needed NAME PLUGIN)
    if(NOT arg_${needed})
      message(FATAL_ERROR "${what}: ${needed} is missing")
    endif()
  endforeach()
  if(NOT TARGET ${arg_PLUGIN})
    message(FATAL_ERROR "${what}: PLUGIN ${arg_PLUGIN} is no target")
  endif()
  get_target_property(type ${arg_PLUGIN} TYPE)
  if(NOT type MATCHES "^(MODULE|SHARED)_LIBRARY$")
    message(FATAL_ERROR "${what}: PLUGIN ${arg_PLUGIN} is of type ${type}; "
      "allowed are MODULE and SHARED libraries")
  endif()
  if(DEFINED arg_CASES AND NOT arg_CASES MATCHES "^[1-9][0-9]*$")
    message(FATAL_ERROR "${what}: CASES ${arg_CASES} is no positive number")
  endif()

  set(plugin "$<TARGET_FILE:${arg_PLUGIN}>")
  if(DEFINED arg_CONFIG)
    string(APPEND plugin ":${arg_CONFIG}")
  endif()
  set(options "")
  if(DEFINED arg_KERNEL)
    list(APPEND options --kernel ${arg_KERNEL})
  endif()
  foreach(law IN LISTS arg_LAWS)
    list(APPEND options --law ${law})
  endforeach()
  if(DEFINED arg_CASES)
    list(APPEND options --cases ${arg_CASES})
  endif()
  string(MAKE_C_IDENTIFIER "${arg_NAME}" file)
  add_test(NAME ${arg_NAME}
    COMMAND qkvet::qkvet check "${plugin}" ${options} ${arg_ARGS}
            --junit "${CMAKE_CURRENT_BINARY_DIR}/${file}.junit.xml")
endfunction()
