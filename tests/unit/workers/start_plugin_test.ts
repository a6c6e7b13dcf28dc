import assert from "node:assert/strict";
import { startPluginWorker } from "../../../workers/start_plugin.ts";

Deno.test({
  name: "a plugin that this program may not run causes an error with the reason and the fix",
  permissions: { read: true, run: false },
  async fn() {
    const run = startPluginWorker("plugin", { program: "my-login", args: [], env: {} }, assert.fail);
    await assert.rejects(
      run({ program: "my-login", args: [], env: {}, timeoutMs: 1000 }),
      /not installed, or this executable may not start it: .*EXEC_PLUGINS=my-login/,
    );
  },
});
