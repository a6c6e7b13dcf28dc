import { loadTests } from "./load.ts";

await loadTests("unit/features/site");
