// Includes all that an elementwise program needs: pointwise<Functor, Common> and the functors.
#pragma once
#include "activations.cuh"
#include "binary.cuh"
#include "pointwise.cuh"
