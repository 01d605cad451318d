# SPDX-License-Identifier: Apache-2.0
# What every target of ours is built with, and one function a kind of target.

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(sandbar_options INTERFACE)
target_compile_options(sandbar_options INTERFACE -Wall -Wextra -Wnon-virtual-dtor -Woverloaded-virtual
                                                 -fno-omit-frame-pointer)
if(SANDBAR_WERROR)
  target_compile_options(sandbar_options INTERFACE -Werror)
endif()
target_compile_definitions(sandbar_options INTERFACE _FILE_OFFSET_BITS=64 SANDBAR_VERSION="${PROJECT_VERSION}")
target_include_directories(sandbar_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(sandbar_options INTERFACE Threads::Threads)
if(SANDBAR_SANITIZE)
  target_compile_options(sandbar_options INTERFACE -fsanitize=${SANDBAR_SANITIZE} -fno-sanitize-recover=all)
  if(SANDBAR_SANITIZE MATCHES undefined)
    # Its check of virtual tables opens a pipe, and so cries wolf in the tests that have run out of descriptors.
    target_compile_options(sandbar_options INTERFACE -fno-sanitize=vptr)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 sees uninitialized std::optional members through its own instrumentation (GCC bug 105593).
    target_compile_options(sandbar_options INTERFACE -Wno-maybe-uninitialized)
  endif()
  target_link_options(sandbar_options INTERFACE -fsanitize=${SANDBAR_SANITIZE})
endif()

# sandbar_layer(NAME SOURCES... [LINK targets...]): the static library sandbar_NAME of src/NAME. LINK names what its
# headers need, and nothing of a higher layer (tests/structure checks the includes).
function(sandbar_layer name)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  add_library(sandbar_${name} STATIC ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(sandbar_${name} PUBLIC sandbar_options ${arg_LINK})
endfunction()

# sandbar_tool(PROGRAM [LINK targets...]): tools/PROGRAM.cpp is the one-line main; tools/PROGRAM_main.{h,cpp} the tool.
function(sandbar_tool program)
  cmake_parse_arguments(arg "" "" "LINK;SOURCES" ${ARGN})
  string(REPLACE "-" "_" stem ${program})
  add_library(${stem}_main STATIC ${stem}_main.cpp ${arg_SOURCES})
  target_link_libraries(${stem}_main PUBLIC sandbar_options ${arg_LINK})
  add_executable(${program} ${stem}.cpp)
  target_link_libraries(${program} PRIVATE ${stem}_main)
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  install(TARGETS ${program} DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

add_custom_target(unit_tests COMMENT "All unit tests, without the programs")

# sandbar_unit_test(NAME SOURCES... [LINK targets...]): one GoogleTest program, unit_NAME, its cases as ctest's.
function(sandbar_unit_test name)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  add_executable(unit_${name} ${arg_UNPARSED_ARGUMENTS})
  target_include_directories(unit_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Once optimized, GCC 12 takes the empty std::optional and std::variant of a message for uninitialized (bug 105593).
    target_compile_options(unit_${name} PRIVATE $<$<CONFIG:RelWithDebInfo,Release>:-Wno-maybe-uninitialized>)
  endif()
  target_link_libraries(unit_${name} PRIVATE ${arg_LINK} GTest::gtest GTest::gtest_main)
  add_dependencies(unit_tests unit_${name})
  gtest_discover_tests(unit_${name} TEST_PREFIX "unit/${name}/" PROPERTIES TIMEOUT 120 LABELS unit
                       DISCOVERY_TIMEOUT 60)
endfunction()
