import { loadTests } from "./load.ts";

await loadTests(
  "unit/sources/grpc",
  "unit/sources/kept",
  "unit/sources/kubernetes",
  "unit/sources/manifests",
  "unit/sources/open_test.ts",
  "unit/sources/preflight",
  "unit/sources/state",
);
