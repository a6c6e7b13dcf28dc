/**
 * Who may serve whom: what is tracked of the cluster, turned into service ports with every decision taken, per IP
 * family, and into the health checks of load balancers.
 */
export { servicesFirst } from "./services_first.ts";
export { createFamilyPlanner } from "./family_planner.ts";
export type {
  FamilyPlanner,
  FamilyPlannerOptions,
  NoLocalEndpoints,
  PlanChanges,
  PlannedPort,
} from "./family_planner.ts";
export { createHealthCheckPlanner } from "./health_checks.ts";
export type {
  HealthCheck,
  HealthCheckChanges,
  HealthCheckPlanner,
  HealthCheckPlannerOptions,
} from "./health_checks.ts";
