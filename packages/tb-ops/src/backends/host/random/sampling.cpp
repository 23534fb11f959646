// Draws indices: permutations and samples with given weights.
#include "backends/host/random/sampling.h"

#include <ATen/native/DispatchStub.h>
#include <ATen/native/Resize.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/cumsum_ops.h>
#include <ATen/ops/empty_ops.h>
#include <ATen/ops/searchsorted_ops.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <compare>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "intraop/thread_policy.h"
#include "random/permutation.h"
#include "random/philox_fill.h"
#include "tensor/outputs.h"

namespace tb::ops::host {

at::Tensor host_doubles(c10::IntArrayRef sizes) {
  return at::_ops::empty_memory_format::call(c10::fromIntArrayRefSlow(sizes), c10::kDouble, std::nullopt,
                                             c10::Device(c10::kCPU), std::nullopt, std::nullopt);
}

namespace {

using at::Tensor;
using OptionalGenerator = std::optional<at::Generator>;

// Copies as the CPU's kernels do, which write one element after the other. If several elements of `dst` share a place
// in memory, it gets the last one.
void copy_over(const Tensor &dst, const Tensor &src) {
  Tensor to = dst, from = src;
  for (int64_t d = 0; d < to.dim(); d++) {
    if (to.stride(d) != 0 || to.size(d) < 2) continue;
    from = from.narrow(d, to.size(d) - 1, 1);
    to = to.narrow(d, to.size(d) - 1, 1);
  }
  copy_result(to, from);
}

Tensor host_longs(int64_t n) {
  return at::_ops::empty_memory_format::call({c10::SymInt(n)}, c10::kLong, std::nullopt, c10::Device(c10::kCPU),
                                             std::nullopt, std::nullopt);
}

struct Item {
  uint64_t key; // in the order of the signed ones
  int64_t position;
  auto operator<=>(const Item &) const = default; // equal keys keep their order
};

int bits_for(size_t count) { return std::max(1, static_cast<int>(std::bit_width(count)) - 1); }

// Sorts items, whose keys have the same first bits above `shift`, and else random ones. Distributed by as many bits as there
// are items, few are left to sort. `scratch` has room for as many; the result is there.
void sort_random(std::span<const Item> items, int shift, Item *scratch, std::vector<uint32_t> &ends) {
  const int bits = std::min(bits_for(items.size()), shift);
  const auto bucket = [&](const Item &item) { return item.key >> (shift - bits) & ((uint64_t{1} << bits) - 1); };
  ends.assign(uint64_t{1} << bits, 0);
  for (const Item &item : items) ends[bucket(item)]++;
  std::exclusive_scan(ends.begin(), ends.end(), ends.begin(), uint32_t{0});
  for (const Item &item : items) scratch[ends[bucket(item)]++] = item;
  uint32_t begin = 0;
  for (const uint32_t end : ends) {
    if (end - begin > 1) std::sort(scratch + begin, scratch + end);
    begin = end;
  }
}

// Writes the order of the keys, as a stable sort finds it. The first bits divide them into parts that fit into a cache.
void sort_random_keys(std::span<const int64_t> keys, int64_t *order) {
  constexpr size_t items_a_part = 4096;
  constexpr double nanoseconds_an_item = 12;
  const int bits = keys.size() > 4 * items_a_part ? bits_for(keys.size() / items_a_part) : 0;
  const size_t parts = size_t{1} << bits;
  const auto unsigned_key = [](int64_t key) { return static_cast<uint64_t>(key) ^ uint64_t { 1 } << 63; };
  const auto part_of = [&](uint64_t key) { return bits ? key >> (64 - bits) : 0; };
  std::vector<size_t> ends(parts);
  for (const int64_t key : keys) ends[part_of(unsigned_key(key))]++;
  std::exclusive_scan(ends.begin(), ends.end(), ends.begin(), size_t{0});
  const auto items = std::make_unique_for_overwrite<Item[]>(keys.size());
  for (size_t i = 0; i < keys.size(); i++) {
    const uint64_t key = unsigned_key(keys[i]);
    items[ends[part_of(key)]++] = {key, static_cast<int64_t>(i)};
  }
  const auto count = static_cast<int64_t>(parts);
  const int64_t threads = intraop.parts(count, nanoseconds_an_item * static_cast<double>(keys.size()));
  intraop.share(threads, [&](int64_t thread, int64_t of) {
    std::vector<Item> sorted;
    std::vector<uint32_t> scratch;
    const auto first = static_cast<size_t>(begin_of_part(thread, of, count, 1)),
               last = static_cast<size_t>(begin_of_part(thread + 1, of, count, 1));
    for (size_t part = first; part < last; part++) {
      const size_t begin = part ? ends[part - 1] : 0, size = ends[part] - begin;
      if (sorted.size() < size) sorted.resize(size);
      sort_random({items.get() + begin, size}, 64 - bits, sorted.data(), scratch);
      for (size_t i = 0; i < size; i++) order[begin + i] = sorted[i].position;
    }
  });
}

// Sorts n random 64-bit keys and returns their order. The sort is stable, so that equal keys (a pair is equal with
// probability 2^-64) keep theirs.
Tensor &randperm_out(int64_t n, OptionalGenerator generator, Tensor &out) {
  check_permutation(n, generator, out);
  at::native::resize_output(out, {n});
  if (n == 0) return out;
  const c10::DeviceIndex device = device_number(out);
  const Distribution keys{.kind = TB_FILL_INTEGERS,
                          .from = std::numeric_limits<int64_t>::min(),
                          .philox = reserve(generator, device, TB_FILL_INTEGERS, c10::kLong, n)};
  launch<"aten::randperm">(device, [to = WrittenDescriptor(out), keys, n]() mutable {
    Tensor &order = to.as_cpu_tensor();
    Tensor numbers = host_longs(n);
    const bool direct = order.scalar_type() == c10::kLong && order.is_contiguous();
    Tensor positions = direct ? order : host_longs(n);
    fill_tensor(numbers, keys);
    sort_random_keys({numbers.const_data_ptr<int64_t>(), static_cast<size_t>(n)},
                     positions.mutable_data_ptr<int64_t>());
    if (!direct) copy_over(order, positions);
  });
  return out;
}

// Draws from each row of weights. PyTorch's multinomial() calls this through the dispatch stub, after its checks of the
// arguments.
void multinomial_with_replacement(Tensor &out, const Tensor &weights, int64_t samples, OptionalGenerator generator) {
  TORCH_CHECK(weights.size(-1) > 0 || out.numel() == 0, "invalid multinomial distribution: a row has no weights");
  const c10::DeviceIndex device = device_number(weights);
  const Distribution unit{.kind = TB_FILL_UNIFORM,
                          .b = 1,
                          .philox = reserve(generator, device, TB_FILL_UNIFORM, c10::kDouble, out.numel())};
  launch<"aten::multinomial">(device, [to = WrittenDescriptor(out), from = TensorDescriptor(weights), unit,
                                       samples]() mutable {
    Tensor &chosen = to.as_cpu_tensor();
    const Tensor sums = at::_ops::cumsum::call(from.as_cpu_tensor(), -1, c10::kDouble);
    const int64_t classes = sums.size(-1);
    Tensor numbers = host_doubles(chosen.sizes());
    fill_tensor(numbers, unit);
    TORCH_CHECK(numbers.is_contiguous() && sums.is_contiguous());
    double *points = numbers.mutable_data_ptr<double>();
    const double *sum = sums.const_data_ptr<double>();
    for (int64_t i = 0; i < sums.numel(); i++) {
      const double before = i % classes ? sum[i - 1] : 0;
      TORCH_CHECK(std::isfinite(sum[i]) && sum[i] >= before,
                  "invalid multinomial distribution: a weight is below 0, infinity or NaN");
      TORCH_CHECK((i + 1) % classes || sum[i] > 0, "invalid multinomial distribution: the weights of a row sum to 0");
    }
    // A uniform number times the sum of all weights falls into the part of one class. Rounding must not bring it up to
    // the sum, which is after the last part.
    for (int64_t i = 0; i < numbers.numel(); i++) {
      const double total = sum[(i / samples + 1) * classes - 1];
      points[i] = std::min(points[i] * total, std::nextafter(total, 0.0));
    }
    copy_over(chosen, at::_ops::searchsorted_Tensor::call(sums, numbers, false, true, std::nullopt, std::nullopt));
  });
}

} // namespace

void register_sampling(torch::Library &aten) {
  at::native::multinomial_with_replacement_stub.set_privateuse1_dispatch_ptr(&multinomial_with_replacement);
  aten.impl("randperm.generator_out", &randperm_out);
}

} // namespace tb::ops::host
