# Finds libtorch and makes the imported target samerun_torch: headers, libtorch_cpu and libc10. It does not use libtorch's own package
# files: those of a CUDA build want a CUDA toolkit at configure time and write absolute paths into what links them.
#
# Looked at in this order: SAMERUN_TORCH_DIR (a CMake or an environment variable), .deps/torch of the source tree, the torch of python3.
# Each may be a libtorch folder or an installed Python package `torch`: both hold include/ and lib/.
#
# Sets SamerunTorch_FOUND, SamerunTorch_VERSION and SamerunTorch_DIR (where it was found).

if(TARGET samerun_torch)
  set(SamerunTorch_FOUND TRUE)
  return()
endif()

set(SAMERUN_TORCH_DIR "" CACHE PATH "A libtorch folder or an installed torch package (include/ and lib/); empty: searched for")
set(_samerun_torch_required 2.11)

set(_samerun_torch_named "${SAMERUN_TORCH_DIR}")
if(NOT _samerun_torch_named AND DEFINED ENV{SAMERUN_TORCH_DIR})
  set(_samerun_torch_named "$ENV{SAMERUN_TORCH_DIR}")
endif()
if(_samerun_torch_named)
  set(_samerun_torch_places "${_samerun_torch_named}" "${_samerun_torch_named}/torch")
else()
  set(_samerun_torch_places "${CMAKE_SOURCE_DIR}/.deps/torch" "${CMAKE_CURRENT_LIST_DIR}/../../.deps/torch")
endif()

set(SamerunTorch_DIR SamerunTorch_DIR-NOTFOUND)
set(_samerun_torch_reason "no libtorch was found")
foreach(_place IN LISTS _samerun_torch_places ITEMS PYTHON)
  if(_place STREQUAL PYTHON)
    if(_samerun_torch_named)
      break() # a named folder is used or refused, never passed over
    endif()
    # find_spec runs nothing of the package: importing torch takes seconds and needs all its libraries.
    execute_process(COMMAND python3 -c "import importlib.util as u, os; s = u.find_spec('torch'); print(os.path.dirname(s.origin) if s and s.origin else '')"
                    OUTPUT_VARIABLE _place ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE _failed)
    if(_failed OR NOT _place)
      break()
    endif()
  endif()
  if(NOT EXISTS "${_place}/lib/libtorch_cpu.so" OR NOT EXISTS "${_place}/include/torch/csrc/api/include/torch/torch.h")
    continue()
  endif()
  set(_version "")
  foreach(_header IN ITEMS torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
    if(NOT _version AND EXISTS "${_place}/include/${_header}")
      file(STRINGS "${_place}/include/${_header}" _lines REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
      string(REGEX REPLACE "[^0-9;]" "" _lines "${_lines}")
      string(REPLACE ";" "." _version "${_lines}")
    endif()
  endforeach()
  if(NOT _version)
    set(_samerun_torch_reason "${_place} does not state its version")
  elseif(_version VERSION_LESS _samerun_torch_required)
    set(_samerun_torch_reason "${_place} is libtorch ${_version}, and ${_samerun_torch_required} or later is needed")
  else()
    get_filename_component(SamerunTorch_DIR "${_place}" ABSOLUTE)
    set(SamerunTorch_VERSION ${_version})
    break()
  endif()
endforeach()

if(NOT SamerunTorch_DIR)
  set(SamerunTorch_FOUND FALSE)
  if(_samerun_torch_named)
    if(_samerun_torch_reason STREQUAL "no libtorch was found")
      set(_samerun_torch_reason "SAMERUN_TORCH_DIR is ${_samerun_torch_named}, which holds no include/torch and lib/libtorch_cpu.so")
    endif()
    set(_advice "Set it to a libtorch folder or to an installed torch package, or unset it and run scripts/bootstrap.")
  else()
    set(_advice "Run scripts/bootstrap (it puts libtorch into .deps/torch), or set SAMERUN_TORCH_DIR to a libtorch folder or to an installed torch package.")
  endif()
  if(SamerunTorch_FIND_REQUIRED)
    message(FATAL_ERROR "Samerun: ${_samerun_torch_reason}. ${_advice}")
  elseif(NOT SamerunTorch_FIND_QUIETLY)
    message(STATUS "Samerun: ${_samerun_torch_reason}. ${_advice}")
  endif()
  return()
endif()

set(SamerunTorch_FOUND TRUE)
if(NOT SamerunTorch_FIND_QUIETLY)
  message(STATUS "Samerun: libtorch ${SamerunTorch_VERSION} in ${SamerunTorch_DIR}")
endif()

set(_include "${SamerunTorch_DIR}/include" "${SamerunTorch_DIR}/include/torch/csrc/api/include")
# c10d's Gloo header includes Gloo's own, which few builds of libtorch ship.
if(NOT EXISTS "${SamerunTorch_DIR}/include/gloo/context.h")
  foreach(_folder IN ITEMS "${CMAKE_CURRENT_LIST_DIR}/../src/gloo_declarations" "${CMAKE_CURRENT_LIST_DIR}/gloo_declarations")
    if(EXISTS "${_folder}/gloo/context.h")
      get_filename_component(_folder "${_folder}" ABSOLUTE)
      list(APPEND _include "${_folder}")
    endif()
  endforeach()
endif()

foreach(_library IN ITEMS torch_cpu c10)
  add_library(samerun_${_library} SHARED IMPORTED)
  set_target_properties(samerun_${_library} PROPERTIES IMPORTED_LOCATION "${SamerunTorch_DIR}/lib/lib${_library}.so"
                                                       IMPORTED_NO_SONAME FALSE)
endforeach()
add_library(samerun_torch INTERFACE IMPORTED)
find_package(Threads REQUIRED)
set_target_properties(samerun_torch PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_include}"
                                               INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${_include}"
                                               INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO"
                                               INTERFACE_COMPILE_FEATURES cxx_std_20)
target_link_libraries(samerun_torch INTERFACE samerun_torch_cpu samerun_c10 Threads::Threads)

# libtorch_cpu of a CUDA build is linked with libcudart and libcupti. At run time its own RPATH finds them; the linker is told here.
file(GLOB _cuda_libraries "${SamerunTorch_DIR}/lib/libcudart*.so*" "${SamerunTorch_DIR}/../nvidia/*/lib/libcudart.so*"
     "${SamerunTorch_DIR}/../nvidia/*/lib/libcupti.so*")
set(_folders "${SamerunTorch_DIR}/lib")
foreach(_file IN LISTS _cuda_libraries)
  get_filename_component(_folder "${_file}" DIRECTORY)
  get_filename_component(_folder "${_folder}" ABSOLUTE)
  list(APPEND _folders "${_folder}")
endforeach()
list(REMOVE_DUPLICATES _folders)
foreach(_folder IN LISTS _folders)
  target_link_options(samerun_torch INTERFACE "LINKER:-rpath-link,${_folder}")
endforeach()
target_link_options(samerun_torch INTERFACE LINKER:--unresolved-symbols=ignore-in-shared-libs)
