// The probe's hooks of every step, without Python frames of their own.
//
// A Python frame between a step's own work, with cold caches, costs several times what it costs in a loop: a dozen of
// them were most of what measuring a short step cost. Each hook here stands in front of one in Python
// (hotlap/probe/hooks.py), does the same in the common case, and hands everything else to it.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstddef>

namespace {

// Names that are looked up in every step, interned once.
PyObject *kWhere, *kId, *kSure, *kTraining, *kInForward, *kInBackward, *kAttentive, *kReplaying, *kHidden, *kShape,
    *kBackwardMade, *kShorten, *kMostUnread, *kUpdateBegins, *kUpdateMade, *kUpdatesMade, *kOnly, *kBackwards, *kBoundary,
    *kClosure, *kQualname, *kModule, *kDoc, *kClosureOnly, *kZero, *kOne;

enum Kind { FORWARD, BACKWARD, DRAW, TIMED, STEP_BEGINS, STEP_ENDS };

struct Hook {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    int kind;
    int losses;             // BACKWARD: what it starts from are losses
    PyObject* function;     // what is wrapped
    PyObject* slow;         // the hook in Python
    PyObject* session;
    PyObject* clock;
    PyObject* thread;       // TrainingThread
    PyObject* books;        // Collectives
    PyObject* now;          // clock.now
    PyObject* tape;         // clock.tape, a list
    PyObject* phases;       // the module hotlap.probe.clock
    PyObject* what;         // what the time goes to; FORWARD: of a pass that trains
    PyObject* look;         // FORWARD: of one that does not
    PyObject* asks;         // FORWARD: torch.is_grad_enabled; DRAW: num_samples
    PyObject* samples;      // DRAW: how their number is told to the clock
    PyObject* tensor;       // DRAW: torch.Tensor
    PyObject* marker;       // STEP_ENDS: the session's StepMarker
    PyObject* partner;      // STEP_ENDS: the hook of the step's begin
    PyObject* where;        // STEP_BEGINS: what the time went to before it
    PyObject* begin;        // STEP_BEGINS: when that was
    long depth;             // STEP_BEGINS: optimizers that are within their step
    PyObject* outermost;    // STEP_BEGINS: the first of them; only its address is looked at
};

// The members that hold an object, for the garbage collector.
PyObject** objects(Hook* h, int k) {
    PyObject** all[] = {&h->function, &h->slow, &h->session, &h->clock, &h->thread, &h->books, &h->now,
                        &h->tape, &h->phases, &h->what, &h->look, &h->asks, &h->samples, &h->tensor, &h->marker, &h->partner, &h->where, &h->begin};
    return k < static_cast<int>(sizeof(all) / sizeof(all[0])) ? all[k] : nullptr;
}

// `owner.name` as a truth value; `otherwise` where it cannot be told.
bool is_true(PyObject* owner, PyObject* name, bool otherwise) {
    PyObject* value = PyObject_GetAttr(owner, name);
    if (value == nullptr) {
        PyErr_Clear();
        return otherwise;
    }
    const int truth = value == Py_True ? 1 : value == Py_False ? 0 : PyObject_IsTrue(value);
    Py_DECREF(value);
    if (truth < 0) PyErr_Clear();
    return truth < 0 ? otherwise : truth != 0;
}

bool trains_here(Hook* h) {
    PyObject* id = PyObject_GetAttr(h->thread, kId);
    if (id == nullptr) {
        PyErr_Clear();
        return false;
    }
    bool here = false;
    if (PyLong_Check(id)) {
        here = PyLong_AsUnsignedLong(id) == PyThread_get_thread_ident();
        if (PyErr_Occurred()) {
            PyErr_Clear();
            here = false;
        }
    }
    Py_DECREF(id);
    return here;
}

// An exception on its way, put aside while a hook tidies up.
class Pending {
  public:
    Pending() { PyErr_Fetch(&type_, &value_, &trace_); }
    // Whatever went wrong meanwhile gives way to what was on its way before. True if something was.
    bool restore() {
        if (type_ == nullptr) return false;
        PyErr_Restore(type_, value_, trace_);
        return true;
    }

  private:
    PyObject *type_, *value_, *trace_;
};

bool write(Hook* h, PyObject* what, PyObject* begin, PyObject* end) {
    return PyList_Append(h->tape, what) == 0 && PyList_Append(h->tape, begin) == 0 && PyList_Append(h->tape, end) == 0;
}

// Calls the function; its time goes to `what`. `busy`, if given, is an attribute of the session that is true meanwhile.
PyObject* timed(Hook* h, PyObject* what, PyObject* busy, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    PyObject* before = PyObject_GetAttr(h->clock, kWhere);
    if (before == nullptr) return nullptr;
    PyObject* begin = nullptr;
    PyObject* result = nullptr;
    if ((busy == nullptr || PyObject_SetAttr(h->session, busy, Py_True) == 0) &&
        PyObject_SetAttr(h->clock, kWhere, what) == 0 && (begin = PyObject_CallNoArgs(h->now)) != nullptr) {
        result = PyObject_Vectorcall(h->function, args, nargsf, kwnames);
    }
    Pending pending;
    bool fine = true;
    if (begin != nullptr) {
        PyObject* end = PyObject_CallNoArgs(h->now);
        fine = end != nullptr && write(h, what, begin, end);
        Py_XDECREF(end);
        Py_DECREF(begin);
    }
    fine = PyObject_SetAttr(h->clock, kWhere, before) == 0 && fine;
    Py_DECREF(before);
    if (busy != nullptr) fine = PyObject_SetAttr(h->session, busy, Py_False) == 0 && fine;
    if (pending.restore() || !fine) Py_CLEAR(result);
    return result;
}

PyObject* forward(Hook* h, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    if (is_true(h->session, kInForward, true) || is_true(h->session, kInBackward, true) || !trains_here(h)) {
        return PyObject_Vectorcall(h->function, args, nargsf, kwnames);
    }
    if (PyVectorcall_NARGS(nargsf) < 1 || is_true(h->session, kAttentive, true)) {
        return PyObject_Vectorcall(h->slow, args, nargsf, kwnames);
    }
    bool trains = is_true(args[0], kTraining, true);
    if (trains) {
        PyObject* enabled = PyObject_CallNoArgs(h->asks);
        if (enabled == nullptr) return nullptr;
        trains = enabled == Py_True;
        Py_DECREF(enabled);
    }
    return timed(h, trains ? h->what : h->look, kInForward, args, nargsf, kwnames);
}

PyObject* backward(Hook* h, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    if (PyVectorcall_NARGS(nargsf) < 1 || is_true(h->session, kInBackward, true) || !is_true(h->thread, kSure, false) ||
        !trains_here(h) || is_true(h->books, kHidden, true)) {
        return PyObject_Vectorcall(h->slow, args, nargsf, kwnames);
    }
    PyObject* roots = Py_NewRef(h->losses ? args[0] : Py_None);
    PyObject* result = timed(h, h->what, kInBackward, args, nargsf, kwnames);
    if (result != nullptr) {
        PyObject* told = PyObject_CallMethodOneArg(h->session, kBackwardMade, roots);
        if (told == nullptr) Py_CLEAR(result);
        Py_XDECREF(told);
    }
    Py_DECREF(roots);
    return result;
}

// The length of the first tensor in a batch, as num_samples has it; None where it has none.
PyObject* length(Hook* h, PyObject* batch) {
    if ((PyList_CheckExact(batch) || PyTuple_CheckExact(batch)) && PySequence_Fast_GET_SIZE(batch) > 0) {
        PyObject* first = PySequence_Fast_GET_ITEM(batch, 0);
        if (reinterpret_cast<PyObject*>(Py_TYPE(first)) == h->tensor) {
            PyObject* shape = PyObject_GetAttr(first, kShape);
            if (shape == nullptr) PyErr_Clear();  // a nested tensor
            if (shape != nullptr && PyTuple_Check(shape)) {
                PyObject* found = PyTuple_GET_SIZE(shape) > 0 ? Py_NewRef(PyTuple_GET_ITEM(shape, 0)) : PyLong_FromLong(1);
                Py_DECREF(shape);
                return found;
            }
            Py_XDECREF(shape);
        }
    }
    return PyObject_CallOneArg(h->asks, batch);
}

PyObject* draw(Hook* h, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    if (!trains_here(h)) return PyObject_Vectorcall(h->function, args, nargsf, kwnames);
    if (is_true(h->session, kAttentive, true) || is_true(h->session, kReplaying, true)) {
        return PyObject_Vectorcall(h->slow, args, nargsf, kwnames);
    }
    PyObject* batch = timed(h, h->what, nullptr, args, nargsf, kwnames);
    if (batch == nullptr) return nullptr;
    PyObject* count = length(h, batch);
    bool fine = count != nullptr && (count == Py_None || write(h, h->samples, count, Py_None));
    Py_XDECREF(count);
    PyObject* most = fine ? PyObject_GetAttr(h->phases, kMostUnread) : nullptr;
    if (most != nullptr) {
        const Py_ssize_t limit = PyLong_AsSsize_t(most);
        Py_DECREF(most);
        fine = limit >= 0;
        if (fine && PyList_GET_SIZE(h->tape) > limit) {
            PyObject* done = PyObject_CallMethodNoArgs(h->session, kShorten);
            fine = done != nullptr;
            Py_XDECREF(done);
        }
    } else {
        fine = false;
    }
    if (!fine) Py_CLEAR(batch);
    return batch;
}

// Before an optimizer's step (optimizer, args, kwargs); of nested ones only the outermost counts.
PyObject* step_begins(Hook* h, PyObject* const* args, size_t nargsf) {
    if (PyVectorcall_NARGS(nargsf) != 3 || !PyTuple_Check(args[1]) || !PyDict_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "a step hook takes (optimizer, args, kwargs)");
        return nullptr;
    }
    if (!trains_here(h)) Py_RETURN_NONE;
    if (args[0] == h->outermost) h->depth = 0;  // its last step ended in an exception
    if (++h->depth > 1) Py_RETURN_NONE;
    h->outermost = args[0];
    PyObject* where = PyObject_GetAttr(h->clock, kWhere);
    if (where == nullptr) return nullptr;
    Py_XSETREF(h->where, where);
    if (PyObject_SetAttr(h->clock, kWhere, h->what) < 0) return nullptr;
    if (PyTuple_GET_SIZE(args[1]) > 1 || PyDict_GET_SIZE(args[2]) > 0) {
        PyObject* given = PyDict_GetItemWithError(args[2], kClosure);
        if (given == nullptr && PyErr_Occurred()) return nullptr;
        const bool closure = PyTuple_GET_SIZE(args[1]) > 1 || (given != nullptr && given != Py_None);
        PyObject* told[] = {h->session, args[0], closure ? Py_True : Py_False};
        PyObject* done = PyObject_VectorcallMethod(kUpdateBegins, told, 2, kClosureOnly);
        if (done == nullptr) return nullptr;
        Py_DECREF(done);
    }
    PyObject* begin = PyObject_CallNoArgs(h->now);
    if (begin == nullptr) return nullptr;
    Py_XSETREF(h->begin, begin);
    Py_RETURN_NONE;
}

// `session.update_made(optimizer, end)`; for the one optimizer of a training what that comes to, one call sooner.
PyObject* update_made(Hook* h, PyObject* optimizer, PyObject* end) {
    PyObject* only = PyObject_GetAttr(h->marker, kOnly);
    if (only == nullptr) return nullptr;
    const bool alone = PyLong_Check(only) && PyLong_AsVoidPtr(only) == optimizer;
    Py_DECREF(only);
    if (PyErr_Occurred()) PyErr_Clear();
    if (!alone) return PyObject_CallMethodObjArgs(h->session, kUpdateMade, optimizer, end, nullptr);
    PyObject* made = PyObject_GetAttr(h->session, kUpdatesMade);
    if (made == nullptr) return nullptr;
    Py_SETREF(made, PyNumber_Add(made, kOne));
    const bool fine = made != nullptr && PyObject_SetAttr(h->session, kUpdatesMade, made) == 0 &&
                      PyObject_SetAttr(h->marker, kBackwards, kZero) == 0;
    Py_XDECREF(made);
    return fine ? PyObject_CallMethodOneArg(h->session, kBoundary, end) : nullptr;
}

PyObject* step_ends(Hook* h, PyObject* const* args, size_t nargsf) {
    Hook* begins = reinterpret_cast<Hook*>(h->partner);
    if (PyVectorcall_NARGS(nargsf) < 1 || !trains_here(h) || begins->depth == 0 || --begins->depth > 0) Py_RETURN_NONE;
    if (begins->begin == nullptr || begins->where == nullptr) Py_RETURN_NONE;
    PyObject* end = PyObject_CallNoArgs(h->now);
    if (end == nullptr) return nullptr;
    PyObject* done = nullptr;
    if (write(h, h->what, begins->begin, end) && PyObject_SetAttr(h->clock, kWhere, begins->where) == 0) {
        done = update_made(h, args[0], end);
    }
    Py_DECREF(end);
    return done;
}

PyObject* call(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    Hook* h = reinterpret_cast<Hook*>(self);
    switch (h->kind) {
        case FORWARD: return forward(h, args, nargsf, kwnames);
        case BACKWARD: return backward(h, args, nargsf, kwnames);
        case DRAW: return draw(h, args, nargsf, kwnames);
        case STEP_BEGINS: return step_begins(h, args, nargsf);
        case STEP_ENDS: return step_ends(h, args, nargsf);
        default:
            if (!trains_here(h)) return PyObject_Vectorcall(h->function, args, nargsf, kwnames);
            return timed(h, h->what, nullptr, args, nargsf, kwnames);
    }
}

// -- the type --------------------------------------------------------------------------------------------------------

int traverse(PyObject* self, visitproc visit, void* arg) {
    Hook* h = reinterpret_cast<Hook*>(self);
    for (int k = 0; PyObject** member = objects(h, k); ++k) Py_VISIT(*member);
    return 0;
}

int clear(PyObject* self) {
    Hook* h = reinterpret_cast<Hook*>(self);
    for (int k = 0; PyObject** member = objects(h, k); ++k) Py_CLEAR(*member);
    return 0;
}

void dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    clear(self);
    Py_TYPE(self)->tp_free(self);
}

// As a function does: `model(x)` calls it with the model.
PyObject* bind(PyObject* self, PyObject* owner, PyObject*) {
    return owner == nullptr || owner == Py_None ? Py_NewRef(self) : PyMethod_New(self, owner);
}

// It looks like the hook in Python: hotlap.data sees by __module__ that somebody is in torch's place.
PyObject* attribute(PyObject* self, PyObject* name) {
    PyObject* found = PyObject_GenericGetAttr(self, name);
    if (found != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
    PyErr_Clear();
    return PyObject_GetAttr(reinterpret_cast<Hook*>(self)->slow, name);
}

PyObject* wrapped(PyObject* self, void*) { return Py_NewRef(reinterpret_cast<Hook*>(self)->slow); }
PyObject* module_of(PyObject* self, void*) {
    return PyObject_GetAttr(reinterpret_cast<Hook*>(self)->slow, kModule);
}
PyObject* doc_of(PyObject* self, void*) { return PyObject_GetAttr(reinterpret_cast<Hook*>(self)->slow, kDoc); }

PyGetSetDef getters[] = {
    {"__wrapped__", wrapped, nullptr, "The hook in Python.", nullptr},
    {"__module__", module_of, nullptr, nullptr, nullptr},
    {"__doc__", doc_of, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

// Copied and pickled by name, as a function is.
PyObject* reduce(PyObject* self, PyObject*) {
    return PyObject_GetAttr(reinterpret_cast<Hook*>(self)->slow, kQualname);
}

PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject HookType = {PyVarObject_HEAD_INIT(nullptr, 0)};

// -- how they are made -----------------------------------------------------------------------------------------------

// A hook with all that every kind needs, from the session and its clock.
Hook* make(Kind kind, PyObject* function, PyObject* slow, PyObject* session, PyObject* phases, const char* what) {
    Hook* h = PyObject_GC_New(Hook, &HookType);
    if (h == nullptr) return nullptr;
    for (int k = 0; PyObject** member = objects(h, k); ++k) *member = nullptr;
    h->vectorcall = call;
    h->kind = kind;
    h->losses = 0;
    h->depth = 0;
    h->outermost = nullptr;
    h->function = Py_NewRef(function);
    h->slow = Py_NewRef(slow);
    h->session = Py_NewRef(session);
    h->phases = Py_NewRef(phases);
    const bool fine = (h->clock = PyObject_GetAttrString(session, "clock")) != nullptr &&
                      (h->thread = PyObject_GetAttrString(session, "thread")) != nullptr &&
                      (h->books = PyObject_GetAttrString(session, "collectives")) != nullptr &&
                      (h->now = PyObject_GetAttrString(h->clock, "now")) != nullptr &&
                      (h->tape = PyObject_GetAttrString(h->clock, "tape")) != nullptr &&
                      (h->what = PyObject_GetAttrString(phases, what)) != nullptr;
    PyObject_GC_Track(h);
    if (fine && !PyList_CheckExact(h->tape)) PyErr_SetString(PyExc_TypeError, "the clock's tape is no list");
    if (!fine || !PyList_CheckExact(h->tape)) {
        Py_DECREF(h);
        return nullptr;
    }
    return h;
}

PyObject* new_forward(PyObject*, PyObject* args) {
    PyObject *function, *slow, *session, *phases, *is_grad_enabled;
    if (!PyArg_ParseTuple(args, "OOOOO", &function, &slow, &session, &phases, &is_grad_enabled)) return nullptr;
    Hook* h = make(FORWARD, function, slow, session, phases, "TRAIN");
    if (h == nullptr) return nullptr;
    h->asks = Py_NewRef(is_grad_enabled);
    h->look = PyObject_GetAttrString(phases, "LOOK");
    if (h->look == nullptr) Py_CLEAR(h);
    return reinterpret_cast<PyObject*>(h);
}

PyObject* new_backward(PyObject*, PyObject* args) {
    PyObject *function, *slow, *session, *phases;
    int losses;
    if (!PyArg_ParseTuple(args, "OOOOp", &function, &slow, &session, &phases, &losses)) return nullptr;
    Hook* h = make(BACKWARD, function, slow, session, phases, "BACKWARD");
    if (h != nullptr) h->losses = losses;
    return reinterpret_cast<PyObject*>(h);
}

PyObject* new_draw(PyObject*, PyObject* args) {
    PyObject *function, *slow, *session, *phases, *num_samples, *tensor;
    if (!PyArg_ParseTuple(args, "OOOOOO", &function, &slow, &session, &phases, &num_samples, &tensor)) return nullptr;
    Hook* h = make(DRAW, function, slow, session, phases, "DRAW");
    if (h == nullptr) return nullptr;
    h->asks = Py_NewRef(num_samples);
    h->tensor = Py_NewRef(tensor);
    h->samples = PyObject_GetAttrString(phases, "SAMPLES");
    if (h->samples == nullptr) Py_CLEAR(h);
    return reinterpret_cast<PyObject*>(h);
}

PyObject* new_timed(PyObject*, PyObject* args) {
    PyObject *function, *slow, *session, *phases;
    const char* what;
    if (!PyArg_ParseTuple(args, "OOOOs", &function, &slow, &session, &phases, &what)) return nullptr;
    return reinterpret_cast<PyObject*>(make(TIMED, function, slow, session, phases, what));
}

PyObject* new_steps(PyObject*, PyObject* args) {
    PyObject *before, *after, *session, *phases;
    if (!PyArg_ParseTuple(args, "OOOO", &before, &after, &session, &phases)) return nullptr;
    Hook* begins = make(STEP_BEGINS, before, before, session, phases, "STEP");
    Hook* ends = make(STEP_ENDS, after, after, session, phases, "STEP");
    PyObject* both = nullptr;
    if (begins != nullptr && ends != nullptr && (ends->marker = PyObject_GetAttrString(session, "marker")) != nullptr) {
        ends->partner = Py_NewRef(reinterpret_cast<PyObject*>(begins));
        both = PyTuple_Pack(2, begins, ends);
    }
    Py_XDECREF(begins);
    Py_XDECREF(ends);
    return both;
}

PyMethodDef functions[] = {
    {"forward", new_forward, METH_VARARGS, "(function, slow, session, phases, is_grad_enabled): of Module.__call__."},
    {"backward", new_backward, METH_VARARGS, "(function, slow, session, phases, losses): of autograd.backward and grad."},
    {"draw", new_draw, METH_VARARGS, "(function, slow, session, phases, num_samples, Tensor): of a loader's __next__."},
    {"steps", new_steps, METH_VARARGS, "(before, after, session, phases): both hooks of an optimizer's step."},
    {"timed", new_timed, METH_VARARGS, "(function, slow, session, phases, name): its time goes to phases.<name>."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_hooks", "The probe's hooks of every step, without Python frames of their own.", -1, functions,
    nullptr, nullptr, nullptr, nullptr};

bool intern() {
    struct { PyObject** to; const char* name; } const all[] = {
        {&kWhere, "where"}, {&kId, "id"}, {&kSure, "sure"}, {&kTraining, "training"}, {&kInForward, "in_forward"},
        {&kInBackward, "in_backward"}, {&kAttentive, "attentive"}, {&kReplaying, "replaying"}, {&kHidden, "hidden"},
        {&kShape, "shape"}, {&kBackwardMade, "backward_made"}, {&kShorten, "shorten"}, {&kMostUnread, "MOST_UNREAD"},
        {&kUpdateBegins, "update_begins"}, {&kUpdateMade, "update_made"}, {&kUpdatesMade, "updates_made"},
        {&kOnly, "only"}, {&kBackwards, "backwards"}, {&kBoundary, "boundary"}, {&kClosure, "closure"},
        {&kQualname, "__qualname__"}, {&kModule, "__module__"}, {&kDoc, "__doc__"},
    };
    for (const auto& one : all) {
        if ((*one.to = PyUnicode_InternFromString(one.name)) == nullptr) return false;
    }
    return (kClosureOnly = PyTuple_Pack(1, kClosure)) != nullptr && (kZero = PyLong_FromLong(0)) != nullptr &&
           (kOne = PyLong_FromLong(1)) != nullptr;
}

}  // namespace

PyMODINIT_FUNC PyInit__hooks() {
    HookType.tp_name = "hotlap.probe._hooks.Hook";
    HookType.tp_basicsize = sizeof(Hook);
    HookType.tp_flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
    HookType.tp_vectorcall_offset = offsetof(Hook, vectorcall);
    HookType.tp_call = PyVectorcall_Call;
    HookType.tp_descr_get = bind;
    HookType.tp_getattro = attribute;
    HookType.tp_getset = getters;
    HookType.tp_methods = methods;
    HookType.tp_traverse = traverse;
    HookType.tp_clear = clear;
    HookType.tp_dealloc = dealloc;
    HookType.tp_free = PyObject_GC_Del;
    if (PyType_Ready(&HookType) < 0 || !intern()) return nullptr;
    return PyModule_Create(&definition);
}
