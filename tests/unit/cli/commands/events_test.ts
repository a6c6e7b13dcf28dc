/** `sluice events`: what it prints as the proxy goes on, and when that is replaced. */
import assert from "node:assert/strict";
import { type ControlAnswers, serveControlSocket } from "../../../../answers/control/mod.ts";
import { listenOnControlSocket } from "../../../../answers/control/socket.ts";
import type { NodeView } from "../../../../answers/status/mod.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createEventLog } from "../../../../observe/process_record.ts";
import { until } from "../../../fakes/wait.ts";
import { invoke } from "./invoke.ts";

Deno.test("events are printed as they come, and all of a restarted proxy, which counts from 1 again", async () => {
  const folder = await Deno.makeTempDir(), path = `${folder}/control.sock`;
  const end = new AbortController(), stop = new AbortController();
  let log = createEventLog(systemClock, 1);
  const record = (text: string) => log.record({ kind: "link", subject: "api", text, tone: "good" });
  const served = serveControlSocket({
    listener: await listenOnControlSocket(path),
    answers: () =>
      Promise.resolve({
        events: (since?: number) => Promise.resolve(log.read(since)),
        status: () => Promise.resolve({} as NodeView),
      } as unknown as ControlAnswers),
    ...{ clock: systemClock, logger: silentLogger, signal: end.signal },
  });
  const printed: string[] = [];
  const onPrint = (text: string) => void printed.push((JSON.parse(text) as { readonly text: string }).text);
  for (const text of ["one", "two", "three"]) record(text);
  try {
    const once = await invoke(["events", "--once", "--json", "--control-socket", path]);
    assert.equal(once.stdout.trimEnd().split("\n").length, 3);
    const running = invoke(["events", "--json", "--control-socket", path], { signal: stop.signal, onPrint });
    await until(() => printed.length === 3);
    record("four");
    await until(() => printed.length === 4);
    log = createEventLog(systemClock, 2);
    record("of the next proxy");
    await until(() => printed.length === 5);
    assert.deepEqual(printed, ["one", "two", "three", "four", "of the next proxy"]);
    stop.abort();
    assert.equal((await running).status, 0);
  } finally {
    end.abort();
    await served;
    await Deno.remove(folder, { recursive: true });
  }
});
