// Calls of the Fortran interface of BLAS, which takes matrices by columns.
#include <type_traits>

#include "microkernels/gemm.h"

namespace tb::ops::microkernels {
template <class T> using BlasGemm = void(const char *, const char *, const int *, const int *, const int *, const T *,
                                         const T *, const int *, const T *, const int *, const T *, T *, const int *);
} // namespace tb::ops::microkernels

// libtorch exports these where it is built with a BLAS; otherwise they are null.
extern "C" {
__attribute__((weak)) tb::ops::microkernels::BlasGemm<float> sgemm_;
__attribute__((weak)) tb::ops::microkernels::BlasGemm<double> dgemm_;
}

namespace tb::ops::microkernels {
namespace {

template <class T> BlasGemm<T> *blas() {
  if constexpr (std::is_same_v<T, float>)
    return sgemm_;
  else
    return dgemm_;
}

} // namespace

template <class T> bool has_blas() { return blas<T>() != nullptr; }

template <class T> void blas_gemm(const Gemm<T> &gemm, T alpha) {
  // The product left right by rows is the product right left by columns.
  const char transpose_b = gemm.right.transposed ? 't' : 'n', transpose_a = gemm.left.transposed ? 't' : 'n';
  const int m = static_cast<int>(gemm.columns), n = static_cast<int>(gemm.rows), k = static_cast<int>(gemm.k),
            stride_b = static_cast<int>(gemm.right.stride), stride_a = static_cast<int>(gemm.left.stride),
            stride = static_cast<int>(gemm.stride);
  const T beta = gemm.add;
  blas<T>()(&transpose_b, &transpose_a, &m, &n, &k, &alpha, gemm.right.data, &stride_b, gemm.left.data, &stride_a,
            &beta, gemm.out, &stride);
}

template bool has_blas<float>();
template bool has_blas<double>();
template void blas_gemm(const Gemm<float> &, float);
template void blas_gemm(const Gemm<double> &, double);

} // namespace tb::ops::microkernels
