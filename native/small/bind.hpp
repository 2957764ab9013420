// The Python classes of hotlap.small, in float32 and in float64.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <optional>

#include "guard.hpp"
#include "net.hpp"
#include "ode_fit.hpp"
#include "step.hpp"
#include "update.hpp"

namespace hotlap {

namespace nb = nanobind;

using ValueTuple = std::tuple<int64_t, bool>;
using NodeTuple = std::tuple<int, int, int, int, int, int, int64_t, double, double>;
using ParameterTuple = std::tuple<int64_t, uintptr_t, bool>;
// `Program.description` of small/program.py.
using ProgramTuple =
    std::tuple<std::vector<ValueTuple>, std::vector<NodeTuple>, std::vector<ParameterTuple>, std::tuple<int, int, int>>;

inline Program make_program(const ProgramTuple& description) {
    const auto& [values, nodes, parameters, ends] = description;
    Program p;
    for (const auto& [cols, single] : values) p.values.push_back({cols, single});
    for (const auto& [op, a, b, out, weight, bias, i0, f0, f1] : nodes)
        p.nodes.push_back({Op(op), a, b, out, weight, bias, i0, f0, f1});
    for (const auto& [numel, data, trained] : parameters)
        p.parameters.push_back({numel, reinterpret_cast<void*>(data), trained});
    std::tie(p.input, p.time, p.output) = ends;
    return p;
}

template <class T>
T* pointer(uintptr_t address) {
    return reinterpret_cast<T*>(address);
}

using SlotTuple = std::tuple<int, int, int64_t, uintptr_t, uintptr_t, uintptr_t, bool>;

template <class T>
std::vector<Slot<T>> make_slots(const std::vector<SlotTuple>& slots) {
    std::vector<Slot<T>> made;
    for (const auto& [parameter, group, numel, s0, s1, count, fresh] : slots)
        made.push_back({parameter, group, numel, {pointer<T>(s0), pointer<T>(s1)}, pointer<float>(count), fresh});
    return made;
}

inline std::vector<Group> make_groups(const std::vector<std::vector<double>>& groups) {
    std::vector<Group> made;
    for (const auto& g : groups)
        made.push_back({g.at(0), g.at(1), g.at(2), g.at(3), g.at(4), g.at(5), g.at(6), g.at(7) != 0, g.at(8) != 0, g.at(9) != 0});
    return made;
}

using CriterionTuple = std::tuple<int, bool, int64_t>;

inline Criterion make_criterion(const CriterionTuple& t) { return {Loss(std::get<0>(t)), std::get<1>(t), std::get<2>(t)}; }

// Only one call at a time may use the buffers of an object; a second one is an error, not a wait.
class Busy {
  public:
    explicit Busy(std::atomic<bool>& flag) : flag_(flag) {
        if (flag_.exchange(true)) throw std::runtime_error("this object is in use by another thread");
    }
    ~Busy() { flag_ = false; }

  private:
    std::atomic<bool>& flag_;
};

// Multiplications of a forward pass from which on a step is long, about ten microseconds on one core; of an update, WORK for
// each number.
constexpr int64_t LONG = 200'000, WORK = 10;

template <class T>
struct PyStep {
    Step<T> step;
    Guard *guard = nullptr, *settings = nullptr;
    nb::object guards;  // keeps both alive
    std::atomic<bool> busy{false};

    PyStep(Program program, Criterion criterion, Method method) : step(std::move(program), criterion, method) {}

    // Runs `work` on so many rows; of a long step, without the interpreter's lock. (Of a short one, another thread that
    // wants the lock would hold the next step up for longer than this one takes.)
    template <class Work>
    double alone(int64_t rows, Work work) {
        Busy mine(busy);
        int64_t numbers = 0;
        for (const auto& parameter : step.exec().program().parameters) numbers += parameter.numel;
        std::optional<nb::gil_scoped_release> release;
        if (rows * numbers >= LONG) release.emplace();
        return work();
    }

    bool read_batch(PyObject* x, PyObject* y, const Exchange& exchange, bool labels, Batch<T>& batch) {
        TensorView a{}, b{};
        if (!exchange.view(x, a) || !a.is(2, sizeof(T) * 8) || a.ndim != 2 || a.shape[1] != step.inputs() || !a.dense())
            return false;
        batch.x = static_cast<const T*>(a.start());
        batch.rows = a.shape[0];
        if (!exchange.view(y, b) || !b.dense()) return false;
        batch.target = b.start();
        if (labels) return b.is(0, 64) && b.ndim == 1 && b.shape[0] == batch.rows;
        return b.is(2, sizeof(T) * 8) && b.ndim == 2 && b.shape[0] == batch.rows && b.shape[1] == step.outputs();
    }
};

inline Exchange* exchange = nullptr;

template <class T>
void bind_step(nb::module_& m, const char* name) {
    using P = PyStep<T>;
    nb::class_<P>(m, name)
        .def("__init__",
             [](P* self, const ProgramTuple& program, const CriterionTuple& loss, int method) {
                 new (self) P(make_program(program), make_criterion(loss), Method(method));
             })
        .def("set_groups",
             [](P& self, const std::vector<std::vector<double>>& groups) { self.step.groups() = make_groups(groups); })
        .def("set_slots", [](P& self, const std::vector<SlotTuple>& slots) { self.step.set_slots(make_slots<T>(slots)); })
        .def("set_guards",
             [](P& self, nb::object guard, nb::object settings) {
                 self.guard = nb::cast<Guard*>(guard);
                 self.settings = nb::cast<Guard*>(settings);
                 self.guards = nb::make_tuple(guard, settings);
             })
        // The whole of a step on two tensors; None where anything is not as it was made for.
        .def("call",
             [](P& self, nb::handle x, nb::handle y, bool labels) -> nb::object {
                 Batch<T> batch;
                 if (!self.guard || !exchange || !self.guard->holds() || !self.settings->holds() ||
                     !self.settings->read_rates(self.step.groups()) ||
                     !self.read_batch(x.ptr(), y.ptr(), *exchange, labels, batch))
                     return nb::none();
                 return nb::float_(self.alone(batch.rows, [&] { return self.step.step(batch); }));
             })
        .def("epoch", [](P& self, uintptr_t x, uintptr_t y, int64_t num, uintptr_t order, int64_t size, bool drop_last) {
            Busy busy(self.busy);
            nb::gil_scoped_release release;
            return self.step.epoch({pointer<T>(x), pointer<void>(y), num}, pointer<int64_t>(order), size, drop_last);
        });
}

template <class T>
struct PyNet {
    Net<T> net;
    std::atomic<bool> busy{false};

    PyNet(Program program, bool input_gradient) : net(std::move(program), input_gradient) {}
};

template <class T>
void bind_net(nb::module_& m, const char* name) {
    using P = PyNet<T>;
    nb::class_<P>(m, name)
        .def("__init__",
             [](P* self, const ProgramTuple& program, bool input_gradient) { new (self) P(make_program(program), input_gradient); })
        .def("forward",
             [](P& self, uintptr_t x, int64_t rows, uintptr_t out) {
                 Busy busy(self.busy);
                 nb::gil_scoped_release release;
                 self.net.forward(pointer<T>(x), rows, pointer<T>(out));
             })
        // `to`: one address for each parameter, 0 for those whose gradient nobody wants.
        .def("backward", [](P& self, uintptr_t gradient, uintptr_t to_x, const std::vector<uintptr_t>& to) {
            Busy busy(self.busy);
            nb::gil_scoped_release release;
            for (size_t p = 0; p < to.size(); p++) self.net.exec().redirect_gradient(int(p), pointer<T>(to[p]));
            self.net.backward(pointer<T>(gradient), pointer<T>(to_x));
        });
}

template <class T>
void bind_update(nb::module_& m, const char* name) {
    using P = Update<T>;
    nb::class_<P>(m, name)
        .def("__init__",
             [](P* self, int method, const std::vector<std::vector<double>>& groups, const std::vector<SlotTuple>& slots,
                const std::vector<uintptr_t>& data, nb::list parameters) {
                 if (data.size() != slots.size() || parameters.size() != slots.size())
                     throw std::invalid_argument("one parameter for each slot is expected");
                 std::vector<T*> pointers;
                 for (uintptr_t p : data) pointers.push_back(pointer<T>(p));
                 new (self) P(Method(method), make_groups(groups), make_slots<T>(slots), std::move(pointers));
                 for (nb::handle p : parameters) self->add_parameter(p.ptr());
             })
        // True if done; False, with nothing changed, where the guard does not hold or a gradient is not as expected.
        .def("step",
             [](P& self, const Guard& guard, const Guard& settings) {
                 if (!exchange || !self.find(guard, settings, *exchange)) return false;
                 {
                     std::optional<nb::gil_scoped_release> release;
                     if (self.numel() * WORK >= LONG) release.emplace();
                     self.run();
                 }
                 self.drop();
                 return true;
             })
        .def("set_groups", [](P& self, const std::vector<std::vector<double>>& groups) { self.groups = make_groups(groups); });
}

template <class T>
struct PyOde : OdeFit<T> {
    using OdeFit<T>::OdeFit;
    nb::object asked = nb::none();  // what the caller has set, in its own terms
};

template <class T>
void bind_ode(nb::module_& m, const char* name) {
    using P = PyOde<T>;
    nb::class_<P>(m, name)
        .def("__init__",
             [](P* self, const ProgramTuple& program, int order, const std::vector<double>& a, const std::vector<double>& c,
                const std::vector<double>& e, const std::vector<double>& dense) {
                 new (self) P(make_program(program), {int(c.size()), a, c, e, dense, order});
             })
        .def_prop_rw("asked", [](P& self) { return self.asked; }, [](P& self, nb::object asked) { self.asked = std::move(asked); },
                     nb::arg().none())
        // rtol, atol, first, min and max step, safety, largest and least factor; step limit.
        .def("set_control",
             [](P& self, const std::vector<double>& v, int64_t max_steps) {
                 self.control = {v.at(0), v.at(1), v.at(2), v.at(3), v.at(4), v.at(5), v.at(6), v.at(7), max_steps};
             })
        .def("set_times",
             [](P& self, std::vector<double> t, std::vector<double> grid, double sign, int64_t rows) {
                 self.times = {std::move(t), std::move(grid), sign, rows};
             })
        .def("solve",
             [](P& self, uintptr_t y0, uintptr_t out) {
                 nb::gil_scoped_release release;
                 self.solve(pointer<T>(y0), pointer<T>(out));
             })
        .def("backward",
             // `to`: where the gradients of the parameters with these `numbers` go.
             [](P& self, uintptr_t gradient, uintptr_t to_y0, const std::vector<int>& numbers, const std::vector<uintptr_t>& to) {
                 nb::gil_scoped_release release;
                 Exec<T>& exec = self.exec();
                 for (size_t i = 0; i < numbers.size(); i++) exec.redirect_gradient(numbers[i], pointer<T>(to.at(i)));
                 self.backward(pointer<T>(gradient), pointer<T>(to_y0));
                 for (int number : numbers) exec.redirect_gradient(number, nullptr);
             })
        .def("set_optimizer",
             [](P& self, int method, const std::vector<std::vector<double>>& groups, const std::vector<SlotTuple>& slots) {
                 self.method = Method(method);
                 self.groups = make_groups(groups);
                 self.slots = make_slots<T>(slots);
             })
        .def("fit",
             [](P& self, uintptr_t y0, uintptr_t target, bool mean, int64_t iterations, uintptr_t losses) {
                 nb::gil_scoped_release release;
                 self.fit(pointer<T>(y0), pointer<T>(target), mean, iterations, pointer<double>(losses));
             })
        .def_prop_ro("num_steps", [](P& self) { return self.num_steps(); })
        .def_prop_ro("num_evaluations", [](P& self) { return self.num_evaluations(); });
}

// The loss of a prediction (rows, cols), and its gradient.
template <class T>
void loss_of(const CriterionTuple& criterion, uintptr_t prediction, uintptr_t target, int64_t rows, int64_t cols, uintptr_t gradient,
             uintptr_t loss) {
    const Criterion c = make_criterion(criterion);
    if (c.loss == Loss::cross_entropy && !labels_fit(c, pointer<int64_t>(target), rows, cols))
        throw std::out_of_range("a label names no column of the prediction");
    const Prediction<T> p{pointer<T>(prediction), pointer<T>(gradient), rows, cols, cols};
    *pointer<T>(loss) = T(loss_and_gradient<T>(c, p, pointer<void>(target)));
}

inline void bind_small(nb::module_& m) {
    // Gives the module torch's way to look into a tensor; False where this torch has none that we know.
    m.def("set_exchange", [](nb::handle capsule) {
        if (!Exchange::usable(capsule.ptr())) return false;
        static Exchange it(capsule.ptr());
        exchange = &it;
        return true;
    });
    m.def("loss_float32", &loss_of<float>);
    m.def("loss_float64", &loss_of<double>);
    nb::class_<Guard>(m, "Guard")
        .def(nb::init<>())
        .def("tensor", [](Guard& g, nb::handle t) { g.tensor(t.ptr(), exchange); })
        .def("entry", [](Guard& g, nb::dict d, nb::handle k, nb::handle v) { g.entry(d.ptr(), k.ptr(), v.ptr()); },
             nb::arg(), nb::arg(), nb::arg().none())
        .def("size", [](Guard& g, nb::handle d, int64_t n) { g.size(d.ptr(), n); })
        .def("attribute", [](Guard& g, nb::handle o, nb::str n, nb::handle v) { g.attribute(o.ptr(), n.ptr(), v.ptr()); },
             nb::arg(), nb::arg(), nb::arg().none())
        .def("rate", [](Guard& g, nb::dict group, nb::str key) { g.rate(group.ptr(), key.ptr()); })
        .def("holds", &Guard::holds);
    bind_step<float>(m, "StepFloat32");
    bind_step<double>(m, "StepFloat64");
    bind_net<float>(m, "NetFloat32");
    bind_net<double>(m, "NetFloat64");
    bind_update<float>(m, "UpdateFloat32");
    bind_update<double>(m, "UpdateFloat64");
    bind_ode<float>(m, "OdeFloat32");
    bind_ode<double>(m, "OdeFloat64");
}

}  // namespace hotlap
