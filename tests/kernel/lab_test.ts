import assert from "node:assert/strict";
import { createLab, NETWORK } from "../../demo/lab.ts";
import { requireIsolation } from "../../demo/isolate.ts";
import { inLab } from "./in_lab.ts";

Deno.test("the lab's namespaces reach each other in both families and see the client's address", () =>
  inLab(async (lab) => {
    const port = NETWORK.podPort;
    for (const family of ["IPv4", "IPv6"] as const) {
      for (const protocol of ["tcp", "udp"] as const) {
        for (const pod of ["pod-1", "pod-2", "pod-3"] as const) {
          const address = NETWORK.pods[pod][family];
          assert.deepEqual(await lab.connect("pod-1", { protocol, address, port }), {
            kind: "answered",
            by: pod,
            sourceSeen: NETWORK.pods["pod-1"][family],
          });
        }
        assert.deepEqual(await lab.connect("outside", { protocol, address: NETWORK.pods["pod-1"][family], port }), {
          kind: "answered",
          by: "pod-1",
          sourceSeen: NETWORK.client[family],
        });
      }
    }
  }));

Deno.test("the lab distinguishes refused connections from dropped ones", () =>
  inLab(async (lab) => {
    const target = { protocol: "tcp", address: NETWORK.node.IPv4, port: 81 } as const;
    assert.deepEqual(await lab.connect("pod-1", target), { kind: "refused" });
    await lab.run("node", ["iptables", "-w", "-A", "INPUT", "-p", "tcp", "--dport", "81", "-j", "DROP"]);
    assert.deepEqual(await lab.connect("pod-1", { ...target, timeoutMs: 200 }), { kind: "silence" });
  }));

Deno.test("the lab's end kills the programs that still run in it", async () => {
  requireIsolation();
  const lab = await createLab();
  const left = lab.start("node", ["sleep", "1000"]);
  await lab.close();
  try {
    left.kill("SIGTERM");
  } catch {
    // It has ended already.
  }
  assert.equal((await left.status).signal, "SIGKILL");
});
