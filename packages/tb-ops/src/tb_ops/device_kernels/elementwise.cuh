// Everything that an elementwise program needs: pointwise<Functor, Common>.
#pragma once
#include "binary.cuh"
#include "pointwise.cuh"
