/**
 * Plans the service ports of each IP family from the tracked cluster, with every policy applied, and the health checks of load
 * balancers.
 *
 * In: trackers and their changes. Out: changed `ServicePort`s, and why an endpoint is used or not. May touch: nothing.
 */
export {
  categorizeEndpoints,
  type EndpointExplanation,
  type EndpointFate,
  explainEndpoints,
  isUsed,
  type NodeContext,
  type TopologyMode,
} from "./endpoints.ts";
export {
  createFamilyPlanner,
  type FamilyPlanner,
  type FamilyPlannerOptions,
  type NoLocalEndpoints,
  type PlanChanges,
  type PlannedPort,
} from "./family_planner.ts";
export {
  createHealthCheckPlanner,
  type HealthCheck,
  type HealthCheckChanges,
  type HealthCheckPlanner,
  type HealthCheckPlannerOptions,
} from "./health_checks.ts";
export { servicePortName, trafficPolicies } from "./service_port.ts";
export { servicesFirst } from "./services_first.ts";
