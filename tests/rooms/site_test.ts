import { loadTests } from "./load.ts";

await loadTests("unit/sources/site");
