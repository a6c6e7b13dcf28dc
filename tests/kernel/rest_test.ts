/** A family without services has no worker until its first service; tested with real connections. */
import assert from "node:assert/strict";
import { type Lab, NETWORK } from "../../demo/lab.ts";
import { errorText } from "../../platform/log.ts";
import { waitFor } from "../chaos/wait.ts";
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

/** Whether the file of a thread's name belongs to a Web Worker; the thread may exit at any time. */
function isWorker(path: string): boolean {
  try {
    return Deno.readTextFileSync(path).startsWith("worker-");
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || /No such process/.test(String(error))) return false;
    throw error;
  }
}

/** A running proxy with a folder of manifests. */
interface Running {
  /** Adds or removes a family's service. */
  serve(family: "IPv4" | "IPv6", isServed: boolean): void;
  /** The number of threads that run workers. */
  workers(): number;
  answers(family: "IPv4" | "IPv6"): Promise<boolean>;
}

async function withProxy(
  lab: Lab,
  mode: string,
  test: (
    proxy: Running,
    eventually: (what: string, condition: () => boolean | Promise<boolean>) => Promise<unknown>,
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
  let log = "", hasExited = false;
  const status = child.status.then(({ code }) => {
    hasExited = true;
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
    }, (what, condition) => waitFor(what, WITHIN_MS, condition));
    child.kill("SIGTERM");
    assert.equal(await status, 0);
  } catch (error) {
    throw new Error(`${errorText(error)}\n${log}`, { cause: error });
  } finally {
    if (!hasExited) child.kill("SIGKILL");
    await drained;
  }
}

for (const mode of ["nftables", "iptables"]) {
  Deno.test(`${mode}: a family without services has no worker, and is served when it gets a service`, () =>
    inLab((lab) =>
      withProxy(lab, mode, async ({ serve, workers, answers }, eventually) => {
        await eventually("IPv4 is served by one worker", async () => await answers("IPv4") && workers() === 1);
        const rules = () =>
          mode === "nftables"
            ? lab.run("node", ["nft", "list", "table", "ip6", "sluice"])
            : lab.run("node", ["ip6tables-save", "-t", "nat"]);
        assert.match(await rules(), mode === "nftables" ? /chain services/ : /:KUBE-SERVICES/);
        for (let times = 0; times < 2; times++) {
          serve("IPv6", true);
          await eventually("IPv6 is served", () => answers("IPv6"));
          assert.equal(workers(), 2);
          serve("IPv6", false);
          await eventually("the IPv6 worker ends", () => workers() === 1);
          assert.equal(await answers("IPv6"), false);
          assert.equal(await answers("IPv4"), true);
        }
      })
    ));
}

Deno.test("the IPv4 worker, too, stops while only IPv6 has services, and starts again", () =>
  inLab((lab) =>
    withProxy(lab, "nftables", async ({ serve, workers, answers }, eventually) => {
      serve("IPv6", true);
      await eventually("both are served", async () => await answers("IPv4") && await answers("IPv6"));
      serve("IPv4", false);
      await eventually("the IPv4 worker ends", () => workers() === 1);
      assert.equal(await answers("IPv6"), true);
      serve("IPv4", true);
      await eventually("IPv4 is served", () => answers("IPv4"));
      assert.equal(await answers("IPv6"), true);
    })
  ));
