# Builds the consumer and runs it. INSTALLED=ON: from an installed tape8 (that of BUILD_DIR); else as a
# subdirectory of the consumer's project, as a shared library, whose symbols are looked at.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}: status ${status}\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
set(arguments -S ${SOURCE_DIR}/tests/packaging/consumer -B ${WORK_DIR}/build -G ${GENERATOR}
    -DCMAKE_CXX_COMPILER=${CXX_COMPILER} -DCMAKE_BUILD_TYPE=Release)
if(INSTALLED)
  run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/prefix)
  run(${CMAKE_COMMAND} ${arguments} -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix)
else()
  run(${CMAKE_COMMAND} ${arguments} -DTAPE8_SOURCE=${SOURCE_DIR} -DBUILD_SHARED_LIBS=ON
      -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
endif()
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build --parallel)
run(${WORK_DIR}/build/consumer)
if(NOT INSTALLED)
  run(${SOURCE_DIR}/tests/packaging/check_symbols.sh ${WORK_DIR}/build/tape8/src/libtape8.so ${NM})
endif()
