import { loadTests } from "./load.ts";

await loadTests("unit/kpng", "unit/serve");
