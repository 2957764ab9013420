// The program of a small network: values, the nodes between them, parameters. Made in Python, read by Exec.
#pragma once

#include <cstdint>
#include <vector>

namespace hotlap {

// The numbers are shared with src/hotlap/small/program.py.
enum class Op : int {
    linear = 0,
    parameter = 3,  // a row of constants or of trainable numbers
    tanh = 10,
    relu = 11,
    leaky_relu = 12,
    sigmoid = 13,
    silu = 16,
    softplus = 17,
    sin = 20,
    cos = 21,
    exp = 22,
    log = 23,
    sqrt = 24,
    abs = 25,
    affine = 26,  // f0 * x + f1
    power = 27,   // x ** f0; whole small exponents by multiplication
    add = 40,
    sub = 41,
    mul = 42,
    div = 43,
    place = 50,  // columns from ... of a become columns to ... of out; several of them may fill one value
};

struct Value {
    int64_t cols;
    bool single;  // one row for the whole batch: constants, the time and what follows from them
};

struct Node {
    Op op;
    int a, b, out;     // values; b is -1 where there is none
    int weight, bias;  // parameters, or -1
    int64_t from, to;
    double f0, f1;
};

struct Parameter {
    int64_t numel;
    void* data;  // the user's own tensor
    bool trained;
};

struct Program {
    std::vector<Value> values;
    std::vector<Node> nodes;
    std::vector<Parameter> parameters;
    int input, time, output;  // values; time is -1 where there is none
};

}  // namespace hotlap
