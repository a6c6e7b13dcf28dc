/** The head of a full snapshot: its service ports take effect before all others, without affecting them. */
import assert from "node:assert/strict";
import type { ServicePort } from "../../../core/model/mod.ts";
import { fakeServicePort } from "../../fakes/service_port.ts";
import { type BackendCase, BACKENDS, commonSettings, serve } from "./every_backend.ts";

function service(index: number, changes: Partial<ServicePort> = {}): ServicePort {
  const address = `${index >> 8}.${index & 255}`;
  return fakeServicePort(`default/s${index}:p`, {
    clusterIP: `10.97.${address}`,
    clusterEndpoints: [`10.1.${address}:80`],
    ...changes,
  });
}

const dns = fakeServicePort("kube-system/kube-dns:dns", { protocol: "udp", clusterIP: "10.97.255.10", port: 53 });
const others = Array.from({ length: 100 }, (_, i) => service(i));
const all = [dns, ...others];
const TO_DNS = { to: dns.clusterIP, protocol: "udp", port: 53 } as const;
const answersDns = { [dns.clusterEndpoints[0]!]: 1 };
const to = (port: ServicePort) => ({ to: port.clusterIP, port: port.port });

/** The dump of a kernel without rules after a backend was sent these ports as a full snapshot. */
async function dumpOf({ mode, createKernel }: BackendCase, ports: readonly ServicePort[]): Promise<string> {
  const served = await serve(mode, createKernel());
  await served.snapshot(ports);
  return served.kernel.dump();
}

for (const backend of BACKENDS) {
  const { name, mode, createKernel } = backend;
  const settings = commonSettings(mode);

  Deno.test(`${name}: a head keeps what an earlier run serves until the rest arrives`, async () => {
    const kernel = createKernel();
    await (await serve(mode, kernel)).snapshot([...all, service(200)]);
    kernel.conntrack.length = 0;
    const before = kernel.dump();
    const served = await serve(mode, kernel);
    await served.head([{ ...dns, clusterEndpoints: ["10.1.9.9:53"] }], settings);
    assert.equal(kernel.dump(), before);
    await served.rest([dns, ...others]);
    assert.deepEqual(served.ask(TO_DNS), answersDns);
    assert.equal(kernel.dump(), await dumpOf(backend, all));
  });

  Deno.test(`${name}: a head and the rest have the same result as a full snapshot`, async () => {
    const kernel = createKernel(), served = await serve(mode, kernel);
    await served.head([dns], settings);
    await served.rest(others);
    assert.equal(kernel.dump(), await dumpOf(backend, all));
  });

  if (mode === "ipvs") continue;
  Deno.test(`${name}: on a host that serves nothing, a head takes effect before the rest arrives`, async () => {
    const served = await serve(mode, createKernel());
    await served.head([dns], settings);
    assert.deepEqual(served.ask(TO_DNS), answersDns);
    const without = served.ask(to(others[0]!));
    const serving = await serve(mode, createKernel());
    await serving.snapshot([]);
    assert.deepEqual(without, serving.ask(to(others[0]!)), "others are neither refused nor dropped");
    await served.rest(others);
    assert.notDeepEqual(served.ask(to(others[0]!)), without);
  });
}
