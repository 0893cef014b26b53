# SAMERUN_TIDY: clang-tidy with every compile, its findings as errors (preset tidy). Without the precompiled header, which is g++'s.
option(SAMERUN_TIDY "Run clang-tidy with every compile" OFF)
if(SAMERUN_TIDY)
  find_program(SAMERUN_CLANG_TIDY clang-tidy REQUIRED)
  set(CMAKE_CXX_CLANG_TIDY ${SAMERUN_CLANG_TIDY} --quiet --extra-arg=-Wno-unknown-warning-option)
  set(SAMERUN_PCH OFF CACHE BOOL "" FORCE)
endif()
