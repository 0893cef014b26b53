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

# samerun_add_test(NAME SOURCES ... LIBRARIES ... LABELS ... [TIMEOUT seconds] [PROCESSORS n] [SERIAL]): one GoogleTest program a folder, its
# cases found by CTest. PROCESSORS: how many cores a case keeps busy. SERIAL: cases measure time, so nothing runs beside them. BACKENDS: what
# carries the collectives of the ranks that the cases start; each case once for each, as "gloo.Case".
function(samerun_add_test name)
  cmake_parse_arguments(ARG "SERIAL" "TIMEOUT;PROCESSORS" "SOURCES;LIBRARIES;LABELS;BACKENDS" ${ARGN})
  set(properties TIMEOUT 120)
  if(ARG_TIMEOUT)
    set(properties TIMEOUT ${ARG_TIMEOUT})
  endif()
  if(ARG_PROCESSORS)
    list(APPEND properties PROCESSORS ${ARG_PROCESSORS})
  endif()
  if(ARG_SERIAL)
    list(APPEND properties RUN_SERIAL TRUE)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} GTest::gtest GTest::gtest_main samerun_warnings)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support)
  if(NOT ARG_BACKENDS)
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 TEST_LIST ${name}_cases PROPERTIES ${properties})
    samerun_label_tests(${name}_cases "${ARG_LABELS}")
  endif()
  foreach(backend ${ARG_BACKENDS})
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 TEST_PREFIX "${backend}." TEST_LIST ${name}_${backend}_cases
                         PROPERTIES ${properties} ENVIRONMENT SAMERUN_BACKEND=${backend})
    samerun_label_tests(${name}_${backend}_cases "${ARG_LABELS}")
  endforeach()
endfunction()

# Labels for the tests in the list called `cases` at test time. Set apart: gtest_discover_tests takes no property that is a list.
function(samerun_label_tests cases labels)
  set(labels_file ${CMAKE_CURRENT_BINARY_DIR}/${cases}_labels.cmake)
  file(CONFIGURE OUTPUT ${labels_file} @ONLY CONTENT "if(@cases@)\n  set_tests_properties(\${@cases@} PROPERTIES LABELS \"@labels@\")\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${labels_file})
endfunction()
