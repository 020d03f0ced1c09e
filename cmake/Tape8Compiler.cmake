# What every target of the project is compiled with, as the interface target tape8_compiler.

add_library(tape8_compiler INTERFACE)
target_compile_features(tape8_compiler INTERFACE cxx_std_20)
# Results are the same bits on every machine: no fused multiply-add that the source does not spell out.
set(cxx_options -ffp-contract=off -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                -Wno-missing-field-initializers)
if(TAPE8_WARNINGS_AS_ERRORS)
  list(APPEND cxx_options -Werror)
endif()
target_compile_options(tape8_compiler INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${cxx_options}>")
if(TAPE8_SANITIZE)
  target_compile_options(tape8_compiler INTERFACE -fsanitize=${TAPE8_SANITIZE}
                         -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(tape8_compiler INTERFACE -fsanitize=${TAPE8_SANITIZE})
endif()
