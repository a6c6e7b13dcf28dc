/** A node that starts without its API server, and whose pods have got new addresses. */
import assert from "node:assert/strict";
import { NETWORK } from "../../demo/lab.ts";
import type { ProxyMode } from "../../core/model/mod.ts";
import type { Family } from "../../platform/address.ts";
import { systemClock } from "../../platform/clock.ts";
import { startFakeContainerRuntime } from "../fakes/container_runtime.ts";
import {
  clusterIP,
  clusterService,
  type EndpointTarget,
  familyOf,
  node,
  serviceName,
  slice,
  uidOf,
} from "./cluster.ts";
import { type ChaosLab, setApiLink, withLab } from "./lab.ts";
import { emptyKernel, equalsFreshStart, REPLACED } from "./reboot.ts";
import { type Counts, MODES, type Scenario } from "./scenario.ts";
import { startSluice } from "./sluice.ts";
import { createSyncMarker } from "./sync_marker.ts";
import { TIMEOUT_FACTOR, waitFor } from "./wait.ts";

const SERVICES = 1000;
const LOCAL_PODS = ["pod-1", "pod-2"] as const;
/** Services of both families from the whole cluster, to notice when it is served. */
const SAMPLES = [0, 3, 499, 500, 998, 999];

/** Both modes. */
export const rebootPods: readonly Scenario[] = MODES.map((mode) => ({
  name: `reboot: ${SERVICES} services whose pods have new addresses, ${mode}`,
  inGate: mode === "iptables",
  run: () => withLab((lab) => reboots(lab, mode)),
}));

/** The addresses that pods had before the reboot: none of them answers. */
function addressBefore(pod: string, family: Family): string {
  const last = ["pod-1", "pod-2", "pod-gone"].indexOf(pod) + 101;
  return family === "IPv4" ? `10.244.1.${last}` : `fd00:10:244:1::${last}`;
}

/** The slice of a service: both local pods, one that does not survive the reboot, and one of another node. */
function sliceBefore(index: number) {
  const family = familyOf(index);
  const before = (pod: string): EndpointTarget => ({ address: addressBefore(pod, family), pod });
  return slice(serviceName(index), family, [...LOCAL_PODS.map(before), before("pod-gone"), "pod-3"]);
}

function sliceAfter(index: number) {
  return slice(serviceName(index), familyOf(index), [...LOCAL_PODS, "pod-3"]);
}

async function answers(lab: ChaosLab, index: number, timeoutMs: number): Promise<boolean> {
  const target = {
    protocol: "tcp",
    address: clusterIP(index),
    port: 80,
    timeoutMs: timeoutMs * TIMEOUT_FACTOR,
  } as const;
  return (await lab.connect("outside", target)).kind === "answered";
}

async function reboots(lab: ChaosLab, mode: ProxyMode): Promise<Counts> {
  const stateDirectory = `${lab.folder}/state`, runtimeSocket = `${lab.folder}/cri.sock`;
  const indexes = Array.from({ length: SERVICES }, (_, index) => index);
  lab.api.apply(node(), ...indexes.map(clusterService), ...indexes.map(sliceBefore));
  const marker = createSyncMarker(lab);
  const runtime = await startFakeContainerRuntime(runtimeSocket);
  try {
    runtime.run(...LOCAL_PODS.map((name) => (
      { id: `sandbox-of-${name}`, namespace: "default", name, uid: uidOf(name), ips: Object.values(NETWORK.pods[name]) }
    )));
    const before = await startSluice(lab, { mode, stateDirectory, runtimeSocket });
    await marker.settle();
    await before.end("SIGTERM");

    await setApiLink("down");
    await emptyKernel(lab);
    lab.api.apply(...indexes.map(sliceAfter));
    const startedMs = systemClock.monotonic();
    const sluice = await startSluice(lab, { mode, stateDirectory, runtimeSocket });
    for (const index of SAMPLES) {
      await waitFor(`service ${index} answers`, 20_000, () => answers(lab, index, 100), 5);
    }
    const servedMs = systemClock.monotonic() - startedMs;
    let attempts = 0;
    for (const index of [...indexes, ...indexes, ...indexes]) {
      assert.ok(await answers(lab, index, 900), `service ${index} does not answer`);
      attempts++;
    }
    const counted = /follow the pods.*"replaced":(\d+),"leftOut":(\d+)/.exec(sluice.log());
    assert.deepEqual(counted?.slice(1), [String(2 * SERVICES), String(SERVICES)]);

    await setApiLink("up");
    const upMs = systemClock.monotonic();
    // Its requests may not have failed yet, so that none is logged as solved.
    await waitFor("the kept state is replaced", 60_000, () => sluice.log().includes(REPLACED));
    await marker.settle();
    const backMs = systemClock.monotonic() - upMs;
    await sluice.end("SIGTERM");
    await equalsFreshStart(lab, mode);
    return {
      "every service answers after the start of the process, ms": Math.round(servedMs),
      "connections to all services meanwhile, failed": `${attempts}, 0`,
      "nothing stale after the API server is reachable, ms": Math.round(backMs),
    };
  } finally {
    await runtime.close();
  }
}
