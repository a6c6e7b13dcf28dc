import assert from "node:assert/strict";
import type { LivePod, PodReport } from "../../../core/objects/mod.ts";
import { startRuntimeWatch } from "../../../workers/start.ts";
import { type FakeSandbox, startFakeContainerRuntime } from "../../fakes/container_runtime.ts";

const WEB: FakeSandbox = { id: "s1", namespace: "default", name: "web", uid: "u1", ips: ["10.1.0.7"] };
const LIVE_WEB: LivePod = {
  namespace: "default",
  name: "web",
  uid: "u1",
  isStatic: false,
  usesHostNetwork: false,
  addresses: ["10.1.0.7"],
};

Deno.test("a worker reports the pods of a runtime that starts later, until it is ended", async () => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/cri.sock`;
  const watch = startRuntimeWatch(path);
  const reports: PodReport[] = [];
  let check = () => {};
  const stop = watch.follow((report) => {
    reports.push(report);
    check();
  });
  const reported = (wanted: (report: PodReport) => boolean) =>
    new Promise<PodReport>((resolve) => {
      check = () => {
        const found = reports.splice(0).find(wanted);
        if (found !== undefined) resolve(found);
      };
      check();
    });
  try {
    const missing = await reported((report) => "problem" in report);
    assert.match("problem" in missing ? missing.problem : "", /ENOENT/);
    const runtime = await startFakeContainerRuntime(path);
    runtime.run(WEB);
    assert.deepEqual(await reported((report) => "pods" in report), { pods: [LIVE_WEB] });
    stop();
    let late: PodReport | undefined;
    watch.follow((report) => late = report);
    assert.ok(late !== undefined && "pods" in late, "a new follower gets the last report");
    assert.equal(watch.isEnded(), false);
    watch.end();
    assert.equal(watch.isEnded(), true);
    await runtime.alone();
    await runtime.close();
  } finally {
    watch.end();
    await Deno.remove(folder, { recursive: true });
  }
});
