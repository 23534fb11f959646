/* operators.h -- the arguments of the kernels in kernels.cu, as operators.c passes them: for C, and for mychip's language. */
#ifndef OPERATORS_H
#define OPERATORS_H

#include <stdint.h>

typedef struct Gelu {
  const float *from;
  float *to;
  int64_t count;
} Gelu;

#endif
