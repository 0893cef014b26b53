# Compiles through ccache. It needs telling that a precompiled header may be cached; SamerunTorch.cmake adds the compiler's half of that.
set(SAMERUN_USES_CCACHE FALSE)
if(SAMERUN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(SAMERUN_CCACHE_PROGRAM ccache)
  if(SAMERUN_CCACHE_PROGRAM)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${SAMERUN_CCACHE_PROGRAM})
    set(SAMERUN_USES_CCACHE TRUE)
  endif()
endif()
