// A product of float matrices with AVX-512, in the order in which MKL adds up where it uses none: the terms of an element
// by fused multiply-adds one after the other, 192 at a time, and then the sums of these.
//
// MKL runs other makers' processors with vectors half as long: this takes less than half its time on an AMD EPYC (Zen 5).
#pragma once
#include "kernels/blas.h"

namespace tb {

bool has_sgemm(); // whether this processor can
void sgemm(const Multiplication<float> &product);

} // namespace tb
