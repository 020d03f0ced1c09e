# TAPE8_CUDA: whether the CUDA backend is built. By itself only where there are nvcc and a GPU.

include(CheckLanguage)
set(cuda_default OFF)
if(NOT DEFINED TAPE8_CUDA AND EXISTS /dev/nvidiactl)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(cuda_default ON)
  endif()
endif()
option(TAPE8_CUDA "Build the CUDA backend" ${cuda_default})

if(TAPE8_CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 89-real 90a-real 100a-real)
  endif()
  enable_language(CUDA)
  # CMake 3.25 does not know how the newest compilers are told.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  find_package(CUDAToolkit REQUIRED)
endif()
