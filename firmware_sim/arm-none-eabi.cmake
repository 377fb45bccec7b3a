# cmake -B build/m55 -DCMAKE_TOOLCHAIN_FILE=firmware_sim/arm-none-eabi.cmake -DES_CPU=cortex-m55
# Builds for size (-Os) by default; -DCMAKE_BUILD_TYPE=Release is -O2.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ES_CPU)

set(machine_cortex-m4 mps2-an386)
set(machine_cortex-m7 mps2-an500)
set(machine_cortex-m33 mps2-an505)
set(machine_cortex-m55 mps3-an547)
set(ES_CPU cortex-m4 CACHE STRING "cortex-m4, cortex-m7, cortex-m33 or cortex-m55")
if(NOT DEFINED machine_${ES_CPU})
  message(FATAL_ERROR "ES_CPU=${ES_CPU}: cortex-m4, cortex-m7, cortex-m33 or cortex-m55")
endif()
set(ES_MACHINE ${machine_${ES_CPU}}) # its memory map: firmware_sim/${ES_MACHINE}.ld

# The compiler knows each core's FPU, DSP and MVE from -mcpu.
set(CMAKE_C_FLAGS_INIT
  "-mcpu=${ES_CPU} -mthumb -mfloat-abi=hard -ffunction-sections -fdata-sections")

# CTest runs every test executable on this machine.
set(CMAKE_CROSSCOMPILING_EMULATOR
  qemu-system-arm -M ${ES_MACHINE} -display none -monitor none -serial none
  -semihosting-config enable=on,target=native -kernel)
