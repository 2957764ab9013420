"""A step that runs -> its operators."""

from collections.abc import Callable

import pytest
import torch
from torch import nn, overrides
from torch.utils import flop_counter
from torch.utils.flop_counter import FlopCounterMode

from hotlap.errors import UserError
from hotlap.predict import trace
from hotlap.predict.precision import Precision
from hotlap.predict.trace import kind_of
from hotlap.predict.workload import Kind
from hotlap.record import Phase


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(32, 96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        return nn.functional.scaled_dot_product_attention(q, k, v).flatten(1)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.b(self.a(x)))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(16, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(x.shape[0], 24)
        for part in x.unbind(1):
            state = self.cell(part, state)
        return state


class Sequences(nn.Module):
    """Embedding, two fused recurrent layers, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.layers, self.head = (
            nn.Embedding(50, 16),
            nn.LSTM(16, 24, 2, batch_first=True),
            nn.Linear(24, 50),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.layers(self.words(x))[0])
        return out


def images(*shape: int) -> torch.Tensor:
    return torch.randn(4, *shape)


def model(name: str) -> tuple[nn.Module, torch.Tensor]:
    """Small models: those of the founding examples, and one of each kind of operator."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
    made: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
        "mlp": lambda: (nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 5)), torch.randn(8, 20)),
        "convolutions": lambda: (nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)), images(3, 16, 16)),
        "strided": lambda: (nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.MaxPool2d(2)), images(3, 17, 17)),
        "residual": lambda: (nn.Sequential(nn.Conv2d(3, 8, 1), Residual(), Residual()), images(3, 8, 8)),
        "transposed": lambda: (nn.ConvTranspose2d(3, 6, 3, stride=2), images(3, 8, 8)),
        "series": lambda: (nn.Conv1d(4, 8, 5), images(4, 32)),
        "volume": lambda: (nn.Conv3d(2, 4, 3), images(2, 6, 6, 6)),
        "transformer": lambda: (nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), images(10, 32)),
        "attention": lambda: (Attention(), images(10, 32)),
        "recurrent": lambda: (Recurrent(), images(5, 16)),
        "embedding": lambda: (
            nn.Sequential(nn.EmbeddingBag(50, 16), nn.Linear(16, 5)),
            torch.randint(50, (4, 6)),
        ),
    }
    return made[name]()


MODELS = ("mlp", "convolutions", "strided", "residual", "transposed", "series", "volume", "transformer", "attention",
          "recurrent", "embedding")  # fmt: skip


def training_step(net: nn.Module, batch: torch.Tensor) -> Callable[[], None]:
    optimizer = torch.optim.Adam(net.parameters())

    def step() -> None:
        optimizer.zero_grad()
        net(batch).square().mean().backward()
        optimizer.step()

    return step


@pytest.mark.parametrize("name", MODELS)
def test_operations_agree_with_torchs_own_counter(name: str) -> None:
    net, batch = model(name)
    step = training_step(net, batch)
    # torch's counter knows the attention of GPUs only; told the names of a CPU's, it counts that by the same formulas.
    forward: Callable[..., int] = flop_counter.sdpa_flop_count
    backward: Callable[..., int] = flop_counter.sdpa_backward_flop_count
    aten = torch.ops.aten
    known = {
        aten._scaled_dot_product_flash_attention_for_cpu: lambda *shapes, **_: forward(*shapes[:3]),
        aten._scaled_dot_product_flash_attention_for_cpu_backward: lambda *shapes, **_: backward(*shapes[:4]),
    }
    with FlopCounterMode(display=False, custom_mapping=known) as counter:
        step()
    assert counter.get_total_flops() > 0
    assert trace.record(step, parameters=net.parameters()).flop == counter.get_total_flops()


@pytest.mark.filterwarnings("ignore:TF32 acceleration on top of oneDNN")
def test_operations_of_fused_recurrent_layers_are_those_of_their_products() -> None:
    net, batch = Sequences(), torch.randint(50, (4, 7))
    step = training_step(net, batch)
    # torch's counter is blind to the fused layer, and counts its products where it is switched off.
    with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
        step()
        apart = trace.record(step, parameters=net.parameters())
    assert 2 * apart.flop == counter.get_total_flops()
    together = trace.record(step, parameters=net.parameters())
    # The first time step has no gradient to hand on; the fused layer is counted as if it had.
    assert together.flop == pytest.approx(apart.flop, rel=0.05)
    layers = [one for one in together.operators if "rnn" in one.name and one.stage is Phase.FORWARD]
    assert sum(one.count for one in layers) == 2 * 7, "a kernel for each of seven time steps, in each layer"


def test_attention_with_dropout_is_one_fused_operator_as_on_a_gpu() -> None:
    x = torch.randn(2, 4, 16, 8, requires_grad=True)
    steps = [
        lambda: torch.autograd.grad(nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.1).sum(), x),
        lambda: torch.autograd.grad(nn.functional.scaled_dot_product_attention(x, x, x, None, 0.1).sum(), x),
        lambda: torch.autograd.grad(nn.functional.scaled_dot_product_attention(x, x, x).sum(), x),
    ]
    found = [trace.record(step) for step in steps]
    for work in found:
        assert any("attention" in one.name for one in work.operators)
        assert not any("softmax" in one.name for one in work.operators)
    assert len({work.flop for work in found}) == 1


def test_a_closure_inside_the_optimizers_step_is_no_update() -> None:
    net, batch = model("mlp")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = net(batch).square().mean()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's
        return loss

    work = trace.record(lambda: optimizer.step(closure), parameters=net.parameters())
    apart = trace.record(training_step(net, batch), parameters=net.parameters())
    for stage in (Phase.FORWARD, Phase.BACKWARD):
        products = [
            sum(one.count for one in step.operators if one.stage is stage and one.kind is Kind.MATMUL)
            for step in (work, apart)
        ]
        assert products[0] == products[1] > 0
    updates = [one for one in work.operators if one.stage is Phase.OPTIMIZER]
    assert updates and all(one.kind is Kind.VECTOR for one in updates)


def test_a_step_has_three_stages_and_knows_its_parameters() -> None:
    net, batch = model("convolutions")
    work = trace.record(training_step(net, batch), parameters=net.parameters(), batch=[batch])
    assert {operator.stage for operator in work.operators} == {Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER}
    assert work.parameter_bytes == 4 * sum(parameter.numel() for parameter in net.parameters())
    assert work.batch_bytes == batch.nbytes
    assert work.precision is Precision.FP32
    # The backward pass of two convolutions, the first of which needs no gradient of its input.
    matrix = sum(
        operator.count
        for operator in work.operators
        if operator.kind is Kind.CONV and operator.stage is Phase.BACKWARD and "backward" in operator.name
    )
    assert matrix == 2 + 3


def test_bytes_of_an_addition_are_two_read_and_one_written() -> None:
    a, b = torch.randn(100), torch.randn(100)
    (only,) = trace.record(lambda: torch.add(a, b)).operators
    assert (only.moved_bytes, only.count) == (800.0 + 400.0, 1.0)


def test_views_cost_nothing() -> None:
    a = torch.randn(10, 10)
    with pytest.raises(UserError, match="no operator was recorded"):
        trace.record(lambda: a.t().unsqueeze(0)[0].view(10, 10))


def test_an_embedding_reads_the_rows_it_takes_not_the_table() -> None:
    table, rows = torch.randn(100_000, 8), torch.tensor([1, 2, 3])
    (only,) = trace.record(lambda: nn.functional.embedding(rows, table)).operators
    assert only.moved_bytes < 1000


def test_updates_of_many_tensors_share_kernels() -> None:
    net = nn.Sequential(*(nn.Linear(4, 4) for _ in range(50)))
    work = trace.record(training_step(net, torch.randn(2, 4)), parameters=net.parameters())
    updates = sum(operator.count for operator in work.operators if operator.stage is Phase.OPTIMIZER)
    assert updates < 100


def test_gradients_of_grouped_convolutions_are_not_overstated() -> None:
    net, batch = nn.Conv2d(16, 16, 3, groups=16, bias=False), torch.randn(2, 16, 8, 8, requires_grad=True)
    work = trace.record(lambda: net(batch).sum().backward())
    assert work.flop == pytest.approx(3 * 2 * 2 * 16 * 6 * 6 * 9)
    assert not any(one.kind is Kind.CONV for one in work.operators), "no matrix unit helps one channel a group"


def test_autocast_is_seen_in_the_types_of_the_products() -> None:
    net, batch = nn.Linear(16, 16), torch.randn(4, 16)

    def step() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            net(batch).float().sum().backward()

    assert trace.record(step).precision is Precision.BF16


def test_an_error_of_the_step_leaves_no_tracer_behind() -> None:
    def broken() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        trace.record(broken)
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


def test_a_trace_may_end_within_a_call_that_it_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that updates by hand has steps that end as `loss.backward()` does."""
    tracer = trace.Tracer()
    backward = torch.Tensor.backward

    def backward_ends_a_step(loss: torch.Tensor, **kwargs: object) -> None:
        backward(loss, **kwargs)  # type: ignore[no-untyped-call]  # torch's
        tracer.stop()

    monkeypatch.setattr(torch.Tensor, "backward", backward_ends_a_step)
    weight = torch.ones(4, 4, requires_grad=True)
    tracer.start()
    (weight @ weight).sum().backward()  # type: ignore[no-untyped-call]  # torch's
    seen = tracer.workload()
    assert [one.stage for one in seen.operators if one.kind is Kind.MATMUL] == [Phase.FORWARD, Phase.BACKWARD]

    torch.manual_seed(0)
    query = torch.ones(1, 2, 8, 4)
    try:
        dropped = nn.functional.scaled_dot_product_attention(query, query, query, dropout_p=0.5)
    finally:
        overrides._pop_mode()  # type: ignore[no-untyped-call]  # torch has put it on again
    assert not torch.equal(dropped, query), "what comes behind runs as it is written"


def test_models_without_data_can_be_traced() -> None:
    with torch.device("meta"):
        net, batch = nn.Linear(1000, 1000), torch.empty(64, 1000)
    work = trace.record(lambda: net(batch).sum().backward(), parameters=net.parameters())
    assert work.flop == 2 * 2 * 64 * 1000 * 1000


@pytest.mark.parametrize(
    ("name", "kind"),
    [("addmm", Kind.MATMUL), ("_grouped_mm", Kind.MATMUL), ("igamma", Kind.VECTOR), ("convolution", Kind.CONV),
     ("_conv_depthwise2d", Kind.VECTOR), ("native_layer_norm", Kind.VECTOR), ("relu", Kind.VECTOR),
     ("_scaled_dot_product_flash_attention_for_cpu", Kind.MATMUL), ("_fused_adamw_", Kind.VECTOR),
     ("embedding", Kind.VECTOR), ("mkldnn_rnn_layer", Kind.MATMUL)],
)  # fmt: skip
def test_operators_are_told_apart_by_name(name: str, kind: Kind) -> None:
    assert kind_of(name) is kind
