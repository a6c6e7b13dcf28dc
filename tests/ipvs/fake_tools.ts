/** Compares the fake tools of IPVS mode with the real ones, in a virtual machine whose kernel has IPVS. */
import assert from "node:assert/strict";
import { FAMILIES, type Family } from "../../platform/address.ts";
import { createFakeRunner } from "../fakes/runner.ts";
import { everyKindOfPort, everyKindOfSettings } from "../kernel/every_kind.ts";
import { inMemory, readAnswers, stageSteps } from "../kernel/tool_steps.ts";
import { backendUnderTest, createIpvsHost } from "../unit/backends/ipvs/host.ts";
import { comparable, MACHINE_CASES, type ToolCase } from "./tool_cases.ts";

/** The guest's path of the folder shared with the host. */
const SHARED_FOLDER = "/mnt/out";

/** The tool runs of the backend while service ports of every kind are added, changed and removed. */
async function backendCase(family: Family): Promise<ToolCase> {
  const { runner, backend, snapshot, change } = await backendUnderTest(createIpvsHost(), family);
  const ports = everyKindOfPort(family), settings = { ...everyKindOfSettings(family)[0]!, mode: "ipvs" } as const;
  await snapshot(ports, settings);
  await change(
    ports.map((port, i) => ({ ...ports[(i + 1) % ports.length]!, name: port.name, clusterIP: port.clusterIP })),
  );
  await snapshot(ports.slice(5), settings);
  await backend.cleanup();
  const steps = runner.calls.filter(({ tool }) => ["ipset", "ipvsadm", "ip"].includes(tool));
  return { name: `all tool runs of the ${family} backend`, steps: [...steps] };
}

/** IPVS accepts a real server only if there is a route to its address, and IPv6 a local route only if loopback is up. */
const ROUTE = `ip link set lo up
ip link add uplink type dummy
ip addr add 192.168.1.1/24 dev uplink
ip link set uplink up
ip route add default dev uplink
`;

/**
 * Runs all cases in one virtual machine, each in its own network namespace. Prints `ok` or `FAIL` and the name of each.
 * @param start runs a script in the machine with the given shared folder; resolves with the exit status
 * @returns how many cases passed and how many failed
 */
export async function compareFakeTools(
  start: (script: string, folder: string) => Promise<number>,
): Promise<{ readonly passed: number; readonly failed: number }> {
  let passed = 0, failed = 0;
  // The guest does not see the host's /tmp.
  const folder = await Deno.makeTempDir({ dir: "/var/tmp", prefix: "sluice-ipvs-tools-" });
  try {
    let script = "modprobe -a nf_conntrack ip_vs ip_vs_rr ip_vs_wrr ip_vs_sh ip_vs_mh ip_set dummy\n";
    const cases = [...MACHINE_CASES, ...await Promise.all(FAMILIES.map(backendCase))];
    for (const [i, { steps }] of cases.entries()) {
      await Deno.mkdir(`${folder}/${i}`);
      const own = ROUTE + await stageSteps(steps, `${folder}/${i}`, `${SHARED_FOLDER}/${i}`);
      await Deno.writeTextFile(`${folder}/${i}/script`, own);
      script += `unshare -n sh ${SHARED_FOLDER}/${i}/script\n`;
    }
    const code = await start(script, folder);
    for (const [i, { name, steps }] of cases.entries()) {
      try {
        assert.equal(code, 0, `the virtual machine exited with status ${code}`);
        const fake = createFakeRunner({ hasIpvs: true });
        const real = await readAnswers(steps, `${folder}/${i}`);
        assert.deepEqual(comparable(await inMemory(steps, fake)), comparable(real));
        console.log(`ok    tools: ${name}`);
        passed++;
      } catch (error) {
        console.log(`FAIL  tools: ${name}\n${error instanceof Error ? error.message : error}`);
        failed++;
      }
    }
    return { passed, failed };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
