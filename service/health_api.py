"""How the service is: for those who look after it (``/healthz``, ``/readyz``) and for Prometheus (``/metrics``)."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from service.endpoints import Endpoint
from service.problems import ProblemError
from service.service import Service
from service.task_figures import BUCKETS_MS

__all__ = ["endpoints"]

STATUS: dict[str, Any] = {"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}}


def endpoints(service: Service) -> Sequence[Endpoint]:
    """Return the requests about health."""
    registry = CollectorRegistry()
    registry.register(_Figures(service))

    async def healthz(_request: Request) -> Response:
        if service.writer.failure is not None:
            raise ProblemError("not-ready", f"the journal cannot be written: {service.writer.failure}")
        if service.engine.status.state == "failed":
            raise ProblemError("not-ready", f"the topology has failed: {service.engine.status.reason}")
        return _json({"status": "ok"})

    async def readyz(_request: Request) -> Response:
        status = service.engine.status
        if not service.ready:
            kernels = f"; it compiles kernels, once on a machine, {status.kernels} so far" if status.kernels else ""
            why = f": {status.reason}" if status.reason else kernels
            raise ProblemError("not-ready", f"the topology is {status.state}{why}", headers={"Retry-After": "1"})
        return _json({"status": "running", "epochs": status.epochs, "restarts": status.restarts})

    async def metrics(_request: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return [
        Endpoint(
            "GET", "/healthz", healthz, "Whether the service can do its work",
            answers={200: ("It can", {"application/json": STATUS})}, problems=("not-ready",),
        ),
        Endpoint(
            "GET", "/readyz", readyz, "Whether the topology runs",
            answers={200: ("It runs", {"application/json": STATUS})}, problems=("not-ready",),
        ),
        Endpoint(
            "GET", "/metrics", metrics, "Figures for Prometheus",
            answers={200: ("Figures", {"text/plain": {"type": "string"}})},
        ),
    ]  # fmt: skip


def _json(body: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")


class _Figures:
    """Collects all figures when they are asked for."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """Yield figures of the service, of the run, and of its tasks by Storm's names."""
        service, status = self._service, self._service.engine.status
        hub, figures = service.hub, service.figures
        yield _gauge("up", "1 where the topology runs", float(service.ready))
        yield _counter("objects_accepted", "objects that were journalled", service.accepted)
        yield _counter("records_rejected", "records that could not be used", service.refused)
        yield _counter("requests_busy", "requests that were refused because too much waited", service.busy)
        yield _counter("engine_restarts", "times the engine was started again", status.restarts)
        yield _gauge(
            "engine_kernels_compiled", "kernels that this engine has compiled, once on a machine", status.kernels
        )
        yield _counter("results_pushed", "lines of results that were passed on", hub.lines)
        dropped = hub.dropped + sum(one.dropped for one in hub.subscriptions)
        yield _counter("results_dropped", "lines that were dropped for slow subscribers", dropped)
        yield _gauge("subscriptions", "who listens", len(hub.subscriptions))
        yield _gauge(
            "subscription_queue", "lines that wait for subscribers", sum(one.waiting for one in hub.subscriptions)
        )
        yield _gauge("journal_queue", "requests that wait to be journalled", service.writer.waiting)
        yield _gauge(
            "backlog_objects", "objects that wait to be evaluated", max(service.intake.seq - status.objects, 0)
        )
        yield _gauge("queries_live", "queries that live", len(service.intake.registrations))
        yield _gauge("journal_bytes", "end of the journal", service.writer.position)
        yield _gauge("epochs_pending", "epochs under way", status.pending)
        yield _counter("epochs_acked", "epochs that are complete", figures.get("acked", 0))
        yield _counter("rebalances", "moves of load between evaluators", figures.get("rebalances", 0))
        yield _latency(figures)
        yield from _tasks(figures)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"waterspout_{name}", text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"waterspout_{name}", text, value=value)


def _latency(figures: dict[str, Any]) -> Metric:
    counts: list[int] = figures.get("latency", [0] * (len(BUCKETS_MS) + 1))
    bounds = [*(str(ms / 1e3) for ms in BUCKETS_MS), "+Inf"]
    whole, so_far = [], 0
    for bound, count in zip(bounds, counts, strict=True):
        so_far += count
        whole.append((bound, float(so_far)))
    metric = HistogramMetricFamily("waterspout_epoch_complete_latency_seconds", "from the spout to the last bolt")
    metric.add_metric([], whole, sum_value=figures.get("latency_sum", 0.0) / 1e3)
    return metric


def _tasks(figures: dict[str, Any]) -> Iterator[Metric]:
    for name in ("executed", "emitted", "transferred", "busy_ms"):
        metric = CounterMetricFamily(f"storm_task_{name}", f"{name}, by task", labels=["component", "task"])
        for component, index, counts in figures.get("tasks", ()):
            metric.add_metric([component, str(index)], counts.get(name, 0.0))
        yield metric
    latency = GaugeMetricFamily(
        "storm_task_execute_latency_ms", "mean time that a tuple took, by task", labels=["component", "task"]
    )
    for component, index, counts in figures.get("tasks", ()):
        if counts.get("executed"):
            latency.add_metric([component, str(index)], counts.get("busy_ms", 0.0) / counts["executed"])
    yield latency
