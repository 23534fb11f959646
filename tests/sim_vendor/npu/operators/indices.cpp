// indices.cpp -- operators that read or write elements by indices.
#include "plan.h"

namespace sim {
namespace {

int64_t inside(int64_t index, int64_t size) {
  if (index >= -size && index < size) return index < 0 ? index + size : index;
  refuse(kCoreException, "EZ9999: AI core exception: no element %lld of %lld", static_cast<long long>(index),
         static_cast<long long>(size));
}

void must_be_indices(const In &index) {
  must(index.type == kInt64 || index.type == kInt32, "indices that are not of int64 or int32");
}

// The size of one dimension, and the products of the sizes before and after it.
struct Around {
  int64_t before = 1, size = 1, after = 1;
  Around(const Dims &dims, size_t dim) {
    for (size_t i = 0; i < dims.size(); ++i) (i < dim ? before : i == dim ? size : after) *= dims[i];
  }
};

// Selects rows of a table.
Plan embedding(In weight, In indices, Out out) {
  must_be_indices(indices);
  must(weight.dims.size() == 2, "a table of other than 2 dimensions");
  must_be_same_type(weight, out);
  Dims dims = indices.dims;
  dims.push_back(weight.dims[1]);
  must_have(out, dims);
  return {[=](const Run &run) {
    with_kind(weight.type, [&]<class C>() {
      const Array<C> table = load<C>(weight.in(run));
      const Array<int64_t> rows = load<int64_t>(indices.in(run));
      const int64_t width = weight.dims[1];
      Array<C> result(rows.count() * width);
      for (int64_t i = 0; i < rows.count(); ++i)
        std::copy_n(table.data() + inside(rows[i], weight.dims[0]) * width, width, result.data() + i * width);
      store(out.in(run), result.data());
    });
  }};
}

Plan embedding_backward(In grad, In indices, uint64_t rows, uint64_t padding, bool by_frequency, Out out) {
  must_be_indices(indices);
  must(is_floating(grad.type) && !grad.dims.empty(), "a gradient that is not floating");
  must_be_same_type(grad, out);
  const int64_t width = grad.dims.back();
  Dims dims = indices.dims;
  dims.push_back(width);
  must_have(grad, dims);
  must_have(out, {static_cast<int64_t>(rows), width});
  const Work work = [=](const Run &run) {
    with_floating_kind(grad.type, [&]<class C>() {
      const Array<C> slopes = load<C>(grad.in(run));
      const Array<int64_t> places = load<int64_t>(indices.in(run));
      std::vector<int64_t> uses(rows, 0);
      Array<C> result(static_cast<int64_t>(rows) * width);
      std::fill(result.begin(), result.end(), C(0));
      for (const int64_t place : places) ++uses[static_cast<size_t>(inside(place, static_cast<int64_t>(rows)))];
      for (int64_t i = 0; i < places.count(); ++i) {
        const int64_t place = inside(places[i], static_cast<int64_t>(rows));
        if (static_cast<uint64_t>(place) == padding) continue;
        const C scale = C(1) / C(by_frequency ? uses[static_cast<size_t>(place)] : 1);
        for (int64_t x = 0; x < width; ++x) result[place * width + x] += slopes[i * width + x] * scale;
      }
      store(out.in(run), result.data());
    });
  };
  return {work, 1024 + rows * 8};
}

Plan selected(In self, int64_t dimension_asked, In index, Out out) {
  const size_t dim = dimension(dimension_asked, self.dims.size());
  must_be_indices(index);
  must(index.dims.size() <= 1, "indices of more than one dimension");
  must_be_same_type(self, out);
  Dims dims = self.dims;
  const int64_t count = count_of(index.dims);
  if (!dims.empty()) dims[dim] = count;
  must_have(out, dims);
  const Around around(self.dims, dim);
  return {[=](const Run &run) {
    with_kind(self.type, [&]<class C>() {
      const Array<C> values = load<C>(self.in(run));
      const Array<int64_t> places = load<int64_t>(index.in(run));
      Array<C> result(around.before * count * around.after);
      C *to = result.data();
      for (int64_t before = 0; before < around.before; ++before)
        for (const int64_t place : places) {
          const int64_t from = before * around.size + inside(place, around.size);
          to = std::copy_n(values.data() + from * around.after, around.after, to);
        }
      store(out.in(run), result.data());
    });
  }};
}

Plan add_selected(In self, int64_t dimension_asked, In index, In source, Number alpha, Out out) {
  const size_t dim = dimension(dimension_asked, self.dims.size());
  must_be_indices(index);
  must(index.dims.size() <= 1, "indices of more than one dimension");
  must_be_same_type(self, out);
  must_be_same_type(self, source);
  must_have(out, self.dims);
  Dims dims = self.dims;
  if (!dims.empty()) dims[dim] = count_of(index.dims);
  must(count_of(source.dims) == count_of(dims), "a source of the wrong shape");
  const Around around(self.dims, dim);
  return {[=](const Run &run) {
    with_kind(self.type, [&]<class C>() {
      Array<C> values = load<C>(self.in(run));
      const Array<C> more = load<C>(source.in(run));
      const Array<int64_t> places = load<int64_t>(index.in(run));
      const C *from = more.data();
      for (int64_t before = 0; before < around.before; ++before)
        for (const int64_t place : places) {
          C *to = values.data() + (before * around.size + inside(place, around.size)) * around.after;
          for (int64_t x = 0; x < around.after; ++x) *to++ += alpha.as<C>() * *from++;
        }
      store(out.in(run), values.data());
    });
  }};
}

// Calls each(element of the index tensor, element of `dims` that its index points to).
template <class F> void pointed(const Dims &dims, size_t dim, const Dims &index_dims, const int64_t *indices, F each) {
  Dims steps(dims.size(), 1), at(dims.size(), 0);
  for (size_t i = dims.size(); i-- > 1;) steps[i - 1] = steps[i] * dims[i];
  for (int64_t i = 0, count = count_of(index_dims); i < count; ++i) {
    int64_t place = 0;
    for (size_t x = 0; x < dims.size(); ++x) place += (x == dim ? inside(indices[i], dims[x]) : at[x]) * steps[x];
    each(i, place);
    for (size_t x = dims.size(); x-- > 0;) {
      if (++at[x] < index_dims[x]) break;
      at[x] = 0;
    }
  }
}

void must_index(const In &self, size_t dim, const In &index) {
  must_be_indices(index);
  must(index.dims.size() == self.dims.size(), "indices of another number of dimensions");
  for (size_t i = 0; i < self.dims.size(); ++i)
    must(i == dim || index.dims[i] <= self.dims[i], "more indices than the tensor has places");
}

Plan gather(In self, int64_t dimension_asked, In index, Out out) {
  const size_t dim = dimension(dimension_asked, self.dims.size());
  must_index(self, dim, index);
  must_be_same_type(self, out);
  must_have(out, index.dims);
  return {[=](const Run &run) {
    with_kind(self.type, [&]<class C>() {
      const Array<C> values = load<C>(self.in(run));
      const Array<int64_t> indices = load<int64_t>(index.in(run));
      Array<C> result(indices.count());
      pointed(self.dims, dim, index.dims, indices.data(), [&](int64_t i, int64_t place) { result[i] = values[place]; });
      store(out.in(run), result.data());
    });
  }};
}

// Copies self, then calls each(element of the copy, number of the index) for each index.
template <class Each> Plan scattered(const In &self, int64_t asked, const In &index, const Out &out, Each each) {
  const size_t dim = dimension(asked, self.dims.size());
  must_index(self, dim, index);
  must_be_same_type(self, out);
  must_have(out, self.dims);
  return {[=](const Run &run) {
    with_kind(self.type, [&]<class C>() {
      Array<C> values = load<C>(self.in(run));
      const Array<int64_t> indices = load<int64_t>(index.in(run));
      const auto source = each.template source<C>(run);
      pointed(self.dims, dim, index.dims, indices.data(), [&](int64_t i, int64_t place) {
        values[place] = each.add ? static_cast<C>(values[place] + source[i]) : source[i];
      });
      store(out.in(run), values.data());
    });
  }};
}

struct FromTensor {
  In tensor;
  Dims dims; // of the indices
  bool add;
  FromTensor(const In &self, const In &tensor, const In &index, bool add) : tensor(tensor), dims(index.dims), add(add) {
    must_be_same_type(self, tensor);
    must(tensor.dims.size() == dims.size(), "a source of another number of dimensions");
    for (size_t i = 0; i < dims.size(); ++i) must(dims[i] <= tensor.dims[i], "more indices than the source has places");
  }
  template <class C> Array<C> source(const Run &run) const {
    View view = tensor.in(run);
    view.dims = dims;
    return load<C>(view);
  }
};
struct FromNumber {
  Number number;
  bool add = false;
  template <class C> struct Same {
    C value;
    C operator[](int64_t) const { return value; }
  };
  template <class C> Same<C> source(const Run &) const { return {number.as<C>()}; }
};

Plan scatter(In self, int64_t dim, In index, In source, int64_t reduction, Out out) {
  must(reduction == 0 || reduction == 1, "a reduction that is not simulated");
  return scattered(self, dim, index, out, FromTensor(self, source, index, reduction == 1));
}
Plan scatter_value(In self, int64_t dim, In index, Number value, int64_t reduction, Out out) {
  must(reduction == 0 || reduction == 1, "a reduction that is not simulated");
  return scattered(self, dim, index, out, FromNumber{value, reduction == 1});
}
Plan scatter_add(In self, int64_t dim, In index, In source, Out out) {
  return scattered(self, dim, index, out, FromTensor(self, source, index, true));
}

} // namespace
} // namespace sim

using namespace sim;

SIM_OPERATOR(Embedding, &embedding)
SIM_OPERATOR(EmbeddingDenseBackward, &embedding_backward)
SIM_OPERATOR(IndexSelect, &selected)
SIM_OPERATOR(IndexAdd, &add_selected)
SIM_OPERATOR(Gather, &gather)
SIM_OPERATOR(Scatter, &scatter)
SIM_OPERATOR(ScatterValue, &scatter_value)
SIM_OPERATOR(ScatterAdd, &scatter_add)
