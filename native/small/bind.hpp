// The Python classes of hotlap.small, in float32 and in float64.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <optional>

#include "guard.hpp"
#include "lend.hpp"
#include "ode_fit.hpp"
#include "step.hpp"
#include "update.hpp"

namespace hotlap {

namespace nb = nanobind;

using ValueTuple = std::tuple<int64_t, bool>;
using NodeTuple = std::tuple<int, int, int, int, int, int, int64_t, int64_t, double, double>;
using ParameterTuple = std::tuple<int64_t, uintptr_t, bool>;
// `Program.description` of small/program.py.
using ProgramTuple =
    std::tuple<std::vector<ValueTuple>, std::vector<NodeTuple>, std::vector<ParameterTuple>, std::tuple<int, int, int>>;

inline Program make_program(const ProgramTuple& description) {
    const auto& [values, nodes, parameters, ends] = description;
    Program p;
    for (const auto& [cols, single] : values) p.values.push_back({cols, single});
    for (const auto& [op, a, b, out, weight, bias, from, to, f0, f1] : nodes)
        p.nodes.push_back({Op(op), a, b, out, weight, bias, from, to, f0, f1});
    for (const auto& [numel, data, trained] : parameters)
        p.parameters.push_back({numel, reinterpret_cast<void*>(data), trained});
    std::tie(p.input, p.time, p.output) = ends;
    return p;
}

template <class T>
T* pointer(uintptr_t address) {
    return reinterpret_cast<T*>(address);
}

template <class T>
std::vector<T*> pointers(const std::vector<uintptr_t>& addresses) {
    std::vector<T*> made;
    for (uintptr_t address : addresses) made.push_back(pointer<T>(address));
    return made;
}

using CriterionTuple = std::tuple<int, bool, int64_t>;

inline Criterion make_criterion(const CriterionTuple& t) { return {Loss(std::get<0>(t)), std::get<1>(t), std::get<2>(t)}; }

// Only one call at a time may use the buffers of an object; a second one is an error, not a wait.
class Busy {
  public:
    template <class T>
    explicit Busy(Exec<T>& exec) : flag_(exec.busy) {
        if (flag_.exchange(true)) throw std::runtime_error("this object is in use by another thread");
    }
    ~Busy() { flag_ = false; }

  private:
    std::atomic<bool>& flag_;
};

// Multiplications of a forward pass from which on a step is long, about ten microseconds on one core; of an update, WORK for
// each number. What is long is done without the interpreter's lock. (Of a short one, another thread that wants the lock would
// hold the next step up for longer than this one takes.)
constexpr int64_t LONG = 200'000, WORK = 10;

inline int64_t numbers_of(const Program& program) {
    int64_t n = 0;
    for (const auto& parameter : program.parameters) n += parameter.numel;
    return n;
}

inline bool wants_gradient(PyObject* tensor) {
    static const nb::object name = nb::steal(PyUnicode_InternFromString("requires_grad"));
    PyObject* found = PyObject_GetAttr(tensor, name.ptr());
    if (!found) PyErr_Clear();
    Py_XDECREF(found);
    return found != Py_False;
}

// False where the two tensors are no batch of the step's.
template <class T>
bool read_batch(Step<T>& step, PyObject* x, PyObject* y, Batch<T>& batch) {
    TensorView a{}, b{};
    if (wants_gradient(x) || wants_gradient(y)) return false;
    if (!look_into(x, a) || !a.is(2, sizeof(T) * 8) || a.ndim != 2 || a.shape[1] != step.inputs() || !a.dense()) return false;
    if (!look_into(y, b) || !b.dense()) return false;
    batch = {static_cast<const T*>(a.start()), b.start(), a.shape[0]};
    if (step.labelled()) return b.is(0, 64) && b.ndim == 1 && b.shape[0] == batch.rows;
    return b.is(2, sizeof(T) * 8) && b.ndim == 2 && b.shape[0] == batch.rows && b.shape[1] == step.outputs();
}

template <class T>
void bind_optimizer(nb::module_& m) {
    using P = Update<T>;
    nb::class_<P>(m, "Optimizer")
        .def(nb::init<int, nb::list, nb::list>())
        .def("reads", &P::reads)
        // True if done; False, with nothing changed, where the guard does not hold or a gradient is not as expected.
        .def("step", [](P& self, const Guard& guard) {
            if (!self.find(guard)) return false;
            {
                std::optional<nb::gil_scoped_release> release;
                if (self.numel() * WORK >= LONG) release.emplace();
                self.run();
            }
            self.drop();
            return true;
        });
}

template <class T>
void bind_step(nb::module_& m) {
    using P = Step<T>;
    nb::class_<P>(m, "Step")
        .def("__init__",
             [](P* self, const ProgramTuple& program, const CriterionTuple& loss, Update<T>& optimizer, const Guard& guard) {
                 new (self) P(make_program(program), make_criterion(loss), optimizer, guard);
             },
             nb::keep_alive<1, 4>(), nb::keep_alive<1, 5>())
        // The whole of a step on two tensors; None where anything is not as it was made for.
        .def("call",
             [](P& self, nb::handle x, nb::handle y) -> std::optional<double> {
                 Batch<T> batch;
                 if (!self.guard.holds() || !self.update.reads()) return std::nullopt;
                 if (!read_batch(self, x.ptr(), y.ptr(), batch)) return std::nullopt;
                 Busy busy(self.exec());
                 std::optional<nb::gil_scoped_release> release;
                 if (batch.rows * numbers_of(self.exec().program()) >= LONG) release.emplace();
                 return self.step(batch);
             })
        .def("epoch", [](P& self, uintptr_t x, uintptr_t y, int64_t num, uintptr_t order, int64_t size, bool drop_last) {
            Busy busy(self.exec());
            nb::gil_scoped_release release;
            return self.epoch({pointer<T>(x), pointer<void>(y), num}, pointer<int64_t>(order), size, drop_last);
        });
}

template <class T>
struct Net : Exec<T> {
    using Exec<T>::Exec;
    Lender<T> lender;
};

template <class T>
void bind_net(nb::module_& m) {
    using P = Net<T>;
    nb::class_<P>(m, "Net")
        .def("__init__",
             [](P* self, const ProgramTuple& program, bool input_gradient) { new (self) P(make_program(program), input_gradient); })
        // x (rows, inputs) has to stay as it is until backward(); out (rows, outputs).
        .def("forward",
             [](P& self, uintptr_t x, int64_t rows, uintptr_t out) {
                 Busy busy(self);
                 nb::gil_scoped_release release;
                 const int from = self.program().output;
                 self.forward_batch(pointer<T>(x), rows);
                 self.copy_rows(self.value(from), self.ld(from), pointer<T>(out), self.outputs(), self.outputs());
             })
        // From the gradient of `out` to that of x (0: not wanted), and those of the trained parameters, which are returned.
        .def("backward", [](P& self, uintptr_t gradient, uintptr_t to_x, nb::list trained) {
            Busy busy(self);
            nb::list found;
            std::vector<T*> to;
            for (nb::handle parameter : trained) {
                const TensorView form = view_of(parameter);
                found.append(self.lender.lend({form.shape, form.shape + form.ndim}));
                to.push_back(static_cast<T*>(view_of(found[found.size() - 1]).start()));
            }
            {
                nb::gil_scoped_release release;
                const int in = self.program().input, out = self.program().output;
                self.redirect_gradients(to);
                self.copy_rows(pointer<T>(gradient), self.outputs(), self.gradient(out), self.ld(out), self.outputs());
                self.backward_batch();
                if (to_x) self.copy_rows(self.gradient(in), self.ld(in), pointer<T>(to_x), self.inputs(), self.inputs());
            }
            return found;
        });
}

template <class T>
void bind_ode(nb::module_& m) {
    using P = Ode<T>;
    nb::class_<P>(m, "Ode", nb::dynamic_attr())
        .def("__init__",
             [](P* self, const ProgramTuple& program, int order, const std::vector<double>& c, const std::vector<T>& a,
                const std::vector<T>& e, const std::vector<T>& dense) {
                 new (self) P(make_program(program), {int(c.size()), order, c, a, e, dense});
             })
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
                 Busy busy(self.exec());
                 nb::gil_scoped_release release;
                 self.solve(pointer<T>(y0), pointer<T>(out));
             })
        // `to`: where the gradients of the trained parameters go.
        .def("backward",
             [](P& self, uintptr_t gradient, uintptr_t to_y0, const std::vector<uintptr_t>& to) {
                 Busy busy(self.exec());
                 nb::gil_scoped_release release;
                 self.exec().redirect_gradients(pointers<T>(to));
                 self.backward(pointer<T>(gradient), pointer<T>(to_y0));
             })
        .def("fit",
             [](P& self, Update<T>& optimizer, uintptr_t y0, uintptr_t target, bool mean, int64_t iterations,
                uintptr_t losses) {
                 Busy busy(self.exec());
                 nb::gil_scoped_release release;
                 fit(self, optimizer.optimizer, pointer<T>(y0), pointer<T>(target), mean, iterations, pointer<double>(losses));
             })
        .def_prop_ro("num_steps", &P::num_steps)
        .def_prop_ro("num_evaluations", &P::num_evaluations);
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

// All of it for one type of numbers.
template <class T>
void bind_numbers(nb::module_ m) {
    m.def("loss", &loss_of<T>);
    nb::class_<Lender<T>>(m, "Lender").def(nb::init<>()).def("lend", &Lender<T>::lend);
    bind_optimizer<T>(m);
    bind_step<T>(m);
    bind_net<T>(m);
    bind_ode<T>(m);
}

inline void bind_small(nb::module_& m) {
    // Gives the module torch's way to look into a tensor; False where this torch has none that we know.
    m.def("set_exchange", [](nb::handle capsule) { return set_exchange(capsule.ptr()); });
    const auto value = nb::arg().none();
    nb::class_<Guard>(m, "Guard")
        .def(nb::init<>())
        .def("tensor", &Guard::tensor)
        .def("entry", &Guard::entry, nb::arg(), nb::arg(), value)
        .def("attribute", &Guard::attribute, nb::arg(), nb::arg(), value)
        .def("result", &Guard::result)
        .def("size", &Guard::size)
        .def("contents", &Guard::contents)
        .def("holds", &Guard::holds);
    bind_numbers<float>(m.def_submodule("float32"));
    bind_numbers<double>(m.def_submodule("float64"));
}

}  // namespace hotlap
