# SAMERUN_SANITIZE: every target of the build, so that the parts can be linked together; set by the presets asan and tsan.
if(SAMERUN_SANITIZE)
  if(SAMERUN_SANITIZE MATCHES "thread" AND NOT SAMERUN_SANITIZE STREQUAL "thread")
    message(FATAL_ERROR "SAMERUN_SANITIZE is ${SAMERUN_SANITIZE}: the thread sanitizer cannot be built in with another")
  endif()
  add_compile_options(-fsanitize=${SAMERUN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SAMERUN_SANITIZE})
endif()
