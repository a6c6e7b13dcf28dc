/** The features of a run, as one. */
import assert from "node:assert/strict";
import type { CountsOfPorts } from "../../../core/model/mod.ts";
import type { RunningFeature, RunningProcessFeature } from "../../../features/mod.ts";
import { createFeatures } from "../../../node/features.ts";
import { createRegistry } from "../../../platform/metrics/mod.ts";
import { accepted } from "../config/parse.ts";

Deno.test("each event of a run reaches every feature, and what they show is put together", async () => {
  const calls: string[] = [], counts = {} as CountsOfPorts;
  const featureOf = (name: string, more: Partial<RunningFeature>) => {
    const note = (call: string) => () => void calls.push(`${call} ${name}`);
    const running = {
      ...{
        addMetrics: note("metrics"),
        planned: note("planned"),
        changed: note("changed"),
        reported: note("reported"),
      },
      updateMetrics: () => Promise.resolve(note("update")()),
      stopped: () => Promise.resolve(note("stopped")()),
      ...more,
    } as unknown as RunningFeature;
    return [name, { startRun: () => running } as unknown as RunningProcessFeature] as const;
  };
  const words = (text: string) =>
    ({ lines: [{ label: text, words: [text] }] }) as unknown as ReturnType<
      NonNullable<RunningFeature["status"]>
    >;
  const open = [
    [featureOf("a", { familyStatus: (family) => family === "IPv4" ? words(family) : undefined })],
    [featureOf("b", { counts, status: () => words("node") }), ["none", { startRun: () => undefined }] as const],
  ];
  const flags = ["--source", "file:none", "--proxy-mode", "iptables", "--reset-gone-connections=false"];
  const { configuration } = accepted(flags), features = createFeatures();
  assert.equal(features.counts(), undefined);
  const node = { environment: () => undefined } as unknown as Parameters<typeof features.start>[0];
  await features.start(node, configuration, createRegistry(), open);
  const told = () => calls.splice(0);
  assert.deepEqual(told(), ["metrics a", "metrics b"]);
  assert.equal(features.counts(), counts);
  assert.deepEqual(features.status(), { b: words("node") });
  assert.deepEqual([features.status("IPv4"), features.status("IPv6")], [{ a: words("IPv4") }, {}]);
  features.planned({} as Parameters<typeof features.planned>[0]);
  features.changed("IPv4", { set: new Map(), deleted: [], replaced: new Map() }, 0);
  features.reported({} as Parameters<typeof features.reported>[0], []);
  assert.deepEqual(told(), ["planned", "changed", "reported"].flatMap((call) => [`${call} a`, `${call} b`]));
  await features.updateMetrics();
  await features.stopped();
  assert.deepEqual(told(), ["update a", "update b", "stopped a", "stopped b"]);
});
