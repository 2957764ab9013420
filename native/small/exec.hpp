// Runs a Program forward and backward over a batch, and keeps what each of many evaluations needs for its way back.
//
// A value has one buffer for all evaluations: evaluation e of a batch of `rows` lies at e * rows * ld, so that the rows
// of all evaluations follow each other and a weight's gradient is one product over all of them. A training step has
// one evaluation; an ODE solve has one for each stage of each step.
#pragma once

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "buffer.hpp"
#include "elementwise.hpp"
#include "product.hpp"
#include "program.hpp"
#include "thin.hpp"
#include "../transpose.hpp"

namespace hotlap {

template <class T>
class Exec {
  public:
    static constexpr int W = Simd<T>::W;

    Exec(Program program, bool input_gradient);

    std::atomic<bool> busy{false};  // some thread works on what is here

    const Program& program() const { return program_; }
    int64_t cols(int v) const { return program_.values[v].cols; }
    int64_t ld(int v) const { return round_up<T>(cols(v)); }
    int64_t rows() const { return rows_; }
    int64_t evaluations() const { return evaluations_; }
    T* value(int v, int64_t e = 0) { return values_[v].value + e * values_[v].step; }
    T* gradient(int v, int64_t e = 0) { return values_[v].gradient + e * values_[v].gradient_step; }
    T* parameter(int p) { return static_cast<T*>(program_.parameters[p].data); }
    T* parameter_gradient(int p) { return elsewhere_[p] ? elsewhere_[p] : gradients_[p].data(); }
    bool trained(int p) const { return p >= 0 && program_.parameters[p].trained; }
    bool needed(int v) const { return v >= 0 && values_[v].needed; }

    // Where the gradients of the trained parameters are to be written, densely, from now on; none: to memory of this object's.
    void redirect_gradients(const std::vector<T*>& to) {
        size_t next = 0;
        for (size_t p = 0; p < elsewhere_.size(); p++) elsewhere_[p] = trained(int(p)) && !to.empty() ? to.at(next++) : nullptr;
    }

    // Room for evaluations 0 ... n - 1 of this many rows. Pointers from value() and gradient() are void after growth.
    void reserve(int64_t evaluations, int64_t rows);

    // Read the parameters: to be called whenever they changed, before forward(), after reserve().
    void refresh();

    void forward(int64_t e) {
        if (one_pass_) return void(one_forward(e, load<T>(value(program_.input, e))));
        for (size_t i = 0; i < program_.nodes.size(); i++) forward_node(i, e);
    }

    // Before the first backward() of several whose gradients of parameters are to be added up.
    void begin_backward();

    // From the gradient of the output (already in its place) to those of the values. The weights and biases of linear
    // layers are left to linear_gradients().
    void backward(int64_t e) {
        if (one_pass_) return void(one_backward(e, load<T>(gradient(program_.output, e))));
        for (size_t i = program_.nodes.size(); i-- > 0;) backward_node(i, e);
    }

    // Whether the program is layer, tanh and layer over so few numbers that one pass does it. Then these two do what
    // forward() and backward() do, from and to a register; what they are given need not lie in its place.
    bool in_one_pass() const { return one_pass_ != nullptr; }
    Vec<T> one_forward(int64_t e, Vec<T> x) {
        const Node* n = program_.nodes.data();
        const Vec<T> y = one_pass_(linear_[0].thin, start_of(n[0], linear_[0]), linear_[2].thin, start_of(n[2], linear_[2]), x,
                                   value(n[1].out, e));
        store<T>(value(n[2].out, e), y);
        return y;
    }
    Vec<T> one_backward(int64_t e, Vec<T> g) {
        const Node* n = program_.nodes.data();
        const Vec<T> to = one_pass_back_(linear_[0].thin, linear_[2].thin, value(n[1].out, e), g, gradient(n[0].out, e));
        store<T>(gradient(n[0].a, e), to);
        return to;
    }

    // After the last backward(): the gradients of rows of parameters are in their place.
    void finish_backward();

    // The same for the linear layers, over the first `count` evaluations.
    void linear_gradients(int64_t count) {
        for (size_t i = 0; i < program_.nodes.size(); i++)
            if (program_.nodes[i].op == Op::linear) linear_gradient(i, count);
    }

    // One batch x (rows, inputs), which has to stay as it is until its way back: the result is in evaluation 0.
    void forward_batch(const T* x, int64_t rows) {
        reserve(1, rows);
        // It is read where it lies if its rows are whole vectors, else copied.
        State& input = values_[program_.input];
        const int64_t n = cols(program_.input), step = ld(program_.input);
        input.value = n == step ? const_cast<T*>(x) : input.forward.data();
        if (n != step) copy_rows(x, n, input.value, step, n);
        refresh();
        forward(0);
    }

    // From the gradient of its result, which is in its place.
    void backward_batch() {
        begin_backward();
        backward(0);
        finish_backward();
        linear_gradients(1);
    }

    // All rows of a batch, `cols` numbers of each.
    void copy_rows(const T* from, int64_t ld_from, T* to, int64_t ld_to, int64_t cols) const {
        if (ld_from == ld_to) return void(std::memcpy(to, from, sizeof(T) * rows_ * ld_to));
        for (int64_t r = 0; r < rows_; r++) std::memcpy(to + r * ld_to, from + r * ld_from, sizeof(T) * cols);
    }

    int64_t inputs() const { return cols(program_.input); }
    int64_t outputs() const { return cols(program_.output); }

  private:
    struct State {
        bool needed = false;  // has a gradient
        bool kept = false;    // the gradients of all evaluations are kept: for the weights, or for the caller
        bool fixed = false;   // the same in all evaluations: a parameter's row
        Buffer<T> forward, backward;
        T *value = nullptr, *gradient = nullptr;   // of evaluation 0
        int64_t step = 0, gradient_step = 0;       // from one evaluation to the next
    };
    enum class Form { tiles, few_inputs, few_outputs, large };
    struct Linear {
        Form form = Form::tiles;
        bool row_forward = false, row_backward = false;  // row by row, with sums along the vectors
        Thin<T> thin{};
        Buffer<T> transposed;  // (in, round_up(out))
        Buffer<T> bias;        // round_up(out), so that its last vector may be read whole
        Buffer<T> sum;         // (in, round_up(out)): the weight's gradient, transposed
    };
    struct Adds {
        bool a = false, b = false;  // whether an operand's gradient is added to what another consumer wrote
    };

    Program program_;
    std::vector<State> values_;
    std::vector<Linear> linear_;
    std::vector<Buffer<T>> gradients_;
    std::vector<T*> elsewhere_;
    std::vector<char> written_;
    std::vector<Adds> adds_;
    Buffer<T> zeros_;
    decltype(&through_tanh<T, 1>) one_pass_ = nullptr;
    decltype(&back_through_tanh<T, 1>) one_pass_back_ = nullptr;
    int64_t rows_ = 0, evaluations_ = 0;

    int64_t rows_of(int v) const { return program_.values[v].single ? 1 : rows_; }
    Operand<T> operand(int v, int64_t e) {
        return {value(v, e), program_.values[v].single ? 0 : ld(v), program_.values[v].cols == 1};
    }
    Gradient<T> gradient_of(int v, int64_t e, bool add) {
        return {needed(v) ? gradient(v, e) : nullptr, program_.values[v].single ? 0 : ld(v), program_.values[v].cols == 1, add};
    }

    // A field as most have it, one row through (layer, tanh, layer), without the detours that other programs need: with up
    // to four inputs and outputs, all that the two layers need fits into registers.
    void find_one_pass() {
        const auto choose = [this]<int K>() {
            if constexpr (K <= few<T>) {
                one_pass_ = &through_tanh<T, K>;
                one_pass_back_ = &back_through_tanh<T, K>;
            }
        };
        one_pass_ = nullptr;
        one_pass_back_ = nullptr;
        const auto& n = program_.nodes;
        if (n.size() != 3 || rows_ != 1 || linear_[0].form != Form::few_inputs || linear_[2].form != Form::few_outputs ||
            n[0].a != program_.input || n[1].a != n[0].out || n[1].op != Op::tanh || n[2].a != n[1].out ||
            n[2].out != program_.output || !needed(program_.input) || cols(n[0].a) != cols(n[2].out))
            return;
        if (cols(n[0].a) <= 4) with_constant<4>(int(cols(n[0].a)), choose);
    }
    const T* start_of(const Node& n, const Linear& l) const { return n.bias >= 0 ? l.bias.data() : zeros_.data(); }

    void find_gradients(bool input_gradient);
    void prepare(const Node& n, Linear& l);
    void forward_node(size_t i, int64_t e);
    void backward_node(size_t i, int64_t e);
    void linear_forward(const Node& n, const Linear& l, int64_t e);
    void linear_gradient(size_t node, int64_t count);
    void linear_backward(const Node& n, const Linear& l, int64_t e, bool add);
    void place_forward(const Node& n, int64_t e);
    void place_backward(const Node& n, int64_t e, bool add);
};

template <class T>
Exec<T>::Exec(Program program, bool input_gradient)
    : program_(std::move(program)),
      values_(program_.values.size()),
      linear_(program_.nodes.size()),
      gradients_(program_.parameters.size()),
      elsewhere_(program_.parameters.size(), nullptr),
      written_(program_.parameters.size(), 0),
      adds_(program_.nodes.size()) {
    for (size_t p = 0; p < gradients_.size(); p++)
        if (program_.parameters[p].trained) gradients_[p].grow(round_up<T>(program_.parameters[p].numel));
    int64_t widest = 0;
    for (size_t v = 0; v < values_.size(); v++) widest = std::max(widest, ld(int(v)));
    zeros_.grow(widest);
    find_gradients(input_gradient);
}

template <class T>
void Exec<T>::find_gradients(bool input_gradient) {
    values_[program_.input].needed = values_[program_.input].kept = input_gradient;
    for (const Node& n : program_.nodes) {
        values_[n.out].fixed = n.op == Op::parameter;
        const bool through = needed(n.a) || needed(n.b) || trained(n.weight) || trained(n.bias);
        values_[n.out].needed = values_[n.out].needed || through;
        if (n.op == Op::linear && (trained(n.weight) || trained(n.bias))) values_[n.out].kept = true;
    }
    std::vector<char> set(values_.size(), 0);
    set[program_.output] = 1;
    for (size_t v = 0; v < values_.size(); v++)
        if (values_[v].fixed) set[v] = 1;  // sums over all evaluations, cleared in begin_backward()
    // An input that is the same in all evaluations of one row is a sum too: handled by the solver, evaluation by one.
    for (size_t i = program_.nodes.size(); i-- > 0;) {
        const Node& n = program_.nodes[i];
        if (n.a >= 0) {
            adds_[i].a = set[n.a];
            set[n.a] = 1;
        }
        if (n.b >= 0) {
            adds_[i].b = set[n.b];
            set[n.b] = 1;
        }
    }
    // A value that nothing consumes keeps a gradient of zero; the input may be such.
}

template <class T>
void Exec<T>::reserve(int64_t evaluations, int64_t rows) {
    if (rows == rows_ && evaluations <= evaluations_) return;
    if (rows == rows_ && evaluations_ > 1) evaluations = std::max(evaluations, 2 * evaluations_);
    rows_ = rows;
    evaluations_ = evaluations;
    for (size_t i = 0; i < values_.size(); i++) {
        State& s = values_[i];
        const int64_t each = rows_of(int(i)) * ld(int(i));
        s.forward.grow(each * (s.fixed ? 1 : evaluations));
        if (s.needed) s.backward.grow(each * (s.kept ? evaluations : 1));
        s.value = s.forward.data();
        s.gradient = s.backward.data();
        s.step = s.fixed ? 0 : each;
        s.gradient_step = s.kept ? s.step : 0;
    }
}

template <class T>
void Exec<T>::refresh() {
    for (size_t i = 0; i < program_.nodes.size(); i++) {
        const Node& n = program_.nodes[i];
        if (n.op == Op::parameter) std::memcpy(value(n.out), parameter(n.weight), sizeof(T) * cols(n.out));
        if (n.op == Op::linear) prepare(n, linear_[i]);
    }
    find_one_pass();
}

template <class T>
void Exec<T>::prepare(const Node& n, Linear& l) {
    const int64_t in = cols(n.a), out = cols(n.out), wide = round_up<T>(out);
    l.form = Form::tiles;
    if (is_large<T>(rows_, in, out))
        l.form = Form::large;
    else if (rows_ == 1 && std::min(in, out) <= few<T>)
        l.form = in <= out ? Form::few_inputs : Form::few_outputs;
    // For few numbers on one side vectors along the other; and one row does not pay for turning a weight around.
    const bool once = rows_ == 1 && evaluations_ == 1;
    l.row_forward = l.form == Form::few_outputs || (l.form == Form::tiles && in >= W && (out <= 2 || once));
    l.row_backward = l.form == Form::few_inputs || (l.form == Form::tiles && needed(n.a) && in <= 2 && out >= W);
    if (n.bias >= 0) {
        l.bias.grow(wide);
        // A vector that is loaded soon is not written by memcpy, whose pieces would have to reach the cache first.
        for (int64_t i = 0; i < out; i += W)
            store<T>(l.bias.data() + i, load_n<T>(parameter(n.bias) + i, int(std::min<int64_t>(W, out - i))));
    }
    if (l.form == Form::large) return;
    if (l.row_forward) {
        l.thin = {parameter(n.weight), in, in};
        return;
    }
    l.transposed.grow(in * wide);
    in_parts(rows_ * in * out, out, W, [&](int64_t first, int64_t last) {
        transpose<T>(parameter(n.weight) + first * in, in, last - first, in, l.transposed.data() + first, wide);
    });
    l.thin = {l.transposed.data(), wide, out};
}

template <class T>
void Exec<T>::begin_backward() {
    std::fill(written_.begin(), written_.end(), 0);
    for (size_t v = 0; v < values_.size(); v++)
        if (values_[v].fixed && values_[v].needed) std::memset(gradient(int(v)), 0, sizeof(T) * ld(int(v)));
}

template <class T>
void Exec<T>::finish_backward() {
    for (const Node& n : program_.nodes) {
        if (n.op != Op::parameter || !trained(n.weight)) continue;
        T* to = parameter_gradient(n.weight);
        const T* from = gradient(n.out);
        for (int64_t i = 0; i < cols(n.out); i++) to[i] = written_[n.weight] ? to[i] + from[i] : from[i];
        written_[n.weight] = 1;
    }
}

}  // namespace hotlap

#include "nodes.hpp"
