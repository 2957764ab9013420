"""Batches that are trained on are told from those of a validation."""

from hotlap.probe.validation import Batches

TRAIN, HELD_OUT = 0, 1


def looks(batches: Batches) -> None:
    batches.passes(trains=False, learns=True)


def test_a_validation_between_two_steps_is_not_trained_on() -> None:
    batches = Batches()
    for _ in range(3):
        batches.draws(HELD_OUT)
        looks(batches)
    batches.draws(TRAIN)
    batches.passes(trains=True, learns=True)
    batches.trained = True
    assert batches.take() == [TRAIN]
    assert batches.take() == []


def test_a_loss_module_that_is_in_training_mode_trains_nothing() -> None:
    batches = Batches()
    batches.draws(HELD_OUT)
    looks(batches)
    batches.passes(trains=True, learns=False)
    batches.draws(TRAIN)
    batches.trained = True
    assert batches.take() == [TRAIN]


def test_a_training_by_hand_or_of_a_network_in_evaluation_mode_is_known_by_its_backward_pass() -> None:
    batches = Batches()
    batches.draws(TRAIN)
    batches.trained = True
    assert batches.take() == [TRAIN]
    batches.draws(TRAIN)
    looks(batches)
    batches.trained = True
    assert batches.take() == [TRAIN]


def test_batches_that_are_drawn_together_share_what_is_done_with_them() -> None:
    batches = Batches()
    for loader in (HELD_OUT, HELD_OUT):
        batches.draws(loader)
    looks(batches)
    for loader in (TRAIN, 2):
        batches.draws(loader)
    looks(batches)  # a teacher
    batches.passes(trains=True, learns=True)
    assert batches.take() == [TRAIN, 2]


def test_two_losses_of_one_backward_pass_train_on_both_batches() -> None:
    batches = Batches()
    for loader in (TRAIN, 2):
        batches.draws(loader)
        batches.passes(trains=True, learns=True)
    batches.trained = True
    assert batches.take() == [TRAIN, 2]
