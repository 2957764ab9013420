// What each node of a Program does, forward and backward: the rest of Exec. To be had through exec.hpp.
#pragma once

#include "exec.hpp"

namespace hotlap {

template <class T>
void Exec<T>::linear_gradient(size_t node, int64_t count) {
    const Node& n = program_.nodes[node];
    Linear& l = linear_[node];
    const int64_t in = cols(n.a), out = cols(n.out), wide = round_up<T>(out), rows = rows_ * count;
    const T *x = value(n.a), *g = gradient(n.out);
    if (trained(n.bias)) {
        sum_rows<T>(g, ld(n.out), rows, out, parameter_gradient(n.bias), written_[n.bias]);
        written_[n.bias] = 1;
    }
    if (!trained(n.weight)) return;
    T* to = parameter_gradient(n.weight);
    const bool add = written_[n.weight];
    written_[n.weight] = 1;
    if (is_large<T>(rows, in, out))
        return multiply_large<T>({g, ld(n.out), true}, {x, ld(n.a), false}, out, in, rows, to, in, add);
    // Vectors along the wider side: a layer 3 -> 100 would fill 3 of 16 lanes the other way.
    if (2 * out * round_up<T>(in) <= 3 * in * wide)
        return multiply<T>({g, 1, ld(n.out), x, ld(n.a), rows, to, in, nullptr, add, false}, out, in);
    l.sum.grow(in * wide);
    multiply<T>({x, 1, ld(n.a), g, wide, rows, l.sum.data(), wide, nullptr, false, true}, in, out);
    add_transposed<T>(l.sum.data(), wide, out, in, to, add);
}

template <class T>
void Exec<T>::forward_node(size_t i, int64_t e) {
    const Node& n = program_.nodes[i];
    switch (n.op) {
        case Op::linear: return linear_forward(n, linear_[i], e);
        case Op::parameter: return;
        case Op::place: return place_forward(n, e);
        case Op::add:
        case Op::sub:
        case Op::mul:
        case Op::div:
            return binary_forward<T>(n.op, operand(n.a, e), operand(n.b, e), value(n.out, e), rows_of(n.out), ld(n.out));
        default: return unary_forward<T>(n, value(n.a, e), value(n.out, e), rows_of(n.out) * ld(n.out));
    }
}

template <class T>
void Exec<T>::backward_node(size_t i, int64_t e) {
    const Node& n = program_.nodes[i];
    if (!needed(n.out)) return;
    const Adds add = adds_[i];
    switch (n.op) {
        case Op::parameter: return;
        case Op::linear: return linear_backward(n, linear_[i], e, add.a);
        case Op::place: return needed(n.a) ? place_backward(n, e, add.a) : void();
        case Op::add:
        case Op::sub:
        case Op::mul:
        case Op::div:
            return binary_backward<T>(n.op, operand(n.a, e), operand(n.b, e), gradient(n.out, e), gradient_of(n.a, e, add.a),
                                      gradient_of(n.b, e, add.b), rows_of(n.out), cols(n.out), ld(n.out));
        default:
            if (needed(n.a))
                unary_backward<T>(n, value(n.a, e), value(n.out, e), gradient(n.out, e), gradient(n.a, e),
                                  rows_of(n.out) * ld(n.out), add.a);
    }
}

template <class T>
void Exec<T>::linear_forward(const Node& n, const Linear& l, int64_t e) {
    const int64_t in = cols(n.a), out = cols(n.out), rows = rows_of(n.out);
    if (l.form == Form::few_inputs)
        return few_to_many<T>(l.thin, in, value(n.a, e), start_of(n, l), value(n.out, e));
    const T* x = value(n.a, e);
    T* y = value(n.out, e);
    if (l.row_forward) {
        for (int64_t r = 0; r < rows; r++) many_to_any<T>(l.thin, out, x + r * ld(n.a), start_of(n, l), y + r * ld(n.out));
    } else if (l.form == Form::large) {
        for (int64_t r = 0; r < rows; r++) std::memcpy(y + r * ld(n.out), start_of(n, l), sizeof(T) * ld(n.out));
        multiply_large<T>({x, ld(n.a), false}, {parameter(n.weight), in, true}, rows, out, in, y, ld(n.out), true);
    } else {
        const T* bias = n.bias >= 0 ? l.bias.data() : nullptr;
        const int64_t wide = round_up<T>(out);
        multiply<T>({x, ld(n.a), 1, l.transposed.data(), wide, in, y, ld(n.out), bias, false, true}, rows, out);
    }
}

template <class T>
void Exec<T>::linear_backward(const Node& n, const Linear& l, int64_t e, bool add) {
    if (!needed(n.a)) return;
    const int64_t in = cols(n.a), out = cols(n.out), rows = rows_of(n.out);
    T *from = gradient(n.out, e), *to = gradient(n.a, e);
    if (l.row_backward) {
        for (int64_t r = 0; r < rows; r++, from += ld(n.out), to += ld(n.a))
            many_to_any<T>(l.thin, in, from, add ? to : zeros_.data(), to);
        return;
    }
    if (l.form == Form::few_outputs) return few_to_many<T>(l.thin, out, from, add ? to : zeros_.data(), to);
    if (l.form == Form::large)
        multiply_large<T>({from, ld(n.out), false}, {parameter(n.weight), in, false}, rows, in, out, to, ld(n.a), add);
    else
        multiply<T>({from, ld(n.out), 1, parameter(n.weight), in, out, to, ld(n.a), nullptr, add, true}, rows, in);
}

// Columns from ... of a become columns to ... of out: as many as both have.
template <class T>
void Exec<T>::place_forward(const Node& n, int64_t e) {
    const int64_t width = std::min(cols(n.a) - n.from, cols(n.out) - n.to), row_step = program_.values[n.a].single ? 0 : ld(n.a);
    for (int64_t r = 0; r < rows_of(n.out); r++)
        std::copy_n(value(n.a, e) + r * row_step + n.from, width, value(n.out, e) + r * ld(n.out) + n.to);
}

template <class T>
void Exec<T>::place_backward(const Node& n, int64_t e, bool add) {
    const int64_t width = std::min(cols(n.a) - n.from, cols(n.out) - n.to), row_step = program_.values[n.a].single ? 0 : ld(n.a);
    if (!add) std::memset(gradient(n.a, e), 0, sizeof(T) * rows_of(n.a) * ld(n.a));
    for (int64_t r = 0; r < rows_of(n.out); r++) {
        const T* g = gradient(n.out, e) + r * ld(n.out) + n.to;
        T* gx = gradient(n.a, e) + r * row_step + n.from;
        for (int64_t c = 0; c < width; c++) gx[c] += g[c];
    }
}

}  // namespace hotlap
