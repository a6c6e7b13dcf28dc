/** Requests to the service managers, and the meaning of their answers. */
import assert from "node:assert/strict";
import { openrcService, systemdService } from "../../../../cli/commands/service.ts";

/** Records command lines; `answer` is the output of all, and those of `failing` fail. */
function recorder(answer = "", failing = "") {
  const lines: string[] = [];
  const run = (...words: readonly string[]) => {
    const line = words.join(" ");
    lines.push(line);
    return line === failing ? Promise.reject(new Error("refused")) : Promise.resolve(answer);
  };
  return { lines, run };
}

Deno.test("systemd reads the unit, enables the service, and starts it afresh without waiting", async () => {
  const { lines, run } = recorder();
  await systemdService(run).start();
  assert.deepEqual(lines, [
    "systemctl daemon-reload",
    "systemctl enable sluice",
    "systemctl stop sluice",
    "systemctl start --no-block sluice",
  ]);
});

Deno.test("systemd stops and disables a service that it knows, and no other", async () => {
  for (const [known, stops] of [["loaded", ["systemctl disable --now sluice"]], ["not-found", []]] as const) {
    const { lines, run } = recorder(`LoadState=${known}\n`);
    await systemdService(run).stop();
    assert.deepEqual(lines.slice(1), stops);
  }
});

Deno.test("systemd's properties are the state of the service", async () => {
  const state = (text: string) => systemdService(recorder(text).run).state();
  assert.deepEqual(
    await state("ActiveState=activating\nSubState=auto-restart\nNRestarts=7\nExecMainStatus=1\n"),
    { isActive: false, isStarting: false, restarts: 7, words: "activating (auto-restart), exit status 1" },
  );
  assert.deepEqual(
    await state("ActiveState=active\nSubState=running\nNRestarts=0\nExecMainStatus=0\n"),
    { isActive: true, isStarting: false, restarts: 0, words: "active (running)" },
  );
  assert.equal((await state("ActiveState=activating\nSubState=start\n")).isStarting, true);
});

Deno.test("OpenRC adds and restarts the service, and stops it also if it is not enabled", async () => {
  const started = recorder(), stopped = recorder("", "rc-update del sluice default");
  const service = openrcService(started.run, () => Promise.resolve(0));
  await service.start();
  assert.deepEqual(started.lines, ["rc-update add sluice default", "rc-service sluice restart"]);
  assert.equal(service.manual.start, started.lines.join(" && "));
  await openrcService(stopped.run, () => Promise.resolve(0)).stop();
  assert.deepEqual(stopped.lines, ["rc-service --ifexists sluice stop", "rc-update del sluice default"]);
});

Deno.test("OpenRC's exit status is the state of the service", async () => {
  for (const [exit, isActive, words] of [[0, true, "started"], [3, false, "not started (status 3)"]] as const) {
    const state = await openrcService(recorder().run, () => Promise.resolve(exit)).state();
    assert.deepEqual(state, { isActive, isStarting: false, restarts: 0, words });
  }
});
