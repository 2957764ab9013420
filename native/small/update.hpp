// torch's optimizer where Python keeps it: its settings, and the gradients that autograd left in `.grad`.
#pragma once

#include <optional>

#include "guard.hpp"
#include "optimizer.hpp"

namespace hotlap {

// The settings of a parameter group, from its dict; false where one is no plain number, or asks for what is not known.
inline bool read_group(PyObject* dict, Group& to) {
    const auto name = [](const char* text) { return nb::steal(PyUnicode_InternFromString(text)); };
    static const nb::object lr = name("lr"), weight_decay = name("weight_decay"), momentum = name("momentum"), betas = name("betas"),
                            eps = name("eps"), nesterov = name("nesterov"), maximize = name("maximize"),
                            decoupled = name("decoupled_weight_decay"),
                            unknown[] = {name("dampening"), name("amsgrad"), name("differentiable"), name("capturable")};
    bool is_known = true;
    const auto number = [&](PyObject* found) {
        if (found && !PyFloat_Check(found) && !PyLong_Check(found)) is_known = false;
        return found && is_known ? PyFloat_AsDouble(found) : 0.0;
    };
    const auto get = [&](const nb::object& key) { return PyDict_GetItem(dict, key.ptr()); };
    const auto flag = [&](const nb::object& key) {
        PyObject* found = get(key);
        return found && PyObject_IsTrue(found) != 0;
    };
    for (const auto& key : unknown) is_known &= !flag(key);
    PyObject* pair = get(betas);  // a tuple, or a list from a file
    if (pair && !((PyTuple_Check(pair) || PyList_Check(pair)) && PySequence_Fast_GET_SIZE(pair) == 2)) return false;
    const auto beta = [&](int i) { return pair ? number(PySequence_Fast_GET_ITEM(pair, i)) : 0.0; };
    to = {number(get(lr)), number(get(weight_decay)), number(get(momentum)), beta(0), beta(1), number(get(eps)),
          flag(nesterov), flag(maximize), flag(decoupled)};
    return is_known;
}

template <class T>
class Update {
  public:
    Optimizer<T> optimizer;

    // `groups`: the dicts of its parameter groups. `slots`: (number in the program, number of the group, parameter, its two
    // states, its count) of each parameter, None for a state that there is not.
    Update(int method, nb::list groups, nb::list slots) : optimizer{Method(method), {}, {}} {
        for (nb::handle group : groups) {
            groups_.push_back(nb::borrow(group));
            if (!read_group(group.ptr(), optimizer.groups.emplace_back())) throw std::invalid_argument("settings that are not known");
        }
        for (nb::handle slot : slots) {
            const auto number = [&](int i) { return nb::cast<int>(slot[i]); };
            const auto memory = [&](int i) { return slot[i].is_none() ? nullptr : view_of(slot[i]).start(); };
            const auto numbers = [&](int i) { return static_cast<T*>(memory(i)); };
            parameters_.push_back(nb::borrow(slot[2]));
            optimizer.slots.push_back({number(0), number(1), view_of(slot[2]).numel(), numbers(2), {numbers(3), numbers(4)},
                                       static_cast<float*>(memory(5))});
        }
    }

    // Reads the settings, if they are not what was read last. False where they are not known, or another state belongs to them.
    bool reads() {
        if (settings_ && settings_->holds()) return true;
        settings_.reset();
        Guard seen;
        for (size_t i = 0; i < groups_.size(); i++) {
            Group now{};
            Group& group = optimizer.groups[i];
            if (!read_group(groups_[i].ptr(), now) || (now.momentum != 0) != (group.momentum != 0)) return false;
            group = now;
            seen.contents(groups_[i]);
            if (PyObject* betas = PyDict_GetItemString(groups_[i].ptr(), "betas"); betas && PyList_Check(betas)) seen.contents(betas);
        }
        settings_ = std::move(seen);
        return true;
    }

    // Finds the gradients, and keeps them alive until drop(). False where one is missing or not dense, where the guard does
    // not hold, and while another thread is in run().
    bool find(const Guard& guard) {
        if (!kept_.empty() || !guard.holds() || !reads()) return false;
        for (size_t i = 0; i < parameters_.size(); i++) {
            kept_.push_back(nb::getattr(parameters_[i], grad_, nb::none()));
            TensorView v{};
            if (kept_.back().is_none() || !look_into(kept_.back().ptr(), v) || !v.is(2, sizeof(T) * 8) || !v.dense() ||
                v.numel() != optimizer.slots[i].numel)
                return drop();
            gradients_.push_back(static_cast<const T*>(v.start()));
        }
        return true;
    }

    // Updates all parameters; needs no lock of the interpreter's.
    void run() {
        optimizer.step([this](size_t i) { return gradients_[i]; });
    }

    bool drop() {
        kept_.clear();
        gradients_.clear();
        return false;
    }

    // Numbers that are updated.
    int64_t numel() const {
        int64_t n = 0;
        for (const Slot<T>& slot : optimizer.slots) n += slot.numel;
        return n;
    }

  private:
    std::vector<nb::object> groups_, parameters_, kept_;
    std::vector<const T*> gradients_;
    std::optional<Guard> settings_;
    nb::object grad_ = nb::steal(PyUnicode_InternFromString("grad"));
};

}  // namespace hotlap
