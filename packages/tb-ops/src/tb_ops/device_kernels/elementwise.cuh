// Includes all that an elementwise program needs: pointwise<Functor, Common> and the functors.
#pragma once
#include "binary.cuh"
#include "pointwise.cuh"
