"""What an option is worth to a job: the completion time that a round with it saves.

A job in the cluster costs one job-second per second (``w`` of weight ``w``), and every GPU that it
holds costs its price. If prices stayed as they are when the job ends, an epoch would cost it

    mu_j  =  min_o  ( w_j (1 + kappa_j) + pi_end[type o] gpus_o ) * seconds_j(o)
                    * (1 + restart_j / rest_j(o))

job-seconds, with the start that the rest takes (or would take, if the job were stopped now: so
none is stopped shortly before its end). A second with option ``o``, in which it does
``1 / seconds_j(o)`` epochs, saves

    value_j(o)  =  mu_j / seconds_j(o)

of them, less what a restart takes of the time for which it will hold the option: ten minutes, or as
long as the GPUs that it takes more have been idle (:mod:`shockwave.plan.elastic.vacancy`), or less
to the end. A short job ends at today's prices: its ``mu`` contains what others would pay for the
GPUs that it soon leaves. A long one ends when the crowd is gone: it can wait, and does so while
prices are high. How far prices fall until it ends is foretold from the jobs that are there
(:func:`price_at_end`); ``kappa`` is what fairness adds (:func:`pressure`), and what is at stake
for the common end (:func:`common_end`).

Where every job has one option, ``value / gpus`` is ``w (1 + kappa) / gpus + pi_end``, times what
the start adds: jobs of one width are in the order of the index of :mod:`shockwave.plan.stance`,
shorter ones first.

With speeds that grow as a power of the GPUs and all jobs there from the beginning, this is the
order of the optimal policy for mean completion time (heSRPT): shares for all, larger for shorter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.view import Floats, Ints

_COMPARED = 256  # jobs with which the length of each is compared, of more a sample


@dataclass(frozen=True)
class WorthSettings:
    """One set for every workload."""

    hold_seconds: float = 600.0  # at least, that a restart is charged against; or less to the end
    shortest_seconds: float = 60.0
    price_fall: float = 0.7  # exponent of the falling crowd in the price at a job's end
    alike: float = 2.0  # the lower, the longer jobs count as nearly as long as others
    least_price: float = 0.1  # of today's, at a job's end
    fair: float = 4.0  # what each fair share beyond the first that it needs to be on time adds
    most_shares: float = 4.0
    easy_shares: float = 0.95  # up to this, nothing is added
    rigid_early: float = 0.9  # of its fair time, by which a job of one width wants to be done
    least_gain: float = 1.15  # from twice the GPUs, where a job hardly gains by more
    end: float = 0.3  # what a job adds that decides when all is over
    start_of_time_seconds: float = 1800.0  # arrivals are taken to go on as long as they have lasted


@dataclass(frozen=True)
class Bidders:
    """The jobs of a round as the market sees them. All times in seconds."""

    seconds: Floats  # [job, option] per epoch now
    rest: Floats  # [job, option] to the end with that option, restarts not included
    whole: Floats  # [job, option] from the first epoch to the end with that option
    held: Ints  # [job] option that it holds, -1 for none
    age: Floats  # [job] since arrival
    restart: Floats  # [job] what a start costs
    weight: Floats  # [job]
    mean_active: Floats  # [job] jobs in the cluster, on average since it arrived
    vacant: Floats | float = 0.0  # [job, option] how long the GPUs that it takes more were idle

    def __len__(self) -> int:
        return len(self.held)


@dataclass(frozen=True)
class Shares:
    """The cluster as far as a fair share of it goes."""

    type: Ints  # [option]
    gpus: Ints  # [option]
    capacity: Ints  # [type]

    def seconds(self, rest: Floats, gpus: Floats) -> Floats:
        """[job] seconds with ``gpus[j]`` GPUs of one type, averaged over the types by their GPUs.

        Between two whole numbers of GPUs the time is interpolated; with less than one GPU, one is
        shared. A number between two options is the smaller one. Types that a job may not use are
        left out.
        """
        total, weights = np.zeros(len(rest)), np.zeros(len(rest))
        for number, capacity in enumerate(self.capacity.tolist()):
            own = np.flatnonzero(self.type == number)
            own = own[np.argsort(self.gpus[own], kind="stable")]
            if len(own) and capacity:
                time = _with_share(rest[:, own], self.gpus[own], gpus)
                usable = np.isfinite(time)
                total += np.where(usable, time, 0.0) * capacity
                weights += usable * capacity
        return np.asarray(total / np.maximum(weights, 1e-9))


def _with_share(rest: Floats, sizes: Ints, gpus: Floats) -> Floats:
    """[job] seconds with a share of one type, options by growing size; inf where it may not."""
    rows = np.arange(len(rest))
    best = np.minimum.accumulate(rest, axis=1)
    may = np.isfinite(best)
    best = np.where(may, best, 0.0)
    first = may.argmax(axis=1)  # a rigid job has no smaller option
    smallest = sizes[first].astype(np.float64)
    share = np.maximum(gpus, smallest)

    def at(whole: Floats) -> Floats:
        position = np.searchsorted(sizes, whole, side="right") - 1
        return np.asarray(best[rows, np.maximum(position, first)])

    low, high, part = at(np.floor(share)), at(np.ceil(share)), share - np.floor(share)
    seconds = (low + (high - low) * part) * share / np.minimum(share, np.maximum(gpus, 1e-9))
    return np.where(may.any(axis=1), seconds, np.inf)


def _still_there(rest: Floats, alike: float) -> Floats:
    """[job] how many will be there when it ends: those who are longer, half of those as long.

    Who ends first of jobs that are nearly as long is open, so that none counts as longer by rank.
    """
    others = np.sort(rest)
    if len(others) > _COMPARED:
        others = np.quantile(others, (np.arange(_COMPARED) + 0.5) / _COMPARED)
    ahead = 1.0 / (1.0 + (rest[:, None] / others) ** alike)
    return np.asarray(ahead.mean(axis=1) * len(rest))


def crowd_at_end(
    rest: Floats, mean_active: float, seconds_since_start: float, s: WorthSettings
) -> Floats:
    """[job] how much of today's crowd there will be at its end, 1 for as many.

    Of those who are here, the ones that have longer to go; and newcomers, as many as there are on
    average, for as long as arrivals have lasted so far.
    """
    jobs = len(rest)
    longer = _still_there(rest, s.alike)
    lasted = seconds_since_start + s.start_of_time_seconds
    come = 1.0 - np.exp(-rest / np.median(rest))
    newcomers = mean_active * come * lasted / (lasted + rest)
    return np.asarray((longer + newcomers) / jobs)


def price_at_end(crowd: Floats, s: WorthSettings) -> Floats:
    """[job] price at its end over today's, by the crowd that there will be."""
    return np.asarray(np.clip(crowd**s.price_fall, s.least_price, 1.0))


@dataclass(frozen=True)
class Fair:
    """What a job has a claim to: its share of the cluster until it ends."""

    seconds: Floats  # [job] completion time with it
    needed: Floats  # [job] shares that it needs from now on to be done by then, 1 if all went so
    width: Floats  # [job] its narrowest gang over its share, at least 1


def fair(bidders: Bidders, shares: Shares, at_end: Floats, s: WorthSettings) -> Fair:
    """Sia's fair completion time of every job, and what it takes to keep it.

    The crowd that a share is of is the one so far, and for as long as the job will take the mean of
    the present one and the one ``at_end`` (of the present one): who counts on today's crowd is late
    when it has gone. How long it will take is counted with a share of that later crowd: a job that
    came in a crowd, and has the cluster nearly to itself now, soon ends. A job that has always had
    its share needs 1; one that waits needs more and more, and the more so the less it gains by more
    GPUs. A job of one width can wait, but never catch up: it has to want to be early.
    """
    b, total = bidders, float(shares.capacity.sum())
    starts = np.where(b.held >= 0, 0.0, b.restart)
    until_end = len(b) * (1.0 + np.minimum(at_end, 1.0)) / 2.0
    need = shares.seconds(b.rest, total / until_end) + starts
    crowd = (b.age * b.mean_active + need * until_end) / (b.age + need)
    share = total / np.maximum(crowd, 1.0)
    need = shares.seconds(b.rest, share)
    gain = np.clip(need / shares.seconds(b.rest, 2.0 * share), s.least_gain, 2.0)
    seconds = shares.seconds(b.whole, share) + b.restart
    narrowest = np.where(np.isfinite(b.rest), shares.gpus, np.inf).min(axis=1)
    rigid = narrowest == np.where(np.isfinite(b.rest), shares.gpus, 0).max(axis=1)
    slack = np.where(rigid, s.rigid_early, 1.0) * seconds - b.age
    with np.errstate(divide="ignore", over="ignore"):
        faster = np.where(slack > 0.0, (need + starts) / np.maximum(slack, 1e-9), np.inf)
        needed = faster ** (np.log(2.0) / np.log(gain))
    return Fair(seconds, needed, np.maximum(narrowest / share, 1.0))


def pressure(owed: Fair, s: WorthSettings) -> Floats:
    """[job] ``kappa``: what fairness adds, by the shares that a job needs to be on time.

    A gang that is wider than its job's share has to pay for all of it, for a part of the time.
    """
    needed = np.clip(owed.needed - s.easy_shares, 0.0, s.most_shares)
    return np.asarray(s.fair * needed * owed.width)


def common_end(bidders: Bidders, shares: Shares, rest: Floats, s: WorthSettings) -> Floats:
    """[job] what is added because the end of the whole waits for it.

    The end cannot come before all work is done, each job's with its most frugal option. A job
    presses that would take longer than half of that, sharing all GPUs with those who will still be
    there when it ends. How many these are does not go by rank: of jobs that are as long as each
    other, all press alike.
    """
    b, total = bidders, float(shares.capacity.sum())
    sharing = np.maximum(_still_there(rest, s.alike), 1.0)
    alone = shares.seconds(b.rest, total / sharing)
    work = (b.rest * shares.gpus).min(axis=1)
    horizon = float(work[np.isfinite(work)].sum()) / total
    return np.asarray(s.end * np.clip(2.0 * alone / max(horizon, 1.0) - 1.0, 0.0, 2.0))


@dataclass(frozen=True)
class Worth:
    """[job, option] values in job-seconds per second, and where they come from."""

    values: Floats
    unfair: Floats  # [job] kappa of fairness
    end: Floats  # [job] kappa of the common end
    fair_seconds: Floats  # [job] completion time with a fair share
    kept: Floats  # [job, option] share of the value that a restart leaves, 1 for what is held


def worth(
    bidders: Bidders,
    shares: Shares,
    prices: Floats,
    mean_active: float,
    seconds_since_start: float,
    settings: WorthSettings,
) -> Worth:
    """Values of all options at prices like those of the round before."""
    s, b, jobs = settings, bidders, len(bidders)
    gpus_total = float(shares.capacity.sum())
    alone = shares.seconds(b.rest, np.full(jobs, gpus_total / jobs))
    rest = np.maximum(alone, s.shortest_seconds)
    at_end = crowd_at_end(rest, mean_active, seconds_since_start, s)
    owed = fair(b, shares, at_end, s)
    unfair = pressure(owed, s)
    end = common_end(b, shares, rest, s)
    fall = price_at_end(at_end, s)
    cost = (b.weight * (1.0 + unfair + end))[:, None]
    cost = cost + fall[:, None] * (prices[shares.type] * shares.gpus)
    # The rest takes a start, too: of who waits, and of who would have to wait.
    seconds = b.seconds * (1.0 + b.restart[:, None] / b.rest)
    per_epoch = (cost * seconds).min(axis=1, keepdims=True)
    held_for = np.minimum(np.maximum(s.hold_seconds, b.vacant), b.rest)
    kept = held_for / (held_for + b.restart[:, None])
    runs = np.flatnonzero(b.held >= 0)
    kept[runs, b.held[runs]] = 1.0
    values = np.where(np.isfinite(b.seconds), kept * per_epoch / b.seconds, -np.inf)
    return Worth(values, unfair, end, owed.seconds, kept)
