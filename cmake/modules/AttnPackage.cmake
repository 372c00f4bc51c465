#===- AttnPackage.cmake - Install and export the package `Attn` ------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
#
# Makes `find_package(Attn)` work from the build tree and from an install tree.
#
#===------------------------------------------------------------------------===#

include(CMakePackageConfigHelpers)
set(ATTN_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/attn)

install(DIRECTORY include/
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.td" PATTERN "*.def")
install(DIRECTORY share/attn/calibration
  DESTINATION ${CMAKE_INSTALL_DATADIR}/attn
  FILES_MATCHING PATTERN "*.json")
install(DIRECTORY ${ATTN_BINARY_DIR}/include/attn
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.inc" PATTERN "CMakeFiles" EXCLUDE)

get_property(ATTN_EXPORTS GLOBAL PROPERTY ATTN_EXPORTS)
get_property(ATTN_LIBS GLOBAL PROPERTY ATTN_LIBS)
export(TARGETS ${ATTN_EXPORTS} FILE ${ATTN_BINARY_DIR}/lib/cmake/attn/AttnTargets.cmake)
install(EXPORT AttnTargets DESTINATION ${ATTN_CMAKE_DIR})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/AttnConfig.cmake.in
  ${ATTN_BINARY_DIR}/lib/cmake/attn/AttnConfig.cmake
  INSTALL_DESTINATION ${ATTN_CMAKE_DIR})
write_basic_package_version_file(
  ${ATTN_BINARY_DIR}/lib/cmake/attn/AttnConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${ATTN_BINARY_DIR}/lib/cmake/attn/AttnConfig.cmake
  ${ATTN_BINARY_DIR}/lib/cmake/attn/AttnConfigVersion.cmake
  DESTINATION ${ATTN_CMAKE_DIR})
