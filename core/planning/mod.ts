/**
 * Decides: turns the tracked cluster into service ports per IP family, with every policy applied, and into the health checks of
 * load balancers.
 *
 * In: trackers and the changes in them. Out: `ServicePort`s that differ, and why an endpoint is used or not. Touches nothing.
 */
export {
  categorizeEndpoints,
  type EndpointExplanation,
  type EndpointFate,
  explainEndpoints,
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
