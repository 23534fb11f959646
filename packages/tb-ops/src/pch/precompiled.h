// What nearly every file of tb-ops includes, compiled once: hundreds of kernels in few files, all over these headers.
#include <torch/library.h>

#include "structured/structured.h"
