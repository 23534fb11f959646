// PyTorch's dispatch stubs (DispatchStub.h), called from a closure. Include this before any other header: the stubs'
// functions take one argument per instruction set that PyTorch's own build had, so their headers must be read with the
// same settings. A build with others shows as an undefined symbol when the module is loaded.
#pragma once

#if defined(__x86_64__)
#define HAVE_AVX2_CPU_DEFINITION
#define HAVE_AVX512_CPU_DEFINITION
#elif defined(__aarch64__)
#define HAVE_SVE_CPU_DEFINITION
#endif
#include <ATen/native/DispatchStub.h>
