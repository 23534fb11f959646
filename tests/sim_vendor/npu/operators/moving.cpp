// moving.cpp -- copies, casts, fills and rearrangements.
#include <algorithm>

#include "plan.h"

namespace sim {
namespace {

// Converts through the source's kind of number, so that no precision is lost before the destination's type.
Work copying(const In &from, const Out &to) {
  return [=](const Run &run) {
    with_kind(from.type, [&]<class C>() {
      const Array<C> values = load<C>(from.in(run).expanded(to.dims));
      store(to.in(run), values.data());
    });
  };
}

Plan copy(Out self, In source) {
  must(broadcast(self.dims, source.dims) == self.dims, "a source that does not broadcast to the destination");
  return {copying(source, self)};
}

Plan cast(In self, int32_t type, Out out) {
  must(out.type == type, "a result of another type than was asked for");
  must_have(out, self.dims);
  return {copying(self, out)};
}

Work filling(const Out &out, const Number &value) {
  return [=](const Run &run) {
    with_kind(out.type, [&]<class C>() {
      Array<C> values(count_of(out.dims));
      // Every number except 0 becomes true, also one below 1.
      std::fill(values.begin(), values.end(), out.type == kBool ? C(value.real != 0) : value.as<C>());
      store(out.in(run), values.data());
    });
  };
}
Plan fill(Out self, Number value) { return {filling(self, value)}; }
Plan zero(Out self) { return {filling(self, {true, 0, 0})}; }

Plan masked_fill(Out self, Mask mask, Number value) {
  must(mask.type == kBool, "a mask that is not of bool");
  must(broadcast(self.dims, mask.dims) == self.dims, "a mask that does not broadcast to the tensor");
  return {[=](const Run &run) {
    with_kind(self.type, [&]<class C>() {
      Array<C> values = load<C>(self.in(run));
      const Array<int64_t> chosen = load<int64_t>(mask.in(run).expanded(self.dims));
      for (int64_t i = 0; i < values.count(); ++i)
        if (chosen[i]) values[i] = value.as<C>();
      store(self.in(run), values.data());
    });
  }};
}

Plan concatenation(List tensors, int64_t dimension_asked, Out out) {
  must(!tensors.empty(), "an empty list");
  const size_t dim = dimension(dimension_asked, out.dims.size());
  Dims dims = out.dims;
  must(!dims.empty(), "a result without dimensions");
  dims[dim] = 0;
  for (const In &each : tensors) {
    must_be_same_type(each, out);
    must(each.dims.size() == dims.size(), "a tensor of another number of dimensions");
    for (size_t i = 0; i < dims.size(); ++i) must(i == dim || each.dims[i] == dims[i], "tensors that do not fit");
    dims[dim] += each.dims[dim];
  }
  must_have(out, dims);
  return {[=](const Run &run) {
    with_kind(out.type, [&]<class C>() {
      int64_t start = 0;
      for (const In &each : tensors) {
        const Array<C> values = load<C>(each.in(run));
        store(out.in(run).narrowed(dim, start, each.dims[dim]), values.data());
        start += each.dims[dim];
      }
    });
  }};
}

template <bool upper> Plan triangle(In self, int64_t diagonal, Out out) {
  must(self.dims.size() >= 2, "a tensor of less than 2 dimensions");
  must_be_same_type(self, out);
  must_have(out, self.dims);
  return {[=](const Run &run) {
    with_kind(self.type, [&]<class C>() {
      Array<C> values = load<C>(self.in(run));
      const int64_t columns = self.dims.back(), rows = self.dims[self.dims.size() - 2];
      for (int64_t i = 0; i < values.count(); ++i) {
        // The distance from the diagonal, positive to the right.
        const int64_t right = i % columns - i / columns % rows - diagonal;
        if (upper ? right < 0 : right > 0) values[i] = C(0);
      }
      store(out.in(run), values.data());
    });
  }};
}

Plan flip(In self, Dims flipped, Out out) {
  must_be_same_type(self, out);
  must_have(out, self.dims);
  std::vector<bool> chosen(self.dims.size() + 1, false);
  for (const int64_t each : flipped) chosen[dimension(each, self.dims.size())] = true;
  return {[=](const Run &run) {
    with_kind(self.type, [&]<class C>() {
      const Array<C> values = load<C>(self.in(run));
      Array<C> result(values.count());
      for (int64_t i = 0; i < values.count(); ++i) {
        int64_t rest = i, place = 0, step = 1;
        for (size_t dim = self.dims.size(); dim-- > 0; step *= self.dims[dim], rest /= self.dims[dim]) {
          const int64_t at = rest % self.dims[dim];
          place += (chosen[dim] ? self.dims[dim] - 1 - at : at) * step;
        }
        result[place] = values[i];
      }
      store(out.in(run), result.data());
    });
  }};
}

Plan range(Number start, Number end, Number step, Out out) {
  must(out.type != kBool && out.dims.size() == 1, "a range that is not of one dimension");
  must(step.real != 0 && (end.real - start.real) / step.real >= 0, "a range that does not reach its end");
  const int64_t count = out.dims[0];
  return {[=](const Run &run) {
    if (is_floating(out.type)) {
      Array<double> values(count);
      for (int64_t i = 0; i < count; ++i) values[i] = start.real + static_cast<double>(i) * step.real;
      store(out.in(run), values.data());
    } else {
      Array<int64_t> values(count);
      for (int64_t i = 0; i < count; ++i) values[i] = start.whole + i * step.whole;
      store(out.in(run), values.data());
    }
  }};
}

} // namespace
} // namespace sim

using namespace sim;

SIM_OPERATOR(InplaceCopy, &copy)
SIM_OPERATOR(Cast, &cast)
SIM_OPERATOR(InplaceFillScalar, &fill)
SIM_OPERATOR(InplaceZero, &zero)
SIM_OPERATOR(InplaceMaskedFillScalar, &masked_fill)
SIM_OPERATOR(Cat, &concatenation)
SIM_OPERATOR(Tril, &triangle<false>)
SIM_OPERATOR(Triu, &triangle<true>)
SIM_OPERATOR(Flip, &flip)
SIM_OPERATOR(Arange, &range)
