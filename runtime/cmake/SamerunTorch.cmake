# How targets of this project use libtorch: one precompiled header for all of them, and no more compilers at a time than memory holds.

find_package(SamerunTorch REQUIRED)

# A file over torch/torch.h takes up to 2.2 GB and a minute to compile; where memory is short, fewer run at a time.
cmake_host_system_information(RESULT samerun_memory_mib QUERY TOTAL_PHYSICAL_MEMORY)
cmake_host_system_information(RESULT samerun_cores QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR samerun_torch_jobs "${samerun_memory_mib} / 2048")
if(samerun_torch_jobs GREATER samerun_cores)
  set(samerun_torch_jobs ${samerun_cores})
endif()
if(samerun_torch_jobs LESS 1)
  set(samerun_torch_jobs 1)
endif()
set_property(GLOBAL APPEND PROPERTY JOB_POOLS samerun_torch=${samerun_torch_jobs})

# The precompiled header. A target that reuses it must be compiled with its flags: no further -D, no other -g, -O or -f.
# What differs by target belongs in a header or a file; -Winvalid-pch makes an unusable header an error instead of a slow build.
option(SAMERUN_PCH "Precompile libtorch's headers" ON)
set(samerun_pch_options -Winvalid-pch)
if(SAMERUN_USES_CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  list(APPEND samerun_pch_options -fpch-preprocess)
endif()
if(SAMERUN_PCH)
  file(WRITE ${PROJECT_BINARY_DIR}/runtime/torch_pch.cpp.new "// Holds nothing: the target is there for its precompiled header.\n")
  file(COPY_FILE ${PROJECT_BINARY_DIR}/runtime/torch_pch.cpp.new ${PROJECT_BINARY_DIR}/runtime/torch_pch.cpp ONLY_IF_DIFFERENT)
  add_library(samerun_torch_pch OBJECT EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/runtime/torch_pch.cpp)
  target_link_libraries(samerun_torch_pch PRIVATE samerun_torch)
  target_compile_options(samerun_torch_pch PRIVATE ${samerun_pch_options})
  target_precompile_headers(samerun_torch_pch PRIVATE <torch/torch.h>
                            <torch/csrc/distributed/c10d/ProcessGroup.hpp> <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
                            <torch/csrc/distributed/c10d/TCPStore.hpp> <torch/csrc/distributed/c10d/PrefixStore.hpp>
                            <torch/csrc/distributed/c10d/reducer.hpp> <torch/csrc/distributed/c10d/comm.hpp>)
  set_target_properties(samerun_torch_pch PROPERTIES JOB_POOL_COMPILE samerun_torch)
endif()

# samerun_use_torch(TARGET): for every target of this project with sources that include torch. Links libtorch privately.
function(samerun_use_torch target)
  target_link_libraries(${target} PRIVATE samerun_torch)
  set_target_properties(${target} PROPERTIES JOB_POOL_COMPILE samerun_torch)
  if(SAMERUN_PCH)
    target_precompile_headers(${target} REUSE_FROM samerun_torch_pch)
    target_compile_options(${target} PRIVATE ${samerun_pch_options})
  endif()
endfunction()
