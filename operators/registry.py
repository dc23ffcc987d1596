"""The shipped operators by the name that a declaration uses. Each is loaded when it is asked for."""

__all__ = ["OPERATORS"]

#: Name -> module:Class.
OPERATORS: dict[str, str] = {
    "object-file": "operators.file_spouts:ObjectFileSpout",
    "query-file": "operators.file_spouts:QueryFileSpout",
    "broadcast-router": "operators.broadcast_router:BroadcastRouter",
    "plan-router": "operators.plan_router:PlanRouter",
    "range-evaluator": "operators.range_evaluator:RangeEvaluator",
    "balancer": "operators.balancer:Balancer",
    "count": "operators.sinks:CountSink",
    "collect": "operators.sinks:CollectSink",
    "listen": "operators.sinks:ListenSink",
    "sample": "operators.sinks:SampleSink",
    "jsonl": "operators.file_sinks:JsonlSink",
    "parquet": "operators.file_sinks:ParquetSink",
    "rejects": "operators.file_sinks:RejectsSink",
}
