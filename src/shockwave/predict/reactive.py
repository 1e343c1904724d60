"""The present speed lasts forever: what schedulers that do not look ahead assume."""

from __future__ import annotations

from typing import ClassVar

from shockwave.model.view import View
from shockwave.predict.base import Forecast, Predictor
from shockwave.predict.epoch_times import current_epoch_seconds
from shockwave.predict.forecasts import CertainForecast


class Reactive(Predictor):
    """Remaining seconds = epochs left x seconds per epoch in the current configuration."""

    name: ClassVar[str] = "reactive"

    def forecast(self, view: View) -> Forecast:
        return CertainForecast(view.epochs_left[:, None], current_epoch_seconds(view)[:, None])
