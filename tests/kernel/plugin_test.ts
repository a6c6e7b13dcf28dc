/** The worker that runs credential plugins and hooks, with a real program. */
import assert from "node:assert/strict";
import { startPluginWorker } from "../../workers/start_plugin.ts";

/** Waits while the file exists that its standard input names. */
const PROGRAM = `#!/bin/sh
wait=$(cat)
while [ -e "$wait" ]; do sleep 0.05; done
if [ "$KUBERNETES_EXEC_INFO" = much ]; then head -c 1048577 /dev/zero; fi
echo "$1, $WHO, $KUBERNETES_EXEC_INFO"
`;

Deno.test("each run of a plugin gets its own outcome: the result, the reason why there is none, or the worker's end", async () => {
  const folder = await Deno.makeTempDir(), program = `${folder}/plugin`, wait = `${folder}/wait`;
  await Deno.writeTextFile(program, PROGRAM, { mode: 0o755 });
  await Deno.writeTextFile(wait, "");
  const lost: string[] = [];
  const run = startPluginWorker(
    "plugin",
    { program, args: ["login"], env: { WHO: "us", PATH: Deno.env.get("PATH")! } },
    (reason) => lost.push(reason),
  );
  const start = (info: string, stdin?: string, timeoutMs = 60_000) =>
    run({ program, args: ["other"], env: { WHO: "them", KUBERNETES_EXEC_INFO: info }, stdin, timeoutMs });
  try {
    const waiting = start("first", wait);
    const { stdout, exitCode } = await start("second");
    assert.deepEqual([stdout, exitCode], ["login, us, second\n", 0]);
    await assert.rejects(start("third", program, 100), /did not end within 0.1 s and was killed/);
    await assert.rejects(start("much"), /printed more than 1048576 characters/);
    await Deno.remove(wait);
    assert.equal((await waiting).stdout, "login, us, first\n");

    const interrupted = start("fourth", program);
    const unreadable = start({ toString: 1, valueOf: 1 } as never);
    for (const one of [interrupted, unreadable]) await assert.rejects(one, /the worker for credential plugins is gone/);
    assert.equal(lost.length, 1);
    await assert.rejects(start("fifth"), /the worker for credential plugins is gone/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
