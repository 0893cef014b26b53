# The installed package: find_package(samerun) and its targets samerun::core, recorder, verify, runtime and samerun.
include(CMakePackageConfigHelpers)

get_property(samerun_libraries GLOBAL PROPERTY SAMERUN_LIBRARIES)
get_property(samerun_include_dirs GLOBAL PROPERTY SAMERUN_INCLUDE_DIRS)
list(REMOVE_DUPLICATES samerun_include_dirs)
set(samerun_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/samerun)
list(TRANSFORM samerun_libraries REPLACE "^samerun_" "" OUTPUT_VARIABLE samerun_components)
set(samerun_torch_version ${SamerunTorch_VERSION})

install(TARGETS ${samerun_libraries} EXPORT samerunTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(folder IN LISTS samerun_include_dirs)
  install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
endforeach()
install(EXPORT samerunTargets NAMESPACE samerun:: DESTINATION ${samerun_config_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/samerunConfig.cmake.in ${PROJECT_BINARY_DIR}/samerunConfig.cmake
                              INSTALL_DESTINATION ${samerun_config_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/samerunConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/samerunConfig.cmake ${PROJECT_BINARY_DIR}/samerunConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindSamerunTorch.cmake DESTINATION ${samerun_config_dir})
