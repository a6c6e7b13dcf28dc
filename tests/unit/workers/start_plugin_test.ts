import assert from "node:assert/strict";
import { startPluginWorker } from "../../../workers/start_plugin.ts";
import { createWebWorker, workerEntry } from "../../../workers/web_worker.ts";
import { inTime } from "../../fakes/wait.ts";

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

Deno.test("the worker of a plugin keeps its first program, whatever the main isolate asks for later", async () => {
  const failed = Promise.withResolvers<string>();
  const worker = createWebWorker({ entry: workerEntry("plugin"), name: "test", tools: [] }, failed.resolve);
  for (const program of ["my-login", "sh"]) worker.postMessage({ program, args: [], env: {} });
  assert.match(await inTime("the end of the worker", failed.promise), /a worker keeps its first role/);
  worker.terminate();
});
