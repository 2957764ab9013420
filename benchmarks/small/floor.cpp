// The field's evaluations alone, forward and reverse, without a solver around them: what ode.py holds a training against.
#include "../../native/small/exec.hpp"

using namespace hotlap;

namespace {

Exec<float>* field;

}  // namespace

// A field of layer, tanh and layer, and room for `num` evaluations; states, and gradients of slopes, are (num, cols).
extern "C" void make(int64_t cols, int64_t hidden, float* w0, float* b0, float* w1, float* b1, int64_t num, const float* states,
                     const float* gradients) {
    const auto node = [](Op op, int a, int out, int weight, int bias) { return Node{op, a, -1, out, weight, bias, 0, 0, 0}; };
    delete field;
    field = new Exec<float>({{{cols, false}, {hidden, false}, {hidden, false}, {cols, false}},
                             {node(Op::linear, 0, 1, 0, 1), node(Op::tanh, 1, 2, -1, -1), node(Op::linear, 2, 3, 2, 3)},
                             {{cols * hidden, w0, true}, {hidden, b0, true}, {cols * hidden, w1, true}, {cols, b1, true}},
                             0, -1, 3},
                            true);
    field->reserve(num, 1);
    field->refresh();
    for (int64_t e = 0; e < num; e++) {
        std::copy_n(states + e * cols, cols, field->value(0, e));
        std::copy_n(gradients + e * cols, cols, field->gradient(3, e));
    }
}

// So many evaluations forward, then backward, the gradients of the parameters included; `times` over. Where they wait,
// as those of a solve do, each takes its state from the result of the one before (of which 0 times as much is added).
template <bool waiting>
void evaluate(int64_t forward, int64_t reverse, int64_t times) {
    constexpr Vec<float> none{};
    const auto from = [none](Vec<float> before, const float* p) { return waiting ? fma(none, before, load<float>(p)) : load<float>(p); };
    for (; times > 0; times--) {
        Vec<float> slope{}, gradient{};
        for (int64_t e = 0; e < forward; e++) slope = field->one_forward(e, from(slope, field->value(0, e)));
        field->begin_backward();
        for (int64_t e = reverse; e-- > 0;) gradient = field->one_backward(e, from(gradient, field->gradient(3, e)));
        field->linear_gradients(reverse);
    }
}

extern "C" void run(bool waiting, int64_t forward, int64_t reverse, int64_t times) {
    waiting ? evaluate<true>(forward, reverse, times) : evaluate<false>(forward, reverse, times);
}
