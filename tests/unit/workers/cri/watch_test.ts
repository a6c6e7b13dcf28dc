import assert from "node:assert/strict";
import type { PodReport } from "../../../../core/objects/mod.ts";
import { watchPods } from "../../../../workers/cri/mod.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { type FakeSandbox, startFakeContainerRuntime } from "../../../fakes/container_runtime.ts";
import { passing, passingDuring } from "../../../fakes/wait.ts";

const WEB: FakeSandbox = { id: "s1", namespace: "default", name: "web", uid: "u1", ips: ["10.1.0.7"] };

/** A report in short. */
function textOf(report: PodReport): string {
  if ("problem" in report) return "problem";
  return report.pods.map(({ name, addresses }) => `${name} ${addresses}`).join() || "no pods";
}

Deno.test("a runtime that starts later, changes and restarts is watched, and each difference is reported once", async () => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/cri.sock`;
  const clock = createFakeClock();
  const reports: string[] = [];
  let last = "";
  void watchPods(path, clock, (report) => {
    // The reason of a problem may differ from one attempt to the next.
    if (textOf(report) !== last || "pods" in report) reports.push(last = textOf(report));
  });
  const reported = async (text: string) => {
    await passing(clock, () => reports.length > 0);
    assert.equal(reports.shift(), text);
  };
  try {
    await reported("problem");
    let runtime = await startFakeContainerRuntime(path);
    await reported("no pods");
    runtime.run(WEB);
    await reported("web 10.1.0.7");
    runtime.run({ ...WEB, id: "s3", ips: [] });
    await reported("web ");
    // One without an address is asked for it with each look.
    await passing(clock, () => runtime.asked.length >= 5);
    assert.deepEqual(reports, []);
    await runtime.close();
    await reported("problem");
    await Deno.remove(path).catch(() => {});
    runtime = await startFakeContainerRuntime(path);
    runtime.run({ ...WEB, id: "s2", ips: ["10.1.0.8"] });
    await reported("web 10.1.0.8");
    await runtime.close();
    await reported("problem");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a runtime that refuses to list its pods is left, and asked again later", async () => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/cri.sock`;
  const clock = createFakeClock();
  const runtime = await startFakeContainerRuntime(path);
  runtime.refuse("list", 12);
  let reported = Promise.withResolvers<string>();
  void watchPods(path, clock, (report) => reported.resolve(textOf(report)));
  assert.equal(await reported.promise, "problem");
  await runtime.alone();
  runtime.refuse("list", undefined);
  reported = Promise.withResolvers();
  await passingDuring(clock, reported.promise);
  assert.equal(await reported.promise, "no pods");
  await runtime.close();
  await Deno.remove(folder, { recursive: true });
});
