import assert from "node:assert/strict";
import { loadYaml } from "../../../platform/yaml.ts";

Deno.test({
  name: "YAML can be read and written without permission to read the environment",
  permissions: { env: false, read: "inherit" },
  async fn() {
    const { parseDocument, stringify } = await loadYaml();
    assert.deepEqual(parseDocument("a: [1, b]").toJS(), { a: [1, "b"] });
    assert.equal(stringify({ a: "yes" }, { version: "1.1" }), 'a: "yes"\n');
  },
});
