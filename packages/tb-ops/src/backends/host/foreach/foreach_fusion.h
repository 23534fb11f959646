// Foreach fusion: elementwise floating-point operations on lists run together with those that are queued directly
// behind them.
//
// An optimizer's step consists of several such operations on the same lists. One after the other, each would fetch
// parameters, gradients and averages from memory again. So the worker looks at the next closures in the queue
// (tb_closure_context.next). While they are such operations on lists of the same lengths, each tensor, or piece of a
// large one, goes through all operations before the next tensor does. The same kernels of PyTorch compute every element
// in the same order, so the results are bit-identical. If tensors at different places in the lists share memory, the
// operations run one after the other.
#pragma once
#include <c10/core/Scalar.h>

#include <array>
#include <memory>
#include <tuple>

#include "structured/structured.h"
#include "worker/worker_tensors.h"

namespace tb::ops::host {

// Runs pieces of one operation, on one thread.
class Pieces {
public:
  virtual ~Pieces() = default;
  // Computes the elements [begin, begin + count), in the order of memory, of the tensors at one place of the lists.
  virtual void run(size_t place, int64_t begin, int64_t count) = 0;
};

// One operation in the queue. All tensors have one type, and those at one place have the same strides and no gaps.
class QueuedList {
public:
  using Lists = c10::SmallVector<TensorDescriptors, 4>;

  QueuedList(Lists arguments, bool known) : lists(std::move(arguments)), settled(known) {}
  virtual ~QueuedList() = default;
  QueuedList(const QueuedList &) = delete;
  QueuedList &operator=(const QueuedList &) = delete;
  virtual std::unique_ptr<Pieces> pieces() const = 0;

  Lists lists; // the first is written to
  const LaunchContext launch_context;
  const bool settled; // it ran with these dtypes before, so it cannot fail

  static tb_status run(void *storage, const tb_closure_context *context);
  static void destroy(void *storage) { static_cast<QueuedList *>(storage)->~QueuedList(); }
  template <Name name>
  static constexpr tb_closure kind{sizeof(tb_closure), TB_CLOSURE_ON_WAITER, name.value, &run, &destroy};

private:
  friend class FusedLists;
  bool done_ = false; // it ran together with an earlier one
};

// Returns how many operations have run together with an earlier one.
int64_t fused_list_operations();

// A range of memory that an operation reads or writes.
struct MemoryRange {
  const char *begin, *end;
  bool written;
};
// Whether no range that is written overlaps another one. Sorts the ranges.
bool apart(std::vector<MemoryRange> &ranges);

// A structured operator's kernel that is set up once for flat tensors, an output and inputs, and then runs on as many
// elements at other addresses. `Extra` is a tuple of the arguments after the tensors.
template <class Kernel, size_t inputs, class Extra> class Ready {
public:
  using Tensors = std::array<at::Tensor *, inputs + 1>;
  using Places = std::array<void *, inputs + 1>;

  Ready(const Tensors &tensors, Extra extra) : tensors_(tensors), extra_(std::move(extra)), call_(*tensors[0]) {
    with([this](const auto &...arguments) { call_.meta(arguments...); });
  }
  void run() {
    with([this](const auto &...arguments) { call_.impl(arguments..., *tensors_[0]); });
  }
  void run(const Places &places) {
    for (size_t i = 0; i <= inputs; i++) {
      set_data(*tensors_[i], places[i]);
      call_.unsafe_replace_operand(static_cast<int64_t>(i), places[i]);
    }
    run();
  }

private:
  template <class Call> void with(const Call &call) {
    [&]<size_t... i, size_t... j>(std::index_sequence<i...>, std::index_sequence<j...>) {
      call(static_cast<const at::Tensor &>(*tensors_[i + 1])..., std::get<j>(extra_)...);
    }(std::make_index_sequence<inputs>{}, std::make_index_sequence<std::tuple_size_v<Extra>>{});
  }

  const Tensors tensors_;
  const Extra extra_;
  MetaCall<Kernel, Schema::out, 1> call_;
};

// An operation that can run by pieces. It has Kernel, a structured operator of PyTorch; `inputs`, the number of tensors
// that the operator takes; extra(place), its other arguments as a tuple; and same(place, other), which says whether two
// places have the same other arguments.
template <class Element>
concept ByElement = requires { typename Element::Kernel; } && !std::is_void_v<typename Element::Kernel>;

template <ByElement Element> class PiecesOf final : public Pieces {
public:
  PiecesOf(const QueuedList &list, Element element) : list_(list), element_(std::move(element)) {}

  void run(size_t place, int64_t begin, int64_t count) override {
    typename ReadyCall::Places places;
    const c10::ScalarType type = list_.lists[0][place].type();
    const size_t offset = static_cast<size_t>(begin) * c10::elementSize(type);
    const size_t in_place = places.size() - list_.lists.size(); // 1: the first list is an input too
    for (size_t i = 0; i < places.size(); i++)
      places[i] = static_cast<std::byte *>(list_.lists[i == 0 ? 0 : i - in_place][place].data()) + offset;
    // Kernels of other types change their iterator, so a call can be used only once.
    const bool again = type == c10::ScalarType::Float || type == c10::ScalarType::Double;
    if (again)
      for (const Kept &kept : kept_)
        if (kept.count == count && element_.same(place, kept.place)) return kept.call->run(places);
    Kept &kept = free(again ? most : 1, type);
    kept.call.reset(); // it refers to the tensors, which change now
    for (size_t i = 0; i < places.size(); i++) set_flat(*kept.tensors[i], places[i], count);
    kept.call = std::make_unique<ReadyCall>(kept.tensors, element_.extra(place));
    kept.count = count;
    kept.place = place;
    kept.call->run();
  }

private:
  using Extra = decltype(std::declval<Element &>().extra(0));
  using ReadyCall = Ready<typename Element::Kernel, Element::inputs, Extra>;
  struct Kept {
    typename ReadyCall::Tensors tensors;
    int64_t count = 0;
    size_t place = 0; // for which the call was made
    std::unique_ptr<ReadyCall> call;
  };
  static constexpr size_t most = 16;

  // Returns an entry whose tensors the caller sets: a new one while there are fewer than `limit`, else one to replace.
  Kept &free(size_t limit, c10::ScalarType type) {
    if (kept_.size() >= limit) return kept_[next_++ % limit];
    Kept &kept = kept_.emplace_back();
    for (at::Tensor *&tensor : kept.tensors) tensor = &flat(nullptr, type, 0);
    return kept;
  }

  const QueuedList &list_;
  Element element_;
  c10::SmallVector<Kept, most> kept_;
  size_t next_ = 0;
};

template <ByElement Element> class QueuedElements final : public QueuedList {
public:
  QueuedElements(Element element, Lists arguments, bool known)
      : QueuedList(std::move(arguments), known), element_(std::move(element)) {}
  std::unique_ptr<Pieces> pieces() const override { return std::make_unique<PiecesOf<Element>>(*this, element_); }

private:
  const Element element_;
};

template <ByElement Element, Name name> LaunchedAs elements_launched_as() {
  static constinit DtypeProbe dtype_probe;
  return {QueuedList::kind<name>, dtype_probe};
}

// Launches the operation. The first list is written to. If there is no list for each input, it is the first input too.
template <ByElement Element, class... Lists>
void launch_elements(const LaunchedAs &as, c10::DeviceIndex device, Element element, const Lists &...lists) {
  using Queued = QueuedElements<Element>;
  static_assert(sizeof...(Lists) == Element::inputs + 1 || sizeof...(Lists) == Element::inputs);
  QueuedList::Lists arguments;
  (arguments.push_back(capture_list(lists)), ...);
  const LaunchNote note = launch_notes.take();
  const bool known = !note.doubtful && as.dtype_probe.known(note.types);
  enqueue_made<Queued>(device, as.kind, [&](void *storage) {
    [[maybe_unused]] const QueuedList *queued = new (storage) Queued(std::move(element), std::move(arguments), known);
    TORCH_INTERNAL_ASSERT_DEBUG_ONLY(queued == storage);
  });
  if (!known) as.dtype_probe.wait(device, note.types, as.kind.name);
}

} // namespace tb::ops::host
