import { loadTests } from "./load.ts";

await loadTests(
  "unit/features/calls_test.ts",
  "unit/features/canary",
  "unit/features/connection_weights",
  "unit/features/failover",
  "unit/features/node_condition",
  "unit/features/registry_test.ts",
  "unit/features/systemd",
  "unit/features/telemetry",
  "unit/features/traffic",
);
