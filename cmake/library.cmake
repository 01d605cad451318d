# SPDX-License-Identifier: Apache-2.0
# The client library as it is installed: one archive of the layers up to client, the headers of include/sandbar, and
# what finds them (a CMake package `sandbar` with the target sandbar::sandbar, and sandbar.pc).
include(CMakePackageConfigHelpers)

set(objects)
foreach(layer base wire net mux client)
  list(APPEND objects $<TARGET_OBJECTS:sandbar_${layer}>)
endforeach()
add_library(sandbar STATIC ${objects} $<TARGET_OBJECTS:sandbar_net_ws>)
set_target_properties(sandbar PROPERTIES LINKER_LANGUAGE CXX)
target_include_directories(sandbar INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(sandbar INTERFACE cxx_std_20)
target_link_libraries(sandbar INTERFACE Threads::Threads OpenSSL::Crypto)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sandbar)
install(TARGETS sandbar EXPORT sandbar ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT sandbar NAMESPACE sandbar:: FILE sandbarTargets.cmake DESTINATION ${package_dir})
install(DIRECTORY include/sandbar DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

configure_file(cmake/sandbarConfig.cmake.in sandbarConfig.cmake @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sandbarConfigVersion.cmake COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH SANDBAR_PC_TO_PREFIX /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
configure_file(cmake/sandbar.pc.in sandbar.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sandbarConfig.cmake ${PROJECT_BINARY_DIR}/sandbarConfigVersion.cmake
        DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/sandbar.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
