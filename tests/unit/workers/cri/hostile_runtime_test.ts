/** Container runtimes that violate or exhaust HTTP/2: none of them ends the process, and the next valid one is watched. */
import assert from "node:assert/strict";
import type { PodReport } from "../../../../core/objects/mod.ts";
import { watchPods } from "../../../../workers/cri/mod.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { startFakeContainerRuntime } from "../../../fakes/container_runtime.ts";
import { BROKEN_ANSWERS, startHostileServer } from "../../../fakes/hostile_server.ts";
import { passing } from "../../../fakes/wait.ts";

for (const [name, bytes] of Object.entries(BROKEN_ANSWERS)) {
  Deno.test(`after a runtime that sends ${name}, the next one is watched`, async () => {
    const folder = await Deno.makeTempDir();
    const [path, goodPath] = [`${folder}/cri.sock`, `${folder}/good.sock`];
    const runtime = await startFakeContainerRuntime(goodPath);
    runtime.run({ id: "s1", namespace: "default", name: "web", uid: "u1", ips: ["10.1.0.7"] });
    const server = startHostileServer(bytes, {
      listener: Deno.listen({ transport: "unix", path }),
      connect: () => Deno.connect({ transport: "unix", path: goodPath }),
    });
    const clock = createFakeClock();
    const reports: PodReport[] = [];
    void watchPods(path, clock, (report) => reports.push(report));
    const isWatched = (report: PodReport | undefined) => report !== undefined && "pods" in report;
    await passing(clock, () => isWatched(reports.at(-1)));
    assert.ok("problem" in reports[0]!);
    const last = reports.at(-1)!;
    assert.deepEqual("pods" in last && last.pods.map((pod) => pod.name), ["web"]);
    await server.close();
    await runtime.close();
    await Deno.remove(folder, { recursive: true });
  });
}
