"""The shipped operators by the name that a declaration uses. Each is loaded when it is asked for."""

__all__ = ["OPERATORS"]

#: Name -> module:Class.
OPERATORS: dict[str, str] = {
    "object-file": "operators.spouts.file_spouts:ObjectFileSpout",
    "query-file": "operators.spouts.file_spouts:QueryFileSpout",
    "live": "operators.spouts.live_spout:LiveSpout",
    "broadcast-router": "operators.routing.broadcast_router:BroadcastRouter",
    "plan-router": "operators.routing.plan_router:PlanRouter",
    "knn-evaluator": "operators.evaluation.knn_evaluator:KnnEvaluator",
    "sstd-evaluator": "operators.evaluation.sstd_evaluator:SstdEvaluator",
    "terms-evaluator": "operators.evaluation.terms_evaluator:TermsEvaluator",
    "topk-evaluator": "operators.evaluation.topk_evaluator:TopkEvaluator",
    "dynamic-evaluator": "operators.evaluation.dynamic_evaluator:DynamicEvaluator",
    "fence-evaluator": "operators.evaluation.fence_evaluator:FenceEvaluator",
    "scored-evaluator": "operators.evaluation.scored_evaluator:ScoredEvaluator",
    "message-store": "operators.refilling.message_store:MessageStore",
    "topk-aggregator": "operators.refilling.aggregator:TopkAggregator",
    "main-server": "operators.routing.main_server:MainServer",
    "range-evaluator": "operators.evaluation.range_evaluator:RangeEvaluator",
    "ranked-merger": "operators.merging.mergers:RankedMerger",
    "terms-merger": "operators.merging.mergers:TermsMerger",
    "balancer": "operators.balancing.balancer:Balancer",
    "count": "operators.sinks.sink:CountSink",
    "collect": "operators.sinks.sink:CollectSink",
    "listen": "operators.sinks.sink:ListenSink",
    "sample": "operators.sinks.sink:SampleSink",
    "jsonl": "operators.sinks.file_sinks:JsonlSink",
    "parquet": "operators.sinks.file_sinks:ParquetSink",
    "results-log": "operators.sinks.results_log:ResultsLogSink",
    "rejects": "operators.sinks.file_sinks:RejectsSink",
}
