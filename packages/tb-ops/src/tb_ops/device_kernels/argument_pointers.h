// Where the arguments of the kernels have pointers to device memory. tb-ops names them to the driver at each launch
// (tb_launch_arguments), since some devices must know which memory a kernel reaches. The kernels do not need this file.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "arguments.h"

namespace tb::kernels {

// Returns the offsets first, first + step ...
template <size_t count> constexpr std::array<uint32_t, count> offsets_from(size_t first, size_t step = sizeof(void *)) {
  std::array<uint32_t, count> offsets{};
  for (size_t i = 0; i < count; i++) offsets[i] = static_cast<uint32_t>(first + i * step);
  return offsets;
}
template <size_t count> constexpr std::array<uint32_t, count> operand_offsets(size_t first) {
  return offsets_from<count>(first + offsetof(Operand, data), sizeof(Operand));
}

// The byte offsets of a struct's pointers, in ascending order.
template <class Arguments> inline constexpr std::array<uint32_t, 0> pointer_offsets{};

template <> inline constexpr auto pointer_offsets<PointwiseArguments> =
    operand_offsets<max_operands>(offsetof(PointwiseArguments, operands));
template <> inline constexpr auto pointer_offsets<ReduceArguments> =
    operand_offsets<3>(offsetof(ReduceArguments, input));
template <> inline constexpr auto pointer_offsets<RowArguments> = operand_offsets<3>(offsetof(RowArguments, first));
template <> inline constexpr auto pointer_offsets<LayerNormArguments> =
    offsets_from<9>(offsetof(LayerNormArguments, input));
template <> inline constexpr auto pointer_offsets<MatmulArguments> = offsets_from<4>(offsetof(MatmulArguments, first));
template <> inline constexpr auto pointer_offsets<IndexArguments> = offsets_from<3>(offsetof(IndexArguments, index));
template <> inline constexpr auto pointer_offsets<AdvancedIndexArguments> =
    offsets_from<2 + max_indices>(offsetof(AdvancedIndexArguments, plain));
template <> inline constexpr std::array<uint32_t, 3> pointer_offsets<SelectArguments>{
    offsetof(SelectArguments, index), offsetof(SelectArguments, source), offsetof(SelectArguments, result)};
template <> inline constexpr auto pointer_offsets<CellArguments> = offsets_from<8>(offsetof(CellArguments, input));
template <> inline constexpr auto pointer_offsets<CellGradArguments> =
    offsets_from<8>(offsetof(CellGradArguments, grad));
template <> inline constexpr auto pointer_offsets<SortArguments> = offsets_from<4>(offsetof(SortArguments, input));
template <> inline constexpr auto pointer_offsets<ScanArguments> = offsets_from<4>(offsetof(ScanArguments, input));
template <> inline constexpr auto pointer_offsets<CompactArguments> =
    offsets_from<3>(offsetof(CompactArguments, counts));
template <> inline constexpr auto pointer_offsets<SearchArguments> = offsets_from<4>(offsetof(SearchArguments, values));
template <> inline constexpr std::array<uint32_t, 5> pointer_offsets<LossArguments>{
    offsetof(LossArguments, input), offsetof(LossArguments, target), offsetof(LossArguments, weight),
    offsetof(LossArguments, output), offsetof(LossArguments, total_weight)};
template <> inline constexpr auto pointer_offsets<RandomArguments> = offsets_from<3>(offsetof(RandomArguments, output));
template <> inline constexpr auto pointer_offsets<TriangleArguments> =
    offsets_from<2>(offsetof(TriangleArguments, input));
template <> inline constexpr auto pointer_offsets<RangeArguments> = offsets_from<1>(offsetof(RangeArguments, output));
template <> inline constexpr std::array<uint32_t, 4> pointer_offsets<ConvolutionArguments>{
    offsetof(ConvolutionArguments, source.data), offsetof(ConvolutionArguments, target.data),
    offsetof(ConvolutionArguments, weight), offsetof(ConvolutionArguments, bias)};
template <> inline constexpr auto pointer_offsets<PoolArguments> =
    offsets_from<3>(offsetof(PoolArguments, input.data), sizeof(Volume));
template <> inline constexpr auto pointer_offsets<UpsampleArguments> =
    offsets_from<2>(offsetof(UpsampleArguments, input.data), sizeof(Volume));
template <> inline constexpr auto pointer_offsets<ChannelNormArguments> = [] {
  constexpr size_t volumes = 3, vectors = 8; // input to grad, weight to products
  std::array<uint32_t, volumes + vectors> offsets{};
  for (size_t i = 0; i < volumes; i++)
    offsets[i] = static_cast<uint32_t>(offsetof(ChannelNormArguments, input.data) + i * sizeof(ChannelRows));
  for (size_t i = 0; i < vectors; i++)
    offsets[volumes + i] = offsets_from<vectors>(offsetof(ChannelNormArguments, weight))[i];
  return offsets;
}();
template <> inline constexpr auto pointer_offsets<AssertionArguments> =
    operand_offsets<1>(offsetof(AssertionArguments, value));
template <> inline constexpr auto pointer_offsets<OptimizerArguments> = [] {
  constexpr size_t lists = 6 * max_tensors; // parameters to steps
  std::array<uint32_t, lists + 2> offsets{};
  for (size_t i = 0; i < lists; i++) offsets[i] = offsets_from<lists>(offsetof(OptimizerArguments, parameters))[i];
  offsets[lists] = offsetof(OptimizerArguments, grad_scale);
  offsets[lists + 1] = offsetof(OptimizerArguments, found_inf);
  return offsets;
}();

} // namespace tb::kernels
