// reductions.cpp -- sums, extremes and other reductions of rows.
#include <algorithm>
#include <cmath>

#include "split.h"

namespace sim {
namespace {

template <class C> using Wide = std::conditional_t<std::is_integral_v<C>, int64_t, double>;

struct Sum {
  template <class C> static C of(const C *row, int64_t count) {
    Wide<C> total = 0;
    for (int64_t i = 0; i < count; ++i) total += row[i];
    return static_cast<C>(total);
  }
};
struct Average {
  template <class C> static C of(const C *row, int64_t count) {
    Wide<C> total = 0;
    for (int64_t i = 0; i < count; ++i) total += row[i];
    return static_cast<C>(static_cast<double>(total) / static_cast<double>(count));
  }
};
struct Product {
  template <class C> static C of(const C *row, int64_t count) {
    Wide<C> total = 1;
    for (int64_t i = 0; i < count; ++i) total *= row[i];
    return static_cast<C>(total);
  }
};
// The index of the first largest element. NaN counts as the largest.
struct Largest {
  template <class C> static int64_t place(const C *row, int64_t count) {
    int64_t best = 0;
    for (int64_t i = 1; i < count && row[best] == row[best]; ++i)
      if (row[i] > row[best] || row[i] != row[i]) best = i;
    return best;
  }
  template <class C> static C of(const C *row, int64_t count) { return row[place(row, count)]; }
};
struct Smallest {
  template <class C> static int64_t place(const C *row, int64_t count) {
    int64_t best = 0;
    for (int64_t i = 1; i < count && row[best] == row[best]; ++i)
      if (row[i] < row[best] || row[i] != row[i]) best = i;
    return best;
  }
  template <class C> static C of(const C *row, int64_t count) { return row[place(row, count)]; }
};
struct Every {
  template <class C> static C of(const C *row, int64_t count) {
    return C(std::all_of(row, row + count, [](C each) { return each != C(0); }));
  }
};
struct Some {
  template <class C> static C of(const C *row, int64_t count) {
    return C(std::any_of(row, row + count, [](C each) { return each != C(0); }));
  }
};

// The plan of a reduction that computes in the kind of number of `type`.
template <class F> Plan reduced(const In &self, const Split &split, int32_t type, const Out &out) {
  must_have(out, split.kept);
  return {[=](const Run &run) {
            with_kind(type, [&]<class C>() {
              const Array<C> values = load<C>(self.in(run).permuted(split.order));
              Array<C> results(split.rows);
              for (int64_t row = 0; row < split.rows; ++row)
                results[row] = F::of(values.data() + row * split.length, split.length);
              store(out.in(run), results.data());
            });
          },
          row_workspace(split)};
}

template <class F> Plan typed(In self, Dims dims, bool keep, int32_t type, Out out) {
  must(out.type == type, "a result of another type than was asked for");
  return reduced<F>(self, Split(self.dims, dims, keep), type, out);
}
Plan product(In self, int64_t dim, bool keep, int32_t type, Out out) {
  return typed<Product>(self, {dim}, keep, type, out);
}

template <class F> Plan extreme(In self, Dims dims, bool keep, Out out) {
  must_be_same_type(self, out);
  const Split split(self.dims, dims, keep);
  must(split.length > 0, "the extreme of nothing");
  return reduced<F>(self, split, self.type, out);
}
template <class F> Plan extreme_of_all(In self, Out out) {
  Dims dims;
  for (size_t i = 0; i < self.dims.size(); ++i) dims.push_back(static_cast<int64_t>(i));
  return extreme<F>(self, dims, false, out);
}
template <class F> Plan truth(In self, Dims dims, bool keep, Out out) {
  must(out.type == (self.type == kUint8 ? kUint8 : kBool), "a result that is not of bool");
  return reduced<F>(self, Split(self.dims, dims, keep), self.type, out);
}

template <class F> Work places(const In &self, const Split &split, const Out *values, const Out &places) {
  const Out values_copy = values ? *values : Out{};
  return [=](const Run &run) {
    with_kind(self.type, [&]<class C>() {
      const Array<C> all = load<C>(self.in(run).permuted(split.order));
      Array<C> results(split.rows);
      Array<int64_t> found(split.rows);
      for (int64_t row = 0; row < split.rows; ++row) {
        found[row] = F::place(all.data() + row * split.length, split.length);
        results[row] = all[row * split.length + found[row]];
      }
      if (values_copy) store(values_copy.in(run), results.data());
      store(places.in(run), found.data());
    });
  };
}
template <class F> Plan argument(In self, int64_t dim, bool keep, Out out) {
  const Split split(self.dims, {dim}, keep);
  must(out.type == kInt64, "places that are not of int64");
  must(split.length > 0, "the extreme of nothing");
  must_have(out, split.kept);
  return {places<F>(self, split, nullptr, out), row_workspace(split)};
}
template <class F> Plan extreme_and_place(In self, int64_t dim, bool keep, Out out, Out indices) {
  const Split split(self.dims, {dim}, keep);
  must_be_same_type(self, out);
  must(indices.type == kInt64, "places that are not of int64");
  must(split.length > 0, "the extreme of nothing");
  must_have(out, split.kept);
  must_have(indices, split.kept);
  return {places<F>(self, split, &out, indices), row_workspace(split)};
}

double norm(const double *row, int64_t count, double order) {
  double total = order == -INFINITY ? INFINITY : 0;
  for (int64_t i = 0; i < count; ++i) {
    const double size = std::fabs(row[i]);
    if (size != size) return size;
    if (order == INFINITY)
      total = std::max(total, size);
    else if (order == -INFINITY)
      total = std::min(total, size);
    else
      total += order == 0 ? size != 0 : order == 2 ? size * size : std::pow(size, order);
  }
  return std::isinf(order) || order == 0 ? total : std::pow(total, 1 / order);
}

Plan vector_norm(In self, Number order, Dims dims, bool keep, int32_t type, Out out) {
  must(is_floating(self.type) && is_floating(type) && out.type == type, "a norm of other than floating types");
  const Split split(self.dims, dims, keep);
  must_have(out, split.kept);
  return {[=](const Run &run) {
            const Array<double> values = load<double>(self.in(run).permuted(split.order));
            Array<double> results(split.rows);
            for (int64_t row = 0; row < split.rows; ++row)
              results[row] = norm(values.data() + row * split.length, split.length, order.real);
            store(out.in(run), results.data());
          },
          row_workspace(split)};
}

Plan running_sum(In self, int64_t dim, int32_t type, Out out) {
  must(out.type == type, "a result of another type than was asked for");
  must_have(out, self.dims);
  const Split split(self.dims, {dim});
  return {[=](const Run &run) {
            with_kind(type, [&]<class C>() {
              Array<C> values = load<C>(self.in(run).permuted(split.order));
              for (int64_t row = 0; row < split.rows; ++row) {
                Wide<C> total = 0;
                for (C *each = values.data() + row * split.length, *end = each + split.length; each < end; ++each)
                  *each = static_cast<C>(total += *each);
              }
              store(out.in(run).permuted(split.order), values.data());
            });
          },
          row_workspace(split)};
}

} // namespace
} // namespace sim

using namespace sim;

SIM_OPERATOR(ReduceSum, &typed<Sum>)
SIM_OPERATOR(Mean, &typed<Average>)
SIM_OPERATOR(ProdDim, &product)
SIM_OPERATOR(Amax, &extreme<Largest>)
SIM_OPERATOR(Amin, &extreme<Smallest>)
SIM_OPERATOR(Max, &extreme_of_all<Largest>)
SIM_OPERATOR(Min, &extreme_of_all<Smallest>)
SIM_OPERATOR(All, &truth<Every>)
SIM_OPERATOR(Any, &truth<Some>)
SIM_OPERATOR(ArgMax, &argument<Largest>)
SIM_OPERATOR(ArgMin, &argument<Smallest>)
SIM_OPERATOR(MaxDim, &extreme_and_place<Largest>)
SIM_OPERATOR(MinDim, &extreme_and_place<Smallest>)
SIM_OPERATOR(LinalgVectorNorm, &vector_norm)
SIM_OPERATOR(Cumsum, &running_sum)
