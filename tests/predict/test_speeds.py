"""The posterior over speeds: from the job itself, then from its model, then from the law."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from shockwave.model.view import Floats
from shockwave.predict.speed_law import OptionShape, SpeedSettings
from shockwave.predict.speeds import Curves, Seen, SpeedLearner, Speeds, stage_of

GPUS = np.array([1, 2, 4, 8, 16, 1, 2, 4, 8])
SHAPE = OptionShape(type=np.array([0] * 5 + [1] * 4), gpus=GPUS, spans=GPUS > 8)
TRUTH = 100.0 / GPUS**0.9 / np.where(SHAPE.type == 1, 3.0, 1.0)


def seen(rows: list[tuple[int, int, float, int, float]]) -> Seen:
    """Rows of (handle, model, epochs done, option held, measured seconds)."""
    measured = np.full((len(rows), len(SHAPE)), np.nan)
    for row, (_, _, _, option, seconds) in enumerate(rows):
        if option >= 0:
            measured[row, option] = seconds
    columns = list(zip(*rows, strict=True))
    return Seen(
        handle=np.array(columns[0]),
        kind=np.array(columns[1]),
        epochs_done=np.array(columns[2]),
        held=np.array(columns[3]),
        measured=measured,
        declared=np.full(measured.shape, np.nan),
    )


def after(rows: list[tuple[int, int, float, int, float]]) -> Speeds:
    return SpeedLearner().learn(SHAPE, seen(rows))


def test_a_model_that_nobody_ran_gains_by_more_gpus_of_a_node() -> None:
    speeds = after([(0, 0, 20.0, -1, 0.0)])
    gain = speeds.median[0, :-1] / speeds.median[0, 1:]
    within = [0, 1, 2, 5, 6, 7]
    assert (gain[within] > 1.0).all()
    assert (gain[within] < 2.0).all()
    assert gain[3] < gain[2]  # from one node to two
    assert (speeds.deviation > 1.0).all()


def own_measurements(seconds: list[tuple[int, float]]) -> Speeds:
    """One job alone, measured with one option after the other."""
    learner, measured = SpeedLearner(), np.full((1, len(SHAPE)), np.nan)
    for step, (option, time) in enumerate(seconds):
        measured[0, option] = time
        rows = seen([(0, 0, 20.0 + step, option, time)])
        speeds = learner.learn(SHAPE, replace(rows, measured=measured.copy()))
    return speeds


def test_who_gains_nothing_by_a_second_gpu_is_not_believed_to_gain_by_sixteen() -> None:
    flat = own_measurements([(0, 100.0), (1, 100.0), (2, 100.0)])
    steep = own_measurements([(0, 100.0), (1, 52.0), (2, 27.0)])
    assert flat.median[0, 4] > 100.0 > 27.0 > steep.median[0, 4]
    assert flat.median[0, 7] > 0.6 * flat.median[0, 5]  # nor by more of another type
    assert steep.median[0, 7] < 0.5 * steep.median[0, 5]


def test_what_a_job_has_shown_itself_is_no_longer_in_doubt() -> None:
    speeds = own_measurements([(0, 100.0), (2, 30.0)])
    assert speeds.deviation[0, [0, 2]].max() < 0.15 < speeds.deviation[0, [1, 3]].min()


def test_options_beside_a_measured_one_are_nearly_known() -> None:
    """Twelve and twenty GPUs, once sixteen are measured."""
    gpus = np.array([1, 4, 12, 16, 20, 64])
    shape = OptionShape(type=np.zeros(6, dtype=np.int64), gpus=gpus, spans=gpus > 4)
    learner, measured = SpeedLearner(), np.full((1, 6), np.nan)
    rows = Seen(
        np.array([0]), np.array([0]), np.array([20.0]), np.array([0]), measured, measured.copy()
    )
    for option, seconds in ((0, 1000.0), (3, 80.0)):
        measured[0, option] = seconds
        rows = replace(rows, held=np.array([option]), measured=measured.copy())
        speeds = learner.learn(shape, rows)
    assert speeds.deviation[0, [2, 4]].max() < 0.3 < speeds.deviation[0, 5]


def test_how_far_jobs_of_a_model_differ_is_learned() -> None:
    def newcomer(factors: list[float]) -> Speeds:
        learner = SpeedLearner()
        for handle, factor in enumerate(factors):
            learner.learn(SHAPE, seen([(handle, 0, 20.0, 2, factor * TRUTH[2])]))
        return learner.learn(SHAPE, seen([(99, 0, 20.0, -1, 0.0)]))

    alike, different = newcomer([1.0] * 10), newcomer([0.4, 2.5] * 5)
    assert alike.deviation[0, 2] < 0.3 < 0.6 < different.deviation[0, 2]


def test_models_that_nobody_ran_are_taken_to_scale_as_others_did() -> None:
    def newcomer(times: list[float]) -> Floats:
        learner = SpeedLearner()
        for model in range(6):
            for option, time in enumerate(times):
                learner.learn(SHAPE, seen([(model, model, 20.0, option, time)]))
        return np.asarray(learner.learn(SHAPE, seen([(99, 50, 20.0, 0, 100.0)])).median[0])

    assert newcomer([100.0, 110.0, 120.0])[2] > 1.5 * newcomer([100.0, 51.0, 26.0])[2]


def test_what_was_measured_is_known_and_doubt_grows_with_the_distance() -> None:
    speeds = after([(0, 0, 20.0, 1, TRUTH[1])])
    assert speeds.median[0, 1] == pytest.approx(TRUTH[1], rel=0.05)
    doubt = speeds.deviation[0]
    assert doubt[1] < doubt[2] < doubt[3] < doubt[4]
    assert doubt[1] < doubt[0]
    assert doubt[6] > doubt[2]  # another type is further away than another number


def test_jobs_of_the_same_model_share_what_they_learn() -> None:
    learner = SpeedLearner()
    learner.learn(SHAPE, seen([(0, 7, 20.0, 3, TRUTH[3])]))
    newcomer = learner.learn(SHAPE, seen([(1, 7, 20.0, -1, 0.0), (2, 8, 20.0, -1, 0.0)]))
    assert newcomer.median[0, 3] == pytest.approx(TRUTH[3], rel=0.1)
    assert newcomer.deviation[0, 3] < 1.0 < newcomer.deviation[1, 3]


def test_without_sharing_a_newcomer_knows_nothing() -> None:
    learner = SpeedLearner(SpeedSettings(share=False))
    learner.learn(SHAPE, seen([(0, 7, 20.0, 3, TRUTH[3])]))
    newcomer = learner.learn(SHAPE, seen([(1, 7, 20.0, -1, 0.0)]))
    assert newcomer.deviation[0, 3] > 1.0


def test_a_job_that_differs_from_its_model_is_believed_for_itself_alone() -> None:
    learner = SpeedLearner()
    for handle in range(8):
        learner.learn(SHAPE, seen([(handle, 0, 20.0, 3, TRUTH[3])]))
    speeds = learner.learn(SHAPE, seen([(8, 0, 20.0, 3, 1.3 * TRUTH[3]), (9, 0, 20.0, -1, 0.0)]))
    assert speeds.median[0, 3] == pytest.approx(1.3 * TRUTH[3], rel=0.05)
    assert speeds.median[0, 2] > 1.15 * speeds.median[1, 2]
    assert speeds.median[1, 3] == pytest.approx(TRUTH[3], rel=0.1)


def test_what_models_have_in_common_about_types_helps_a_new_one() -> None:
    learner = SpeedLearner()
    for model in range(6):
        for option in (0, 5):
            learner.learn(
                SHAPE, seen([(2 * model + (option > 0), model, 20.0, option, TRUTH[option])])
            )
    speeds = learner.learn(SHAPE, seen([(99, 50, 20.0, 0, 900.0)]))
    assert speeds.median[0, 5] < 0.6 * speeds.median[0, 0]


def test_options_that_come_later_keep_what_is_known() -> None:
    learner = SpeedLearner()
    first = OptionShape(SHAPE.type[:5], SHAPE.gpus[:5], SHAPE.spans[:5])
    narrow = seen([(0, 0, 20.0, 2, TRUTH[2])])
    learner.learn(
        first,
        Seen(
            narrow.handle,
            narrow.kind,
            narrow.epochs_done,
            narrow.held,
            narrow.measured[:, :5],
            narrow.declared[:, :5],
        ),
    )
    speeds = learner.learn(SHAPE, seen([(0, 0, 21.0, -1, 0.0)]))
    assert speeds.median[0, 2] == pytest.approx(TRUTH[2], rel=0.05)


def test_what_a_job_declares_counts_until_it_is_measured() -> None:
    said = seen([(0, 0, 20.0, -1, 0.0)])
    said.declared[0, 2] = 500.0
    assert SpeedLearner().learn(SHAPE, said).median[0, 2] == pytest.approx(500.0, rel=0.05)


def test_the_rest_of_a_job_adds_up_its_epochs() -> None:
    speeds = Speeds(
        log_mean=np.zeros((2, 1)),
        deviation=np.zeros((2, 1)),
        unknown=np.zeros((2, 1)),
        by_stage=np.log(np.tile(np.arange(1.0, 13.0), (2, 1, 1))),
        curves=Curves(np.ones((2, 1)), np.zeros((2, 1, 1)), np.zeros((2, 1))),
    )
    rest = speeds.remaining_seconds(np.array([0.0, 3.0]), np.array([5.0, 5.0]))
    # Epochs 0-1, 1-2, 2-4, 4-8 take 1, 2, 3, 4 seconds each.
    assert rest[:, 0] == pytest.approx([1 + 2 + 2 * 3 + 4, 3 + 4])


def test_stages_double() -> None:
    epochs = np.array([0.0, 0.9, 1.0, 1.9, 2.0, 3.9, 4.0, 1e9])
    assert stage_of(epochs).tolist() == [0, 0, 1, 1, 2, 2, 3, 11]


def test_a_job_that_changes_its_pace_does_so_with_other_options_more_or_less() -> None:
    learner = SpeedLearner()
    others = range(1, 9)
    learner.learn(SHAPE, seen([(0, 5, 4.0, 1, 50.0), *((n, 5, 4.0, 1, 50.0) for n in others)]))
    known = [(n, 5, 4.2, 2, 25.0) for n in others]
    before = learner.learn(SHAPE, seen([(0, 5, 4.2, 2, 25.0), *known])).median
    later = learner.learn(SHAPE, seen([(0, 5, 4.4, 2, 50.0), *known])).median
    assert 1.3 < later[0, 1] / before[0, 1] < 2.1
    assert later[1, 1] / before[1, 1] == pytest.approx(1.0, rel=0.15)


def test_a_model_that_loses_nothing_at_first_is_soon_known_to_scale() -> None:
    """Two GPUs twice as fast as one in the first epoch: then four are believed to be, too."""
    alone = after([(0, 5, 0.2, 0, 800.0)]).median[0]
    learner = SpeedLearner()
    learner.learn(SHAPE, seen([(0, 5, 0.2, 0, 800.0)]))
    both = learner.learn(SHAPE, seen([(0, 5, 0.4, 1, 400.0)])).median[0]
    assert both[1] / both[2] > 1.15 * alone[1] / alone[2]


def test_curve_by_curve_the_posterior_is_the_same_and_what_was_shown_is_on_all_of_them() -> None:
    rows = [(0, 0, 20.0, 0, 100.0), (1, 0, 3.0, 2, 40.0), (2, 1, 9.0, -1, 0.0)]
    speeds = after(rows)
    c = speeds.curves
    assert c.likely.sum(axis=1) == pytest.approx(np.ones(3))
    assert np.einsum("jc,jco->jo", c.likely, c.apart)[2] == pytest.approx(np.zeros(len(SHAPE)))
    spread = np.einsum("jc,jco->jo", c.likely, c.apart**2)
    assert np.sqrt(spread + c.deviation**2) == pytest.approx(speeds.deviation)
    assert (c.apart[0, :, 0] == 0.0).all()
    assert (c.apart[1, :, 2] == 0.0).all()
    assert (spread[2, SHAPE.gpus > 1] > 0.01).all()  # nobody knows how that model scales


def test_who_comes_back_to_an_option_shows_its_old_speed_there_only_once() -> None:
    """Four GPUs lost half of the first epoch; what they did then is not what they do now."""
    learner, none = SpeedLearner(), np.full((1, len(SHAPE)), np.nan)
    measured, done_with = none.copy(), np.zeros((1, len(SHAPE)))

    def look(epochs: float, option: int, told: float, done: float) -> Speeds:
        measured[0, option], done_with[0, option] = told, done
        at = (np.array([0]), np.array([0]), np.array([epochs]), np.array([option]))
        return learner.learn(SHAPE, Seen(*at, measured.copy(), none, done_with.copy()))

    look(0.1, option=2, told=200.0, done=0.1)
    for epoch in range(1, 33):  # twice as fast as in the beginning
        before = look(epoch, option=0, told=300.0 if epoch < 4 else 150.0, done=epoch)
    back = look(32.0, option=2, told=200.0, done=0.1)  # starts, and has not run yet
    assert back.median[0, 2] == pytest.approx(before.median[0, 2], rel=0.01)
    ran = look(33.0, option=2, told=200.0, done=1.1)  # as slow as ever
    assert ran.median[0, 2] == pytest.approx(200.0, rel=0.05)
    assert before.median[0, 2] < 150.0
    assert look(33.1, option=2, told=50.0, done=1.2).median[0, 2] == pytest.approx(50.0, rel=0.1)


def test_what_a_width_did_in_the_first_epoch_is_open_later_until_others_have_shown_it() -> None:
    def first_and_later(others: list[tuple[int, int, float, int, float]]) -> Speeds:
        learner = SpeedLearner()
        learner.learn(SHAPE, seen([(0, 0, 0.2, 2, 50.0)]))
        for epochs in (4.0, 6.0):
            speeds = learner.learn(SHAPE, seen([(0, 0, epochs, 0, 100.0), *others]))
        return speeds

    alone = first_and_later([])
    assert alone.deviation[0, 0] < 0.1 < 0.25 < alone.deviation[0, 2]
    assert (np.abs(alone.curves.apart[0, :, 2]) > 0.0).any()  # worth another try
    known = first_and_later([(9, 0, 0.2, 2, 50.0), (10, 0, 6.0, 2, 30.0), (11, 0, 6.0, 2, 30.0)])
    assert known.deviation[0, 2] < 0.7 * alone.deviation[0, 2]
    assert known.median[0, 2] < 0.9 * alone.median[0, 2]
