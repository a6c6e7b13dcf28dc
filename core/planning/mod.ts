/**
 * Plans the service ports of each IP family from the tracked cluster, with every policy applied, and the health checks of load
 * balancers.
 *
 *   family_planner.ts       plans the services that changed, in one family
 *   service_port.ts         one port of a service: its traffic policies, frontends and endpoints
 *   endpoints.ts            selects endpoints by readiness, termination and topology
 *   balance.ts              how connections are spread over the endpoints
 *   weight_terms.ts         reads the annotation of weights
 *   balance_budget.ts       limits the tables in the kernel
 *   node_port_addresses.ts  the addresses of a node to which a service limits its node ports
 *   annotation_reports.ts   reports annotations without effect
 *   frontend_claims.ts      assigns each frontend to one service port
 *   health_checks.ts        health check node ports of load balancers
 *   services_first.ts       the services that a starting node needs first
 *   internal_service.ts     a service of Sluice's own, which no cluster has
 *
 * In: trackers and their changes. Out: changed `ServicePort`s, and why an endpoint is used or not. May touch: nothing.
 */
export { annotationProblems, createAnnotationReports } from "./annotation_reports.ts";
export { BALANCE_ANNOTATIONS, type BalanceOptions, type Weighing } from "./balance.ts";
export { INTERNAL_SERVICE, type InternalService } from "./internal_service.ts";
export * from "./endpoints.ts";
export * from "./family_planner.ts";
export * from "./health_checks.ts";
export { servicePortName, trafficPolicies } from "./service_port.ts";
export * from "./services_first.ts";
