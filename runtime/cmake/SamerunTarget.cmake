# Helpers that make every target of the project in one way.

# Warnings for our own sources; never handed on to users of the installed package.
add_library(samerun_warnings INTERFACE)
target_compile_options(samerun_warnings INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-qual
                                                  -Woverloaded-virtual -Wno-missing-field-initializers)
if(SAMERUN_WERROR)
  target_compile_options(samerun_warnings INTERFACE -Werror)
endif()

# samerun_add_library(NAME DIR folder SOURCES a.cpp ... PUBLIC targets PRIVATE targets)
# Makes target samerun_NAME with the alias samerun::NAME; DIR/include is public, DIR/src private.
function(samerun_add_library name)
  cmake_parse_arguments(ARG "" "DIR" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  list(TRANSFORM ARG_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/${ARG_DIR}/src/)
  add_library(samerun_${name} STATIC ${ARG_SOURCES})
  add_library(samerun::${name} ALIAS samerun_${name})
  set_target_properties(samerun_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(samerun_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/${ARG_DIR}/include>
                                                    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
                                             PRIVATE ${PROJECT_SOURCE_DIR}/${ARG_DIR}/src)
  target_compile_features(samerun_${name} PUBLIC cxx_std_20)
  target_link_libraries(samerun_${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE} $<BUILD_INTERFACE:samerun_warnings>)
  set_property(GLOBAL APPEND PROPERTY SAMERUN_LIBRARIES samerun_${name})
  set_property(GLOBAL APPEND PROPERTY SAMERUN_INCLUDE_DIRS ${PROJECT_SOURCE_DIR}/${ARG_DIR}/include)
endfunction()

# samerun_add_interface(NAME DIR folder LINK targets): the same for a library of headers only.
function(samerun_add_interface name)
  cmake_parse_arguments(ARG "" "DIR" "LINK" ${ARGN})
  add_library(samerun_${name} INTERFACE)
  add_library(samerun::${name} ALIAS samerun_${name})
  set_target_properties(samerun_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(samerun_${name} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/${ARG_DIR}/include>
                                                       $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(samerun_${name} INTERFACE cxx_std_20)
  target_link_libraries(samerun_${name} INTERFACE ${ARG_LINK})
  set_property(GLOBAL APPEND PROPERTY SAMERUN_LIBRARIES samerun_${name})
  set_property(GLOBAL APPEND PROPERTY SAMERUN_INCLUDE_DIRS ${PROJECT_SOURCE_DIR}/${ARG_DIR}/include)
endfunction()

# samerun_add_test(NAME SOURCES ... LIBRARIES ... LABELS ...): one GoogleTest program a folder, its cases found by CTest.
function(samerun_add_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} GTest::gtest GTest::gtest_main samerun_warnings)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()
