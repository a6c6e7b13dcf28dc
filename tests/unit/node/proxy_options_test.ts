import assert from "node:assert/strict";
import { shareFiles } from "../../../node/proxy_options.ts";

Deno.test("connections and listeners share the limit of open files, and leave room for everything else", () => {
  const cases: readonly (readonly [limit: number | undefined, connections: number, listeners: number])[] = [
    [undefined, 192, 576],
    [1024, 192, 576],
    [65_536, 256, 65_024],
    [512, 64, 192],
    [100, 12, 38],
    [1, 0, 1],
  ];
  for (const [limit, connections, listeners] of cases) {
    assert.deepEqual(shareFiles(limit), { connections, listeners }, `of ${limit}`);
  }
});
