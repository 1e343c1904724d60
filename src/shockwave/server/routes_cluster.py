"""The rest of the scheduler over HTTP: its plan, its rounds, nodes, tenants and events."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from starlette.responses import StreamingResponse

from shockwave.server.auth import Who, operator, person
from shockwave.server.door import SchedulerDoor
from shockwave.server.event_stream import stream_events
from shockwave.server.pages import Me, NodeList, RoundPage, TenantList
from shockwave.server.problems import ProblemError, responses
from shockwave.server.records import NodeRecord, PlanRecord, TenantChanges
from shockwave.server.redaction import public_event
from shockwave.server.routes_jobs import API, MAX_PAGE, Scheduler, document
from shockwave.server.routes_session import me_of

_LARGEST = 2**53
_SENT_EVENT = {
    "type": "object",
    "required": ["id", "event", "data"],
    "properties": {
        "id": {"type": "string", "description": "The number, for `Last-Event-ID`."},
        "event": {"type": "string", "description": "The kind, such as `job-started`."},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}
router = APIRouter(prefix=API, tags=["cluster"], dependencies=[Depends(person)])

TenantName = Annotated[
    str,
    Path(description="Its name.", max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$"),
]
NodeId = Annotated[
    str,
    Path(description="The node's id.", max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]*$"),
]


@router.get(
    "/plan",
    operation_id="getPlan",
    summary="The decision in force",
    response_model=PlanRecord,
    responses=responses(401, 403),
)
def get_plan(door: Scheduler, who: Who) -> Response:
    """Who runs, who waits, and the numbers behind both."""
    plan = door.plan()
    shown = [job for job in map(who.shown, plan.jobs) if job is not None]
    return document(PlanRecord.model_construct(round=plan.round, jobs=shown))


@router.get(
    "/rounds",
    operation_id="listRounds",
    summary="Past decisions",
    response_model=RoundPage,
    responses=responses(401, 403, 422),
)
def list_rounds(
    door: Scheduler,
    after: Annotated[
        int, Query(ge=-1, le=_LARGEST, description="Only rounds after this number.")
    ] = -1,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
) -> Response:
    """Decisions in order, a page at a time."""
    items = door.rounds(after=after, limit=limit)
    following = items[-1].round if len(items) == limit else None
    return document(RoundPage.model_construct(items=items, next=following))


@router.get(
    "/nodes",
    operation_id="listNodes",
    summary="The nodes and their GPUs",
    response_model=NodeList,
    responses=responses(401, 403),
)
def list_nodes(door: Scheduler) -> Response:
    return document(NodeList.model_construct(items=door.nodes()))


@router.post(
    "/nodes/{node}/drain",
    operation_id="drainNode",
    summary="Take a node out of service",
    dependencies=[Depends(operator)],
    response_model=NodeRecord,
    responses=responses(401, 403, 404, 409, 422),
)
def drain_node(door: Scheduler, who: Who, node: NodeId) -> Response:
    """Jobs on it are stopped with their usual grace, and nothing starts there again."""
    _check_node(door, node)
    return document(door.drain(node, resume=False, by=who.people.owner(who.someone())))


@router.post(
    "/nodes/{node}/resume",
    operation_id="resumeNode",
    summary="Put a drained node back into service",
    dependencies=[Depends(operator)],
    response_model=NodeRecord,
    responses=responses(401, 403, 404, 409, 422),
)
def resume_node(door: Scheduler, who: Who, node: NodeId) -> Response:
    _check_node(door, node)
    return document(door.drain(node, resume=True, by=who.people.owner(who.someone())))


def _check_node(door: SchedulerDoor, node: str) -> None:
    if all(record.id != node for record in door.nodes()):
        raise ProblemError(404, "node-not-found", f"There is no node {node!r}.")


@router.get(
    "/tenants",
    operation_id="listTenants",
    summary="What each tenant has and had",
    response_model=TenantList,
    responses=responses(401, 403),
)
def list_tenants(door: Scheduler, who: Who) -> Response:
    """All of them; where the queue is private, one's own."""
    someone, tenants = who.someone(), door.tenants()
    if who.people.private_queue and not someone.operator:
        own = who.people.tenant_of(someone)
        tenants = [tenant for tenant in tenants if tenant.tenant == own]
    return document(TenantList.model_construct(items=tenants))


@router.patch(
    "/tenants/{tenant}",
    operation_id="changeTenant",
    summary="Change what a tenant was promised",
    dependencies=[Depends(operator)],
    response_model=TenantList,
    responses=responses(400, 401, 403, 413, 422),
)
def change_tenant(
    door: Scheduler, who: Who, tenant: TenantName, changes: TenantChanges
) -> Response:
    """From the next round on; what is left out stays as it is. Returns all tenants."""
    door.change_tenant(tenant, changes, by=who.people.owner(who.someone()))
    return document(TenantList.model_construct(items=door.tenants()))


@router.get(
    "/me",
    operation_id="whoAmI",
    summary="Who you are here",
    response_model=Me,
    responses=responses(401, 403),
)
def who_am_i(who: Who) -> Response:
    """As whom your jobs run, and for which tenant."""
    return document(me_of(who))


@router.get(
    "/events",
    operation_id="streamEvents",
    summary="Everything that happens, as it happens",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-sent events: the number, the kind, and the record as JSON.",
            "content": {"text/event-stream": {"schema": _SENT_EVENT}},
        },
        **responses(401, 403, 422),
    },
)
async def stream_journal(
    request: Request,
    door: Scheduler,
    who: Who,
    after: Annotated[
        int, Query(ge=0, le=_LARGEST, description="Only events after this number.")
    ] = 0,
    follow: Annotated[
        bool, Query(description="Go on as events happen; else end at the last one.")
    ] = True,
    last_event_id: Annotated[
        int | None,
        Header(ge=0, le=_LARGEST, description="Where a lost connection goes on; beats `after`."),
    ] = None,
) -> Response:
    """The journal from any point on; of others' jobs what is public. A client that reconnects
    misses nothing and gets nothing twice."""
    state = request.app.state
    someone = who.someone()

    def is_own(job: str) -> bool:
        return door.owner_of(job) == someone.name

    def shown(record: dict[str, Any]) -> dict[str, Any] | None:
        if someone.operator:
            return record
        return public_event(record, is_own, private_queue=who.people.private_queue)

    events = stream_events(
        door,
        state.feed,
        state.closing,
        after=after if last_event_id is None else last_event_id,
        follow=follow,
        shown=shown,
    )
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)
