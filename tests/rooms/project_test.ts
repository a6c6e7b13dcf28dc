import { loadTests } from "./load.ts";

await loadTests("unit/build", "unit/deploy", "unit/structure_test.ts", "unit/supply_test.ts");
