/** `--node-condition` at a real API server, with the credentials of Sluice and with those of a kubelet. */
import assert from "node:assert/strict";
import { NETWORK } from "../../demo/lab.ts";
import { errorText } from "../../platform/log.ts";
import type { ChaosLab } from "../chaos/lab.ts";
import { waitFor } from "../chaos/wait.ts";
import { type ControlPlane, tokenIn } from "./control_plane.ts";
import { sluice, startProxy } from "./sluice.ts";

const NODE = `/api/v1/nodes/${NETWORK.nodeName}`;
const WITHIN_MS = 20_000;

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
  readonly lastTransitionTime: string;
}

/** The condition of the Node; undefined if it has none. */
async function condition({ request }: ControlPlane, type = "ServiceProxyReady"): Promise<Condition | undefined> {
  const { body } = await request("GET", NODE);
  const conditions: readonly Condition[] = body.status?.conditions ?? [];
  return conditions.find((one) => one.type === type);
}

/** Resolves with the condition once it has a status, and a reason or message that match. */
async function becomes(plane: ControlPlane, status: string, text: RegExp): Promise<Condition> {
  let current: Condition | undefined;
  const isExpected = async () => {
    current = await condition(plane);
    return current?.status === status && text.test(`${current.reason}: ${current.message}`);
  };
  await waitFor(`the condition is ${status}, ${text}`, WITHIN_MS, isExpected).catch((error) => {
    throw new Error(`${errorText(error)}; it is ${JSON.stringify(current)}`);
  });
  return current!;
}

/** Writes the condition Ready as a kubelet does, which knows no condition but its own ones. */
async function heartbeatOfKubelet({ request }: ControlPlane, token: string): Promise<void> {
  const ready = { type: "Ready", status: "True", reason: "KubeletReady", message: "kubelet is posting ready status" };
  const status = { "$setElementOrder/conditions": [{ type: "Ready" }], conditions: [ready] };
  assert.equal((await request("PATCH", `${NODE}/status`, { status }, token)).status, 200);
}

/** Faults of the node that stop services, the condition's text, and their repairs. */
const FAULTS: readonly { readonly fault: string; readonly says: RegExp; readonly repair: string }[] = [
  {
    fault: "nft add table ip other; " +
      "nft 'add chain ip other out { type filter hook output priority -400; }'; " +
      "nft add rule ip other out ip daddr 169.254.238.0/28 counter drop",
    says: /^PacketsNotFlowing: .*chain out of table ip other/,
    repair: "nft delete table ip other",
  },
  {
    fault: "sysctl -qw net.ipv4.ip_forward=0",
    says: /^PacketsNotFlowing: .*net\.ipv4\.ip_forward/,
    repair: "sysctl -qw net.ipv4.ip_forward=1",
  },
];

/** Runs proxies that write the condition, with `kubeconfig`'s identity and with that of the node's kubelet. */
export async function writesNodeCondition(lab: ChaosLab, plane: ControlPlane, kubeconfig: string): Promise<void> {
  const { request } = plane, kubeletToken = tokenIn(plane.kubeconfigOf("kubelet"));
  const patch = { status: { conditions: [{ type: "ServiceProxyReady", status: "True" }] } };
  const asSluice = () => request("PATCH", `${NODE}/status?dryRun=All`, patch, tokenIn(kubeconfig));
  assert.equal((await asSluice()).status, 403);
  const granted = await sluice(lab, "kubeconfig", "--kubeconfig", plane.kubeconfig, "--node-condition", "--dry-run");
  assert.match(granted.stdout, /^would update +ClusterRole sluice$/m, granted.stderr);
  const output = `${lab.folder}/condition.kubeconfig`;
  const identity = [
    "--kubeconfig",
    plane.kubeconfig,
    "--node-condition",
    "--token-duration",
    "24h",
    "--output",
    output,
  ];
  assert.equal((await sluice(lab, "kubeconfig", ...identity)).code, 0);
  assert.equal((await asSluice()).status, 200);
  await heartbeatOfKubelet(plane, kubeletToken);

  const start = (path: string) =>
    startProxy(lab, "--kubeconfig", path, "--proxy-mode", "nftables", "--canary", "--node-condition");
  const first = start(output);
  await becomes(plane, "True", /^ServicesInEffect: .*packets flow/);
  for (const { fault, says, repair } of FAULTS) {
    await lab.run("node", ["sh", "-ec", fault]);
    await becomes(plane, "False", says);
    await lab.run("node", ["sh", "-ec", repair]);
    await becomes(plane, "True", /^ServicesInEffect/);
  }
  await heartbeatOfKubelet(plane, kubeletToken);
  assert.equal((await condition(plane))?.status, "True");
  assert.equal((await condition(plane, "Ready"))?.reason, "KubeletReady");

  const { lastTransitionTime } = await becomes(plane, "True", /^ServicesInEffect/);
  await first.end("SIGKILL");
  const { body: { metadata, spec, status } } = await request("GET", NODE);
  const afterCrash = start(output);
  await waitFor("the condition is written again", WITHIN_MS, async () => {
    const { body } = await request("GET", NODE);
    return body.metadata.resourceVersion !== metadata.resourceVersion;
  });
  assert.deepEqual({ ...await condition(plane), lastHeartbeatTime: "" }, {
    ...{ type: "ServiceProxyReady", status: "True", reason: "ServicesInEffect", lastHeartbeatTime: "" },
    ...{ message: "the rules of all services are in effect, and packets flow", lastTransitionTime },
  });

  assert.equal((await request("DELETE", NODE)).status, 200);
  const { name, labels } = metadata;
  const again = { apiVersion: "v1", kind: "Node", metadata: { name, labels }, spec };
  assert.equal((await request("POST", "/api/v1/nodes", again)).status, 201);
  await request("PATCH", `${NODE}/status`, { status: { addresses: status.addresses } });
  await becomes(plane, "True", /^ServicesInEffect/);
  await afterCrash.end("SIGTERM");
  await becomes(plane, "Unknown", /^Stopped/);

  const binding = {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRoleBinding",
    metadata: { name: "proxy-as-node" },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "system:node-proxier" },
    subjects: [{ kind: "Group", apiGroup: "rbac.authorization.k8s.io", name: "system:nodes" }],
  };
  assert.equal((await plane.create(binding)).status, 201);
  const asKubelet = start(plane.kubeconfigOf("kubelet"));
  await becomes(plane, "True", /^ServicesInEffect/);
  await asKubelet.end("SIGTERM");
  await becomes(plane, "Unknown", /^Stopped/);

  // docs/health.md: how to remove it.
  const removal = { status: { conditions: [{ type: "ServiceProxyReady", $patch: "delete" }] } };
  assert.equal((await request("PATCH", `${NODE}/status`, removal)).status, 200);
  assert.equal(await condition(plane), undefined);
  await sluice(lab, "--cleanup");
}
