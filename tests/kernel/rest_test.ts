/** A family without services has no worker, and gets one with its first service: real connections through the rules. */
import assert from "node:assert/strict";
import { type Lab, NETWORK } from "../../demo/lab.ts";
import { sleep, systemClock } from "../../platform/clock.ts";
import { inLab } from "./in_lab.ts";

const PROXY = new URL("./resting_proxy.ts", import.meta.url).pathname;
const WITHIN_MS = 30_000;

const CLUSTER_IP = { IPv4: "10.96.0.10", IPv6: "fd00:10:96::a" } as const;
const POD = NETWORK.pods["pod-2"];

/** A service of one family with one endpoint. */
function manifest(family: "IPv4" | "IPv6"): string {
  const name = `web-${family.toLowerCase()}`;
  return `apiVersion: v1
kind: Service
metadata: { name: ${name}, namespace: default }
spec:
  type: ClusterIP
  clusterIP: "${CLUSTER_IP[family]}"
  clusterIPs: ["${CLUSTER_IP[family]}"]
  ipFamilies: [${family}]
  ports: [{ name: http, port: 80, targetPort: 8080, protocol: TCP }]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: ${name}-a, namespace: default, labels: { kubernetes.io/service-name: ${name} } }
addressType: ${family}
ports: [{ name: http, port: 8080, protocol: TCP }]
endpoints: [{ addresses: ["${POD[family]}"], conditions: { ready: true } }]
`;
}

/** Whether a thread runs a Web Worker, by the file of its name; it may end meanwhile. */
function isWorker(path: string): boolean {
  try {
    return Deno.readTextFileSync(path).startsWith("worker-");
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || /No such process/.test(String(error))) return false;
    throw error;
  }
}

/** A running proxy on a folder of manifests, and what can be seen of it. */
interface Running {
  /** Puts a family's service in place, or removes it. */
  serve(family: "IPv4" | "IPv6", isServed: boolean): void;
  /** How many threads run workers. */
  workers(): number;
  answers(family: "IPv4" | "IPv6"): Promise<boolean>;
}

async function eventually(what: string, isSo: () => boolean | Promise<boolean>, log: () => string): Promise<void> {
  const deadline = systemClock.monotonic() + WITHIN_MS;
  while (!await isSo()) {
    assert(systemClock.monotonic() < deadline, `${what}: not so in time; ${log()}`);
    await sleep(systemClock, 10);
  }
}

async function withProxy(
  lab: Lab,
  mode: string,
  test: (
    proxy: Running,
    within: (what: string, isSo: () => boolean | Promise<boolean>) => Promise<void>,
  ) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir({ dir: "/run" });
  const serve: Running["serve"] = (family, isServed) => {
    const path = `${folder}/${family}.yaml`;
    if (!isServed) return Deno.removeSync(path);
    Deno.writeTextFileSync(`${path}.new`, manifest(family));
    Deno.renameSync(`${path}.new`, path);
  };
  serve("IPv4", true);
  const { IPv4, IPv6 } = NETWORK.clusterCIDR;
  const child = lab.start("node", [
    ...[Deno.execPath(), "run", "--quiet", "--cached-only", "--no-check", "--allow-all", "--unstable-worker-options"],
    ...[PROXY, "--source", `file:${folder}`, "--hostname-override", NETWORK.nodeName, "--proxy-mode", mode],
    ...["--detect-local-mode", "ClusterCIDR", "--cluster-cidr", `${IPv4},${IPv6}`],
    ...["--conntrack-max-per-core", "0", "--healthz-bind-address", "", "--metrics-bind-address", ""],
  ], { stdout: "null", stderr: "piped" });
  let log = "", isOver = false;
  const status = child.status.then(({ code }) => {
    isOver = true;
    return code;
  });
  const drained = (async () => {
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) log += text;
  })();
  const tasks = `/proc/${child.pid}/task`;
  try {
    await test({
      serve,
      workers: () => [...Deno.readDirSync(tasks)].filter(({ name }) => isWorker(`${tasks}/${name}/comm`)).length,
      async answers(family) {
        const outcome = await lab.connect("pod-1", {
          protocol: "tcp",
          address: CLUSTER_IP[family],
          port: 80,
          timeoutMs: 200,
        });
        return outcome.kind === "answered";
      },
    }, (what, isSo) => eventually(what, isSo, () => log));
    child.kill("SIGTERM");
    assert.equal(await status, 0, log);
  } finally {
    if (!isOver) child.kill("SIGKILL");
    await drained;
  }
}

for (const mode of ["nftables", "iptables"]) {
  Deno.test(`a family without services has no worker, and is served when it gets one, in ${mode} mode`, () =>
    inLab((lab) =>
      withProxy(lab, mode, async ({ serve, workers, answers }, within) => {
        await within("IPv4 is served by one worker", async () => await answers("IPv4") && workers() === 1);
        const rules = () =>
          mode === "nftables"
            ? lab.run("node", ["nft", "list", "table", "ip6", "sluice"])
            : lab.run("node", ["ip6tables-save", "-t", "nat"]);
        assert.match(await rules(), mode === "nftables" ? /chain services/ : /:KUBE-SERVICES/);
        for (let times = 0; times < 2; times++) {
          serve("IPv6", true);
          await within("IPv6 is served", () => answers("IPv6"));
          assert.equal(workers(), 2);
          serve("IPv6", false);
          await within("the IPv6 worker ends", () => workers() === 1);
          assert.equal(await answers("IPv6"), false);
          assert.equal(await answers("IPv4"), true);
        }
      })
    ));
}

Deno.test("IPv4's worker ends and is started again, too, while only IPv6 has services", () =>
  inLab((lab) =>
    withProxy(lab, "nftables", async ({ serve, workers, answers }, within) => {
      serve("IPv6", true);
      await within("both are served", async () => await answers("IPv4") && await answers("IPv6"));
      serve("IPv4", false);
      await within("the IPv4 worker ends", () => workers() === 1);
      assert.equal(await answers("IPv6"), true);
      serve("IPv4", true);
      await within("IPv4 is served", () => answers("IPv4"));
      assert.equal(await answers("IPv6"), true);
    })
  ));
